"""An Idempotency-Key on every POST: done once, answered as the first time, gone with what it is about."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from unittest.mock import AsyncMock
from uuid import UUID, uuid4

import httpx
import psycopg
import pytest

from mailsift.container import open_container
from mailsift.jobs.submissions import Submissions
from mailsift.settings import Settings
from mailsift.storage.database import unavailable
from mailsift.storage.sql import idempotency
from tests.integration.api.conftest import Api
from tests.support.installation import until
from tests.support.serving import address
from tests.support.workers import kill_group

SINGLE, JOBS, HOOKS = "/v1/email/single-validate", "/v1/bulk/jobs", "/v1/webhooks"
ADDRESS = "canary.idempotent@example.com"


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"allow_non_public": True, "webhook_allow_http": True})


def keyed(key: str) -> dict[str, str]:
    return {"Idempotency-Key": key}


async def rows(api: Api, sql: str) -> list[tuple[object, ...]]:
    async with await psycopg.AsyncConnection.connect(address_of(api)) as connection:
        found = await connection.execute(sql)
        while found.nextset():
            pass
        return await found.fetchall()


def address_of(api: Api) -> str:
    url = str(api.settings.database_url and api.settings.database_url.get_secret_value())
    return url.replace("+psycopg", "")


async def test_a_webhook_is_made_once_and_answered_alike_however_often_it_is_asked_for(
    api: Api, client: httpx.AsyncClient
) -> None:
    hook = {"url": "http://127.0.0.1:9/hook"}
    answers = [await client.post(HOOKS, json=hook, headers=keyed('"one"')) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [201] * 3
    assert len({answer.text for answer in answers}) == 1  # its secret, too
    assert [answer.headers.get("idempotency-replayed") for answer in answers] == [None, "true", "true"]
    assert len({answer.headers["location"] for answer in answers}) == 1
    assert len({answer.headers["x-request-id"] for answer in answers}) == 3
    assert len((await client.get(HOOKS)).json()["data"]["webhooks"]) == 1
    bare = await client.post(HOOKS, json=hook, headers=keyed("one"))  # the same key without quotes
    assert bare.text == answers[0].text
    for path, body in ((HOOKS, {"url": "http://127.0.0.1:9/other"}), (SINGLE, {"email": "a@example.com"})):
        other = await client.post(path, json=body, headers=keyed('"one"'))
        assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")
    listed = await client.post(JOBS, json={"emails": ["a@example.com"]}, headers=keyed('"one"'))
    assert (listed.status_code, listed.json()["code"]) == (422, "idempotency_key_reused")
    stored = [bytes(answer) for (answer,) in await rows(api, "SELECT answer FROM idempotency")]  # type: ignore[call-overload]
    assert len(stored) == 1
    assert answers[0].json()["data"]["secret"].encode() not in stored[0]
    async with api.client(await api.key("bob")) as bob:  # whose keys are his own
        assert (await bob.post(HOOKS, json=hook, headers=keyed('"one"'))).status_code == 201


async def test_two_keys_are_none(client: httpx.AsyncClient) -> None:
    keys = [("Idempotency-Key", "one"), ("Idempotency-Key", "two")]
    for path, body in ((HOOKS, {"url": "https://example.com/hook"}), (JOBS, {"emails": ["a@example.com"]})):
        refused = await client.post(path, json=body, headers=keys)
        assert (refused.status_code, refused.json()["code"]) == (400, "bad_request")
        assert "Idempotency-Key" in refused.json()["message"]


async def test_of_many_at_once_one_is_done_and_the_others_are_told_so(client: httpx.AsyncClient) -> None:
    hook = {"url": "http://127.0.0.1:9/hook"}
    answers = await asyncio.gather(
        *(client.post(HOOKS, json=hook, headers=keyed('"many"')) for _ in range(12))
    )
    answered = {(answer.status_code, answer.json().get("code", "")) for answer in answers}
    assert answered <= {(201, ""), (409, "idempotency_key_in_use")}
    assert len({answer.text for answer in answers if answer.status_code == 201}) == 1
    assert all("retry-after" in answer.headers for answer in answers if answer.status_code == 409)
    assert len((await client.get(HOOKS)).json()["data"]["webhooks"]) == 1


async def test_what_did_nothing_frees_its_key_and_what_was_answered_keeps_it(
    api: Api, client: httpx.AsyncClient
) -> None:
    wrong = await client.post(SINGLE, json={"email": 5}, headers=keyed('"a"'))
    assert wrong.status_code == 422
    right = {"email": ADDRESS, "mode": "fast"}
    first = await client.post(SINGLE, json=right, headers={**keyed('"a"'), "Prefer": "return=minimal"})
    again = await client.post(SINGLE, json=right, headers=keyed('"a"'))
    assert (first.status_code, again.text) == (200, first.text)
    assert again.headers["preference-applied"] == "return=minimal"
    (found,) = await rows(api, "SELECT encode(answer, 'escape') || key || fingerprint FROM idempotency")
    assert "canary" not in str(found)
    gone = f"{JOBS}/{uuid4()}/pause"
    answers = [await client.post(gone, headers=keyed('"b"')) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [404, 404]
    assert answers[0].text == answers[1].text
    bad = await client.post(HOOKS, json={"url": "http://127.0.0.1:9/h"}, headers=keyed("a b"))
    assert (bad.status_code, bad.json()["code"]) == (400, "bad_idempotency_key")
    nobody = await client.post(HOOKS, headers={**keyed('"c"'), "authorization": ""})
    assert nobody.status_code == 401


async def test_a_list_that_an_outage_kept_from_being_started_leaves_its_key_free(
    api: Api, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = (await client.post(JOBS, json={"emails": [ADDRESS]})).json()["data"]["job_id"]
    again = partial(client.post, f"{JOBS}/{job}/rerun", headers=keyed("again"))
    with monkeypatch.context() as patch:
        patch.setattr(Submissions, "insert", AsyncMock(side_effect=unavailable()))
        assert (await again()).status_code == 503
    assert (await again()).status_code == 202
    assert await rows(api, "SELECT count(*) FROM job") == [(2,)]


async def test_a_state_that_changed_is_told_as_it_was_then_and_goes_with_its_job(
    api: Api, client: httpx.AsyncClient
) -> None:
    job = (await client.post(JOBS, json={"emails": ["a@example.com"]})).json()["data"]["job_id"]
    cancelled = [await client.post(f"{JOBS}/{job}/cancel", headers=keyed('"stop"')) for _ in range(2)]
    assert [answer.status_code for answer in cancelled] == [200, 200]
    assert (await client.post(f"{JOBS}/{job}/cancel", headers=keyed('"else"'))).status_code == 409
    assert len(await rows(api, "SELECT FROM idempotency")) == 2
    assert (await client.delete(f"{JOBS}/{job}")).status_code == 200
    assert await rows(api, "SELECT FROM idempotency") == []


async def test_a_request_that_died_frees_its_key_and_a_day_ends_everything(
    api: Api, client: httpx.AsyncClient
) -> None:
    hook = {"url": "http://127.0.0.1:9/hook"}
    await client.post(HOOKS, json=hook, headers=keyed('"kept"'))
    ((account_id, fingerprint),) = await rows(api, "SELECT account_id, fingerprint FROM idempotency")
    dead = idempotency.Request(UUID(str(account_id)), "dead", str(fingerprint))
    async with open_container(api.settings) as container, container.database.begin() as connection:
        assert await idempotency.begin(connection, dead, uuid4(), lease=60)
    in_use = await client.post(HOOKS, json=hook, headers=keyed('"dead"'))
    assert (in_use.status_code, in_use.json()["code"]) == (409, "idempotency_key_in_use")
    await rows(api, "UPDATE idempotency SET lease_until = now() WHERE key = 'dead' RETURNING 1")
    assert (await client.post(HOOKS, json=hook, headers=keyed('"dead"'))).status_code == 201
    await rows(api, "UPDATE idempotency SET created_at = now() - interval '25 hours' RETURNING 1")
    fresh = await client.post(HOOKS, json=hook, headers=keyed('"kept"'))
    assert "idempotency-replayed" not in fresh.headers
    async with open_container(api.settings) as container:
        await container.eraser.sweep()
        assert await rows(api, "SELECT key FROM idempotency") == [("kept",)]
        await container.eraser.account(await container.jobs.find_account("alice"))
    assert await rows(api, "SELECT key FROM idempotency") == []


# Whoever stores an answer waits as long as somebody else holds the lock 4711.
_SLOW_ANSWERS = """
    CREATE OR REPLACE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN PERFORM pg_advisory_xact_lock(4711); RETURN NEW; END $$;
    CREATE TRIGGER wait BEFORE UPDATE ON idempotency FOR EACH ROW
        WHEN (octet_length(NEW.answer) > 0) EXECUTE FUNCTION wait();
