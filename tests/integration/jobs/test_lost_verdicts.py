"""What a store loses or damages is found again; what cannot be is one order away for its operators."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import polars as pl
import pytest

from mailsift.container import open_container, open_service
from mailsift.jobs.admin.actions import JobAction
from mailsift.jobs.engine import step
from mailsift.jobs.engine.engine import Engine
from mailsift.jobs.service import JobService
from mailsift.jobs.views import AccountId, JobId
from mailsift.pipeline.errors import MailsiftError
from mailsift.settings import Settings
from mailsift.storage.blobs import Blobs
from mailsift.storage.sql.jobs import JobFilter
from mailsift.storage.states import JobState
from tests.support.installation import code_of
from tests.support.ready_jobs import FAST, Planter, engine_on, work_until_ended

ADDRESSES = [f"user{n}@example.com" for n in range(7)] + ["no address"]


@pytest.fixture
def settings(make_settings: Callable[..., Settings]) -> Settings:
    return make_settings(sandbox={})


@asynccontextmanager
async def before_the_finish(
    settings: Settings, planter: Planter, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Engine, AccountId, JobId, Path]]:
    """Give a job of three chunks when all have verdicts and the finish has just found its store away."""

    async def away(*_: object) -> None:
        raise MailsiftError("blob_store_failed", "Away.", retryable=True)

    account, job = await planter.plant(ADDRESSES, chunk=3)
    async with engine_on(settings) as engine:
        with monkeypatch.context() as patched:
            patched.setattr(step, "write_results", away)
            while not await planter.sql(
                "SELECT 1 FROM job WHERE state = 'finalizing' AND step_token IS NULL"
            ):
                await engine.drain()
        await planter.sql("UPDATE job SET step_until = NULL")
        yield engine, account, job, settings.home / f"blobs/jobs/{job}"


USED = "SELECT sum(rows) AS rows, sum(addresses) AS addresses FROM usage"


@pytest.mark.parametrize("fault", ["lost", "one bit", "cut off", "no table", "all lost"])
async def test_verdicts_that_the_store_lost_or_damaged_are_found_again(
    settings: Settings, planter: Planter, service: JobService, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    async with before_the_finish(settings, planter, monkeypatch) as (engine, account, job, blobs):
        first, *others = sorted((blobs / "segments").iterdir())
        sound = first.read_bytes()
        match fault:
            case "lost":
                first.unlink()
            case "one bit":
                first.write_bytes(sound[:9] + bytes([sound[9] ^ 1]) + sound[10:])
            case "cut off":
                first.write_bytes(sound[: len(sound) // 2])
            case "no table":
                first.write_bytes(b"PAR1" + bytes(1000) + b"PAR1")
            case _:
                for segment in (first, *others):
                    segment.unlink()
        view = await work_until_ended(engine, service, account, job)
    assert (view.state, view.processed, view.valid, view.invalid) == (JobState.COMPLETED, 8, 7, 1)
    async with service.browser.results(account, job) as path:
        found = pl.read_parquet(path)["mailsift_result"].to_list()
    assert found == ["passed"] * 7 + ["syntax_error"]
    assert [event["type"] for event in await planter.events(job)] == ["bulk.validation.completed"]
    again = await planter.sql("SELECT sum(addresses) AS n FROM chunk WHERE source_key LIKE '%redone%'")
    assert again == [{"n": 8 if fault == "all lost" else 3}]
    assert await planter.sql(USED) == [{"rows": 8, "addresses": 8}]


async def test_what_is_found_again_counts_once_on_whichever_days(
    settings: Settings, planter: Planter, service: JobService, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with before_the_finish(settings, planter, monkeypatch) as (engine, account, job, blobs):
        for segment in (blobs / "segments").iterdir():
            segment.unlink()
        await planter.sql("UPDATE job SET created_at = created_at - interval '2 days'")
        await planter.sql("UPDATE usage SET rows = 3, addresses = 2, probes = 5")
        earlier = "account_id, day - d, mode, 4 + d, 6, 7 FROM usage, generate_series(1, 3) AS d"
        await planter.sql(f"INSERT INTO usage SELECT {earlier}")
        await work_until_ended(engine, service, account, job)
    days = await planter.sql("SELECT rows, addresses, probes FROM usage ORDER BY day DESC")
    found = [(day["rows"], day["addresses"], day["probes"]) for day in days]
    assert found == [(8, 8, 5), (0, 0, 7), (6, 6, 7), (7, 6, 7)]


async def test_addresses_of_a_deferred_chunk_that_were_lost_are_found_in_the_list(
    settings: Settings, planter: Planter, service: JobService
) -> None:
    account, job = await planter.plant(ADDRESSES, chunk=3)
    lost = f"jobs/{job}/residual/lost.parquet"
    await planter.sql("UPDATE chunk SET source_key = :lost WHERE n = 1", lost=lost)
    async with engine_on(settings) as engine:
        while (view := await service.get(account, job)).finished_at is None:
            await engine.drain()
            await planter.sql("UPDATE chunk SET ready_at = clock_timestamp() WHERE state = 'ready'")
    assert (view.state, view.valid, view.invalid) == (JobState.COMPLETED, 7, 1)
    assert await planter.sql(USED) == [{"rows": 8, "addresses": 8}]


async def test_a_store_that_damages_everything_fails_the_job_and_an_operator_restarts_it_once(
    settings: Settings, planter: Planter, service: JobService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(*_: object) -> dict[str, Path]:
        return {}

    listed, unlisted = tmp_path / "list.csv", tmp_path / "unlisted.csv"
    listed.write_text("email\n" + "a@example.com\n" * 1_001)  # a small one stays in hand
    unlisted.write_text("name,age\nBob,31\nEve,32\n")
    account = await service.account("tests")
    job = await service.submit(account, listed, FAST)
    hopeless = await service.submit(account, unlisted, FAST)
    async with engine_on(settings) as engine:
        with monkeypatch.context() as patched:
            patched.setattr(Blobs, "fetch_all_sound", nothing)
            failed = await work_until_ended(engine, service, account, job)
        await work_until_ended(engine, service, account, hopeless)
        assert (failed.state, failed.error_code) == (JobState.FAILED, "results_incomplete")
        assert len(await planter.sql("SELECT 1 FROM chunk WHERE source_key LIKE '%redone%'")) == 3
        async with open_container(settings) as container:
            operations = container.operations
            for expected in (1, 0):
                done = await operations.jobs.all_matching("olga", JobAction.RESTART, JobFilter())
                assert (done.done, dict(done.refused)) == (expected, {})
            for one, code in ((job, "already_restarted"), (hopeless, "list_at_fault")):
                with pytest.raises(MailsiftError) as refused:
                    await operations.jobs.one("olga", JobAction.RESTART, one)
                assert refused.value.code == code
            lines = [(line.action, line.subject) for line in await operations.console.audit()]
        assert lines == [("jobs.restart", ""), ("jobs.restart", ""), ("job.restart", str(job))]
        (row,) = await planter.sql("SELECT id FROM job WHERE parent_id = :job", job=job)
        view = await work_until_ended(engine, service, account, JobId(row["id"]))
    assert (view.state, view.valid, view.name) == (JobState.COMPLETED, 1_001, "list.csv")
    assert len(await planter.events(job)) == len(await planter.events(view.id)) == 1


@pytest.mark.parametrize("name", ["source", "rows.parquet"])
@pytest.mark.parametrize("comes_back", [True, False])
async def test_a_job_waits_for_a_missing_file_of_its_list_and_fails_when_it_stays_away(
    settings: Settings,
    planter: Planter,
    service: JobService,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    *,
    comes_back: bool,
) -> None:
    """A machine whose store is not mounted ends nobody's job: another one has the file, or it comes back."""
    listed, away = tmp_path / "list.csv", tmp_path / "away"
    listed.write_text("\n".join(["email", *ADDRESSES]))
    async with before_the_finish(settings, planter, monkeypatch) as (engine, account, finishing, _):
        job = await service.submit(account, listed, FAST) if name == "source" else finishing
        missing = settings.home / f"blobs/jobs/{job}/{name}"
        missing.rename(away)
        for attempt in (1, 2):
            while (await planter.sql(STEP, job=job))[0]["step_attempt"] < attempt:
                await engine.drain()
            (step_now,) = await planter.sql(STEP, job=job)
            assert (step_now["step_waits_for"], step_now["finished_at"]) == ("storage", None)
            await planter.sql("UPDATE job SET step_until = NULL WHERE id = :job", job=job)
        if comes_back:
            away.rename(missing)
        view = await work_until_ended(engine, service, account, job)
    if comes_back:
        assert (view.state, view.valid, view.invalid) == (JobState.COMPLETED, 7, 1)
    else:
        assert (view.state, view.error_code) == (JobState.FAILED, "blob_not_found")
    assert len(await planter.events(job)) == 1


