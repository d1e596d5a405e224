"""Every page there is: who is sent away, who may not change anything, and what comes from elsewhere."""

from __future__ import annotations

import re
from uuid import uuid4

import httpx
import pytest
from fastapi.routing import APIRoute

from mailsift.accounts.people import Role
from mailsift.api import pages
from tests.integration.api.conftest import Api
from tests.support.sessions import browser, cookie, csrf_of, signed_in

OPEN = {
    *("/login", "/login/code", "/login/sso", "/login/sso/callback", "/logout"),
    *("/welcome", "/invite", "/password", "/help", "/probing", "/static/{name}", "/csp-report"),
}
"""What needs no session."""

OWN = {
    *("/account/you/password", "/account/you/sign-out-everywhere", "/account/you/switch"),
    *("/account/you/mail", "/account/you/zone"),
    *("/account/you/code", "/account/you/code/confirm", "/account/you/code/off"),
}
"""What everybody may change about themselves."""


NO_OPERATOR = (404, "not_found")
"""What somebody who is no operator sees of /ops: nothing is there."""


def routes(method: str) -> list[str]:
    """Return the paths of all pages that take this method."""
    found = [route for router in pages.ROUTERS for route in router.routes if isinstance(route, APIRoute)]
    return sorted({route.path for route in found if method in (route.methods or ())} - OPEN)


def address(path: str) -> str:
    """Return a path with something in the place of its parameters."""
    with_ids = re.sub(r"\{\w+:uuid\}", lambda _: str(uuid4()), path)
    return re.sub(r"\{\w+(:\w+)?\}", "1", with_ids)


def code_of(answer: httpx.Response) -> str:
    found = re.search(r"Code <code>([a-z_]+)</code>", answer.text)
    return found[1] if found else ""


def test_the_walk_finds_the_pages() -> None:
    assert len(routes("GET")) >= 15
    assert len(routes("POST")) >= 20
    assert {"/keys", "/webhooks/{webhook_id:uuid}", "/schedules/new"} <= set(routes("GET"))
    assert set(routes("POST")) >= OWN


async def test_a_stranger_is_sent_to_the_door_from_every_page(api: Api) -> None:
    async with browser(api) as stranger:
        for path in routes("GET"):
            answer = await stranger.get(address(path))
            assert answer.status_code == 303, path
            assert answer.headers["location"].split("?")[0] == "/login", path
        token = csrf_of((await stranger.get("/login")).text)
        for path in routes("POST"):
            answer = await stranger.post(address(path), data={"csrf": token})
            assert (answer.status_code, answer.headers.get("location")) == (303, "/login?next=/&ended=1"), (
                path
            )


async def test_a_viewer_changes_nothing(api: Api) -> None:
    async with signed_in(api, Role.VIEWER) as viewer:
        token = csrf_of((await viewer.get("/keys")).text)
        for path in sorted(set(routes("POST")) - OWN):
            answer = await viewer.post(address(path), data={"csrf": token})
            refusal = (answer.status_code, code_of(answer))
            assert refusal == (NO_OPERATOR if path.startswith("/ops") else (403, "role_needed")), path


async def test_a_member_changes_nothing_about_people(api: Api) -> None:
    async with signed_in(api, Role.MEMBER) as member:
        token = csrf_of((await member.get("/keys")).text)
        for path in [path for path in routes("POST") if path.startswith("/account/") and path not in OWN]:
            answer = await member.post(address(path), data={"csrf": token})
            assert (answer.status_code, code_of(answer)) == (403, "role_needed"), path


async def test_only_an_operator_sees_operations_whatever_the_role(api: Api) -> None:
    """Operator is apart from every role: an owner is none by being one."""
    async with signed_in(api, Role.OWNER) as owner, signed_in(api, Role.VIEWER, operator=True) as operator:
        assert 'href="/ops"' not in (await owner.get("/keys")).text
        assert 'href="/ops"' in (await operator.get("/keys")).text
        assert (await operator.get("/ops")).status_code == 200
        for path in [path for path in routes("GET") if path.startswith("/ops")]:
            answer = await owner.get(address(path))
            assert (answer.status_code, code_of(answer)) == NO_OPERATOR, path


