"""The gauges of the installation against the very database: every state counted, every age right."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from mailsift.storage.database import Connection, Database
from mailsift.storage.sql import stats, throttles, workers
from mailsift.storage.sql.stats import ChunkLevel, CounterDrift, OutboxLevel
from mailsift.storage.sql.workers import ProcessReport

CAP = 2
PROCESS = ProcessReport(
    owner="a:1",
    worker_id="a",
    host="a",
    pid=1,
    version="1",
    slots=2,
    in_hand=0,
    lag_s=0.0,
    rss_bytes=0,
    beat_s=5.0,
    claimed_ago=None,
    swept_ago=None,
)


@dataclass(frozen=True)
class Place:
    """An open transaction on an empty installation, and how to put things into it."""

    connection: Connection
    account: UUID

    async def job(self, state: str, *, age: float = 0.0, size: int = 100, **counts: int) -> UUID:
        job_id = uuid4()
        values = {"total": 10, "processed": 0, "chunks": 0, "chunks_open": 0, **counts}
        await self._run(
            """INSERT INTO job (id, account_id, state, options, source_bytes, total, processed, risky, chunks,
                   chunks_open, created_at)
               VALUES (:id, :account, :state, '{}', :size, :total, :processed, :processed, :chunks,
                   :chunks_open, clock_timestamp() - make_interval(secs => :age))""",
            id=job_id,
            account=self.account,
            state=state,
            size=size,
            age=age,
            **values,
        )
        return job_id

    async def chunk(
        self, job_id: UUID, n: int, state: str = "ready", *, lane: str = "", age: float = 0.0
    ) -> None:
        await self._run(
            """INSERT INTO chunk (job_id, n, state, lane, addresses, source_key, ready_at, lease_token)
               VALUES (:job, :n, :state, :lane, 50, 'k', clock_timestamp() - make_interval(secs => :age),
                   CASE WHEN :state = 'leased' THEN gen_random_uuid() END)""",
            job=job_id,
            n=n,
            state=state,
            lane=lane,
            age=age,
        )

    async def endpoint(
        self, *, enabled: bool = True, failures: int = 0, probe_in: float | None = None
    ) -> UUID:
        endpoint_id = uuid4()
        await self._run(
            """INSERT INTO endpoint
                   (id, account_id, url, enabled, disabled_reason, secret, failures, probe_at)
               VALUES (:id, :account, 'http://x', :enabled, CASE WHEN :enabled THEN '' ELSE 'gone' END, '',
                   :failures, clock_timestamp() + make_interval(secs => :probe))""",
            id=endpoint_id,
            account=self.account,
            enabled=enabled,
            failures=failures,
            probe=probe_in,
        )
        return endpoint_id

    async def delivery(self, endpoint: UUID, *, state: str = "pending", age: float = 0.0) -> None:
        event = uuid4()
        await self._run(
            """INSERT INTO event (id, account_id, type, body, created_at)
               VALUES (:id, :account, 't', '', clock_timestamp())""",
            id=event,
            account=self.account,
        )
        await self._run(
            """INSERT INTO delivery (event_id, endpoint_id, state, next_attempt_at, lease_token)
               VALUES (:event, :endpoint, :state, clock_timestamp() - make_interval(secs => :age),
                   CASE WHEN :state = 'delivering' THEN gen_random_uuid() END)""",
            event=event,
            endpoint=endpoint,
            state=state,
            age=age,
        )

    async def _run(self, statement: str, **values: object) -> None:
        await self.connection.execute(text(statement), values)


@pytest.fixture
async def place(database_url: str) -> AsyncIterator[Place]:
    database = Database(database_url)
    async with database.begin() as connection:
        account = uuid4()
        statement = text("INSERT INTO account (id, name) VALUES (:id, 'a')")
        await connection.execute(statement, {"id": account})
        yield Place(connection, account)
    await database.aclose()


def _by_place(levels: Sequence[ChunkLevel]) -> dict[tuple[str, str], ChunkLevel]:
    return {(level.state, level.key_class): level for level in levels}


async def test_jobs_are_counted_by_state(place: Place) -> None:
    for state in ("running", "running", "paused"):
        await place.job(state)
    assert (await stats.snapshot(place.connection)).jobs == {"running": 2, "paused": 1}


async def test_the_oldest_job_nobody_has_begun_is_told_by_size(place: Place) -> None:
    await place.job("uploading", age=30, size=10)
    await place.job("queued", age=90, size=10)
    await place.job("intake", age=50, size=1_000)
    await place.job("running", age=900, size=10)
    await place.job("intake", age=120, size=0)  # it is being fetched, and may be as long as it likes
    found = (await stats.snapshot(place.connection, small_bytes=100)).oldest_jobs
    assert set(found) == {"small", "large"}
    assert 90 <= found["small"] < 95
    assert 120 <= found["large"] < 125


async def test_chunks_are_counted_by_state_and_kind_of_lane(place: Place) -> None:
    running, paused = await place.job("running"), await place.job("paused")
    await place.chunk(running, 0, age=40)
    await place.chunk(running, 1, "leased", lane="*")
    await place.chunk(running, 2, lane="~", age=-300)
    await place.chunk(running, 3, lane="google", age=70)
    await place.chunk(running, 4, "done")
    await place.chunk(paused, 0, age=500)
    found = _by_place((await stats.snapshot(place.connection, job_cap=CAP)).chunks)
    assert {key: (level.chunks, level.addresses) for key, level in found.items()} == {
        ("ready", "survey"): (1, 50),
        ("leased", "mixed"): (1, 50),
        ("waiting", "slow"): (1, 50),
        ("ready", "provider"): (1, 50),
        ("paused", "survey"): (1, 50),
    }
    for key, seconds in (("survey", 40), ("provider", 70)):
        level = found["ready", key]
        assert seconds <= level.claimable_s == level.oldest_s < seconds + 5
    assert found["waiting", "slow"].oldest_s == found["paused", "survey"].oldest_s == 0


async def test_what_a_claim_would_pass_over_does_not_wait_for_one(place: Place) -> None:
    other, full = await place.job("running"), await place.job("running")
    await place.chunk(other, 0, "leased", lane="google")
    await place.chunk(other, 1, lane="google", age=600)  # its lane is being served
    for n in range(CAP):
        await place.chunk(full, n, "leased")
    await place.chunk(full, CAP, lane="*", age=600)  # its job has as many leases as it may have
    found = _by_place((await stats.snapshot(place.connection, job_cap=CAP)).chunks)
    assert found["ready", "provider"].claimable_s == found["ready", "mixed"].claimable_s == 0
    assert found["ready", "provider"].oldest_s >= 600
    found = _by_place((await stats.snapshot(place.connection, job_cap=CAP + 1)).chunks)
    assert found["ready", "mixed"].claimable_s >= 600


async def test_a_provider_that_may_be_asked_from_no_source_now_is_not_claimable(place: Place) -> None:
    for owner, source in (("a:1", "192.0.2.1"), ("b:1", "192.0.2.2")):
        await workers.report(place.connection, replace(PROCESS, owner=owner, sources=(source,)))
    job = await place.job("running")
    await place.chunk(job, 0, lane="google", age=600)
    await throttles.record_rests(place.connection, {("google", "192.0.2.1"): 900.0})
    found = _by_place((await stats.snapshot(place.connection)).chunks)
    assert found["ready", "provider"].claimable_s >= 600  # the other source may ask
    await throttles.record_rests(
        place.connection, {("google", "192.0.2.2"): 900.0, ("google", "192.0.2.3"): 900.0}
    )
    found = _by_place((await stats.snapshot(place.connection)).chunks)
    assert found["ready", "provider"].claimable_s == 0
    await throttles.record_rests(place.connection, {("google", "192.0.2.2"): -1.0})
    found = _by_place((await stats.snapshot(place.connection)).chunks)
    assert found["ready", "provider"].claimable_s >= 600


async def test_counters_that_agree_do_not_drift(place: Place) -> None:
    job = await place.job("running", chunks=3, chunks_open=2)
    for n, state in enumerate(("done", "ready", "leased")):
        await place.chunk(job, n, state)
    await place.job("finalizing", processed=10)
    assert (await stats.snapshot(place.connection)).drift == []


async def test_counters_that_lie_are_told(place: Place) -> None:
    job = await place.job("running", chunks=5, chunks_open=1)
    for n in range(3):
        await place.chunk(job, n)
    ending = await place.job("finalizing", processed=7)
    found = (await stats.snapshot(place.connection)).drift
    assert set(found) == {CounterDrift(job, 2, 2, 0), CounterDrift(ending, 0, 0, 3)}


async def test_deliveries_are_counted_by_what_they_wait_for(place: Place) -> None:
    well, slow = await place.endpoint(), await place.endpoint(failures=1)
    broken, gone = await place.endpoint(failures=9, probe_in=60), await place.endpoint(enabled=False)
    await place.delivery(well, age=30)
    await place.delivery(well, age=-60)
    await place.delivery(slow, state="delivering")
    await place.delivery(slow, age=300)
    for endpoint in (broken, gone):
        await place.delivery(endpoint, age=900)
    seen = await stats.snapshot(place.connection)
    assert (seen.outbox.pending, seen.outbox.due, seen.outbox.delivering) == (5, 2, 1)
    assert 300 <= seen.outbox.oldest_due_s < 305
    found = {level.state: level for level in seen.outbox.levels}
    assert {state: level.deliveries for state, level in found.items()} == {
        "due": 1,
        "waiting": 1,
        "queued": 1,
        "held": 2,
    }
    assert 30 <= found["due"].oldest_s < 35
    await place.connection.execute(
        text("UPDATE endpoint SET paced_until = clock_timestamp() + interval '1 h'")
    )
    assert "due" not in {level.state for level in (await stats.outbox(place.connection)).levels}
    assert found["waiting"] == OutboxLevel("waiting", 1, 0)
    assert seen.endpoints == {"healthy": 1, "failing": 2, "disabled": 1}


async def test_webhooks_of_test_accounts_are_nobody_s_trouble(place: Place) -> None:
    await place.endpoint()
    statement = text("INSERT INTO account (id, name, test_of) VALUES (:id, 'test:a', :of)")
    of_tests = Place(place.connection, uuid4())
    await place.connection.execute(statement, {"id": of_tests.account, "of": place.account})
    await of_tests.endpoint(failures=3)
    assert (await stats.snapshot(place.connection)).endpoints == {"healthy": 1}


async def test_a_test_of_a_webhook_is_no_delivery_that_arrived_or_was_given_up(place: Place) -> None:
    endpoint = await place.endpoint()
    for state in ("exhausted", "exhausted", "succeeded"):
        await place.delivery(endpoint, state=state)
    await place.connection.execute(text("UPDATE delivery SET finished_at = clock_timestamp()"))
    for state in ("exhausted", "succeeded"):
        await place.delivery(endpoint, state=state)
    tests = "UPDATE delivery SET finished_at = clock_timestamp(), trigger = 'test' WHERE finished_at IS NULL"
    await place.connection.execute(text(tests))
    seen = await stats.outbox(place.connection)
    assert (seen.exhausted, seen.succeeded) == (2, 1)


@pytest.mark.parametrize("column", ["served_at", "probe_at", "paced_until"])
async def test_what_stands_behind_others_at_an_endpoint_that_is_served_is_not_late(
    place: Place, column: str
) -> None:
    endpoint = await place.endpoint()
    await place.delivery(endpoint, state="delivering")
    await place.delivery(endpoint, age=3_600)
    await place.connection.execute(
        text(f"UPDATE endpoint SET {column} = clock_timestamp() - interval '3 s'")  # noqa: S608 - a name of above
    )
    found = await stats.outbox(place.connection)
    assert found.due == 1
    assert 3 <= found.oldest_due_s < 8
    await place.connection.execute(text("DELETE FROM delivery WHERE state = 'delivering'"))
    assert 3 <= (await stats.outbox(place.connection)).oldest_due_s < 8


async def test_a_look_may_not_take_for_ever(place: Place) -> None:
    await stats.limit_time(place.connection, timedelta(milliseconds=50).total_seconds())
    timeout = await place.connection.execute(text("SHOW statement_timeout"))
    assert timeout.scalar_one() == "50ms"


@pytest.mark.parametrize(
    ("mails", "failing"),
    [
        ([], 0),
        ([("pending", 1, 60)], 0),  # it failed once, or is under way
        ([("pending", 2, 200)], 1),
        ([("pending", 2, 200), ("pending", 3, 900), ("skipped", 1, 0), ("given_up", 7, 0)], 2),
        ([("pending", 4, 6_000), ("sent", 1, 550)], 0),  # 50 s ago, after the failure 1,200 s ago
        ([("pending", 4, 6_000), ("sent", 1, -1_000)], 1),  # 1,600 s ago, before it
        ([("pending", 7, 590)], 1),  # under way for the last time
        ([("given_up", 7, 0)], 0),
    ],
)
async def test_mail_fails_until_one_goes_out_or_none_is_left(
    place: Place, mails: list[tuple[str, int, int]], failing: int
) -> None:
    """Each mail has its state, its tries, and the seconds until it would be tried again."""
    for state, tries, due in mails:
        await place.connection.execute(
            text(
                """INSERT INTO notice (account_id, kind, subject_id, since, created_at, state, tries,
                       next_try_at)
                   VALUES (:account, 'webhook_failing', gen_random_uuid(), now(), now(), :state, :tries,
                       clock_timestamp() + make_interval(secs => :due))"""
            ),
            {"account": place.account, "state": state, "tries": tries, "due": due},
        )
    assert (await stats.snapshot(place.connection)).failing_mail == failing
