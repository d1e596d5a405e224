"""Signing in and out: sessions live on the server, guessing is slow, and answers tell nothing."""

from __future__ import annotations

import hashlib
import re
import secrets
from datetime import timedelta

import httpx
import pytest
from typing_extensions import override

from mailsift.accounts import sessions
from mailsift.accounts.links import Links
from mailsift.accounts.people import Role
from mailsift.container import open_container
from mailsift.pipeline.clock import system_clock
from mailsift.pipeline.errors import MailsiftError
from tests.integration.api.conftest import Api, running
from tests.integration.api.pages.queries import sql
from tests.support.installation import settings_for
from tests.support.servers import RedisServer
from tests.support.sessions import PASSWORD, browser, cookie, csrf_of, person, post, sign_in, signed_in

SESSION = "__Host-mailsift"


async def is_inside(client: httpx.AsyncClient) -> bool:
    return (await client.get("/account/you")).status_code == 200


async def test_the_right_password_opens_and_signing_out_closes(api: Api) -> None:
    email = await person(api)
    async with browser(api) as client:
        answer = await sign_in(client, f"  {email.upper()} ")
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        assert await is_inside(client)
        secret = cookie(client, SESSION)
        assert (await post(client, "/logout")).headers["location"] == "/login"
        assert cookie(client, SESSION) == ""
        assert not await is_inside(client)
    async with browser(api) as thief:
        answer = await thief.get("/account/you", headers={"Cookie": f"{SESSION}={secret}"})
        assert answer.status_code == 303, "the session has ended on the server too"


@pytest.mark.parametrize(
    "email",
    [
        "Jane@B\N{LATIN CAPITAL LETTER U WITH DIAERESIS}cher.example",
        "jo\u0308rg@people.test",
        '"jane"@people.test',
    ],
    ids=["domain", "decomposed", "quoted"],
)
async def test_an_address_opens_as_it_was_given_when_its_owner_was_made(api: Api, email: str) -> None:
    await person(api, email=email)
    async with browser(api) as client:
        assert (await sign_in(client, email)).status_code == 303
        assert await is_inside(client)


async def test_the_database_holds_only_a_hash_of_a_session(api: Api) -> None:
    async with signed_in(api) as client:
        secret = cookie(client, SESSION)
        ((stored,),) = await sql(api.settings, "SELECT id FROM session")
        assert isinstance(stored, (bytes, memoryview))
        assert bytes(stored) == hashlib.sha256(secret.encode()).digest()
        assert len(secret) >= 43, "256 random bits"


async def test_every_sign_in_makes_a_session_of_its_own(api: Api) -> None:
    """Session fixation: what the browser had before is nothing afterwards."""
    email = await person(api)
    async with browser(api) as client:
        await sign_in(client, email)
        first = cookie(client, SESSION)
        async with browser(api) as other:
            other.cookies.clear()
            answer = await other.get("/login", headers={"Cookie": f"{SESSION}=planted"})
            assert answer.status_code == 200
            await sign_in(other, email)
            assert cookie(other, SESSION) not in {first, "planted", ""}


async def test_wrong_and_unknown_look_the_same(api: Api) -> None:
    email = await person(api)
    answers = []
    async with browser(api) as client:
        for address in (email, "nobody@people.test", "not an address"):
            answer = await sign_in(client, address, "wrong password, long")
            page = re.sub(r"[0-9a-f]{24,}", "…", answer.text).replace(address, "…")
            answers.append((answer.status_code, page))
    assert answers[0][0] == 401
    assert answers[0] == answers[1] == answers[2]
    assert "The email address or the password is wrong." in answers[0][1]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE session SET seen_at = now() - interval '25 hours'",
        "UPDATE session SET expires_at = now() - interval '1 minute'",
    ],
)
async def test_a_session_ends_by_itself(api: Api, statement: str) -> None:
    async with signed_in(api) as client:
        assert await is_inside(client)
        await sql(api.settings, statement)
        assert not await is_inside(client)


async def test_a_session_that_is_used_stays_but_no_longer_than_two_weeks(api: Api) -> None:
    async with signed_in(api) as client:
        await sql(api.settings, "UPDATE session SET seen_at = now() - interval '23 hours'")
        assert await is_inside(client)
        ((idle, lifetime),) = await sql(
            api.settings, "SELECT now() - seen_at, expires_at - created_at FROM session"
        )
        assert isinstance(idle, timedelta)
        assert idle < timedelta(minutes=1), "its use was noted"
        assert lifetime == timedelta(days=14)


