"""What two people, or one person twice, do to the same membership, link or password at one instant."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from uuid import uuid4

import pyotp
import pytest

from mailsift.accounts.people import Role, Visitor
from mailsift.container import Container, open_container
from mailsift.jobs.views import AccountId
from mailsift.pipeline.clock import system_clock
from mailsift.pipeline.errors import MailsiftError
from mailsift.storage.sql import people
from tests.integration.api.conftest import Api
from tests.integration.api.pages.queries import meanwhile, sql, wait_for_locks
from tests.support.sessions import (
    PASSWORD,
    browser,
    csrf_of,
    opens,
    person,
    post,
    sign_in,
    signed_in,
)

NEW = "a new long password"


LEAVES = "DELETE FROM member USING person, account WHERE person.id = person_id AND account.id = account_id"
LEAVES_ALL, LEAVES_ONE = f"{LEAVES} AND email = :email", f"{LEAVES} AND email = :email AND name = :account"


async def test_who_is_removed_while_they_sign_in_is_told_so(api: Api) -> None:
    email = await person(api, Role.MEMBER)
    async with browser(api) as client:
        async with meanwhile(api, LEAVES_ALL, email=email):
            late = asyncio.create_task(sign_in(client, email))
            await wait_for_locks(api, 1)
        answer = await late
    assert answer.status_code == 403
    assert "any account" in answer.text


async def test_who_is_removed_from_one_account_while_they_sign_in_comes_into_the_other(api: Api) -> None:
    email = await person(api, Role.MEMBER)
    await person(api, Role.MEMBER, account="bob", email=email)
    async with browser(api) as client:
        async with meanwhile(api, LEAVES_ONE, email=email, account="alice"):
            late = asyncio.create_task(sign_in(client, email))
            await wait_for_locks(api, 1)
        assert (await late).status_code == 303
        assert '<p class="who-account">bob</p>' in (await client.get("/account")).text


async def test_nobody_comes_into_an_account_they_are_removed_from_as_they_choose_it(api: Api) -> None:
    email = await person(api, Role.MEMBER)
    await person(api, Role.MEMBER, account="bob", email=email)
    ((bob,),) = await sql(api.settings, "SELECT id FROM account WHERE name = 'bob'")
    async with browser(api) as client:
        await sign_in(client, email)
        async with meanwhile(api, LEAVES_ONE, email=email, account="bob"):
            late = asyncio.create_task(post(client, "/account/you/switch", account=str(bob)))
            await wait_for_locks(api, 1)
        assert (await late).status_code == 404
        assert '<p class="who-account">alice</p>' in (await client.get("/account")).text


async def test_who_is_removed_while_they_change_their_password_gets_no_session(api: Api) -> None:
    email = await person(api, Role.MEMBER)
    async with browser(api) as client:
        await sign_in(client, email)
        async with meanwhile(api, LEAVES_ALL, email=email):
            changed = asyncio.create_task(post(client, "/account/you/password", old=PASSWORD, new=NEW))
            await wait_for_locks(api, 1)
        assert (await changed).status_code == 404
    assert await sql(api.settings, "SELECT count(*) FROM session") == [(0,)]


async def test_who_is_no_owner_any_more_at_the_end_of_a_slow_form_invites_nobody(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mailsift.api.http.middleware._PROMPT_S", 0.0)
    async with signed_in(api, Role.OWNER) as client:
        token = csrf_of((await client.get("/account")).text)

        async def form() -> AsyncIterator[bytes]:
            yield f"csrf={token}&role=owner&".encode()
            await sql(api.settings, "UPDATE member SET role = 'viewer'")
            yield b"email=friend@people.test"

        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        assert (await client.post("/account/invite", content=form(), headers=headers)).status_code == 401
    assert await sql(api.settings, "SELECT count(*) FROM link") == [(0,)]


async def test_an_invitation_is_not_taken_by_who_is_deleted_as_they_take_it(api: Api) -> None:
    email = await person(api, Role.MEMBER)
    async with open_container(api.settings) as container:
        secret = await container.people.links.invite_from_terminal("bob", email, Role.MEMBER)
    async with browser(api) as client:
        await sign_in(client, email)
        token = csrf_of((await client.get("/account")).text)
        async with meanwhile(api, "DELETE FROM person WHERE email = :email", email=email):
            late = asyncio.create_task(client.post("/invite", data={"csrf": token, "token": secret}))
            await wait_for_locks(api, 1)
        assert (await late).status_code == 404


async def test_who_is_new_takes_two_invitations_at_once(api: Api) -> None:
    async with open_container(api.settings) as container:
        links = container.people.links
        secrets = [
            await links.invite_from_terminal(name, "new@people.test", Role.OWNER) for name in ("a", "b")
        ]
        async with meanwhile(api, "LOCK TABLE person IN SHARE MODE"):  # so nobody can be added
            both = asyncio.gather(
                *(links.accept(secret, password=PASSWORD, client="") for secret in secrets),
                return_exceptions=True,
            )
            await wait_for_locks(api, 2)
        taken = await both
    assert len([one for one in taken if isinstance(one, str)]) == 1
    assert [one.code for one in taken if isinstance(one, MailsiftError)] == ["sign_in_first"]


async def test_of_two_links_for_the_first_owner_one_makes_one(api: Api) -> None:
    async with open_container(api.settings) as container:
        links = container.people.links
        secrets = [await links.first_owner(), await links.first_owner()]
        async with meanwhile(api, "LOCK TABLE person IN SHARE MODE"):  # so nobody can be added
            both = asyncio.gather(
                *(
                    links.accept_first_owner(
                        str(secret), account="Engines", email=f"owner{n}@people.test", password=PASSWORD
                    )
                    for n, secret in enumerate(secrets)
                ),
                return_exceptions=True,
            )
            await wait_for_locks(api, 2)
        ended = await both
    assert [one.code for one in ended if isinstance(one, MailsiftError)] == ["link_gone"]
    assert await sql(api.settings, "SELECT count(*) FROM person") == [(1,)]


async def test_a_password_that_is_changed_while_the_link_to_another_is_used_is_one_of_the_two(
    api: Api,
) -> None:
    email = await person(api)
    async with open_container(api.settings) as container, browser(api) as client, browser(api) as lost:
        secret = await container.people.links.new_password(email)
        page = await lost.get("/password", params={"token": secret})
        form = {"csrf": csrf_of(page.text), "token": secret, "password": "the password of the link"}
        await sign_in(client, email)
        async with meanwhile(api, "SELECT id FROM session FOR UPDATE"):  # which change and link are to end
            changed = asyncio.create_task(post(client, "/account/you/password", old=PASSWORD, new=NEW))
            await wait_for_locks(api, 1)
            replaced = asyncio.create_task(lost.post("/password", data=form))
            await wait_for_locks(api, 2)
        answers = (await changed).status_code, (await replaced).status_code
    assert answers in {(303, 404), (401, 303)}
    opening = [password for password in (NEW, form["password"]) if await opens(api, email, password)]
    assert opening == [NEW if answers[0] == 303 else form["password"]]


async def test_a_code_confirms_the_secret_it_is_of(api: Api) -> None:
    email = await person(api)
    async with open_container(api.settings) as container:
        visitor = await _visitor(container, email)
        enrolled = await container.people.sessions.factors.enrol(visitor)
        async with container.database.begin() as connection:  # the page is opened once more
            await people.put_second_factor(connection, visitor.user_id, b"another secret")
            code = pyotp.TOTP(enrolled.secret).at(int(system_clock()))
            late = asyncio.create_task(
                container.people.sessions.confirm_factor(visitor, code, client="127.0.0.1")
            )
            await wait_for_locks(api, 1)
        with pytest.raises(MailsiftError, match="wrong_code"):
            await late
        assert not (await container.people.sessions.factors.view(visitor.user_id)).on


async def test_an_account_that_is_deleted_meanwhile_gets_no_test_account(api: Api) -> None:
    async with open_container(api.settings) as container:
        with pytest.raises(MailsiftError, match="account_not_found"):
            await container.keys.test_account(AccountId(uuid4()))


async def test_who_is_deleted_while_they_set_up_a_second_factor_is_told_so(api: Api) -> None:
    email = await person(api)
    async with open_container(api.settings) as container:
        visitor = await _visitor(container, email)
        async with meanwhile(api, "DELETE FROM person WHERE email = :email", email=email):
            late = asyncio.create_task(container.people.sessions.factors.enrol(visitor))
            await wait_for_locks(api, 1)
        with pytest.raises(MailsiftError, match="person_not_found"):
            await late


async def test_no_sign_in_without_a_code_outlives_the_moment_codes_are_asked_for(api: Api) -> None:
    email = await person(api)
    async with open_container(api.settings) as container, browser(api) as late:
        visitor = await _visitor(container, email)
        enrolled = await container.people.sessions.factors.enrol(visitor)
        code = pyotp.TOTP(enrolled.secret).at(int(system_clock()))
        async with meanwhile(api, "SELECT id FROM person FOR NO KEY UPDATE"):
            entered = asyncio.create_task(sign_in(late, email))
            await wait_for_locks(api, 1)
            confirmed = asyncio.create_task(
                container.people.sessions.confirm_factor(visitor, code, client="127.0.0.1")
            )
            await wait_for_locks(api, 2)
        await asyncio.gather(entered, confirmed)
        assert (await late.get("/account/you")).status_code == 303, "a code was not asked for"
    assert await sql(api.settings, "SELECT count(*) FROM session") == [(1,)]


async def _visitor(container: Container, email: str) -> Visitor:
    sessions = container.people.sessions
    found = await sessions.find(await sessions.sign_in(email, PASSWORD, client="127.0.0.1"))
    assert found is not None
    return found


async def _deleted_at_once(api: Api, *emails: str) -> list[BaseException | None]:
    async with open_container(api.settings) as container:
        members = container.people.members
        async with meanwhile(api, "SELECT id FROM account FOR UPDATE"):
            all_of_them = asyncio.gather(
                *(members.remove_person(email, actor="cli") for email in emails), return_exceptions=True
            )
            await wait_for_locks(api, len(emails))
        return await all_of_them


async def test_of_two_who_delete_a_person_one_is_told_there_is_none(api: Api) -> None:
    email = await person(api, Role.MEMBER)
    await person(api)
    ended = await _deleted_at_once(api, email, email)
    assert [one.code for one in ended if isinstance(one, MailsiftError)] == ["person_not_found"]


async def test_two_owners_who_are_deleted_at_once_leave_no_account_without_one(api: Api) -> None:
    emails = [await person(api) for _ in range(2)]
    await person(api, Role.VIEWER)
    ended = await _deleted_at_once(api, *emails)
    assert [one.code for one in ended if isinstance(one, MailsiftError)] == ["last_owner"]
    assert await sql(api.settings, "SELECT count(*) FROM member WHERE role = 'owner'") == [(1,)]


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/account/invite", {"email": "eve@example.com", "role": "member"}),
        ("/account/zone", {"zone": "Europe/Berlin"}),
        ("/keys/new", {"door": "", "lifetime": "0", "scope": "validate:write"}),
        ("/webhooks/new", {"url": "https://example.com/hook", "type": "bulk.validation.completed"}),
    ],
)
async def test_who_changes_an_account_that_is_deleted_meanwhile_is_told_so(
    api: Api, path: str, fields: dict[str, str]
) -> None:
    email = await person(api, Role.OWNER)
    async with browser(api) as client:
        await sign_in(client, email)
        async with meanwhile(api, "DELETE FROM account WHERE name = 'alice'"):
            late = asyncio.create_task(post(client, path, **fields))
            await wait_for_locks(api, 1)
        answer = await late
    assert (answer.status_code, "account_not_found" in answer.text) == (404, True)
    for table in ("link", "api_key", "endpoint", "audit"):
        assert await sql(api.settings, f"SELECT FROM {table} WHERE account_id IS NOT NULL") == []
