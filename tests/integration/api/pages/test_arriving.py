"""One-time links: the first owner, invitations, lost passwords; each works once and only for its person."""

from __future__ import annotations

import asyncio
import re

import httpx
import pytest

from mailsift.accounts.people import Role
from mailsift.container import open_container
from tests.integration.api.conftest import Api
from tests.integration.api.pages.queries import sql
from tests.support.sessions import PASSWORD, browser, csrf_of, person, post, sign_in, signed_in


async def first_link(api: Api) -> str | None:
    async with open_container(api.settings) as container:
        people = container.people
        return await people.links.first_owner()


async def invited(owner: httpx.AsyncClient, email: str, role: Role = Role.MEMBER) -> str:
    """Return the token of an invitation, as the page shows it."""
    answer = await post(owner, "/account/invite", email=email, role=role.value)
    assert answer.status_code == 200, answer.text
    (link,) = re.findall(r'value="(http://127\.0\.0\.1:\d+/invite\?token=[\w-]{43})"', answer.text)
    return str(link.split("=")[1])


async def take(client: httpx.AsyncClient, path: str, token: str, **fields: str) -> httpx.Response:
    page = await client.get(path, params={"token": token})
    return await client.post(path, data={"csrf": csrf_of(page.text), "token": token, **fields})


async def test_the_first_owner_arrives_once_and_is_owner_and_operator(api: Api) -> None:
    token, spare = await first_link(api), await first_link(api)
    assert token
    assert spare
    fields = {"account": " Analytical  Engines ", "email": "Ada@Example.com", "password": PASSWORD}
    fields["zone"] = "Europe/Berlin"
    async with browser(api) as client:
        answer = await take(client, "/welcome", token, **fields)
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        page = (await client.get("/account")).text
        assert "Analytical Engines" in page
        assert "ada@example.com" in page
        assert "Owner, operator" in page
        assert 'value="Europe/Berlin"' in page, "the zone of their browser"
    assert await first_link(api) is None, "there is somebody now"
    async with browser(api) as late:
        assert (await take(late, "/welcome", token, **fields)).status_code == 404
        assert (await take(late, "/welcome", spare, **fields)).status_code == 404
        assert (await sign_in(late, "ada@example.com")).status_code == 303


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"email": "ada"}, "This is not an email address."),
        ({"account": " "}, "An account name must have 1 to 80 characters."),
        ({"password": "short"}, "A password must have 12 to 200 characters."),
    ],
)
async def test_a_mistake_in_the_welcome_can_be_mended(
    api: Api, fields: dict[str, str], expected: str
) -> None:
    token = await first_link(api)
    assert token
    good = {"account": "Engines", "email": "ada@example.com", "password": PASSWORD}
    async with browser(api) as client:
        answer = await take(client, "/welcome", token, **{**good, **fields})
        assert answer.status_code == 422
        assert expected in answer.text
        assert PASSWORD not in answer.text
        assert (await take(client, "/welcome", token, **good)).status_code == 303


async def test_who_has_used_the_command_line_is_offered_that_account(api: Api) -> None:
    await api.key("local")
    token = await first_link(api)
    async with browser(api) as client:
        page = await client.get("/welcome", params={"token": token})
    assert 'name="account" type="text" value="local"' in page.text


async def test_an_invited_person_chooses_a_password_and_is_a_member(api: Api) -> None:
    async with signed_in(api) as owner, browser(api) as client:
        token = await invited(owner, "Grace@example.com", Role.VIEWER)
        assert "grace@example.com" in (await owner.get("/account")).text
        page = (await client.get("/invite", params={"token": token})).text
        assert "Join alice" in page
        assert "a viewer" in page
        answer = await take(client, "/invite", token, password="a password of my own")
        assert answer.status_code == 303
        assert "Viewer" in (await client.get("/account")).text
        again = await client.get("/invite", params={"token": token})
        assert again.status_code == 404
        assert "This link has been used, withdrawn or has expired." in again.text
        assert "If it was you who used it, you can sign in." in again.text
        assert "belongs to another account" not in again.text


async def test_of_two_who_take_a_link_at_once_one_gets_it(api: Api) -> None:
    async with signed_in(api) as owner, browser(api) as one, browser(api) as two:
        token = await invited(owner, "grace@example.com")
        answers = await asyncio.gather(
            *(take(client, "/invite", token, password="a password of my own") for client in (one, two))
        )
    assert sorted(answer.status_code for answer in answers) == [303, 404]


async def test_who_is_known_already_joins_with_the_password_they_have(api: Api) -> None:
    email = await person(api, account="bob")
    async with signed_in(api) as owner, browser(api) as client:
        token = await invited(owner, email)
        wrong = await take(client, "/invite", token, password="a password of another")
        assert wrong.status_code == 401
        assert (await take(client, "/invite", token, password=PASSWORD)).status_code == 303
        assert '<p class="who-account">alice</p>' in (await client.get("/account")).text
        await post(client, "/logout")
        assert (await sign_in(client, email)).status_code == 303, "the password is the same"


