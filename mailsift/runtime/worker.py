"""A worker: Celery prefork processes, each with one engine on one loop; the master wakes them every tick.

And the sweeper: the maintenance of every worker, in a process that never touches a list.
"""

from __future__ import annotations

import asyncio
import gc
import mmap
import multiprocessing
import os
import secrets
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import structlog
from celery import Celery, bootsteps, signals
from celery.apps.worker import Worker
from celery.concurrency.prefork import TaskPool
from celery.worker import WorkController, state
from celery.worker.consumer import Consumer
from kombu.asynchronous import get_event_loop
from kombu.exceptions import OperationalError
from typing_extensions import override

from mailsift.container import open_container, open_engine
from mailsift.jobs.engine.engine import Engine
from mailsift.jobs.engine.heartbeat import Heartbeat, process_name
from mailsift.jobs.engine.maintenance import Sweeper
from mailsift.jobs.tasks import PULL, QUEUE, make_app, send_wake_ups
from mailsift.metrics import metered_sweeper, metered_worker
from mailsift.pipeline.background import guarded
from mailsift.pipeline.errors import MailsiftError, error_fields
from mailsift.pipeline.providers import public_suffixes
from mailsift.runtime.loop_thread import LoopThread
from mailsift.settings import Settings, server_url
from mailsift.storage.redis.connection import ClientError, mend_broker_keys
from mailsift.tracing import check_tracing, traced

_STOP = signal.SIGUSR2
"""Tells a process of the pool to claim nothing more."""

_SILENT_SWEEPS = 1.5
"""A process that nobody has woken for so many sweeps wakes itself."""
_LOOK_SECONDS = 0.25
_ANSWER_SECONDS = 1.0
"""A stopping process ends its wake-up within so long; else the library waits for it."""

_REFUSED_SECONDS = 5.0
"""When a broker is asked again that is full or a replica."""

_NO_THREADS = "There are no threads, or no memory, to compute with (ulimit -u and -v, TasksMax, pids)."

_log = structlog.get_logger()

for _part in (
    "jobs.drafts",
    "jobs.forecasts",
    "jobs.outcomes.accuracy",
    "jobs.schedules",
    "key_files",
    "pipeline.probe.port25",
    "pipeline.scripted",
    "storage.redis.facts",
):  # what the container loads for an engine is loaded once, before the fork, and not by every process
    import_module(f"mailsift.{_part}")


class ProcessRuntime:
    """The engine of one worker process: opened after the fork, closed before the exit."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._worker_id = secrets.token_hex(8)  # made before the fork: all processes of this pool have it
        self._loop: LoopThread | None = None
        self._engine: Engine | None = None
        self._draining = asyncio.Lock()
        self._stopping = False
        self._drained_at = float("-inf")
        self._stack = AsyncExitStack()
        self._failure = mmap.mmap(-1, 1)  # shared with all processes of this pool

    @property
    def has_failed(self) -> bool:
        """Whether a process of this pool took the worker down, for it has no engine, or one of no use."""
        return self._failure[0] != 0

    def open(self, **_: object) -> None:
        """Start the loop and everything that lives on it."""
        # A pool's process ignores Ctrl-C, but polars hears it all the same, and a frame ends where it did.
        # When the terminal is gone, the master stops it in good order.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})
        # What lives as long as the process is not worth looking through again and again.
        gc.freeze()
        gc.set_threshold(20_000, 50, 100)
        try:
            self._loop = LoopThread()
            self._stack.enter_context(traced(self._settings, "worker"))
            opening = open_engine(self._settings, worker_id=self._worker_id)
            self._engine = self._loop.run(self._stack.enter_async_context(opening))
            self._loop.run(self._stack.enter_async_context(self._driven()))
        except BaseException as error:
            if isinstance(error, Exception):
                why = {"why": error.message} if isinstance(error, MailsiftError) else {}
                _log.error("worker.not_opened", **error_fields(error), **why)
            self._end_worker()
            raise
        signal.signal(_STOP, lambda *_: self._stop())

    def close(self, *, exitcode: int, **_: object) -> None:
        """Give back what is in flight, close every connection and end the process.

        The pool would sleep for a second here, for its master to read why; a stopping one does not ask.
        """
        if self._loop is not None:
            self._loop.run(self._stack.aclose())
            self._loop.close()
        if self._stopping:
            os._exit(exitcode)

    def _end_worker(self) -> None:
        """Let the pool end in failure: without an engine it would go on, look alive and do nothing."""
        self._failure[0] = 1
        os.kill(os.getppid(), signal.SIGINT)

    def _stop(self) -> None:
        self._stopping = True
        if self._engine is not None:
            self._engine.stop()

    def drain(self) -> None:
        """What a wake-up does; its failure is ours to tell, Celery would name it by an error of its own."""
        if self._loop is not None:
            self._loop.run(guarded(self._drain(), "drain"))

    async def _drain(self) -> None:
        """Drain the engine, one caller at a time: a process that is at work is not free for a wake-up."""
        async with self._draining:
            if self._engine is None:
                return
            more = False
            try:
                more = await self._engine.drain()
            finally:
                self._drained_at = float("-inf") if more else time.monotonic()
                if self._engine.is_useless and not self.has_failed:  # told twice, it would end at once
                    _log.error("worker.useless", why=_NO_THREADS)
                    self._end_worker()

    def _due_at(self, silence: float) -> float:
        """Return when to look for work unasked, after so much silence at the latest."""
        waited_for = float("inf") if self._engine is None else self._engine.due_at
        return min(waited_for, self._drained_at + silence)

    @asynccontextmanager
    async def _driven(self) -> AsyncIterator[None]:
        """Drain the engine when nobody wakes it: something was waited for, or the broker is away."""
        silence = _SILENT_SWEEPS * self._settings.sweep_seconds

        async def drive() -> None:
            while True:
                await asyncio.sleep(_LOOK_SECONDS)
                if self._draining.locked() or time.monotonic() < self._due_at(silence):
                    continue
                await guarded(self._drain(), "drain")

        driving = asyncio.create_task(drive())
        try:
            yield
        finally:
            driving.cancel()
            await asyncio.gather(driving, return_exceptions=True)


class _Worker(Worker):
    """Ends when its terminal closes, as every server does; the library's would start anew."""

    @override
    def install_platform_tweaks(self, worker: WorkController) -> None:
        end = signal.getsignal(signal.SIGHUP)
        allowed = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
        super().install_platform_tweaks(worker)
        signal.signal(signal.SIGHUP, end)
        signal.pthread_sigmask(signal.SIG_SETMASK, allowed)


