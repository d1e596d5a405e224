"""What people ask of jobs, on real servers: who may, when it is too late, and what a job says of itself."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typing_extensions import override

from mailsift.cli.jobs import find_job
from mailsift.container import OtherParts, open_service
from mailsift.jobs.service import JobService
from mailsift.jobs.views import AccountId, JobId, JobOptions
from mailsift.pipeline.facts import Mode
from mailsift.sandbox.client import SandboxProcess
from mailsift.settings import Settings
from mailsift.storage.blobs import Blobs, JobBlobs
from mailsift.storage.states import ENDED, JobState, JobTransition
from tests.support.installation import code_of
from tests.support.ready_jobs import FAST, Gate, Planter, caught, engine_on, work_until_ended

DEEP = JobOptions(mode=Mode.DEEP)
ADDRESSES = [f"user{n}@example.com" for n in range(4)]
Verb = Callable[[JobService, AccountId, JobId], Awaitable[object]]
VERBS: dict[JobTransition | None, Verb] = {
    JobTransition.PAUSE: JobService.pause,
    JobTransition.RESUME: JobService.resume,
    JobTransition.CANCEL: JobService.cancel,
    None: JobService.retry,
}

WITHOUT_RESULTS = {
    JobState.COMPLETED: "blob_not_found",
    JobState.FAILED: "no_results_yet",
    JobState.CANCELLED: "no_results_yet",
}
"""Why a job that has ended, but never had a verdict, cannot be retried."""


@pytest.fixture(scope="module")
def sandbox() -> Iterator[SandboxProcess]:
    with SandboxProcess(domains=1, greylist_seconds=600) as running:
        yield running


async def rows(service: JobService, account: AccountId, job_id: JobId) -> list[dict[str, Any]]:
    async with service.browser.results(account, job_id) as path:
        return pl.read_parquet(path).to_dicts()


async def test_a_submitted_list_becomes_a_job_with_counts_of_rows(
    settings: Settings, service: JobService, tmp_path: Path
) -> None:
    source = tmp_path / "Kunden.csv"
    source.write_text("id,email\n1,a@example.com\n2,A@EXAMPLE.com\n3,broken\n4,b@mailinator.com\n")
    account = await service.account("tests")
    assert await service.account("tests") == account
    job = await service.submit(account, source, replace(FAST, evidence=True))
    before = await service.get(account, job)
    assert (before.state, before.name, before.started_at) == (JobState.UPLOADING, "Kunden.csv", None)
    async with engine_on(settings) as engine:
        after = await work_until_ended(engine, service, account, job)
    assert (after.state, after.total, after.addresses, after.duplicates) == (JobState.COMPLETED, 4, 3, 1)
    assert (after.processed, after.valid, after.invalid, after.risky) == (4, 2, 1, 1)
    assert after.started_at is not None
    assert after.finished_at is not None
    assert before.created_at <= after.started_at <= after.finished_at
    assert [view.id for view in (await service.page(account, limit=20)).jobs] == [job]
    found = await rows(service, account, job)
    assert [row["c0"] for row in found] == ["1", "2", "3", "4"]
    assert [json.loads(row["mailsift_evidence"])["disposable"] for row in found] == [False] * 3 + [True]


async def test_the_evidence_is_written_only_when_asked_for(
    settings: Settings, planter: Planter, service: JobService
) -> None:
    account, job = await planter.plant(ADDRESSES)
    async with engine_on(settings) as engine:
        await work_until_ended(engine, service, account, job)
    assert "mailsift_evidence" not in (await rows(service, account, job))[0]


async def test_a_job_of_another_account_cannot_be_found(planter: Planter, service: JobService) -> None:
    _, job = await planter.plant(ADDRESSES, account="owner")
    stranger = await service.account("stranger")
    for ask in (JobService.get, JobService.has_ended, rows, *VERBS.values()):
        assert await code_of(ask(service, stranger, job)) == "job_not_found"
    assert (await service.page(stranger, limit=20)).jobs == []


@pytest.mark.parametrize("step", list(VERBS), ids=lambda step: step.name if step else "RETRY")
async def test_what_a_job_cannot_do_in_its_state_is_a_conflict(
    step: JobTransition | None, planter: Planter, service: JobService
) -> None:
    account, job = await planter.plant(ADDRESSES)
    for state in JobState:
        await planter.sql(
            "WITH forgotten AS (DELETE FROM event) "
            "UPDATE job SET state = :state, finished_at = CASE WHEN :ended THEN clock_timestamp() END",
            state=state.value,
            ended=state in ENDED,
        )
        expected = "" if step is not None and state in step.sources else "job_state_conflict"
        if step is None:
            expected = WITHOUT_RESULTS.get(state, "job_state_conflict")
        assert await code_of(VERBS[step](service, account, job)) == expected, state


async def test_a_paused_job_is_left_alone_and_goes_on_when_resumed(
    settings: Settings, planter: Planter, service: JobService
) -> None:
    account, job = await planter.plant(ADDRESSES, chunk=1)
    async with engine_on(settings) as engine:
        await service.pause(account, job)
        await engine.drain()
        paused = await service.get(account, job)
        assert (paused.state, paused.processed) == (JobState.PAUSED, 0)
        await service.resume(account, job)
        assert (await work_until_ended(engine, service, account, job)).valid == 4


async def test_what_is_being_worked_on_when_a_job_is_paused_is_finished(
    settings: Settings, planter: Planter, service: JobService
) -> None:
    account, job = await planter.plant(ADDRESSES)
    async with engine_on(settings, gate := Gate()) as engine:
        draining = await caught(engine, gate)
        await service.pause(account, job)
        gate.opened.set()
        await draining
        assert (await work_until_ended(engine, service, account, job)).state is JobState.COMPLETED


async def test_what_a_run_has_no_verdict_for_yet_is_not_missing_from_its_list(
    settings: Settings, planter: Planter, service: JobService
) -> None:
    account, before = await planter.plant([*ADDRESSES, "gone@example.com"])
    async with engine_on(settings) as engine:
        await work_until_ended(engine, service, account, before)
        _, after = await planter.plant([*ADDRESSES, "new@example.com"], chunk=1)
        await planter.sql(
            "UPDATE chunk SET ready_at = clock_timestamp() + interval '1 h' WHERE n > 1 AND job_id = :id",
            id=after,
        )
        await engine.drain()
        so_far = await service.diff(account, before, after, limit=5)
        assert (so_far.compared, so_far.only_before, so_far.only_after) == (2, 1, 0)
        back = await service.diff(account, after, before, limit=5)
        assert (back.compared, back.only_before, back.only_after) == (2, 0, 1)
        await planter.sql("UPDATE chunk SET ready_at = clock_timestamp()")
        await work_until_ended(engine, service, account, after)
    whole = await service.diff(account, before, after, limit=5)
    assert (whole.compared, whole.only_before, whole.only_after) == (4, 1, 1)


async def test_the_verdicts_of_a_job_that_is_not_over_can_be_fetched_and_those_of_a_cancelled_one(
    settings: Settings, planter: Planter, service: JobService
) -> None:
    account, job = await planter.plant(ADDRESSES, chunk=1)
    assert await code_of(rows(service, account, job)) == "no_results_yet"
    await planter.sql("UPDATE chunk SET ready_at = clock_timestamp() + interval '1 h' WHERE n > 1")
    async with engine_on(settings) as engine:
        await engine.drain()
    partial = await rows(service, account, job)
    assert [row["c0"] for row in partial] == ADDRESSES[:2]
    await service.cancel(account, job)
    assert await rows(service, account, job) == partial
    view = await service.get(account, job)
    assert (view.state, view.processed, view.error_code) == (JobState.CANCELLED, 2, "cancelled")


class Completing(Blobs):
    """A store whose segments vanish while they are fetched, as they do when a job completes."""

    async def completes(self, planter: Planter, results: Path) -> None:
        self._planter, self._finished = planter, results

    @override
    async def fetch(self, key: str) -> Path:
        if "/segments/" in key:
            job = key.split("/")[1]
            await self.put_file(JobBlobs(job).results, self._finished)  # type: ignore[arg-type]  # only a name
            await self._planter.sql("UPDATE job SET state = 'completed', finished_at = clock_timestamp()")
            await self.delete(key)
        return await super().fetch(key)


async def test_results_that_complete_while_they_are_read_are_given_whole(
    settings: Settings, planter: Planter, tmp_path: Path
) -> None:
    account, job = await planter.plant(ADDRESSES, chunk=1)
    await planter.sql("UPDATE chunk SET ready_at = clock_timestamp() + interval '1 h' WHERE n > 1")
    async with engine_on(settings) as engine:
        await engine.drain()
    whole = tmp_path / "whole.parquet"
    pl.DataFrame({"c0": ADDRESSES}).write_parquet(whole)
    racing = Completing(settings.blobs, settings.home / "blob-cache")
    await racing.completes(planter, whole)
    async with open_service(settings, OtherParts(blobs=racing)) as reading:
        found = await rows(reading, account, job)
    assert found == [{"c0": address} for address in ADDRESSES]


GREYLISTED = [f"known{n}@greylist-named.sandbox.test" for n in range(3)]


async def test_a_job_says_what_it_waits_for(
    settings: Settings, planter: Planter, service: JobService
) -> None:
    account, job = await planter.plant([*GREYLISTED, "known1@exim.sandbox.test"], options=DEEP)
    async with engine_on(settings) as engine:
        await engine.drain()
    view = await service.get(account, job)
    (wait,) = view.waiting
    assert (view.state, view.processed, view.valid) == (JobState.RUNNING, 1, 1)
    assert (wait.reason, wait.addresses) == ("greylisted", 3)
    left = (wait.until - datetime.now(UTC)).total_seconds()  # noqa: TID251 - the database's clock is the real one
    assert 500 < left <= 700


async def test_a_deadline_ends_the_waiting_with_deferred(
    settings: Settings, planter: Planter, service: JobService
) -> None:
    account, job = await planter.plant([*GREYLISTED, "known1@exim.sandbox.test"], options=DEEP)
    await planter.sql("UPDATE job SET deadline_at = created_at + interval '2 s'")
    async with engine_on(settings) as engine:
        await engine.drain()
        (wait,) = (await service.get(account, job)).waiting
        view = await work_until_ended(engine, service, account, job)
    assert wait.until <= view.created_at + timedelta(seconds=2)
    assert (view.state, view.valid, view.risky) == (JobState.COMPLETED, 1, 3)
    assert view.chunks == 2  # who waited was asked once more, and no more
    results = [row["mailsift_result"] for row in await rows(service, account, job)]
    assert results == ["deferred"] * 3 + ["deliverable"]


async def test_a_young_verdict_is_used_again_unless_it_must_be_fresh(
    settings: Settings, planter: Planter, service: JobService, sandbox: SandboxProcess
) -> None:
    cached, asked = [], []
    async with engine_on(settings) as engine:
        for max_age in (3_600.0, 3_600.0, 0.0):
            sandbox.reset()
            options = replace(DEEP, max_age=max_age, evidence=True)
            account, job = await planter.plant(["known7@ordinary.sandbox.test"], options=options)
            await work_until_ended(engine, service, account, job)
            (row,) = await rows(service, account, job)
            assert row["mailsift_result"] == "deliverable"
            cached.append(json.loads(row["mailsift_evidence"])["mailbox"]["cached"])
            asked.append(sandbox.counters()["rcpts"] > 0)
    assert cached == [False, True, False]
    assert asked == [True, False, True]


async def test_a_retry_is_a_new_job_over_what_ended_unknown_and_takes_nothing_from_memory(
    settings: Settings, planter: Planter, service: JobService
) -> None:
    unknown = [f"known{n}@servfail.sandbox.test" for n in range(2)]
    options = replace(DEEP, evidence=True, preview=3)
    account, job = await planter.plant(["known1@exim.sandbox.test", *unknown], options=options)
    async with engine_on(settings) as engine:
        await work_until_ended(engine, service, account, job)
        again = await service.retry(account, job)
        view = await work_until_ended(engine, service, account, again)
        once_more = await service.get(account, await service.retry(account, again))
    assert (view.parent_id, view.total, view.risky, view.name) == (job, 2, 2, "list (retry)")
    assert (once_more.parent_id, once_more.name) == (again, "list (retry)")
    part = replace(options, preview=0, part=True)  # no sample of a list, but some rows of one
    assert view.options == replace(part, max_age=0.0, column="email", name="list (retry)")
    assert [row["c0"] for row in await rows(service, account, again)] == unknown


async def test_where_nothing_is_unknown_there_is_nothing_to_retry(
    settings: Settings, planter: Planter, service: JobService
) -> None:
    account, job = await planter.plant(ADDRESSES)
    async with engine_on(settings) as engine:
        await work_until_ended(engine, service, account, job)
    assert await code_of(service.retry(account, job)) == "nothing_to_retry"


async def test_a_job_is_found_by_how_its_id_begins_however_many_came_after_it(
    settings: Settings, service: JobService, tmp_path: Path
) -> None:
    planter = Planter(settings, tmp_path)
    account, oldest = await planter.plant(ADDRESSES)
    await planter.sql("CREATE TABLE later AS SELECT job.* FROM job, generate_series(1, 1000)")
    await planter.sql(
        "UPDATE later SET id = overlay(gen_random_uuid()::text placing :other from 1)::uuid,"
        " created_at = created_at + interval '1 minute'",
        other="0" if str(oldest)[0] != "0" else "1",
    )
    await planter.sql("INSERT INTO job SELECT * FROM later")
    for given in (str(oldest), str(oldest)[:8], str(oldest)[:8].upper()):
        assert await find_job(service, account, given) == oldest
    for given, code in (
        ("", "job_not_found"),
        ("%", "job_not_found"),
        (("0", "1")[str(oldest)[0] == "0"], "job_ambiguous"),
    ):
        assert await code_of(find_job(service, account, given)) == code
    assert (
        await code_of(find_job(service, await service.account("other"), str(oldest)[:8])) == "job_not_found"
    )