async def test_who_is_signed_in_joins_with_a_click_but_not_for_somebody_else(api: Api) -> None:
    email = await person(api, account="bob")
    async with signed_in(api) as owner, signed_in(api, account="bob") as stranger, browser(api) as client:
        token = await invited(owner, email)
        assert (
            "You are signed in already." not in (await stranger.get("/invite", params={"token": token})).text
        )
        refused = await take(stranger, "/invite", token)
        assert refused.status_code == 401, "a password of the invited person is asked for"
        await sign_in(client, email)
        assert "You are signed in already." in (await client.get("/invite", params={"token": token})).text
        assert (await take(client, "/invite", token)).status_code == 303


async def test_an_invitation_can_be_withdrawn_and_runs_out(api: Api) -> None:
    async with signed_in(api) as owner, browser(api) as client:
        one = await invited(owner, "one@example.com")
        (link_id,) = re.findall(r"/invitations/([0-9a-f-]{36})/withdraw", (await owner.get("/account")).text)
        assert (await post(owner, f"/account/invitations/{link_id}/withdraw")).status_code == 303
        assert (await client.get("/invite", params={"token": one})).status_code == 404
        two = await invited(owner, "two@example.com")
        await sql(api.settings, "UPDATE link SET expires_at = now() - interval '1 minute'")
        assert (await client.get("/invite", params={"token": two})).status_code == 404
        assert "two@example.com" not in (await owner.get("/account")).text


async def test_of_two_invitations_of_one_person_the_newest_counts(api: Api) -> None:
    async with signed_in(api) as owner, browser(api) as client:
        as_owner = await invited(owner, "grace@example.com", Role.OWNER)
        as_viewer = await invited(owner, "grace@example.com", Role.VIEWER)
        assert (await client.get("/invite", params={"token": as_owner})).status_code == 404
        assert (await take(client, "/invite", as_viewer, password=PASSWORD)).status_code == 303
        assert "Viewer" in (await client.get("/account")).text


async def test_a_member_is_not_invited_twice_and_nobody_without_an_address(api: Api) -> None:
    email = await person(api)
    async with signed_in(api) as owner:
        for address, expected in [(email, "is already a member"), ("grace", "not an email address")]:
            answer = await post(owner, "/account/invite", email=address, role="member")
            assert answer.status_code in {409, 422}
            assert expected in answer.text
        odd = await post(owner, "/account/invite", email="x@example.com", role="king")
        assert odd.status_code == 422


async def test_a_link_of_one_kind_opens_no_other_door(api: Api) -> None:
    email = await person(api)
    async with open_container(api.settings) as container:
        people = container.people
        token = await people.links.new_password(email)
    async with browser(api) as client:
        for path in ("/welcome", "/invite"):
            assert (await client.get(path, params={"token": token})).status_code == 404
            form = {"csrf": csrf_of((await client.get("/login")).text), "token": token}
            fields = {"account": "x", "email": "x@example.com", "password": PASSWORD}
            assert (await client.post(path, data={**form, **fields})).status_code == 404
        assert (await client.get("/password", params={"token": token})).status_code == 200, "still good"


async def test_a_lost_password_is_replaced_by_a_link_and_every_session_ends(api: Api) -> None:
    email = await person(api)
    async with open_container(api.settings) as container:
        people = container.people
        token = await people.links.new_password(email)
    async with browser(api) as inside, browser(api) as client:
        await sign_in(inside, email)
        weak = await take(client, "/password", token, password="short")
        assert weak.status_code == 422
        done = await take(client, "/password", token, password="a fresh long password")
        assert (done.status_code, done.headers["location"]) == (303, "/login")
        assert (await inside.get("/keys")).status_code == 303
        assert (await sign_in(client, email)).status_code == 401
        assert (await sign_in(client, email, "a fresh long password")).status_code == 303


async def test_the_database_holds_no_link(api: Api) -> None:
    token = await first_link(api)
    assert token
    ((stored,),) = await sql(api.settings, "SELECT link::text FROM link")
    assert token not in str(stored)


async def test_an_invitation_that_is_asked_for_twice_at_once_is_one(api: Api) -> None:
    async with signed_in(api) as owner:
        form = {
            "csrf": csrf_of((await owner.get("/account")).text),
            "email": "grace@example.com",
            "role": "viewer",
        }
        answers = await asyncio.gather(*(owner.post("/account/invite", data=form) for _ in range(3)))
        assert [answer.status_code for answer in answers] == [200] * 3
        assert len(await sql(api.settings, "SELECT 1 FROM link")) == 1