"""
_WAITING = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"


async def test_an_order_is_answered_although_its_job_is_deleted_while_the_answer_is_kept(
    api: Api, client: httpx.AsyncClient
) -> None:
    job = (await client.post(JOBS, json={"emails": ["a@example.com"]})).json()["data"]["job_id"]
    await rows(api, f"{_SLOW_ANSWERS} SELECT 1")
    async with await psycopg.AsyncConnection.connect(address_of(api)) as holder:
        await holder.execute("SELECT pg_advisory_lock(4711)")
        ordered = asyncio.create_task(client.post(f"{JOBS}/{job}/cancel", headers=keyed("stop")))
        await until(partial(_waits, api, 1), within=20)
        deleted = asyncio.create_task(rows(api, "DELETE FROM job RETURNING id"))

        async def is_deleted_or_waits() -> bool:
            return deleted.done() or await _waits(api, 2)

        await until(is_deleted_or_waits, within=20)
    assert (await ordered).status_code == 200
    assert len(await deleted) == 1
    await rows(api, "DROP TRIGGER wait ON idempotency; SELECT 1")


async def test_a_process_that_is_killed_leaves_one_effect_whenever_it_dies(
    settings: Settings, tmp_path: Path
) -> None:
    # two accounts, for what one of them makes at a time waits for each other
    hook, keys = {"url": "http://127.0.0.1:9/hook"}, [keyed(name) for name in ("before", "after")]
    async with (
        api_process(settings, tmp_path / "first.log") as (api, leader),
        api.client(await api.key("alice")) as client,
        api.client(await api.key("bob")) as bob,
    ):
        job = (await client.post(JOBS, json={"emails": ["a@example.com"]})).json()["data"]["job_id"]
        asked = ((HOOKS, hook), ("/v1/bulk/schedules", {"job_id": job, "cron": "0 6 * * 1"}))
        await rows(api, f"{_SLOW_ANSWERS} SELECT 1")
        async with await psycopg.AsyncConnection.connect(address_of(api)) as holder:
            await holder.execute("LOCK TABLE endpoint IN EXCLUSIVE MODE; SELECT pg_advisory_lock(4711)")
            sent = [
                asyncio.create_task(who.post(path, json=body, headers=key))
                for who, (path, body), key in zip((bob, client), asked, keys, strict=True)
            ]
            await until(partial(_waits, api, 2), within=60)
            kill_group(leader)
            broken = await asyncio.gather(*sent, return_exceptions=True)
            assert all(isinstance(one, httpx.TransportError) for one in broken), broken
    await until(partial(_waits, api, 0), within=60)
    await rows(api, "DROP TRIGGER wait ON idempotency; SELECT 1")
    async with (
        api_process(settings, tmp_path / "second.log") as (api, _),
        api.client(await api.key("alice")) as client,
        api.client(await api.key("bob")) as bob,
    ):
        for who, (path, body), key in zip((bob, client), asked, keys, strict=True):
            early = await who.post(path, json=body, headers=key)
            assert (early.status_code, early.json()["code"]) == (409, "idempotency_key_in_use")
        await rows(api, "UPDATE idempotency SET lease_until = now() RETURNING 1")
        before, after = [
            await who.post(path, json=body, headers=key)
            for who, (path, body), key in zip((bob, client), asked, keys, strict=True)
        ]
        assert before.status_code == 201, before.text
        assert (after.status_code, after.json()["code"]) == (409, "idempotency_key_lost")
        async with open_container(api.settings) as container:
            await container.eraser.sweep()
        again = await client.post(asked[1][0], json=asked[1][1], headers=keys[1])
        assert again.json()["code"] == "idempotency_key_lost"
        assert len((await bob.get(HOOKS)).json()["data"]["webhooks"]) == 1
        assert len((await client.get(asked[1][0])).json()["data"]["schedules"]) == 1


async def _waits(api: Api, count: int) -> bool:
    return len(await rows(api, _WAITING)) == count


@asynccontextmanager
async def api_process(settings: Settings, log: Path) -> AsyncIterator[tuple[Api, int]]:
    """Run the API as a process that may be killed; its process group is named, too."""
    with log.open("wb") as out:
        process = subprocess.Popen(  # noqa: ASYNC220 - it takes no time
            [sys.executable, "-m", "mailsift", "api"],
            env={"PATH": os.environ["PATH"], **settings.environment()},  # noqa: TID251 - for a child
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        yield Api(await address(log), settings), process.pid
    finally:
        kill_group(process.pid)
        process.wait()


TAKEN_BY_0_1_0 = """
UPDATE idempotency SET fingerprint = '5957d7a641679bea008adce6d324f9d555a4a6bee3c517dc6231ce23affaddc4'
RETURNING key
"""
"""What that release wrote down of the list below."""


async def test_a_list_that_the_release_before_took_is_known_after_an_upgrade(
    api: Api, client: httpx.AsyncClient
) -> None:
    async def send(mode: str) -> httpx.Response:
        headers = {**keyed('"before"'), "Content-Type": "text/csv"}
        return await client.post(f"{JOBS}?mode={mode}", content=b"email\na@example.com\n", headers=headers)

    made = await send("fast")
    await rows(api, TAKEN_BY_0_1_0)
    again = await send("fast")
    assert (made.status_code, again.status_code) == (202, 200), again.text
    assert again.json()["data"]["job_id"] == made.json()["data"]["job_id"]
    assert (await send("medium")).json()["code"] == "idempotency_key_reused"
