"""The edges of a worker process: what happens to its pool when it cannot work, or may no longer."""

from __future__ import annotations

import errno
import gc
import os
import signal
import threading
from collections.abc import Iterator
from multiprocessing.context import BaseContext
from pathlib import Path

import pytest
from pydantic import SecretStr
from structlog.testing import capture_logs

from mailsift.cli.operate import share_processors
from mailsift.jobs.engine.engine import Engine
from mailsift.pipeline.errors import MailsiftError
from mailsift.runtime.worker import ProcessRuntime, WakeUpTimer, end_without, run_worker
from mailsift.settings import Settings

Kill = tuple[int, int]


@pytest.fixture
def kills(monkeypatch: pytest.MonkeyPatch) -> list[Kill]:
    sent: list[Kill] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: sent.append((pid, number)))
    return sent


@pytest.fixture
def broken(tmp_path: Path) -> Settings:
    (tmp_path / "overrides.toml").write_text("[nonsense]\n")
    return Settings(
        home=tmp_path / "home",
        overrides=tmp_path / "overrides.toml",
        database_url=SecretStr("postgresql://nobody@127.0.0.1:1/gone"),
        redis_url=SecretStr("redis://127.0.0.1:1"),
    )


def test_a_mistake_in_the_settings_ends_the_worker_before_it_begins(broken: Settings) -> None:
    with pytest.raises(MailsiftError) as refused:
        run_worker(broken)
    assert refused.value.code == "bad_overrides"


def test_a_machine_without_shared_memory_is_told_of_it(
    broken: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a chroot: the processes of a pool have nothing to wait at; an error of no words ended it."""

    def refused(*_: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(BaseContext, "Semaphore", refused)
    with pytest.raises(MailsiftError, match=r"Permission denied.*/dev/shm") as raised:
        run_worker(broken.model_copy(update={"overrides": None}))
    assert raised.value.code == "worker_failed"


@pytest.fixture
def as_it_was() -> Iterator[None]:
    """Undoes what a process of a pool does for itself."""
    thresholds, mask = gc.get_threshold(), signal.pthread_sigmask(signal.SIG_BLOCK, ())
    stop = signal.getsignal(signal.SIGUSR2)
    yield
    signal.signal(signal.SIGUSR2, stop)
    gc.unfreeze()
    gc.set_threshold(*thresholds)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)  # children would inherit it, deaf to Ctrl-C


@pytest.mark.usefixtures("as_it_was")
def test_a_wake_up_without_a_database_is_logged_by_what_is_away(broken: Settings) -> None:
    """Raised in Celery's task it would be an error of Celery's own, which names nothing."""
    runtime = ProcessRuntime(broken.model_copy(update={"overrides": None}))
    runtime.open()
    with capture_logs() as logs:
        runtime.drain()
    runtime.close(exitcode=0)
    assert ("drain.error", "database_unavailable") in {(one["event"], one.get("error")) for one in logs}


@pytest.mark.usefixtures("as_it_was")
def test_a_process_without_an_engine_takes_the_worker_down(broken: Settings, kills: list[Kill]) -> None:
    runtime = ProcessRuntime(broken)
    with capture_logs() as logs, pytest.raises(MailsiftError):
        runtime.open()
    runtime.drain()
    runtime.close(exitcode=0)
    assert kills == [(os.getppid(), signal.SIGINT)]  # as a failure: TERM is an end in order
    assert runtime.has_failed  # so that the other process does not take it for Ctrl-C
    assert [(one["event"], one["error"]) for one in logs] == [("worker.not_opened", "bad_overrides")]
    assert "unknown table [nonsense]" in logs[0]["why"]  # a code alone names no setting


@pytest.mark.usefixtures("as_it_was")
def test_a_process_that_gets_no_thread_takes_the_worker_down_and_says_so(
    broken: Settings, kills: list[Kill], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would look alive and do nothing."""

    def refused(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    runtime = ProcessRuntime(broken.model_copy(update={"overrides": None}))
    monkeypatch.setattr(threading.Thread, "start", refused)
    with capture_logs() as logs, pytest.raises(RuntimeError):
        runtime.open()
    runtime.close(exitcode=0)
    assert kills == [(os.getppid(), signal.SIGINT)]
    assert runtime.has_failed
    assert [one["event"] for one in logs] == ["worker.not_opened"]


@pytest.mark.usefixtures("as_it_was")
def test_a_process_in_which_nothing_can_be_computed_any_more_takes_the_worker_down(
    broken: Settings, kills: list[Kill], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def drain(engine: Engine) -> bool:
        engine.is_useless = True
        return False

    monkeypatch.setattr(Engine, "drain", drain)
    runtime = ProcessRuntime(broken.model_copy(update={"overrides": None}))
    runtime.open()
    with capture_logs() as logs:
        runtime.drain()
    runtime.close(exitcode=0)
    assert (os.getppid(), signal.SIGINT) in kills
    assert runtime.has_failed
    assert "worker.useless" in {one["event"] for one in logs}


class Worker:
    """As much of Celery's worker as the tick looks at."""

    class pool:  # noqa: N801 - an attribute of Celery's
        info = {"processes": [11, 12]}  # noqa: RUF012 - same


def test_a_worker_that_stops_tells_its_processes_to_claim_nothing_more(kills: list[Kill]) -> None:
    WakeUpTimer(Worker).stop(Worker)
    assert kills == [(11, signal.SIGUSR2), (12, signal.SIGUSR2)]


def test_a_worker_without_its_parent_stops_itself_once(
    kills: list[Kill], monkeypatch: pytest.MonkeyPatch
) -> None:
    timers: list[tuple[float, ...]] = []
    monkeypatch.setattr(signal, "setitimer", lambda _, *seconds: timers.append(seconds))
    before = signal.getsignal(signal.SIGALRM)
    try:
        end_without(os.getppid(), every=5)
        signal.raise_signal(signal.SIGALRM)
        assert kills == []
        end_without(-1, every=5)
        signal.raise_signal(signal.SIGALRM)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert kills == [(os.getpid(), signal.SIGTERM)]
    assert timers == [(5, 5), (5, 5), (0,)]


@pytest.mark.parametrize(("processors", "processes", "threads"), [(8, 8, 1), (8, 2, 4), (2, 4, 1), (2, 1, 2)])
def test_the_processes_of_a_worker_compute_in_as_many_threads_as_there_are_processors(
    processors: int, processes: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: processors)
    environment: dict[str, str] = {}
    monkeypatch.setattr(os, "environ", environment)
    share_processors(processes)
    assert environment == {"POLARS_MAX_THREADS": str(threads)}
    environment["POLARS_MAX_THREADS"] = "3"  # somebody knows better
    share_processors(processes)
    assert environment == {"POLARS_MAX_THREADS": "3"}