class _Consumer(Consumer):
    """Takes wake-ups; whenever it connects, it first mends the broker's keys it would stumble over.

    Connecting reads them already; and while it fails, nothing of this worker's master ticks.
    """

    @override
    def connect(self) -> Any:
        _mend_broker(self.app)
        return super().connect()

    @override
    def on_connection_error_before_connected(self, exc: Exception) -> None:
        """Wait a little for a server that answers and takes nothing: the library asks it again at once."""
        super().on_connection_error_before_connected(exc)
        again = time.monotonic() + _REFUSED_SECONDS
        while time.monotonic() < again:
            state.maybe_shutdown()
            time.sleep(_LOOK_SECONDS)


def _mend_broker(app: Celery) -> None:
    with suppress(ClientError):  # away: there is nothing to mend
        for key in mend_broker_keys(app.conf.mailsift_redis_url, QUEUE):
            _log.warning("broker.key_mended", key=key)


class _Pool(TaskPool):
    """Stops as soon as its processes have ended; the library looks twice a second, for each of them."""

    _pool: Any

    @override
    def on_stop(self) -> None:
        hub, until = get_event_loop(), time.monotonic() + _ANSWER_SECONDS
        try:
            if hub is not None and state.reserved_requests:
                for _ in hub.create_loop():  # hears what the processes answer when they answer
                    if not state.reserved_requests or time.monotonic() > until:
                        break
        finally:
            self._pool.close()
            self._pool.join()
            self._pool = None


class WakeUpTimer(bootsteps.StartStopStep):
    """Wakes every process of this worker now and then: lost wake-ups, expired leases and what is due."""

    requires = ("celery.worker.components:Timer", "celery.worker.components:Pool")

    def __init__(self, parent: Any, **kwargs: Any) -> None:
        super().__init__(parent, **kwargs)
        self._timer: Any = None
        self._signals: tuple[socket.socket, ...] = ()

    @override
    def start(self, parent: Any) -> None:
        """Tick at once and then again and again; the processes of the pool are there by now."""
        parent.app.conf.mailsift_pool_started()
        self._wake_on_signals(parent.hub)
        seconds = parent.app.conf.mailsift_sweep_seconds
        top_up(parent.app, parent.concurrency)
        self._timer = parent.timer.call_repeatedly(seconds, top_up, (parent.app, parent.concurrency))

    def _wake_on_signals(self, hub: Any) -> None:
        """Let a signal end the loop's wait: its poll goes on after one, up to a second (PEP 475)."""
        self._signals = socket.socketpair()
        for end in self._signals:
            end.settimeout(0)
        signal.set_wakeup_fd(self._signals[1].fileno(), warn_on_full_buffer=False)
        hub.add_reader(self._signals[0], self._signals[0].recv, 64)

    @override
    def stop(self, parent: Any) -> None:
        """Stop ticking, and let no process begin anything: the pool waits until their wake-ups are over."""
        if self._timer is not None:
            self._timer.cancel()
        if self._signals:
            signal.set_wakeup_fd(-1)
            parent.hub.remove_reader(self._signals[0])
        for end in self._signals:
            end.close()
        for pid in parent.pool.info["processes"]:
            with suppress(ProcessLookupError):
                os.kill(pid, _STOP)


def end_without(parent: int, *, every: float) -> None:
    """Stop this process in good order once its parent is another one; looks every so many seconds.

    By a timer of the system: while the broker is away, nothing else ticks here.
    """

    def look(*_: object) -> None:
        if os.getppid() != parent:
            signal.setitimer(signal.ITIMER_REAL, 0)
            os.kill(os.getpid(), signal.SIGTERM)

    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, every, every)


