"""The engine on real servers: whatever goes wrong, every address ends up with one verdict."""

from __future__ import annotations

import asyncio
import errno
import signal
import subprocess
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import psutil
import pytest

from mailsift.events.delivery import Deliverer
from mailsift.jobs.engine import engine as engine_module
from mailsift.jobs.engine import step
from mailsift.jobs.intake.process import ReaderStuckError, take_in
from mailsift.jobs.results.breakdown import domains_of
from mailsift.jobs.service import JobService
from mailsift.jobs.views import AccountId, JobId, JobOptions
from mailsift.pipeline.errors import MailsiftError, NoThreadsError
from mailsift.pipeline.facts import Mode
from mailsift.pipeline.metrics import UPKEEP_ERRORS
from mailsift.settings import Settings
from mailsift.storage.blobs import Blobs, JobBlobs
from mailsift.storage.states import JobState
from tests.support.captured_metrics import Counted
from tests.support.installation import until
from tests.support.parts import open_blobs
from tests.support.ready_jobs import FAST, Gate, Planter, Poisoned, caught, engine_on, work_until_ended
from tests.support.workers import Held, signal_held

ADDRESSES = [f"user{n}@example.com" for n in range(7)] + ["no address"]
SHORT: dict[str, Any] = {"lease_s": 3.0, "heartbeat_s": 0.2, "sweep_s": 0.1}


async def results(service: JobService, account: AccountId, job_id: JobId) -> list[str]:
    async with service.browser.results(account, job_id) as path:
        return pl.read_parquet(path)["mailsift_result"].to_list()


async def test_a_job_goes_through_all_its_chunks_to_its_end(
    settings: Settings, planter: Planter, service: JobService
) -> None:
    account, job = await planter.plant(ADDRESSES, chunk=3)
    async with engine_on(settings) as engine:
        view = await work_until_ended(engine, service, account, job)
    assert (view.state, view.valid, view.invalid, view.chunks_open) == (JobState.COMPLETED, 7, 1, 0)
    assert await results(service, account, job) == ["passed"] * 7 + ["syntax_error"]
    assert [event["type"] for event in await planter.events(job)] == ["bulk.validation.completed"]


async def test_work_whose_lease_was_lost_is_thrown_away(
    settings: Settings, planter: Planter, service: JobService
) -> None:
    account, job = await planter.plant(ADDRESSES, chunk=4)
    await planter.sql("UPDATE chunk SET ready_at = 'infinity' WHERE n = 1")
    async with engine_on(settings, gate := Gate(), heartbeat_s=60.0) as slow, engine_on(settings) as other:
        draining = await caught(slow, gate)
        slow.stop()
        await draining  # what is in flight goes on
        await planter.sql("UPDATE chunk SET lease_until = now() - interval '1 s' WHERE state = 'leased'")
        await other.drain()
        view = await service.get(account, job)
        (before,) = await planter.sql("SELECT * FROM chunk WHERE n = 0")
        gate.opened.set()
        await slow.aclose(grace_s=60.0)
        now = await service.get(account, job)
        assert replace(now, time_left=view.time_left) == view  # which goes by the clock
        assert await planter.sql("SELECT * FROM chunk WHERE n = 0") == [before]
        await planter.sql("UPDATE chunk SET ready_at = now() WHERE n = 1")
        view = await work_until_ended(other, service, account, job)
    assert (before["state"], before["attempt"]) == ("done", 2)
    assert (view.processed, view.valid, view.invalid) == (8, 7, 1)


async def test_a_heartbeat_stops_work_whose_lease_is_lost(
    settings: Settings, planter: Planter, service: JobService
) -> None:
    account, job = await planter.plant(ADDRESSES)
    async with engine_on(settings, gate := Gate(), heartbeat_s=0.1) as engine:
        draining = await caught(engine, gate)
        await service.cancel(account, job)
        await draining  # though nobody opens the gate
    assert (await service.get(account, job)).state is JobState.CANCELLED


