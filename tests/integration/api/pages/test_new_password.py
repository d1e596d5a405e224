"""A password that is changed while somebody signs in with the one before, or has a link to another."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from mailsift.accounts.links import Links
from mailsift.accounts.people import Role
from mailsift.accounts.sessions import Passwords
from mailsift.container import open_container
from mailsift.pipeline.clock import system_clock
from mailsift.pipeline.errors import MailsiftError
from tests.integration.api.conftest import Api
from tests.integration.api.pages.queries import sql
from tests.integration.api.pages.test_second_factor import set_up
from tests.support.sessions import PASSWORD, browser, cookie, csrf_of, opens, person, post, sign_in

SESSION = "__Host-mailsift"
NEW = "a new long password"


@pytest.fixture
def while_verified(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Awaitable[object]]], None]:
    """Let something happen once, when the next password has been found right and nothing came of it yet."""

    def plan(happens: Callable[[], Awaitable[object]]) -> None:
        real = Passwords.verify

        async def verify(self: Passwords, stored: str | None, password: str) -> bool:
            right = await real(self, stored, password)
            monkeypatch.setattr(Passwords, "verify", real)
            await happens()
            return right

        monkeypatch.setattr(Passwords, "verify", verify)

    return plan


async def _new_password(api: Api, email: str) -> None:
    """Set another password by a link, as who has lost theirs does."""
    async with open_container(api.settings) as container:
        links = container.people.links
        await links.set_password(await links.new_password(email), NEW)


async def _whose_hash_is_outdated(api: Api, monkeypatch: pytest.MonkeyPatch) -> str:
    """Make a person whose password is hashed anew when they sign in; returns their address."""
    email = await person(api)
    ((old,),) = await sql(api.settings, "SELECT password FROM person")
    monkeypatch.setattr(Passwords, "is_outdated", lambda _self, stored: stored == old)
    return email


async def test_the_password_before_opens_nothing_once_it_is_replaced_however_long_it_was_looked_at(
    api: Api, while_verified: Callable[..., None]
) -> None:
    email = await person(api)
    async with browser(api) as late:
        while_verified(lambda: _new_password(api, email))
        assert (await sign_in(late, email)).status_code == 401
        assert cookie(late, SESSION) == ""
    assert await sql(api.settings, "SELECT count(*) FROM session") == [(0,)]
    assert await opens(api, email, NEW)


async def test_a_sign_in_with_the_password_before_does_not_bring_it_back(
    api: Api, while_verified: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    email = await _whose_hash_is_outdated(api, monkeypatch)
    async with browser(api) as late:
        while_verified(lambda: _new_password(api, email))
        await sign_in(late, email)
    assert not await opens(api, email, PASSWORD)
    assert await opens(api, email, NEW)


async def test_who_signs_in_twice_at_once_gets_in_twice_although_the_hash_is_outdated(
    api: Api, while_verified: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    email = await _whose_hash_is_outdated(api, monkeypatch)
    while_verified(lambda: opens(api, email, PASSWORD))
    assert await opens(api, email, PASSWORD)
    assert await sql(api.settings, "SELECT count(*) FROM session") == [(2,)]


async def test_of_two_changes_of_one_password_one_is_made(
    api: Api, while_verified: Callable[..., None]
) -> None:
    email = await person(api)
    async with browser(api) as late:
        await sign_in(late, email)
        while_verified(lambda: _new_password(api, email))
        await post(late, "/account/you/password", old=PASSWORD, new="the intruder’s password")
    assert await opens(api, email, NEW)


async def test_an_invitation_is_not_taken_with_the_password_before(
    api: Api, while_verified: Callable[..., None]
) -> None:
    email = await person(api)
    async with open_container(api.settings) as container:
        secret = await container.people.links.invite_from_terminal("beta", email, Role.OWNER)
    async with browser(api) as late:
        page = await late.get(f"/invite?token={secret}")
        while_verified(lambda: _new_password(api, email))
        form = {"csrf": csrf_of(page.text), "token": secret, "password": PASSWORD}
        assert (await late.post("/invite", data=form)).status_code == 401
        assert cookie(late, SESSION) == ""


async def test_half_a_sign_in_with_the_password_before_is_none(api: Api) -> None:
    email = await person(api)
    async with browser(api) as client:
        await sign_in(client, email)
        totp, _ = await set_up(client)
    async with browser(api) as late:
        page = await sign_in(late, email)
        await _new_password(api, email)
        code = totp.at(int(system_clock()), counter_offset=1)
        answer = await late.post("/login/code", data={"csrf": csrf_of(page.text), "code": code, "next": "/"})
        assert answer.status_code == 401
        assert cookie(late, SESSION) == ""


async def test_of_the_links_to_a_new_password_the_newest_counts_and_only_until_there_is_one(api: Api) -> None:
    email = await person(api)
    async with open_container(api.settings) as container, browser(api) as client:
        links = container.people.links
        lost = await links.new_password(email)
        newest = await links.new_password(email)
        assert await _is_gone(links, lost)
        await links.set_password(newest, NEW)
        unused = await links.new_password(email)
        await sign_in(client, email, NEW)
        await post(client, "/account/you/password", old=NEW, new=PASSWORD)
        assert await _is_gone(links, unused)
    assert await opens(api, email, PASSWORD)


async def _is_gone(links: Links, secret: str) -> bool:
    try:
        await links.set_password(secret, "somebody else’s password")
    except MailsiftError as error:
        return error.code == "link_gone"
    return False
