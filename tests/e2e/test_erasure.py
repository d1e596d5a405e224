"""What is deleted is gone: every table, every Redis key and value and every file is searched for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import text

from mailsift.container import open_container
from mailsift.sandbox.client import SandboxProcess
from mailsift.settings import Settings
from tests.support.commands import CommandLine
from tests.support.installation import until
from tests.support.leftovers import count_redis, in_files, in_redis, in_tables, places_below
from tests.support.parts import open_database
from tests.support.receiver import Receiver, receiving, status
from tests.support.serving import address, command
from tests.support.workers import workers

JOBS, HOOKS, SCHEDULES = "/v1/bulk/jobs", "/v1/webhooks", "/v1/bulk/schedules"
OUTCOMES, RECEIVERS = "/v1/outcomes", "/v1/outcomes/receivers"
MARK = "canary7f3a"
LIST = "".join(
    f"{MARK} person {n},{name}@{host}.sandbox.test\n"
    for n, (name, host) in enumerate(
        [
            ("known1", "ordinary"),
            ("nobody1", "ordinary"),
            (f"{MARK}.one", "ordinary"),
            (f"{MARK}.two", "exim"),
            (f"{MARK}.three", "catch-all"),
            (f"{MARK}..broken", "ordinary"),
            (f"{MARK}.four", "nxdomain"),
        ]
    )
)
BROKEN = f'email,note\n"{MARK}@ordinary.sandbox.test,never closed\n'


@pytest.fixture
def settings(make_settings: Callable[..., Settings], sandbox: SandboxProcess) -> Settings:
    return make_settings(sandbox=sandbox.env, api_port=0, webhook_allow_http=True)


async def _ended(client: httpx.AsyncClient, job_id: str) -> dict[str, Any]:
    job: dict[str, Any] = (await client.get(f"{JOBS}/{job_id}", params={"wait": 60})).json()["data"]
    assert job["finished_at"], job
    return job


async def _live(client: httpx.AsyncClient, receiver: Receiver) -> None:
    """Use everything an account can use, with the mark wherever a customer may write."""
    hook = {"url": f"{receiver.url}/{MARK}"}
    assert (await client.post(HOOKS, json=hook)).status_code == 201
    single = {"email": f"{MARK}.alone@ordinary.sandbox.test"}
    assert (await client.post("/v1/email/single-validate", json=single)).json()["data"]["smtp_code"] == 550
    options = {
        "name": f"{MARK} list",
        "metadata": json.dumps({"team": MARK}),
        "column": "email",
        "evidence": "true",
    }
    sent = await client.post(
        JOBS,
        data=options,
        files={"file": (f"{MARK}.csv", f"name,email\n{LIST}", "text/csv")},
        headers={"Idempotency-Key": f"once-{MARK}"},
    )
    whole = sent.json()["data"]["job_id"]
    done = await _ended(client, whole)
    assert (done["status"], done["total_emails"]) == ("completed", 7)
    assert MARK in (await client.get(f"{JOBS}/{whole}/results")).text
    broken = await client.post(JOBS, content=BROKEN, headers={"Content-Type": "text/csv"})
    failed = broken.json()["data"]["job_id"]
    assert (await _ended(client, failed))["status"] == "failed"
    schedule = {"job_id": whole, "cron": "0 6 * * *", "name": f"{MARK} weekly", "recheck": "risky"}
    made = (await client.post(SCHEDULES, json=schedule)).json()["data"]["id"]
    run = (await client.post(f"{SCHEDULES}/{made}/run")).json()["data"]["job_id"]
    await _ended(client, run)

    bounced = f"{MARK}.sent@ordinary.sandbox.test"
    csv = f"email,event,reason\n{bounced},bounce,550 5.1.1 <{bounced}> user unknown\n"
    outcome = await client.post(OUTCOMES, content=csv, headers={"Content-Type": "text/csv"})
    assert outcome.json()["data"]["taken"] == 1
    listed = await client.post("/v1/suppressions/import", content=csv, headers={"Content-Type": "text/csv"})
    assert listed.json()["data"]["taken"] == 1
    assert (await client.post(RECEIVERS, json={"sender": "brevo", "name": MARK})).status_code == 201

    async def is_told() -> bool:
        return len(receiver.requests) >= 3

    await until(is_told, within=30)  # of each job's end, and answered with the mark


async def _delete(client: httpx.AsyncClient, _: Settings) -> None:
    for schedule in (await client.get(SCHEDULES)).json()["data"]["schedules"]:
        await client.delete(f"{SCHEDULES}/{schedule['id']}")
    for hook in (await client.get(HOOKS)).json()["data"]["webhooks"]:
        await client.delete(f"{HOOKS}/{hook['id']}")
    for one in (await client.get(RECEIVERS)).json()["data"]["receivers"]:
        await client.delete(f"{RECEIVERS}/{one['receiver_id']}")
    for job in (await client.get(JOBS)).json()["data"]["jobs"]:
        assert (await client.delete(f"{JOBS}/{job['job_id']}")).status_code == 200


async def _expire(client: httpx.AsyncClient, settings: Settings) -> None:
    database = open_database(settings)
    async with database.begin() as connection:
        past = "expires_at = clock_timestamp() - interval '1 second'"
        await connection.execute(text(f"UPDATE job SET {past}"))  # noqa: S608 - a literal
        await connection.execute(text("DELETE FROM schedule"))
        await connection.execute(text("DELETE FROM endpoint"))
        await connection.execute(text("DELETE FROM receiver"))
    await database.aclose()

    async def gone() -> bool:
        return not (await client.get(JOBS)).json()["data"]["jobs"]

    await until(gone, within=30)


async def _close_account(client: httpx.AsyncClient, settings: Settings) -> None:
    hesitated = CommandLine(settings).run("accounts", "delete", f"acme {MARK}", stdin="n\n")
    assert (hesitated.status, hesitated.out.strip()) == (1, "")
    assert (await client.get(JOBS)).status_code == 200
    typed = CommandLine(settings).run("accounts", "delete", f"acme {MARK}", "--yes")
    assert (typed.status, typed.err) == (0, "Deleted.\n")
    assert (await client.get(JOBS)).status_code == 401
    again = CommandLine(settings).run("accounts", "delete", f"acme {MARK}")
    assert "?" not in again.out + again.err  # nothing is asked
    assert (again.status, again.err.split(":")[1].strip()) == (2, "account_not_found")


@pytest.mark.parametrize("end", [_delete, _expire, _close_account])
async def test_nothing_is_left_of_what_is_deleted(end: Any, settings: Settings, tmp_path: Path) -> None:
    async with open_container(settings) as container:
        account = await container.jobs.account("acme" if end is not _close_account else f"acme {MARK}")
        key = (await container.keys.create(account, name="laptop")).secret
        other = await container.jobs.account("other")
        await container.keys.create(other, name="theirs")
    log = tmp_path / "api.log"
    async with receiving(status(500, body=f"I know {MARK}".encode())) as receiver:
        with workers(settings, 1, tmp_path / "worker.log"):
            headers = {"Authorization": f"Bearer {key}"}
            async with (
                command(settings, log, "api"),
                httpx.AsyncClient(base_url=await address(log), headers=headers, timeout=90) as client,
            ):
                await _live(client, receiver)
                before = await in_tables(settings, MARK)
                assert before >= {"job", "schedule", "endpoint", "attempt", "idempotency", "receiver"}
                assert "outcome" not in before  # addresses in it are hidden with the account's key
                blobs = settings.home / "blobs"
                kinds = {Path(file).name for file in in_files(blobs, MARK)}
                assert kinds >= {"source", "rows.parquet", "addresses.parquet", "results.parquet"}
                await end(client, settings)

                async def gone() -> bool:
                    return not in_files(settings.home, MARK)

                await until(gone, within=30)
                named = set() if end is _close_account else {"audit"}  # tells what there was, by its name
                assert await in_tables(settings, MARK) == named
                assert await in_tables(settings, f"/{MARK}") | await in_tables(settings, f"{MARK}.") == set()
                assert await count_redis(settings) > 3
                assert await in_redis(settings, MARK) == set()
                assert not [place for place in places_below(blobs) if place.is_file()]
    if end is _close_account:
        assert await in_tables(settings, str(account)) == set()
        assert "account" in await in_tables(settings, str(other))