def top_up(app: Celery, count: int) -> None:
    """Send as many wake-ups as the queue lacks of `count`; a broker that is away costs time, not work."""
    _mend_broker(app)
    try:
        with app.connection_for_write() as connection:
            channel: Any = connection.default_channel
            waiting = channel.queue_declare(QUEUE).message_count
    except (OperationalError, OSError, ClientError) as error:
        _log.warning("tick.lost", error=type(error).__qualname__)
        return
    send_wake_ups(app, max(0, count - waiting))


def run_worker(settings: Settings, *, parent: int = 0, counts: Path | None = None) -> None:
    """Serve until SIGTERM (warm: what runs is finished or given back), or until `parent` is no longer ours.

    `counts` is the folder of what the processes count, which the metrics library knows since it was loaded.

    Raises:
        KeyboardInterrupt: after SIGINT, which stops it as SIGTERM does.
        SystemExit: otherwise; its code is 1 when a process could not open its engine.
        MailsiftError: `bad_overrides`, `bad_opt_outs`, `otel_missing`, `port_in_use`, `worker_failed`.
    """
    settings.check_files()
    public_suffixes()  # parsed here, once, too
    _check_semaphores()
    app = _make_app(settings)
    app.conf.update(mailsift_sweep_seconds=settings.sweep_seconds)
    if parent:
        end_without(parent, every=settings.sweep_seconds)
    app.steps["worker"].add(WakeUpTimer)
    runtime = ProcessRuntime(settings)
    app.task(name=PULL)(runtime.drain)
    signals.worker_process_init.connect(runtime.open, weak=False)
    signals.worker_process_shutdown.connect(runtime.close, weak=False)
    signals.setup_logging.connect(_keep_our_logs, weak=False)
    check_tracing(settings)  # a missing extra is told here, too
    with metered_worker(settings, counts) as show_metrics, Path(os.devnull).open("wb") as nowhere:
        app.conf.update(mailsift_pool_started=show_metrics)
        os.dup2(nowhere.fileno(), 1)  # the library says goodbye there, in words that are no log line
        _serve(app, settings, runtime)


def _make_app(settings: Settings) -> Celery:
    url = server_url(settings.redis_url)
    app = make_app(url)
    app.conf.update(mailsift_redis_url=url)
    return app


def _check_semaphores() -> None:
    """See to it that the pool can make what its processes wait at: the library ends without a word of why."""
    try:
        multiprocessing.get_context("fork").Semaphore()
    except OSError as error:
        text = f"No semaphore can be made ({error.strerror}): /dev/shm must be there, and be writable."
        raise MailsiftError("worker_failed", text) from error


def _keep_our_logs(**_: object) -> None:
    """Being asked is enough: then the library sets up no logging of its own."""


def _serve(app: Celery, settings: Settings, runtime: ProcessRuntime) -> None:
    stopped_by: list[str] = []

    def remember(*, sig: str, **_: object) -> None:
        stopped_by.append(sig)

    signals.worker_shutting_down.connect(remember, weak=False)
    worker = _Worker(  # the library's command line would load what a worker never needs
        app=app,
        concurrency=settings.worker_processes,
        consumer_cls=_Consumer,
        pool_cls=_Pool,
        queues=[QUEUE],
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
        loglevel="WARNING",
        quiet=True,
    )
    worker.start()
    if "SIGINT" in stopped_by and not runtime.has_failed:
        raise KeyboardInterrupt  # the library takes it for a failure
    # The former is set when it is stopped a second time, and ends at once.
    sys.exit(state.should_terminate or worker.exitcode)  # type: ignore[redundant-expr]  # set from outside


_GRACE_SECONDS = 15.0  # a webhook that is being sent has so long to end


async def run_sweeper(settings: Settings, *, stop: asyncio.Event | None = None) -> None:
    """Sweep until SIGINT, SIGTERM or `stop`; needs DATABASE_URL and REDIS_URL.

    Raises:
        KeyboardInterrupt: after SIGINT.
        MailsiftError: `port_in_use`, `otel_missing`.
    """
    stop, interrupted = stop or asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)

    def interrupt() -> None:
        interrupted.set()
        stop.set()

    loop.add_signal_handler(signal.SIGINT, interrupt)
    app = _make_app(settings)
    async with AsyncExitStack() as stack:
        stack.enter_context(metered_sweeper(settings))
        stack.enter_context(traced(settings, "sweeper"))
        container = await stack.enter_async_context(open_container(settings))
        stack.push_async_callback(container.maintenance.aclose, _GRACE_SECONDS)

        async def wake(count: int) -> None:
            await asyncio.to_thread(top_up, app, count)

        sweep_s = settings.sweep_seconds
        heartbeat = Heartbeat(owner=process_name(), slots=0, every=sweep_s)
        sweeper = Sweeper(
            database=container.database,
            maintenance=container.maintenance,
            top_up=wake,
            heartbeat=heartbeat,
            sweep_s=sweep_s,
        )
        await sweeper.run(stop)
    if interrupted.is_set():
        raise KeyboardInterrupt