@pytest.mark.parametrize("instead", ["email\nuser0@example.com\n", "<html>Sign in to the proxy</html>"])
async def test_a_list_that_came_back_as_another_is_not_read_and_waits_for_its_own(
    settings: Settings, service: JobService, planter: Planter, tmp_path: Path, instead: str
) -> None:
    listed = tmp_path / "list.csv"
    listed.write_text("\n".join(["email", *ADDRESSES]))
    async with engine_on(settings) as engine:
        account, before = await planter.plant(ADDRESSES)
        await work_until_ended(engine, service, account, before)
        job = await service.submit(account, listed, FAST)
        stored = settings.home / f"blobs/jobs/{job}/source"
        stored.unlink()  # it shares its bytes with the list
        stored.write_text(instead)
        assert await code_of(service.rerun(account, job, FAST)) == "source_damaged"
        await engine.drain()
        (step_now,) = await planter.sql(STEP, job=job)
        assert (step_now["step_waits_for"], step_now["finished_at"]) == ("storage", None)
        await planter.sql("UPDATE job SET step_until = NULL WHERE id = :job", job=job)
        stored.write_text(listed.read_text())
        view = await work_until_ended(engine, service, account, job)
    assert (view.state, view.valid, view.invalid) == (JobState.COMPLETED, 7, 1)


STEP = "SELECT step_attempt, step_waits_for, finished_at FROM job WHERE id = :job"


async def test_a_process_that_starts_before_its_store_is_mounted_takes_no_list_and_loses_none(
    settings: Settings, planter: Planter, service: JobService, tmp_path: Path
) -> None:
    account, job = await planter.plant(ADDRESSES)
    store, away, source = settings.home / "blobs", settings.home / "away", tmp_path / "list.csv"
    source.write_text("email\na@example.com\n")
    store.rename(away)
    async with open_service(settings) as started:
        assert await code_of(started.submit(account, source, FAST)) == "blob_store_failed"
        assert not any(store.iterdir())
        store.rmdir()
        away.rename(store)
        await started.submit(account, source, FAST)
    async with engine_on(settings) as engine:
        view = await work_until_ended(engine, service, account, job)
    assert view.state is JobState.COMPLETED
