"""A worker: Celery prefork processes, each with one engine on one loop; the master wakes them every tick."""

from __future__ import annotations

import gc
import os
import secrets
import signal
import sys
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import structlog
from celery import Celery, bootsteps, signals
from kombu.exceptions import OperationalError
from typing_extensions import override

from jobs.engine import Engine
from jobs.tasks import QUEUE, make_app, register_pull, send_wake_ups
from mailsift.loop_thread import LoopThread
from mailsift.observed import load_tracing, metered_worker, traced
from mailsift.settings import Settings
from mailsift.wiring_engine import open_engine
from pipeline.providers import Providers

_STOP = signal.SIGUSR2
"""Tells a process of the pool to claim nothing more."""

_log = structlog.get_logger()


class ProcessRuntime:
    """The engine of one worker process: opened after the fork, closed before the exit."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._crew = secrets.token_hex(8)  # made before the fork: all processes of this pool have it
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
            self._stack.enter_context(traced(self._settings, "worker"))
            opening = open_engine(self._settings, crew=self._crew)
            self._engine = self._loop.run(self._stack.enter_async_context(opening))
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
        """Tick at once and then again and again; the processes of the pool are there by now."""
        parent.app.conf.mailsift_pool_started()
        seconds = parent.app.conf.mailsift_sweep_seconds
        _tick(parent.app, parent.concurrency)
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
    """See to it that there is a wake-up for every process."""
    if app.conf.mailsift_parent not in {0, os.getppid()}:
        os.kill(os.getpid(), signal.SIGTERM)
        return
    top_up(app, processes)


def top_up(app: Celery, count: int) -> None:
    """Send as many wake-ups as the queue lacks of `count`; a broker that is away costs time, not work."""
    try:
        with app.connection_for_write() as connection:
            channel: Any = connection.default_channel
            waiting = channel.queue_declare(QUEUE).message_count
    except (OperationalError, OSError) as error:
        _log.warning("tick.lost", error=type(error).__qualname__)
        return
    send_wake_ups(app, max(0, count - waiting))


def run_worker(settings: Settings, *, parent: int = 0) -> None:
    """Serve until SIGTERM (warm: what runs is finished or given back).

    Args:
        settings: with the addresses of the servers set.
        parent: stop when this process is no longer our parent; 0 = serve on.

    Raises:
        MailsiftError: `bad_overrides`, `otel_missing`, `port_in_use`.
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
    signals.setup_logging.connect(_keep_our_logs, weak=False)
    load_tracing(settings)  # a missing extra is told here, too
    with metered_worker(settings) as show_metrics, Path(os.devnull).open("wb") as nowhere:
        app.conf.update(mailsift_pool_started=show_metrics)
        os.dup2(nowhere.fileno(), 1)  # the library says goodbye there, in words that are no log line
        _serve(app, settings)


def _keep_our_logs(**_: object) -> None:
    """Being asked is enough: then the library sets up no logging of its own."""


def _serve(app: Celery, settings: Settings) -> None:
    worker = app.Worker(  # the library's command line would load what a worker never needs
        concurrency=settings.worker_processes,
        queues=[QUEUE],
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
        loglevel="WARNING",
        quiet=True,
    )
    worker.start()
    sys.exit(worker.exitcode)
