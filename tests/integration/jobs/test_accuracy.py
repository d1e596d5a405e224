"""Verdicts of lists are held against what happened to messages that were sent after them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from uuid import UUID

import pytest

from mailsift.container import Container, open_service
from mailsift.jobs.erasure import Erasable
from mailsift.jobs.outcomes.accuracy import AccuracyRow, GroupBy, Measurer
from mailsift.jobs.views import AccountId, JobId
from mailsift.pipeline.clock import system_clock
from mailsift.pipeline.outcomes.chances import Cell
from mailsift.pipeline.outcomes.outcome import ACCEPTED, Outcome, OutcomeKind, diagnose
from mailsift.storage.blobs import JobBlobs
from tests.support.ready_jobs import Planter, engine_on, work_until_ended

FIRST, LAST = date(2020, 1, 1), date(2100, 1, 1)
GONE = "550 5.1.1 User unknown"


async def judged(
    planter: Planter,
    addresses: list[str],
    *,
    days_ago: float,
    account: str = "tests",
    parent: JobId | None = None,
    small: bool = True,
) -> tuple[AccountId, JobId]:
    """Return a complete job that ended so long ago."""
    account_id, job_id = await planter.plant(addresses, account=account, small=small)
    async with engine_on(planter.settings) as engine, open_service(planter.settings) as service:
        await work_until_ended(engine, service, account_id, job_id)
    sql = """UPDATE job SET parent_id = :parent, finished_at = clock_timestamp() - make_interval(secs => :s)
        WHERE id = :id"""
    await planter.sql(sql, s=days_ago * 86_400, id=job_id, parent=parent)
    return account_id, job_id


def reported(address: str, kind: OutcomeKind, days_ago: float, text: str = "") -> Outcome:
    at = system_clock() - days_ago * 86_400
    return Outcome(address, kind, at, diagnose(text) if text else ACCEPTED, "file")


async def count(container: Container, planter: Planter) -> None:
    """Let everything that was told be counted now."""
    await planter.sql("UPDATE measurement SET due_at = clock_timestamp()")
    measurer = Measurer(
        database=container.database, blobs=container.blobs, outcomes=container.outcomes, job_rest_s=0
    )
    await measurer.sweep()


async def report(
    container: Container, account: AccountId | None, *by: GroupBy
) -> dict[tuple[str, ...], AccuracyRow]:
    return {row.group: row for row in await container.accuracy.report(account, by, FIRST, LAST)}


async def test_a_verdict_is_held_against_what_came_after_it(container: Container, planter: Planter) -> None:
    names = [f"u{n}@example.com" for n in range(8)]
    account, _ = await judged(planter, [*names, "no address"], days_ago=40)
    await container.outcomes.record(
        account,
        [
            reported(names[0], OutcomeKind.DELIVERED, 39),
            reported(names[1], OutcomeKind.BOUNCED, 39, GONE),
            reported(names[2], OutcomeKind.DELIVERED, 39),
            reported(names[2], OutcomeKind.BOUNCED, 37, GONE),  # a bounce that came late
            reported(names[3], OutcomeKind.BOUNCED, 41, GONE),  # before the verdict
            reported(names[4], OutcomeKind.BOUNCED, 39, "451 4.3.0 try again later"),
            reported(names[5], OutcomeKind.BOUNCED, 39, "550 5.7.1 blocked by policy"),
            reported("stranger@example.com", OutcomeKind.DELIVERED, 1),
        ],
    )
    await count(container, planter)
    row = (await report(container, account))[()]
    assert (row.judged, row.known) == (9, 0)
    assert row.coverage is not None
    assert (row.coverage.value, row.coverage.n) == (1.0, 9)
    assert row.false_valid is not None
    assert (row.false_valid.value, row.false_valid.n) == (0.5, 4)
    assert row.delivered is not None
    assert (row.delivered.value, row.delivered.n) == (0.25, 4)
    assert row.false_invalid is None

    # What comes later is counted when it comes, and once.
    await container.outcomes.record(account, [reported(names[4], OutcomeKind.DELIVERED, 38)])
    await count(container, planter)
    await count(container, planter)
    row = (await report(container, account))[()]
    assert row.delivered is not None
    assert (row.delivered.value, row.delivered.n) == (0.4, 5)
    assert row.judged == 9


async def test_the_newest_verdict_answers_and_what_an_outcome_decided_counts_apart(
    container: Container, planter: Planter
) -> None:
    names = ["a@example.com", "b@example.com"]
    account, _ = await judged(planter, names, days_ago=30)
    await container.outcomes.record(
        account,
        [reported(names[0], OutcomeKind.DELIVERED, 29), reported(names[1], OutcomeKind.BOUNCED, 29, GONE)],
    )
    await judged(planter, names, days_ago=20)  # these two know
    await container.outcomes.record(account, [reported(names[0], OutcomeKind.BOUNCED, 10, GONE)])
    await count(container, planter)
    row = (await report(container, account))[()]
    assert (row.judged, row.known) == (2, 1)
    assert row.delivered is not None
    assert (row.delivered.value, row.delivered.n) == (0.5, 2)
    by_result = await report(container, account, GroupBy.RESULT, GroupBy.MODE)
    assert by_result["deliverable", "fast"].known == 1


async def test_segments_of_a_big_job_go_although_who_completed_it_did_not_hear_of_that(
    container: Container, planter: Planter
) -> None:
    left = {}
    for small in (True, False):
        _, job = await judged(planter, ["a@example.com"], days_ago=1, small=small)
        keys = JobBlobs(job)
        for key in (keys.segment(0, job, b""), keys.deferred(0, job)):
            await container.blobs.put_bytes(key, b"")
        await count(container, planter)
        left[small] = await container.blobs.list(keys.segments), await container.blobs.list(keys.residual)
        assert await container.blobs.exists(keys.results)
    assert left[False] == ((), ())
    assert all(left[True])  # of a small one they stay


async def test_a_rerun_within_a_week_shows_how_stable_verdicts_are(
    container: Container, planter: Planter
) -> None:
    account, first = await judged(planter, ["a@example.com", "nothing", "b@example.com"], days_ago=23)
    await judged(planter, ["a@example.com", "b@example.com"], days_ago=20, parent=first)
    await judged(planter, ["a@example.com"], days_ago=1, parent=first)  # too late to tell
    await count(container, planter)
    row = (await report(container, account))[()]
    assert row.stability is not None
    assert (row.stability.value, row.stability.n) == (1.0, 2)


async def test_outcomes_that_are_erased_while_they_are_counted_up_leave_nothing(
    container: Container, planter: Planter, monkeypatch: pytest.MonkeyPatch
) -> None:
    account, _ = await judged(planter, ["a@example.com"], days_ago=30)
    await container.outcomes.record(account, [reported("a@example.com", OutcomeKind.DELIVERED, 29)])
    (person,) = await planter.sql(
        "INSERT INTO person (email, password) VALUES ('a@b.test', 'x') RETURNING id"
    )
    digester = container.outcomes.digester
    erased: list[UUID] = []

    async def erase_first(account_id: UUID) -> Callable[[str], bytes]:
        if not erased:
            receipt = await container.holdings.erase(
                account, [Erasable.OUTCOMES], person_id=person["id"], actor="owner"
            )
            erased.append(receipt)
        return await digester(account_id)

    monkeypatch.setattr(container.outcomes, "digester", erase_first)
    await count(container, planter)
    assert erased
    assert await planter.sql("SELECT 1 FROM measured_verdict UNION ALL SELECT 1 FROM outcome") == []


async def test_many_lists_of_an_account_are_counted_at_once(container: Container, planter: Planter) -> None:
    account, _ = await judged(planter, ["a@example.com"], days_ago=1)
    await planter.sql("""
        INSERT INTO job SELECT (jsonb_populate_record(job, jsonb_build_object('id', gen_random_uuid()))).*
        FROM job, generate_series(1, 300)
    """)
    await count(container, planter)
    assert (await report(container, account))[()].judged == 1  # the copies have no verdicts
    assert await planter.sql("SELECT count(*) AS n FROM job WHERE NOT measured") == [{"n": 0}]


async def test_accounts_do_not_see_each_other_and_operators_see_sums(
    container: Container, planter: Planter
) -> None:
    ann, _ = await judged(planter, ["a@example.com"], days_ago=3)
    bob, _ = await judged(planter, ["b@example.com"], days_ago=3, account="bob")
    await container.outcomes.record(bob, [reported("b@example.com", OutcomeKind.DELIVERED, 1)])
    await count(container, planter)
    assert (await report(container, ann))[()].delivered is None
    everybody = (await report(container, None))[()]
    assert everybody.judged == 2
    assert everybody.delivered is not None
    await container.eraser.account(bob)
    left = await planter.sql("SELECT count(*) AS n FROM measured_verdict WHERE account_id = :id", id=bob)
    assert left[0]["n"] == 0


async def test_of_one_other_account_alone_nothing_is_given_away(
    container: Container, planter: Planter
) -> None:
    ann, bob, cy = [await container.jobs.account(name) for name in ("ann", "bob", "cy")]
    cell = Cell("valid", "deliverable", "google", 95)

    async def knows(account: AccountId, n: int, *, known: bool = False, held_out: bool = False) -> None:
        sql = """INSERT INTO accuracy (account_id, day, mode, provider, status, result, score, what, known,
            held_out, n) VALUES (:id, CURRENT_DATE, 'deep', 'google', 'valid', 'deliverable', 95, 'delivered',
            :known, :held_out, :n)"""
        await planter.sql(sql, id=account, known=known, held_out=held_out, n=n)

    await knows(bob, 5_000)
    await knows(cy, 1, known=True)  # neither this one nor one that is kept for measuring counts
    await knows(cy, 1, held_out=True)
    assert (await container.accuracy.chances(ann)).of(cell) is None
    await knows(cy, 1)
    chance = (await container.accuracy.chances(ann)).of(cell)
    assert chance is not None
    assert chance.n == 5_001


async def test_chances_rest_on_verdicts_of_a_year_of_whomever(container: Container, planter: Planter) -> None:
    ann, bob, cy = [await container.jobs.account(name) for name in ("ann", "bob", "cy")]
    sql = """INSERT INTO accuracy (account_id, day, mode, provider, status, result, score, what, known,
        held_out, n) VALUES (:id, CURRENT_DATE - CAST(:days AS int), 'deep', 'google', 'valid', 'deliverable',
        95, :what, false, false, 200)"""
    for account in (ann, bob, cy):
        await planter.sql(sql, id=account, days=360, what="delivered")
        await planter.sql(sql, id=account, days=370, what="gone")
    chance = (await container.accuracy.chances(ann)).of(Cell("valid", "deliverable", "google", 95))
    assert chance is not None
    assert chance.n == 600
    assert chance.value > 0.95
