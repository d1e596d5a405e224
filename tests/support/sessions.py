"""People for tests: members of every role, and clients that are signed in as browsers are."""

from __future__ import annotations

import itertools
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from http.cookies import SimpleCookie
from typing import Any, Protocol

import httpx

from mailsift.accounts.people import Role
from mailsift.container import open_container
from mailsift.settings import Settings
from tests.support.serving import NO_TLS

PASSWORD = "correct horse battery staple"
_numbers = itertools.count(1)


class Served(Protocol):
    """A running API (tests/integration/api/conftest.py)."""

    @property
    def url(self) -> str: ...
    @property
    def settings(self) -> Settings: ...


async def person(
    served: Served,
    role: Role = Role.OWNER,
    *,
    operator: bool = False,
    account: str = "alice",
    email: str = "",
) -> str:
    """Make a person who is a member of the account; returns their address. The password is PASSWORD."""
    email = email or f"{role.value}{next(_numbers)}@people.test"
    async with open_container(served.settings) as container:
        people = container.people
        await people.links.add_member(account, email, role, PASSWORD, operator=operator)
    return email


@asynccontextmanager
async def signed_in(
    served: Served, role: Role = Role.OWNER, *, operator: bool = False, account: str = "alice"
) -> AsyncIterator[httpx.AsyncClient]:
    """Give a client of a new person with this role, signed in through the form."""
    email = await person(served, role, operator=operator, account=account)
    async with browser(served) as client:
        answer = await sign_in(client, email)
        assert answer.status_code == 303, answer.text
        yield client


async def opens(served: Served, email: str, password: str) -> bool:
    """Say whether somebody comes in with this password."""
    async with browser(served) as client:
        return (await sign_in(client, email, password)).status_code == 303


class _Jar:
    """Cookies of one browser; httpx's own jar sends no Secure cookie to loopback over plain HTTP."""

    def __init__(self) -> None:
        self.held: dict[str, str] = {}

    async def send(self, request: httpx.Request) -> None:
        if self.held:
            request.headers["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.held.items())

    async def keep(self, response: httpx.Response) -> None:
        for line in response.headers.get_list("set-cookie"):
            for name, morsel in SimpleCookie(line).items():
                assert morsel["secure"], f"{name} is not Secure"
                assert morsel["httponly"], f"{name} is not HttpOnly"
                self.held[name] = morsel.value
                if morsel["max-age"] == "0":
                    del self.held[name]


def browser(served: Served) -> httpx.AsyncClient:
    """Return a client that asks for pages and keeps Secure cookies on loopback, as browsers do."""
    jar = _Jar()
    hooks: dict[str, list[Callable[..., Any]]] = {"request": [jar.send], "response": [jar.keep]}
    return httpx.AsyncClient(
        base_url=served.url, headers={"Accept": "text/html"}, event_hooks=hooks, timeout=30, verify=NO_TLS
    )


async def sign_in(client: httpx.AsyncClient, email: str, password: str = PASSWORD) -> httpx.Response:
    """Fill in the form of /login."""
    form = {"csrf": csrf_of((await client.get("/login")).text), "email": email, "password": password}
    return await client.post("/login", data=form)


def cookie(client: httpx.AsyncClient, name: str) -> str:
    """Return what the browser holds under this name, "" when it holds nothing."""
    (keep,) = client.event_hooks["response"]
    return keep.__self__.held.get(name, "")  # type: ignore[attr-defined,no-any-return]  # browser() put it there


async def post(
    client: httpx.AsyncClient, path: str, page: str = "/account/you", **fields: str | list[str]
) -> httpx.Response:
    """POST a form with the token of a page."""
    form = {"csrf": csrf_of((await client.get(page)).text), **fields}
    return await client.post(path, data=form)


def csrf_of(html: str) -> str:
    """Return the token a page's forms carry."""
    found = re.search(r'<meta name="csrf" content="([0-9a-f]{64})">', html)
    assert found is not None, "the page has no token"
    return found[1]