async def test_heartbeats_go_on_and_lists_are_claimed_whatever_else_fails(
    settings: Settings, planter: Planter, service: JobService, monkeypatch: pytest.MonkeyPatch
) -> None:
    account, job = await planter.plant(ADDRESSES)

    def broken(*_: object, **__: object) -> None:
        raise LookupError

    counts = Counted(UPKEEP_ERRORS)
    async with engine_on(settings, heartbeat_s=0.01, sweep_s=0.0) as engine:
        monkeypatch.setattr(engine_module, "set_process_gauges", broken)
        monkeypatch.setattr(Deliverer, "sweep", broken)
        monkeypatch.setattr(Deliverer, "claim", broken)

        async def has_failed_often() -> bool:
            return counts.get(("upkeep_errors_total", "heartbeat"), 0) > 2

        await engine.drain()
        await until(has_failed_often, within=60.0)
        view = await work_until_ended(engine, service, account, job)
    assert view.state is JobState.COMPLETED
    assert {task for _, task in counts} == {"heartbeat", "sweep", "webhook"}


async def test_heartbeats_keep_the_lease_of_work_that_takes_long(
    settings: Settings, planter: Planter, service: JobService
) -> None:
    account, job = await planter.plant(ADDRESSES)
    async with engine_on(settings, gate := Gate(), **SHORT) as engine, engine_on(settings, **SHORT) as other:
        draining = await caught(engine, gate)
        for _ in range(40):
            await other.drain()
            await asyncio.sleep(0.1)
        gate.opened.set()
        await draining
        await work_until_ended(engine, service, account, job)
    (row,) = await planter.sql("SELECT attempt FROM chunk")
    assert row["attempt"] == 1


@pytest.mark.parametrize("error", [ValueError("poison"), pl.exceptions.PanicException("poison")])
async def test_a_chunk_whose_work_breaks_goes_back_and_is_tried_again(
    settings: Settings, planter: Planter, service: JobService, error: BaseException
) -> None:
    account, job = await planter.plant(ADDRESSES)
    async with engine_on(settings, Poisoned(times=1, error=error)) as engine:
        await engine.drain()
        (wait,) = (await service.get(account, job)).waiting
        assert (wait.reason, wait.addresses) == ("error", 8)
        await planter.sql("UPDATE chunk SET ready_at = clock_timestamp()")
        view = await work_until_ended(engine, service, account, job)
    assert (view.state, view.valid) == (JobState.COMPLETED, 7)


async def test_a_poisonous_address_is_cornered_and_the_others_get_their_true_verdicts(
    settings: Settings, planter: Planter, service: JobService
) -> None:
    given = [f"{who}{n}@ordinary.sandbox.test" for n in range(4) for who in ("known", "nobody")]
    account, job = await planter.plant(given, options=JobOptions(mode=Mode.DEEP))
    async with engine_on(
        settings,
        poisoned := Poisoned(address="known2@ordinary.sandbox.test"),
        work_plan={"max_attempts": 2},
    ) as engine:
        while (await service.get(account, job)).finished_at is None:
            await engine.drain()
            await planter.sql("UPDATE chunk SET ready_at = clock_timestamp() WHERE state = 'ready'")
    expected = ["deliverable", "mailbox_not_found"] * 4
    expected[4] = "not_asked"  # nothing was wrong with DNS
    assert await results(service, account, job) == expected
    # Two tries for the whole list, then one for every half, quarter and eighth that there is.
    assert sorted(poisoned.sizes, reverse=True) == [8, 8, 4, 4, 2, 2, 1, 1]


async def test_a_blob_store_that_fails_is_not_the_addresses_fault(
    settings: Settings, planter: Planter, service: JobService
) -> None:
    account, job = await planter.plant(ADDRESSES[:1])
    away = MailsiftError("blob_store_failed", "The blob store failed.", retryable=True)
    async with engine_on(settings, poisoned := Poisoned(times=7, error=away)) as engine:
        while (await service.get(account, job)).finished_at is None:
            await engine.drain()
            await planter.sql("UPDATE chunk SET ready_at = clock_timestamp() WHERE state = 'ready'")
    assert len(poisoned.sizes) == 8
    assert await results(service, account, job) == ["passed"]


