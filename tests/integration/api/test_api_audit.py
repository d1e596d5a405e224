"""What programs change by their key stands in the audit log like what people change: by the key's name."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from uuid import UUID

import httpx
import pytest

from mailsift.accounts.keys import KeyKind
from mailsift.container import open_container
from mailsift.jobs.views import JobId
from mailsift.settings import Settings
from tests.integration.api.conftest import Api, running
from tests.integration.api.pages.queries import sql, words
from tests.support.commands import CommandLine
from tests.support.sessions import post, signed_in

HOOK = "http://127.0.0.1:9/secret-path"
LIST = {"file": ("spring.csv", b"email\nada@example.com\n")}


@pytest.fixture
async def local(settings: Settings) -> AsyncIterator[Api]:
    open_to_itself = settings.model_copy(update={"webhook_allow_http": True, "allow_non_public": True})
    async with running(open_to_itself) as api:
        yield api


async def _named(api: Api, name: str, *, test: bool = False) -> httpx.AsyncClient:
    async with open_container(api.settings) as container:
        account = await container.jobs.account("alice")
        minted = await container.keys.create(account, name=name, kind=KeyKind(test))
    return api.client(minted.secret)


async def _actors(api: Api, name: str) -> list[str]:
    found = await sql(api.settings, "SELECT DISTINCT actor FROM audit ORDER BY actor")
    return [str(actor) for (actor,) in found if str(actor).endswith(f":{name}")]


async def _done(client: httpx.AsyncClient, method: str, path: str, **body: object) -> dict[str, str]:
    answer = await client.request(method, path, **body)  # type: ignore[arg-type]
    assert answer.is_success, (method, path, answer.text)
    found: dict[str, str] = answer.json()["data"]
    return found


async def _everything(client: httpx.AsyncClient) -> None:
    """Change something of every kind there is."""
    job = (await _done(client, "POST", "/v1/bulk/jobs", files=LIST, data={"mode": "fast"}))["job_id"]
    schedule = {"job_id": job, "cron": "0 6 1 * *", "name": "Monthly"}
    made = await _done(client, "POST", "/v1/bulk/schedules", json=schedule)
    await _done(client, "PATCH", f"/v1/bulk/schedules/{made['schedule_id']}", json={"cron": "0 7 1 * *"})
    await _done(client, "DELETE", f"/v1/bulk/schedules/{made['schedule_id']}")
    hook = (await _done(client, "POST", "/v1/webhooks", json={"url": HOOK}))["webhook_id"]
    await _done(client, "PATCH", f"/v1/webhooks/{hook}", json={"enabled": False})
    await _done(client, "POST", f"/v1/webhooks/{hook}/rotate", json={"overlap": 3_600})
    await _done(client, "DELETE", f"/v1/webhooks/{hook}")
    await _done(client, "PUT", "/v1/policy", json={"tiers": {"role": "review"}})
    banned = {"emails": ["eve@example.com", "bob@example.com"]}
    await _done(client, "POST", "/v1/suppressions", json=banned)
    await _done(client, "POST", "/v1/suppressions", json=banned)  # nothing changes, nothing is written down
    await _done(client, "POST", "/v1/suppressions/remove", json={"emails": ["eve@example.com"]})
    await _done(client, "POST", f"/v1/bulk/jobs/{job}/cancel")
    await _done(client, "DELETE", f"/v1/bulk/jobs/{job}")


async def test_every_change_by_a_key_is_a_sentence_with_the_keys_name_and_no_address_or_secret(
    local: Api,
) -> None:
    async with signed_in(local) as owner, await _named(local, "CI") as client:
        await _everything(client)
        await client.get("/v1/bulk/jobs")
        [who] = await _actors(local, "CI")
        log = (await owner.get("/account/log.jsonl", params={"who": who})).text
        lines = [json.loads(line) for line in reversed(log.splitlines())]
        key = "The key “CI”"
        assert [line["sentence"] for line in lines] == [
            f"{key} started “spring.csv” (fast)",
            f"{key} created the schedule “Monthly” (cron: 0 6 1 * *)",
            f"{key} changed the schedule “Monthly” (cron: 0 7 1 * *)",
            f"{key} deleted the schedule “Monthly” (cron: 0 7 1 * *)",
            f"{key} registered the webhook 127.0.0.1 (events: all)",
            f"{key} disabled the webhook 127.0.0.1",
            f"{key} rotated the secret of the webhook 127.0.0.1 (old secret also signs: for 1 hour)",
            f"{key} deleted the webhook 127.0.0.1",
            f"{key} changed the policy",
            f"{key} suppressed 2 addresses",
            f"{key} allowed mail again to 1 address",
            f"{key} cancelled “spring.csv” (fast)",
            f"{key} deleted “spring.csv” (fast)",
        ]
        assert "secret-path" not in log
        assert "eve@" not in log
        page = words((await owner.get("/account/log", params={"who": who, "what": "schedules"})).text)
        assert f"{key} created the schedule “Monthly”" in page
        assert "deleted “spring.csv”" not in page


async def test_people_and_keys_of_one_connection_are_told_apart_and_our_own_changes_have_no_line(
    local: Api,
) -> None:
    async with signed_in(local) as owner, await _named(local, "") as client:
        job = (await _done(client, "POST", "/v1/bulk/jobs", files=LIST, data={"mode": "fast"}))["job_id"]
        await post(owner, f"/jobs/{job}/cancel", page="/")
        async with open_container(local.settings) as container:
            await container.jobs.delete(
                await container.jobs.account("alice"), JobId(UUID(job))
            )  # as maintenance would
        found = await sql(
            local.settings, "SELECT actor, action FROM audit WHERE action LIKE 'job.%' ORDER BY id"
        )
        lines = [(re.sub("^owner.*", "an owner", str(actor)), action) for actor, action in found]
        assert [(re.sub("^key:.*", "a key", actor), action) for actor, action in lines] == [
            ("a key", "job.create"),
            ("an owner", "job.cancel"),
        ]
        assert "A key without a name started" in words((await owner.get("/account/log")).text)


async def test_two_keys_of_one_name_are_told_apart_by_the_filter(local: Api) -> None:
    async with signed_in(local) as owner, await _named(local, "CI") as one, await _named(local, "CI") as two:
        await _done(one, "PUT", "/v1/policy", json={"tiers": {"role": "review"}})
        await _done(two, "POST", "/v1/suppressions", json={"emails": ["eve@example.com"]})
        actors = await _actors(local, "CI")
        logs = [(await owner.get("/account/log", params={"who": actor})).text for actor in actors]
    assert sorted("changed the policy" in words(log) for log in logs) == [False, True]
    assert sorted("suppressed" in words(log) for log in logs) == [False, True]
    assert all(f"The key “CI” ({actor.split(':')[1]}…)" in words(logs[0]) for actor in actors)


async def test_what_is_typed_in_a_terminal_stands_in_the_log_too(local: Api) -> None:
    line = CommandLine(local.settings)
    made = await asyncio.to_thread(line.run, "keys", "create", "-a", "alice", "--name", "Night", "--json")
    key = json.loads(made.out)
    await asyncio.to_thread(line.run, "keys", "revoke", key["id"], "-a", "alice")
    async with signed_in(local) as owner:
        log = (await owner.get("/account/log.jsonl", params={"who": "cli", "what": "keys"})).text
    sentences = [json.loads(one)["sentence"] for one in log.splitlines()]
    assert [sentence.partition(" (")[0] for sentence in sentences] == [
        "The command line revoked the key “Night”",
        "The command line created the key “Night”",
    ]
    assert key["key"] not in log
