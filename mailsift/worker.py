"""A worker: Celery prefork processes, each with one engine on one loop; the master wakes them every tick."""

from __future__ import annotations

import gc
import os
import signal
from contextlib import AsyncExitStack, suppress
from typing import Any

import structlog
from celery import Celery, bootsteps, signals
from kombu.exceptions import OperationalError
from typing_extensions import override

from jobs.engine import Engine
from jobs.tasks import QUEUE, make_app, register_pull, send_wake_ups
from mailsift.loop_thread import LoopThread
from mailsift.settings import Settings
from mailsift.wiring import open_engine
from pipeline.providers import Providers

_STOP = signal.SIGUSR2
"""Tells a process of the pool to claim nothing more."""

_log = structlog.get_logger()


class ProcessRuntime:
    """The engine of one worker process: opened after the fork, closed before the exit."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._loop: LoopThread | None = None
        self._engine: Engine | None = None
        self._stack = AsyncExitStack()

    def open(self, **_: object) -> None:
        """Start the loop and everything that lives on it."""
        # What lives as long as the process is not worth looking through again and again.
        gc.freeze()
        gc.set_threshold(20_000, 50, 100)
        self._loop = LoopThread()
        try:
            self._engine = self._loop.run(self._stack.enter_async_context(open_engine(self._settings)))
        except BaseException:
            # The pool would go on without an engine, look alive and do nothing.
            os.kill(os.getppid(), signal.SIGTERM)
            raise
        signal.signal(_STOP, lambda *_: self._stop())

    def close(self, **_: object) -> None:
        """Give back what is in flight and close every connection."""
        if self._loop is not None:
            self._loop.run(self._stack.aclose())
            self._loop.close()

    def _stop(self) -> None:
        if self._engine is not None:
            self._engine.stop()

    def drain(self) -> None:
        """What a wake-up does."""
        if self._loop is not None and self._engine is not None:
            self._loop.run(self._engine.drain())


class Tick(bootsteps.StartStopStep):
    """Wakes every process of this worker now and then: lost wake-ups, expired leases and what is due."""

    requires = ("celery.worker.components:Timer", "celery.worker.components:Pool")

    def __init__(self, parent: Any, **kwargs: Any) -> None:
        super().__init__(parent, **kwargs)
        self._timer: Any = None

    @override
    def start(self, parent: Any) -> None:
        """Begin to tick."""
        seconds = parent.app.conf.mailsift_sweep_seconds
        self._timer = parent.timer.call_repeatedly(seconds, _tick, (parent.app, parent.concurrency))

    @override
    def stop(self, parent: Any) -> None:
        """Stop ticking, and let no process begin anything: the pool waits until their wake-ups are over."""
        if self._timer is not None:
            self._timer.cancel()
        for pid in parent.pool.info["processes"]:
            with suppress(ProcessLookupError):
                os.kill(pid, _STOP)


def _tick(app: Celery, processes: int) -> None:
    """Send one wake-up a process, unless the queue already holds as many."""
    if app.conf.mailsift_parent not in {0, os.getppid()}:
        os.kill(os.getpid(), signal.SIGTERM)
        return
    try:
        with app.connection_for_write() as connection:
            channel: Any = connection.default_channel
            waiting = channel.queue_declare(QUEUE).message_count
    except (OperationalError, OSError) as error:
        _log.warning("tick.lost", error=type(error).__qualname__)
        return
    send_wake_ups(app, max(0, processes - waiting))


def run_worker(settings: Settings, *, parent: int = 0) -> None:
    """Serve until SIGTERM (warm: what runs is finished or given back).

    Args:
        settings: with the addresses of the servers set.
        parent: stop when this process is no longer our parent; 0 = serve on.

    Raises:
        MailsiftError: `bad_overrides`.
    """
    Providers.load(settings.overrides)  # a mistake is told here, once, and not by every process
    if settings.redis_url is None:
        raise AssertionError("the caller sets the addresses of the servers")
    app = make_app(settings.redis_url.get_secret_value())
    app.conf.update(mailsift_sweep_seconds=settings.sweep_seconds, mailsift_parent=parent)
    app.steps["worker"].add(Tick)
    runtime = ProcessRuntime(settings)
    register_pull(app, runtime.drain)
    signals.worker_process_init.connect(runtime.open, weak=False)
    signals.worker_process_shutdown.connect(runtime.close, weak=False)
    app.worker_main(
        [
            "worker",
            f"--concurrency={settings.worker_processes}",
            "--pool=prefork",
            f"--queues={QUEUE}",
            "--without-gossip",
            "--without-mingle",
            "--without-heartbeat",
            "--loglevel=WARNING",
        ]
    )