async def test_a_machine_without_a_thread_left_is_not_the_addresses_fault(
    settings: Settings, planter: Planter, service: JobService, monkeypatch: pytest.MonkeyPatch
) -> None:
    account, job = await planter.plant(ADDRESSES)
    is_full = [True]
    start = threading.Thread.start

    def start_if_there_is_room(thread: threading.Thread) -> None:
        if is_full[0]:
            raise RuntimeError("can't start new thread")
        start(thread)

    async with engine_on(settings) as engine:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))  # one that has no thread yet
        monkeypatch.setattr(threading.Thread, "start", start_if_there_is_room)
        for _ in range(2):
            await engine.drain()
            await planter.sql("UPDATE chunk SET ready_at = clock_timestamp()")
        (row,) = await planter.sql("SELECT attempt, state, waits_for FROM chunk")
        is_full[0] = False
        view = await work_until_ended(engine, service, account, job)
    assert (row["attempt"], row["state"], row["waits_for"]) == (0, "ready", "threads")
    assert (view.state, view.valid) == (JobState.COMPLETED, 7)


@pytest.mark.parametrize(
    ("cause", "reason"),
    [
        (NoThreadsError("intake_crashed", "The process reading the file was given no threads."), "threads"),
        (RuntimeError("can't start new thread"), "threads"),
        (ReaderStuckError(), "threads"),
        (BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable"), "threads"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "memory"),
        (OSError(errno.ENOSPC, "No space left on device"), "storage"),
    ],
)
async def test_a_list_that_waits_for_the_machine_says_what_it_lacks(
    settings: Settings, service: JobService, tmp_path: Path, cause: Exception, reason: str
) -> None:
    """No process, no thread in the one that reads, no memory for one: that is not storage."""

    async def cannot_read(*_: object, **__: object) -> None:
        raise cause

    account, job = await submitted(service, tmp_path, "email\na@example.com\n")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(step, "take_in", cannot_read)
        async with engine_on(settings) as engine:
            await engine.drain()
    view = await service.get(account, job)
    assert [wait.reason for wait in view.waiting] == [reason]


@pytest.mark.parametrize(
    "words",
    [
        "OS can't spawn worker thread: Resource temporarily unavailable (os error 11)",
        "LazyLock instance has previously been poisoned",
    ],
)
async def test_a_process_in_which_polars_got_no_threads_leaves_the_work_to_others(
    settings: Settings, planter: Planter, service: JobService, words: str
) -> None:
    """It asks for them once: from then on each of its frames would fail there, and so would their lists."""
    account, job = await planter.plant(ADDRESSES)
    error = pl.exceptions.PanicException(words)
    async with engine_on(settings, poisoned := Poisoned(times=9, error=error)) as engine:
        for _ in range(2):
            await engine.drain()
            await planter.sql("UPDATE chunk SET ready_at = clock_timestamp()")
        (row,) = await planter.sql("SELECT attempt, state FROM chunk")
        assert (row["attempt"], row["state"], len(poisoned.sizes)) == (0, "ready", 1)
        assert engine.is_useless
    async with engine_on(settings) as other:
        view = await work_until_ended(other, service, account, job)
    assert (view.state, view.valid) == (JobState.COMPLETED, 7)


async def test_an_engine_that_is_closed_gives_its_chunks_back_untried(
    settings: Settings, planter: Planter, service: JobService
) -> None:
    account, job = await planter.plant(ADDRESSES, chunk=4)
    async with engine_on(settings, gate := Gate()) as engine:
        draining = await caught(engine, gate)
        engine.stop()
        await asyncio.wait_for(draining, 5)
        await engine.aclose(grace_s=0.05)
    rows = await planter.sql("SELECT state, attempt, ready_at <= clock_timestamp() AS ready FROM chunk")
    assert [(row["state"], row["attempt"], row["ready"]) for row in rows] == [("ready", 0, True)] * 2
    async with engine_on(settings) as another:
        assert (await work_until_ended(another, service, account, job)).valid == 7


async def test_an_engine_that_is_told_to_stop_does_not_wait_for_its_next_look(
    settings: Settings, planter: Planter
) -> None:
    async def is_known() -> bool:
        return bool(await planter.sql("SELECT FROM worker"))

    async with engine_on(settings, linger_s=60.0, poll_s=60.0) as engine:
        draining = asyncio.create_task(engine.drain())
        await until(is_known, within=10, every=0.01)
        await asyncio.to_thread(engine.stop)  # a signal comes to another thread than the loop's
        assert not await asyncio.wait_for(draining, 10)


async def test_an_engine_that_is_closed_gives_its_steps_back_untried(
    settings: Settings, planter: Planter, service: JobService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered = asyncio.Event()

    async def never(*_: object, **__: object) -> None:
        entered.set()
        await asyncio.Event().wait()

    account, job = await submitted(service, tmp_path, "email\na@example.com\n")
    with monkeypatch.context() as patched:
        patched.setattr(step, "take_in", never)
        async with engine_on(settings) as engine:
            draining = asyncio.create_task(engine.drain())
            await entered.wait()
            engine.stop()
            await draining
            await engine.aclose(grace_s=0.05)
    (row,) = await planter.sql("SELECT state, step_token, step_attempt FROM job")
    assert (row["state"], row["step_token"], row["step_attempt"]) == ("intake", None, 0)
    async with engine_on(settings) as another:
        assert (await work_until_ended(another, service, account, job)).valid == 1


class Away:
    """Stands before a function and says that the store is away, so many times."""

    def __init__(self, function: Callable[..., Awaitable[object]], error: Exception, *, times: int) -> None:
        self._function, self._error, self.left = function, error, times

    async def __call__(self, *args: Any, **named: Any) -> object:
        self.left -= 1
        if self.left >= 0:
            raise self._error
        return await self._function(*args, **named)


AWAY = MailsiftError("blob_store_failed", "Away.", retryable=True)
FULL = OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(
    "fault",
    [("take_in", AWAY), ("take_in", FULL), ("write_results", AWAY), ("write_results", FULL)],
    ids=repr,
)
async def test_a_step_waits_for_a_store_that_is_away_as_long_as_it_takes(
    settings: Settings,
    planter: Planter,
    service: JobService,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: tuple[str, Exception],
) -> None:
    name, error = fault
    away = Away(getattr(step, name), error, times=5)  # more often than workers may die over a step
    monkeypatch.setattr(step, name, away)
    account, job = await submitted(service, tmp_path, "email\na@example.com\n")
    async with engine_on(settings) as engine:
        for tries in (1, 2, 3, 4, 5):
            while away.left > 5 - tries:
                await engine.drain()
            view = await service.get(account, job)
            assert [wait.reason for wait in view.waiting] == ["storage"]
            (row,) = await planter.sql(
                "SELECT step_attempt, step_token, "
                "ceil(extract(epoch FROM step_until - clock_timestamp()))::int AS delay FROM job"
            )
            assert (row["step_attempt"], row["step_token"]) == (0, None)
            assert 2**tries - 2 <= row["delay"] <= 2**tries
            await engine.drain()
            assert away.left == 5 - tries  # not before its time
            await planter.sql("UPDATE job SET step_until = clock_timestamp() - interval '1 second'")
        done = await work_until_ended(engine, service, account, job)
    assert (done.state, done.valid, done.waiting) == (JobState.COMPLETED, 1, ())
    assert len(await planter.events(job)) == 1


async def test_a_step_that_waits_for_a_store_says_so_also_after_a_worker_has_died_over_it(
    settings: Settings,
    planter: Planter,
    service: JobService,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    away = Away(take_in, AWAY, times=1)
    monkeypatch.setattr(step, "take_in", away)
    account, job = await submitted(service, tmp_path, "email\na@example.com\n")
    await planter.sql("UPDATE job SET state = 'intake', step_attempt = 1, step_until = '2000-01-01'")
    async with engine_on(settings) as engine:
        while away.left:
            await engine.drain()
        view = await service.get(account, job)
    assert [wait.reason for wait in view.waiting] == ["storage"]


LARGE = "email\n" + "a@example.com\n" * 100_000


async def test_signals_to_the_process_that_reads_a_list_cost_its_job_only_time(
    settings: Settings,
    planter: Planter,
    service: JobService,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    account, job = await submitted(service, tmp_path, LARGE)
    async with engine_on(settings) as engine:
        killed = 0
        for number in (signal.SIGKILL, signal.SIGQUIT, signal.SIGKILL, signal.SIGUSR1, signal.SIGINT):
            killed += number is signal.SIGKILL
            with monkeypatch.context() as patch:
                patch.setattr(subprocess, "Popen", Held)
                draining = asyncio.create_task(engine.drain())
                await _signal_reader(number)
            await draining
            (row,) = await planter.sql("SELECT state, step_attempt, step_token FROM job")
            assert number is signal.SIGINT or [*row.values()] == ["intake", killed, None]
            await planter.sql("UPDATE job SET step_until = clock_timestamp() - interval '1 second'")
        done = await work_until_ended(engine, service, account, job)
    assert (done.state, done.valid) == (JobState.COMPLETED, 100_000)


async def test_a_list_whose_reader_is_killed_every_time_fails_after_some_patience(
    settings: Settings,
    planter: Planter,
    service: JobService,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So does a system that has no memory left, be it for the list or for what runs beside it."""
    account, job = await submitted(service, tmp_path, LARGE)
    monkeypatch.setattr(subprocess, "Popen", Held)
    for delay in (2, 900, 0):
        async with engine_on(settings) as engine:  # another worker each time: none of them need remember
            draining = asyncio.create_task(engine.drain())
            await _signal_reader(signal.SIGKILL)
            await draining
        view = await service.get(account, job)
        assert [wait.reason for wait in view.waiting] == (["memory"] if delay else [])
        (row,) = await planter.sql(
            "SELECT ceil(extract(epoch FROM step_until - clock_timestamp()))::int AS delay FROM job"
        )
        assert not delay or delay - 10 <= row["delay"] <= delay
        await planter.sql("UPDATE job SET step_until = clock_timestamp() - interval '1 second'")
    view = await service.get(account, job)
    assert (view.state, view.error_code) == (JobState.FAILED, "intake_crashed")
    assert "memory" in view.error_detail
    assert [event["type"] for event in await planter.events(job)] == ["bulk.validation.failed"]


async def _signal_reader(number: signal.Signals) -> None:
    """Send a signal to the process that reads a list, as soon as there is one."""
    while True:
        for child in psutil.Process().children():
            with suppress(psutil.NoSuchProcess):
                if "mailsift.jobs.intake.child" in child.cmdline():
                    signal_held(child, number)
                    return
        await asyncio.sleep(0.001)


async def submitted(service: JobService, folder: Path, content: str) -> tuple[AccountId, JobId]:
    source = folder / "list.csv"
    source.write_text(content)
    account = await service.account("tests")
    return account, await service.submit(account, source, FAST)


async def test_a_list_whose_columns_have_names_with_a_nul_comes_to_its_end(
    settings: Settings, service: JobService, tmp_path: Path
) -> None:
    named = '{"e\\u0000mail": "ann@example.com"}\n'
    account, job = await submitted(service, tmp_path, named)
    async with engine_on(settings) as engine:
        view = await work_until_ended(engine, service, account, job)
    assert (view.state, view.total) == (JobState.COMPLETED, 1)
    assert (await service.history(account, job)).column == "email"


async def test_a_list_that_cannot_be_taken_in_fails_its_job_with_its_code_and_one_event(
    settings: Settings, planter: Planter, service: JobService, tmp_path: Path
) -> None:
    account, job = await submitted(service, tmp_path, "name,age\nBob,31\nEve,32\n")
    async with engine_on(settings) as engine:
        view = await work_until_ended(engine, service, account, job)
        await engine.drain()
    assert (view.state, view.error_code) == (JobState.FAILED, "no_address_column")
    assert "--" not in view.error_detail, "which is of the command line"
    (event,) = await planter.events(job)
    assert event["type"] == "bulk.validation.failed"
    assert event["data"] == {
        "error": f"no_address_column: {view.error_detail}",
        "job_id": str(job),
        "processed": 0,
        "status": "failed",
        "total_emails": 0,
    }


async def test_nothing_of_a_small_list_is_read_back_from_the_store_and_its_results_are_there(
    settings: Settings, service: JobService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched, fetch = list[str](), Blobs.fetch

    async def noted(blobs: Blobs, key: str) -> Path:
        fetched.append(key)
        return await fetch(blobs, key)

    monkeypatch.setattr(Blobs, "fetch", noted)
    source = tmp_path / "list.csv"
    source.write_text("email,name\na@example.com,Ann\nnobody,Bob\na@example.com,Cid\n")
    account = await service.account("tests")
    job = await service.submit(account, source, FAST)
    async with engine_on(settings) as engine:
        view = await work_until_ended(engine, service, account, job)
    keys = JobBlobs(job)
    assert (view.state, view.total, view.valid, view.invalid) == (JobState.COMPLETED, 3, 2, 1)
    assert fetched == [keys.source]
    store = settings.home / "blobs"
    assert pl.read_parquet(store / keys.results)["c1"].to_list() == ["Ann", "Bob", "Cid"]
    assert not (store / keys.breakdown).exists()
    breakdown = await service.browser.breakdown(account, job)
    assert {(one.result, one.rows) for one in breakdown.reasons} == {("passed", 2), ("syntax_error", 1)}
    assert [(one.name, one.rows) for one in breakdown.domains] == [("example.com", 2)]
    assert (store / keys.breakdown).exists(), "counted once"
    assert await domains_of(open_blobs(settings), job) == store / keys.domains


@pytest.fixture
def finish_breaks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Makes writing results fail as often as there are items in the list."""
    left: list[int] = []
    sound = step.write_results

    async def broken(*given: Any) -> None:
        if left:
            left.pop()
            raise ValueError("disk full of poison")
        await sound(*given)

    monkeypatch.setattr(step, "write_results", broken)
    return left


async def test_a_finish_that_breaks_is_done_again_when_its_lease_is_over_however_busy_the_engine_is(
    settings: Settings, planter: Planter, service: JobService, finish_breaks: list[int]
) -> None:
    finish_breaks.append(1)
    account, job = await planter.plant(ADDRESSES)
    async with engine_on(settings, **SHORT) as engine:
        while finish_breaks:
            await engine.drain()
    async with engine_on(settings, gate := Gate(), **SHORT) as engine:
        await planter.plant(ADDRESSES)
        draining = await caught(engine, gate)

        async def done() -> bool:
            return (await service.get(account, job)).state is JobState.COMPLETED

        await until(done, within=5)
        gate.opened.set()
        await draining
    assert len(await planter.events(job)) == 1


async def test_a_finish_in_a_process_where_polars_got_no_threads_is_done_by_another(
    settings: Settings, planter: Planter, service: JobService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What cannot be read there is not damaged."""

    async def cannot_read(*_: object) -> None:
        damaged = MailsiftError("blob_damaged", "A stored file differs from what was written.")
        raise damaged from pl.exceptions.PanicException("LazyLock instance has previously been poisoned")

    account, job = await planter.plant(ADDRESSES)
    with monkeypatch.context() as patched:
        patched.setattr(step, "write_results", cannot_read)
        async with engine_on(settings) as engine:
            for _ in range(2):
                await engine.drain()
            assert engine.is_useless
    await planter.sql("UPDATE job SET step_until = NULL WHERE step_token IS NULL")
    async with engine_on(settings) as other:
        view = await work_until_ended(other, service, account, job)
    assert (view.state, view.valid) == (JobState.COMPLETED, 7)


async def test_a_finish_that_breaks_every_time_fails_the_job_and_keeps_its_verdicts(
    settings: Settings, planter: Planter, service: JobService, finish_breaks: list[int]
) -> None:
    finish_breaks.extend(range(99))
    account, job = await planter.plant(ADDRESSES)
    async with engine_on(settings) as engine:
        while (view := await service.get(account, job)).finished_at is None:
            await engine.drain()
            await planter.sql("UPDATE job SET step_until = clock_timestamp() - interval '1 s'")
    assert (view.state, view.error_code) == (JobState.FAILED, "finalizing_crashed")
    assert len(finish_breaks) == 96
    assert await results(service, account, job) == ["passed"] * 7 + ["syntax_error"]
    assert [event["type"] for event in await planter.events(job)] == ["bulk.validation.failed"]


async def test_a_finish_that_dies_of_what_runs_beside_it_is_done_when_that_is_gone(
    settings: Settings, planter: Planter, service: JobService, finish_breaks: list[int]
) -> None:
    """A chunk that kills its workers takes with them whatever else they hold, until it is told apart."""
    finish_breaks.extend(range(99))
    over = "UPDATE job SET step_until = clock_timestamp() - interval '1 s'"
    account, job = await planter.plant(ADDRESSES)
    async with engine_on(settings) as engine:
        while not (view := await service.get(account, job)).waiting and view.finished_at is None:
            await engine.drain()
            await planter.sql(f"{over} WHERE step_token IS NOT NULL")
        assert [wait.reason for wait in view.waiting] == ["worker_gone"]
        finish_breaks.clear()
        await engine.drain()
        assert (await service.get(account, job)).state is JobState.FINALIZING, "it waits for its time"
        (row,) = await planter.sql(
            "SELECT extract(epoch FROM step_until - clock_timestamp()) AS left FROM job"
        )
        assert 800 < row["left"] <= 900
        await planter.sql(over)
        view = await work_until_ended(engine, service, account, job)
    assert (view.state, view.valid) == (JobState.COMPLETED, 7)


async def test_an_idle_engine_knows_when_the_next_chunk_is_due(settings: Settings, planter: Planter) -> None:
    _, job = await planter.plant(ADDRESSES)
    async with engine_on(settings, sources=("ours",)) as engine:
        await planter.sql("UPDATE chunk SET ready_at = clock_timestamp() + interval '900 s'")
        before = time.monotonic()
        assert not await engine.drain()
        assert before + 600 < engine.due_at <= time.monotonic() + 900
        await planter.sql("UPDATE job SET state = 'paused' WHERE id = :job", job=job)
        await planter.sql(
            "INSERT INTO source_rest VALUES ('google', 'ours', clock_timestamp() + interval '90 s')"
        )
        await engine.drain()
        assert before + 60 < engine.due_at <= time.monotonic() + 90
        await planter.sql("DELETE FROM source_rest")
        await engine.drain()
        assert engine.due_at == float("inf")


async def test_a_small_job_finds_a_slot_when_a_big_one_has_taken_all_others(
    settings: Settings, planter: Planter, service: JobService
) -> None:
    await planter.plant(ADDRESSES, chunk=1, small=False, account="big")
    async with engine_on(settings, gate := Gate(), slots=2) as engine:
        draining = await caught(engine, gate)
        account, job = await planter.plant(["a@example.com"])

        async def leased() -> bool:
            rows = await planter.sql("SELECT job_id, count(*) FROM chunk WHERE state = 'leased' GROUP BY 1")
            return {row["job_id"]: row["count"] for row in rows}.get(job) == 1

        await until(leased, within=5)
        gate.opened.set()
        await draining
        assert (await work_until_ended(engine, service, account, job)).valid == 1