async def test_tries_for_one_person_are_counted_and_the_right_password_waits_too(api: Api) -> None:
    email, other = await person(api), await person(api)
    async with browser(api) as client:
        answers = [await sign_in(client, email, f"wrong password {n}") for n in range(10)]
        assert {answer.status_code for answer in answers} == {401}
        last = await sign_in(client, email)
        assert last.status_code == 429
        assert 1 <= int(last.headers["retry-after"]) <= 900
        assert "Too many tries to sign in" in last.text
        assert (await sign_in(client, other)).status_code == 303, "others are not locked out"


@pytest.mark.parametrize("address", ["192.0.2.1", "2001:db8::{:x}"])  # an address, and all that one may have
async def test_tries_from_one_place_are_counted_whomever_they_are_for(api: Api, address: str) -> None:
    async with browser(api) as client:
        form = {"csrf": csrf_of((await client.get("/login")).text), "password": "wrong password, long"}
        statuses: list[int] = []
        while 429 not in statuses and len(statuses) < 90:  # one more is allowed every ten seconds
            data = {**form, "email": f"nobody{len(statuses)}@people.test"}
            behind = {"X-Forwarded-For": address.format(len(statuses))}
            answer = await client.post("/login", data=data, headers=behind)
            statuses.append(answer.status_code)
        assert statuses[:30] == [401] * 30
        assert statuses[-1] == 429


async def test_while_redis_is_away_who_knows_the_password_gets_in_and_guessing_stays_slow(
    tmp_path_factory: pytest.TempPathFactory, database_url: str, redis_server: RedisServer
) -> None:
    settings = settings_for(
        tmp_path_factory.mktemp("home"),
        database_url=database_url,
        redis_url=redis_server.url,
        api_port=0,
        dns_servers=("127.0.0.1:9",),
    )
    async with running(settings) as api:
        email = await person(api)
        async with browser(api) as client:
            await sign_in(client, email)
            redis_server.kill()
            assert await is_inside(client), "who is in stays in"
        async with browser(api) as other:
            assert (await sign_in(other, email)).status_code == 303
            assert await is_inside(other)
        async with browser(api) as guesser:
            guesses = [await sign_in(guesser, email, f"guess number {n}") for n in range(5)]
            assert [answer.status_code for answer in guesses] == [401] * 4 + [
                429
            ]  # half of what Redis allows
            assert 800 < int(guesses[-1].headers["retry-after"]) <= 900
            others = [await sign_in(guesser, f"{n}@people.test", "a guess") for n in range(12)]
            assert [answer.status_code for answer in others] == [401] * 9 + [429] * 3
    stored = await sql(api.settings, "SELECT DISTINCT length(holder) FROM sign_in_try")
    assert stored == [(32,)], "hashes"


async def test_a_new_password_ends_the_other_sessions_and_the_old_secret(api: Api) -> None:
    email = await person(api)
    async with browser(api) as here, browser(api) as there:
        await sign_in(here, email)
        await sign_in(there, email)
        before = cookie(here, SESSION)
        wrong = await post(here, "/account/you/password", old="not it, not it", new="a new long password")
        assert wrong.status_code == 401
        weak = await post(here, "/account/you/password", old=PASSWORD, new="short")
        assert weak.status_code == 422
        assert await is_inside(there)
        done = await post(here, "/account/you/password", old=PASSWORD, new="a new long password")
        assert done.status_code == 303
        assert cookie(here, SESSION) != before
        assert await is_inside(here)
        assert not await is_inside(there)
        assert (await sign_in(there, email)).status_code == 401
        assert (await sign_in(there, email, "a new long password")).status_code == 303


async def test_signing_out_everywhere_is_everywhere(api: Api) -> None:
    email = await person(api)
    async with browser(api) as here, browser(api) as there:
        await sign_in(here, email)
        await sign_in(there, email)
        await post(here, "/account/you/sign-out-everywhere")
        assert not await is_inside(here)
        assert not await is_inside(there)