async def test_every_change_needs_the_token_of_this_session(api: Api) -> None:
    async with signed_in(api, operator=True) as owner, signed_in(api, operator=True) as other:
        foreign = csrf_of((await other.get("/keys")).text)
        for path in routes("POST"):
            for token in (
                {},
                {"csrf": ""},
                {"csrf": foreign},
                {"csrf": "ä\ud800".encode("utf-8", "replace")},
            ):
                answer = await owner.post(address(path), data=token)
                assert (answer.status_code, code_of(answer)) == (403, "csrf_failed"), (path, token)


@pytest.mark.parametrize("path", ["/login", "/welcome", "/invite", "/password"])
async def test_the_doors_need_the_token_of_this_browser(api: Api, path: str) -> None:
    async with browser(api) as client, browser(api) as other:
        foreign = csrf_of((await other.get("/login")).text)
        bare = await client.post(path, data={"csrf": foreign})
        await client.get("/login")
        answer = await client.post(path, data={"csrf": foreign})
        for one in (bare, answer):
            assert (one.status_code, code_of(one)) == (403, "csrf_failed")


async def test_what_comes_from_another_site_is_refused_though_it_has_the_token(api: Api) -> None:
    async with signed_in(api) as owner:
        token = csrf_of((await owner.get("/keys")).text)
        for header, value in (
            ("Origin", "https://evil.example"),
            ("Origin", "null"),
            ("Origin", "http://127.0.0.1:1"),
            ("Origin", "http://[::1"),
            ("Sec-Fetch-Site", "cross-site"),
            ("Sec-Fetch-Site", "same-site"),
        ):
            answer = await owner.post(
                "/account/retention", data={"csrf": token, "retention": "0"}, headers={header: value}
            )
            assert (answer.status_code, code_of(answer)) == (403, "csrf_failed"), (header, value)


async def test_our_own_origin_and_the_header_are_good(api: Api) -> None:
    async with signed_in(api) as owner:
        token = csrf_of((await owner.get("/keys")).text)
        for headers in (
            {"Origin": api.url, "Sec-Fetch-Site": "same-origin"},
            {"Sec-Fetch-Site": "none"},
            {"X-CSRF-Token": token},
        ):
            fields = {"retention": "0", **({} if "X-CSRF-Token" in headers else {"csrf": token})}
            answer = await owner.post("/account/retention", data=fields, headers=headers)
            assert answer.status_code == 303, headers


async def test_a_token_of_before_signing_in_is_none_afterwards(api: Api) -> None:
    async with browser(api) as client:
        anonymous = csrf_of((await client.get("/login")).text)
    async with signed_in(api) as owner:
        answer = await owner.post("/logout", data={"csrf": anonymous})
        assert (answer.status_code, code_of(answer)) == (403, "csrf_failed")
        assert cookie(owner, "__Host-mailsift"), "still signed in"


async def test_another_accounts_things_are_not_there(api: Api) -> None:
    """404, not 403: that something exists is nobody's business."""
    async with signed_in(api, account="alice") as alice, signed_in(api, account="bob") as bob:
        made = await alice.post(
            "/keys/new",
            data={
                "csrf": csrf_of((await alice.get("/keys/new")).text),
                "name": "secret name",
                "scope": "jobs:read",
                "lifetime": "0",
            },
        )
        assert made.status_code == 200
        (key_id,) = re.findall(r"/keys/([0-9a-f-]{36})/roll", (await alice.get("/keys")).text)
        (person_id,) = re.findall(r"/members/([0-9a-f-]{36})/role", (await alice.get("/account")).text)
        token = csrf_of((await bob.get("/keys")).text)
        assert "secret name" not in (await bob.get("/keys")).text
        for path, fields in [
            (f"/keys/{key_id}/revoke", {}),
            (f"/keys/{key_id}/roll", {"overlap": "0"}),
            (f"/account/members/{person_id}/role", {"role": "viewer"}),
            (f"/account/members/{person_id}/remove", {}),
        ]:
            answer = await bob.post(path, data={"csrf": token, **fields})
            assert answer.status_code == 404, path
        assert (await bob.get(f"/keys/{key_id}/roll")).status_code == 404