async def test_who_is_a_member_of_two_accounts_looks_at_one_and_can_change_it(api: Api) -> None:
    email = await person(api, Role.OWNER, account="alpha")
    await person(api, Role.VIEWER, account="beta", email=email)
    async with browser(api) as client, signed_in(api, account="gamma") as stranger:
        await sign_in(client, email)
        page = (await client.get("/account/you")).text
        assert "alpha" in page
        (beta,) = re.findall(r'name="account" value="([0-9a-f-]{36})"', page)
        refused = await post(stranger, "/account/you/switch", account=beta)
        assert refused.status_code == 404
        assert (await post(client, "/account/you/switch", account=beta)).status_code == 303
        assert '<p class="who-account">beta</p>' in (await client.get("/account")).text
        assert (await post(client, "/account/retention", retention="0")).status_code == 403, "a viewer there"


async def test_a_page_of_one_account_does_and_shows_nothing_in_another(api: Api) -> None:
    email = await person(api, Role.OWNER, account="alpha")
    await person(api, Role.OWNER, account="beta", email=email)
    async with browser(api) as client:
        await sign_in(client, email)
        page = (await client.get("/account/you")).text
        (beta,) = re.findall(r'name="account" value="([0-9a-f-]{36})"', page)
        stale = {"X-CSRF-Token": csrf_of(page)}
        assert (await client.get("/jobs", headers=stale)).status_code == 200
        await post(client, "/account/you/switch", account=beta)
        for answer in (
            await client.post("/account/retention", data={"csrf": csrf_of(page), "retention": "7"}),
            await client.post("/uploads", headers={"Tus-Resumable": "1.0.0", "Upload-Length": "1", **stale}),
            await client.get("/jobs", headers=stale),
        ):
            assert answer.status_code == 403
            assert "other_account" in answer.text
            assert "you now look at beta" in answer.text
        assert await sql(api.settings, "SELECT 1 FROM account WHERE retention_s = 7 * 86400") == []
        assert (await client.post("/logout", data={"csrf": csrf_of(page)})).status_code == 303
        assert not await is_inside(client)


async def test_who_has_lost_every_account_is_told_so(api: Api) -> None:
    email = await person(api)
    await sql(api.settings, "DELETE FROM member")
    async with browser(api) as client:
        answer = await sign_in(client, email)
        assert answer.status_code == 403
        assert "a member of any account" in answer.text


async def test_a_key_opens_no_page_and_a_session_no_operation(api: Api) -> None:
    key = await api.key("alice")
    async with browser(api) as client:
        assert (await client.get("/keys", headers={"Authorization": f"Bearer {key}"})).status_code == 303
    async with signed_in(api) as client:
        assert (await client.get("/v1/bulk/jobs")).status_code == 401


async def test_the_first_page_after_signing_in_is_the_one_that_was_asked_for(api: Api) -> None:
    email = await person(api)
    async with browser(api) as client:
        sent = await client.get("/keys?x=1")
        assert sent.headers["location"] == "/login?next=/keys%3Fx%3D1"
        page = (await client.get(sent.headers["location"])).text
        assert 'name="next" value="/keys?x=1"' in page
        form = {"csrf": csrf_of(page), "email": email, "password": PASSWORD}
        assert (await client.post("/login", data={**form, "next": "/keys?x=1"})).headers[
            "location"
        ] == "/keys?x=1"
        evil = await client.get("/login?next=//evil.example")
        assert evil.headers["location"] == "/"


async def test_an_invitation_opens_nothing_for_who_was_new_when_it_was_looked_at(api: Api) -> None:
    """Somebody becomes known, by another invitation and another password, while this one is taken."""
    async with open_container(api.settings) as container:
        links, email = container.people.links, "new@people.test"
        mine = await links.invite_from_terminal("alice", email, Role.VIEWER)
        theirs = await links.invite_from_terminal("bob", email, Role.OWNER)

        class Meanwhile(sessions.Passwords):
            @override
            async def hash(self, password: str) -> str:
                await links.accept(theirs, password=PASSWORD, client="")
                return await super().hash(password)

        slow = Links(
            database=container.database,
            passwords=Meanwhile(secrets.token_bytes),
            sessions=container.people.sessions,
            clock=system_clock,
            token=secrets.token_bytes,
        )
        with pytest.raises(MailsiftError, match="sign_in_first"):
            await slow.accept(mine, password="another password", client="")
        assert (await links.find(mine)).known
