"""The engine of one worker process: claim, work, keep the leases, sweep; never wait on a limit.

What a free slot takes next, a step or a chunk, goes by account and virtual time. Every attempt has its ids in
all log lines, a span while it lasts, and is counted by what came of it.
"""

from __future__ import annotations

import asyncio
import errno
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import Context, copy_context
from dataclasses import dataclass
from typing import Final
from uuid import UUID

import structlog
from structlog.contextvars import bind_contextvars

from mailsift.jobs.engine.chunk import ChunkWorker, SmallList
from mailsift.jobs.engine.heartbeat import Heartbeat
from mailsift.jobs.engine.maintenance import ExpiredLeases, Maintenance
from mailsift.jobs.engine.step import SUSPECT_PAUSES, StepWorker
from mailsift.jobs.intake.process import ReaderKilledError, ReaderStuckError
from mailsift.jobs.metrics import (
    ATTEMPTS,
    CLAIM,
    IN_FLIGHT,
    PHASES,
    RUN,
    SLOTS,
    STEP_ATTEMPTS,
    STEP_RUN,
    UP,
)
from mailsift.jobs.tracing import Stopwatch, open_part, open_span
from mailsift.jobs.views import WAITS_FOR_MEMORY, WAITS_FOR_PLACE, WAITS_FOR_STORAGE, WAITS_FOR_THREADS
from mailsift.jobs.waker import Waker
from mailsift.pipeline.background import guarded
from mailsift.pipeline.errors import (
    PANIC,
    MailsiftError,
    SuspectError,
    error_fields,
    lacks_frames,
    lacks_threads,
    outage_of,
)
from mailsift.storage.database import Connection, Database, DatabaseError, UnfitValueError
from mailsift.storage.sql import chunks, jobs
from mailsift.storage.sql.chunks import (
    JOB_CAP,
    LEASE_SECONDS,
    SHARED_KEYS,
    TRIAGE_KEY,
    ClaimedChunk,
    LeaseLostError,
    LeaseTerms,
)
from mailsift.storage.sql.jobs import ClaimedStep, StepClaim
from mailsift.storage.states import JobTransition


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """How one process works; times in seconds.

    Attributes:
        owner: names this process in its leases; unique.
        worker_id: names the worker whose pool this process is in; "" = it is on its own.
        slots: chunks and steps in flight at once, but for what goes from or to places; one more is kept for
            small jobs.
        triage_slots: how many of them may be chunks of big jobs that are still to be triaged: those are
            large, and cost computing rather than waiting.
        sources: the identities the process asks mail servers from.
        job_cap: chunks of one job that may be leased at once, everywhere.
        lease_s, heartbeat_s: how long a lease lasts, and how often it is renewed and orders are read.
        sweep_s: how often what the dead left behind is mended.
        run_s: how long one wake-up keeps claiming.
        linger_s: how long an idle process keeps looking before it goes back to sleep.
        poll_s: how often it looks while work is in flight or it lingers.
    """

    owner: str
    worker_id: str = ""
    sources: tuple[str, ...] = ("",)
    slots: int = 6
    triage_slots: int = 3
    job_cap: int = JOB_CAP
    lease_s: float = LEASE_SECONDS
    heartbeat_s: float = 5.0
    sweep_s: float = 5.0
    run_s: float = 20.0
    linger_s: float = 1.0
    poll_s: float = 0.2

    @property
    def terms(self) -> LeaseTerms:
        """On what terms it leases."""
        return LeaseTerms(self.owner, self.lease_s, self.sources)

    @property
    def reading_slots(self) -> int:
        """How many slots may read lists at once: half of them, so that chunks always go on."""
        return max(1, self.slots // 2)


_log = structlog.get_logger()


class Engine:
    """Lives as long as its process; `drain` is called by every wake-up, what is in flight lives on.

    Args:
        is_unhurried: whether only sessions limit us at the provider of a throttle key.

    Attributes:
        due_at: when, by the monotonic clock, the next chunk is due that waited when the last `drain` ended.
        is_useless: whether it has stopped because nothing can be worked on in its process.
    """

    def __init__(  # noqa: PLR0913 - what it works with
        self,
        *,
        config: EngineConfig,
        database: Database,
        chunks: ChunkWorker,
        steps: StepWorker,
        maintenance: Maintenance,
        waker: Waker,
        is_unhurried: Callable[[str], bool],
    ) -> None:
        self._config = config
        self._database = database
        self._chunks = chunks
        self._steps = steps
        self._maintenance = maintenance
        self._waker = waker
        self._claimer = Claimer(database, config, is_unhurried)
        self._expired = ExpiredLeases(database, rest_s=2 * config.heartbeat_s)
        self._in_flight: dict[UUID, asyncio.Task[None]] = {}
        self._held: dict[UUID, ClaimedChunk | ClaimedStep] = {}
        # By job: how often its step was given back since it last went well, as the store or the database was
        # away. It costs the job no attempt; the wait doubles with every try of this process, up to a minute.
        self._outages: dict[UUID, int] = {}
        self._heartbeat = Heartbeat(
            owner=config.owner,
            worker_id=config.worker_id,
            slots=config.slots + 1,
            every=config.heartbeat_s,
            health=maintenance.health,
            sources=config.sources,
        )
        self._heartbeat_task: asyncio.Task[None] | None = None
        self._swept_at = float("-inf")
        self._closing = False
        self._stopped = asyncio.Event()
        self.due_at = float("inf")
        self.is_useless = False
        self._set_gauges()

    async def drain(self) -> bool:
        """Claim and start work until there is none or the time of one wake-up is over.

        Returns:
            Whether there may be more.
        """
        self.due_at = float("inf")
        await self._start_heartbeat()
        started = idle_since = time.monotonic()
        while not self._closing and time.monotonic() - started < self._config.run_s:
            await self._sweep_when_due()
            if not self.is_draining:
                await guarded(self._maintenance.start(), "webhook")
            while await self._claim_one():
                idle_since = time.monotonic()
            if running := self._maintenance.in_flight.union(self._in_flight.values()):
                idle_since = time.monotonic()
            elif time.monotonic() - idle_since >= self._config.linger_s:
                self.due_at = time.monotonic() + await self._claimer.next_ready()
                return False
            await self._until_next_look(running)
        if not self._closing:
            await self._waker.wake(1)
        return not self._closing

    async def _until_next_look(self, running: Collection[asyncio.Task[None]]) -> None:
        """Wait for the first of what runs to end, for `stop`, or until it is time to look again."""
        stopped = asyncio.create_task(self._stopped.wait())
        try:
            await asyncio.wait(
                [stopped, *running], timeout=self._config.poll_s, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            stopped.cancel()

    @property
    def is_draining(self) -> bool:
        """Whether an operator wants nothing more to be claimed, as of the last heartbeat."""
        return self._heartbeat.draining

    def stop(self) -> None:
        """Claim nothing more; `drain` returns. A signal handler may call it, on any thread."""
        self._closing = True
        if self._heartbeat_task is not None:
            with suppress(RuntimeError):  # its loop has ended
                self._heartbeat_task.get_loop().call_soon_threadsafe(self._stopped.set)

    async def aclose(self, grace_s: float = 10.0) -> None:
        """Stop claiming, give what is in flight a moment, and give back the work that is left."""
        self.stop()
        await asyncio.gather(self._close_work(grace_s), self._maintenance.aclose(grace_s))
        if self._heartbeat_task is not None:
            self._heartbeat_task.cancel()
            await asyncio.gather(self._heartbeat_task, return_exceptions=True)
            await self._heartbeat.stop(self._database)

    async def _close_work(self, grace_s: float) -> None:
        if self._in_flight:
            await asyncio.wait(self._in_flight.values(), timeout=grace_s)
        left = list(self._held.values())
        for task in self._in_flight.values():
            task.cancel()
        await asyncio.gather(*self._in_flight.values(), return_exceptions=True)
        await self._steps.aclose()
        for held in left:
            await guarded(self._database.run(_put_back, held), "engine")

    async def _claim_one(self) -> bool:
        if self._closing or self.is_draining:
            return False
        watch = Stopwatch()
        claimed = await self._claimer.claim(self._held.values(), watch)
        if claimed is None:
            return False
        token, work = self._take(claimed, watch)
        _set_in_flight_gauges(self._held.values())
        self._in_flight[token] = task = asyncio.create_task(
            guarded(work, "engine"), context=_context_of(claimed)
        )
        task.add_done_callback(lambda _: self._forget(token))
        self._heartbeat.note_claim()
        return True

    def _take(
        self, held: ClaimedChunk | ClaimedStep, watch: Stopwatch, in_hand: SmallList | None = None
    ) -> tuple[UUID, Coroutine[None, None, None]]:
        """Hold what was leased; returns its lease, and the work."""
        if isinstance(held, ClaimedStep):
            token, work = held.token, self._run_step(held, in_hand)
        else:
            token, work = held.lease_token, self._run_chunk(held, watch, in_hand)
        self._held[token] = held
        return token, work

    def _forget(self, token: UUID) -> None:
        self._in_flight.pop(token, None)
        self._held.pop(token, None)
        _set_in_flight_gauges(self._held.values())

    async def _continue_with(self, held: ClaimedChunk | ClaimedStep, in_hand: SmallList | None) -> None:
        """Run what was leased with the commit of the work before: a small list stays in this process."""
        _, work = self._take(held, Stopwatch(), in_hand)
        await asyncio.create_task(work, context=_context_of(held))  # its log lines carry its ids

    async def _run_step(self, step: ClaimedStep, in_hand: SmallList | None = None) -> None:
        try:
            with attempt_at_step(step):
                done = await self._steps.work(step, in_hand)
        except LeaseLostError:
            self._outages.pop(step.job_id, None)
            _log.info("job.step.lease_lost")
        except Exception as error:  # noqa: BLE001 - whatever it was, the lease ends and another tries
            _log.warning("job.step.error", **error_fields(error))
            self._stop_if_useless(error)
            if isinstance(error, SuspectError):
                await self._release_step(step, error, SUSPECT_PAUSES[step.attempt - 1])
            elif is_infrastructure(error):
                outages = self._outages[step.job_id] = self._outages.get(step.job_id, 0) + 1
                await self._release_step(step, error, float(min(60, 2**outages)))
        else:
            self._outages.pop(step.job_id, None)
            _log.info("job.step.done", step=step.state)
            await self._waker.wake(min(done.opened, self._config.slots))
            if done.chunk is not None:
                await self._continue_with(done.chunk, done.in_hand)

    async def _run_chunk(
        self, chunk: ClaimedChunk, watch: Stopwatch, in_hand: SmallList | None = None
    ) -> None:
        try:
            with _attempt_at_chunk(chunk, watch):
                done = await self._chunks.work(chunk, watch, in_hand)
        except LeaseLostError:
            _log.info("chunk.lease_lost")
        except Exception as error:  # noqa: BLE001 - whatever it was, nothing is lost: the chunk goes back
            _log.warning("chunk.error", **error_fields(error))
            self._stop_if_useless(error)
            await self._release(chunk, error)
        else:
            _log.info("chunk.done", lane=chunk.throttle_key, addresses=chunk.addresses, **watch.fields())
            if done.finish is not None:
                await self._continue_with(done.finish, done.in_hand)
            elif done.last:
                await self._waker.wake(1)
            elif chunk.throttle_key == TRIAGE_KEY and chunk.live_sources > 1:
                await self._waker.wake(chunk.live_sources - 1)  # what it left for providers is for all

    def _stop_if_useless(self, error: Exception) -> None:
        """Claim nothing more in a process that can do nothing more: others can."""
        if lacks_frames(error):
            self.is_useless = True
            self.stop()

    async def _release(self, chunk: ClaimedChunk, cause: Exception) -> None:
        await self._give_back(
            lambda connection: chunks.release(
                connection,
                chunk,
                delay=float(min(60, 2**chunk.attempt)),
                waits_for=_waits_for(cause) or "error",
                tried=not is_infrastructure(cause),
                error=error_fields(cause)["error"],
            ),
            "chunk.release_error",
        )

    async def _release_step(self, step: ClaimedStep, cause: Exception, delay: float) -> None:
        await self._give_back(
            lambda connection: jobs.release_step(
                connection,
                step,
                delay=delay,
                waits_for=_waits_for(cause) or WAITS_FOR_STORAGE,
                tried=isinstance(cause, SuspectError),
            ),
            "job.step.release_error",
        )

    async def _give_back(self, release: Callable[[Connection], Awaitable[None]], event: str) -> None:
        """Give work back, as soon as the database is there again: most often that is why it failed."""
        while True:
            try:
                return await self._database.run(release)
            except Exception as error:  # noqa: BLE001 - at the latest its lease runs out
                _log.warning(event, **error_fields(error))
                if not is_infrastructure(error):
                    return None
            await asyncio.sleep(self._config.heartbeat_s)

    async def _start_heartbeat(self) -> None:
        """Start the heartbeat; nothing is claimed before the first one, which may forbid it."""
        if self._heartbeat_task is None:
            self._heartbeat_task = asyncio.create_task(self._heartbeat_loop())
            await guarded(self._send_heartbeat(), "heartbeat")

    async def _heartbeat_loop(self) -> None:
        while True:
            await self._heartbeat.wait_until_due()
            await guarded(self._send_heartbeat(), "heartbeat")

    async def _send_heartbeat(self) -> None:
        """Report this process and renew its leases; work whose lease is lost is cancelled.

        When that fails, the next beat tries again, and the fence guards the rest.
        """
        before = set(self._in_flight)
        async with self._database.begin() as connection:
            lost = await renew_leases(connection, before, lease_s=self._config.lease_s)
            await self._heartbeat.send(connection, in_hand=self._in_hand())
        self._set_gauges()
        await _cancel_stragglers([self._in_flight[token] for token in lost.intersection(self._in_flight)])

    def _in_hand(self) -> int:
        """Return how many slots are taken; of a process that is drained, what is still to be waited for."""
        return sum(self.is_draining or not is_transfer(one) for one in self._held.values())

    def _set_gauges(self) -> None:
        """Show how much this process takes at a time: nothing when it is drained."""
        if self._closing or self.is_draining:
            set_process_gauges(slots=0, triage_slots=0)
        else:
            set_process_gauges(slots=self._config.slots, triage_slots=self._config.triage_slots)

    async def _sweep_when_due(self) -> None:
        if time.monotonic() - self._swept_at < self._config.sweep_s:
            return
        self._swept_at = time.monotonic()
        if not self.is_draining:
            await guarded(self._maintenance.sweep(), "sweep")
        freed = await self._expired.free()
        self._heartbeat.note_sweep()
        if freed:
            await self._waker.wake(min(freed, self._config.slots))


async def _put_back(connection: Connection, held: ClaimedChunk | ClaimedStep) -> None:
    """Give back what nobody will work on here, for others to take at once."""
    if isinstance(held, ClaimedChunk):
        await chunks.release(connection, held, tried=False)
    else:
        await jobs.release_step(connection, held)


_COMMITTED_S: Final = 1.0  # that work may still take after its commit, to count it and to wake others


async def _cancel_stragglers(tasks: Collection[asyncio.Task[None]]) -> None:
    """Cancel those that do not end by themselves: what has just committed has given its lease back."""
    if tasks:
        _, stragglers = await asyncio.wait(tasks, timeout=_COMMITTED_S)
        for task in stragglers:
            task.cancel()


async def renew_leases(connection: Connection, tokens: Collection[UUID], *, lease_s: float) -> set[UUID]:
    """Renew these leases of chunks and steps; returns those that are lost.

    A small list's lease goes from its intake to its chunk to its finish meanwhile, so that one look may
    miss it everywhere; two cannot.
    """
    lost = set(tokens)
    for _ in range(2):
        if lost:
            lost -= await chunks.renew(connection, lost, lease=lease_s)
            lost -= await jobs.renew_steps(connection, lost, lease=lease_s)
    return lost


class Claimer:
    """Claims for one process.

    Args:
        is_unhurried: whether only sessions limit us at the provider of a throttle key.
    """

    def __init__(self, database: Database, config: EngineConfig, is_unhurried: Callable[[str], bool]) -> None:
        self._database = database
        self._config = config
        self._is_unhurried = is_unhurried

    async def claim(
        self, held: Collection[ClaimedChunk | ClaimedStep], watch: Stopwatch
    ) -> ClaimedChunk | ClaimedStep | None:
        """Lease what is next, if a slot is free for it; the watch measures a chunk's claim.

        Whose account is furthest behind comes first, be it a step or a chunk. A step that has to let others
        go first is taken all the same when there is nothing to claim for them, unless this process is busy
        computing for a big job: then an account that is ahead would get further ahead at its cost.
        """
        capacity = _claim_capacity(held, self._config)
        found = await self._step(capacity, in_turn=True)
        if found.step is not None:
            return found.step
        if capacity.chunks:
            with watch.phase("claim"):
                chunk = await self._chunk(capacity, _keys_with_spare_sessions(held, self._is_unhurried))
            if chunk is not None:
                return chunk
        if not found.is_due or not capacity.out_of_turn:
            return None
        return (await self._step(capacity, in_turn=False)).step

    async def next_ready(self) -> float:
        """Return in how many seconds there may be something to claim that is not there now."""
        return await self._database.run(chunks.next_ready, self._config.sources)

    async def _step(self, capacity: _ClaimCapacity, *, in_turn: bool) -> StepClaim:
        if not (capacity.finishing or capacity.reading or capacity.transferring):
            return StepClaim(None, is_due=False)
        return await self._database.run(
            jobs.claim_step,
            owner=self._config.owner,
            lease=self._config.lease_s,
            small_only=capacity.small_steps,
            finishing=capacity.finishing,
            reading=capacity.reading,
            transferring=capacity.transferring,
            transferring_for=capacity.transferring_for,
            in_turn=in_turn,
        )

    async def _chunk(self, capacity: _ClaimCapacity, shared: Collection[str]) -> ClaimedChunk | None:
        return await self._database.run(
            chunks.claim,
            self._config.terms,
            job_cap=self._config.job_cap,
            small_only=capacity.small_chunks,
            triage=capacity.triage,
            shared=shared,
        )


@dataclass(frozen=True, slots=True)
class _ClaimCapacity:
    """What the free slots of a process may take.

    Attributes:
        finishing: whether the finish of a job.
        reading: whether an intake.
        transferring: whether a list that is still to be fetched, or results that are to be delivered.
        transferring_for: accounts that have their share of these.
        chunks: whether a chunk.
        small_steps, small_chunks: only those of small jobs.
        triage: whether a big job's chunk that is still to be triaged.
        out_of_turn: whether a step of an account that is ahead of others, when nothing else can be claimed.
    """

    finishing: bool
    reading: bool
    transferring: bool
    transferring_for: Collection[UUID]
    chunks: bool
    small_steps: bool
    small_chunks: bool
    triage: bool
    out_of_turn: bool


_TRANSFERS: Final = 8
"""Lists and results that a process moves from and to places at a time, beside its slots: they cost little but
time."""
_TRANSFERS_AN_ACCOUNT: Final = 2
"""How many of them may be of one account."""


def _claim_capacity(held: Collection[ClaimedChunk | ClaimedStep], config: EngineConfig) -> _ClaimCapacity:
    """Decide what may be claimed beside what is held.

    Steps never fill every slot, and reading no more than its half; beside big work small lists are read one
    at a time, for both cost computing, and many would leave the big job little of it. What is big never fills
    every slot either; but where steps do, and no chunk is worked on, one of a big job may be. What goes from
    or to a place takes as long as the place likes: it has no slot, and holds up no other account's.
    """
    transfers = Counter(one.account_id for one in held if is_transfer(one))
    steps = [one for one in held if isinstance(one, ClaimedStep) and not one.is_transfer]
    worked = [one for one in held if isinstance(one, ClaimedChunk)]
    reading = [step for step in steps if step.state == JobTransition.TAKE_IN.target]
    reads_small = any(step.small for step in reading)
    big = sum(not step.small for step in steps) + sum(not chunk.small for chunk in worked)
    triages = sum(chunk.throttle_key == TRIAGE_KEY and not chunk.small for chunk in worked)
    is_free = len(steps) + len(worked) <= config.slots
    has_step_slot = is_free and len(steps) < config.slots
    is_full_of_big = big >= config.slots
    return _ClaimCapacity(
        finishing=has_step_slot,
        reading=has_step_slot and len(reading) < config.reading_slots and not (big and reads_small),
        transferring=is_free and transfers.total() < _TRANSFERS,
        transferring_for=[account for account, count in transfers.items() if count >= _TRANSFERS_AN_ACCOUNT],
        chunks=is_free,
        small_steps=is_full_of_big,
        small_chunks=is_full_of_big and bool(worked),
        triage=triages < config.triage_slots,
        out_of_turn=not triages and all(step.small for step in steps),
    )


def is_transfer(one: ClaimedChunk | ClaimedStep) -> bool:
    """Say whether this goes from or to a place, and so has no slot."""
    return isinstance(one, ClaimedStep) and one.is_transfer


_CHUNKS_A_PROVIDER: Final = 2
"""Chunks of an unhurried provider that a process works on at once."""


def _keys_with_spare_sessions(
    held: Collection[ClaimedChunk | ClaimedStep], is_unhurried: Callable[[str], bool]
) -> list[str]:
    """Return the throttle keys of which a process may take one more chunk beside those it holds.

    Where only sessions limit us, those that the end of a chunk leaves free, and the time its commit takes,
    are used by the next one. Where a rate does, a second chunk would only wait beside the first.
    """
    keys = Counter(one.throttle_key for one in held if isinstance(one, ClaimedChunk))
    return [
        key
        for key, count in keys.items()
        if key not in SHARED_KEYS and count < _CHUNKS_A_PROVIDER and is_unhurried(key)
    ]


def _waits_for(cause: Exception) -> str:
    """Return what has to come back for work that this has ended, "" where nothing says so."""
    if lacks_threads(cause) or isinstance(cause, ReaderStuckError):
        return WAITS_FOR_THREADS
    if isinstance(cause, ReaderKilledError) or getattr(cause, "errno", None) == errno.ENOMEM:
        return WAITS_FOR_MEMORY
    if isinstance(cause, MailsiftError) and cause.code in {"place_unavailable", "place_timeout"}:
        return WAITS_FOR_PLACE
    return WAITS_FOR_STORAGE if is_storage(cause) else ""


def is_storage(error: Exception) -> bool:
    """Say whether the blob store or the disk failed."""
    if isinstance(error, MailsiftError):
        return error.code in {"blob_store_failed", "storage_full"}
    return outage_of(error) != 0


def is_infrastructure(error: Exception) -> bool:
    """Say whether the database, the blob store, the disk or the system failed: no address is to blame."""
    if lacks_threads(error):
        return True
    if isinstance(error, MailsiftError):
        return error.retryable
    if isinstance(error, UnfitValueError):
        return False
    return isinstance(error, DatabaseError | OSError) or is_storage(error)


def _context_of(held: ClaimedChunk | ClaimedStep) -> Context:
    """Return a context for a task whose log lines all carry the ids of what it works on."""
    context = copy_context()
    context.run(bind_contextvars, **_ids(held))
    return context


@contextmanager
def _attempt_at_chunk(chunk: ClaimedChunk, watch: Stopwatch) -> Iterator[None]:
    """Count and trace the work of a chunk, from its claim on."""
    claimed = watch.seconds.get("claim", 0.0)
    CLAIM.observe(claimed)

    def count(outcome: str, seconds: float) -> None:
        ATTEMPTS.labels(outcome).inc()
        RUN.observe(seconds)
        for phase, spent in watch.seconds.items():
            PHASES.labels(phase).inc(spent)

    with open_span("chunk", {**_ids(chunk), "addresses": chunk.addresses}, earlier=claimed):
        with open_part("claim", earlier=claimed):
            pass
        with _counted(count):
            yield


@contextmanager
def attempt_at_step(step: ClaimedStep) -> Iterator[None]:
    """Count and trace an intake or a finish."""

    def count(outcome: str, seconds: float) -> None:
        STEP_ATTEMPTS.labels(step.state, outcome).inc()
        STEP_RUN.labels(step.state).observe(seconds)

    with open_span(f"job.{step.state}", _ids(step)), _counted(count):
        yield


@contextmanager
def _counted(count: Callable[[str, float], None]) -> Iterator[None]:
    """Hand the outcome of what is done meanwhile, and the seconds it took, to `count`."""
    started, outcome = time.perf_counter(), "stopped"
    try:
        with _panics_as_errors():
            yield
        outcome = "done"
    except Exception as error:
        outcome = "lease_lost" if isinstance(error, LeaseLostError) else "error"
        raise
    finally:
        count(outcome, time.perf_counter() - started)


class FramesFailedError(Exception):
    """polars panicked."""


@contextmanager
def _panics_as_errors() -> Iterator[None]:
    """Raise an error for a panic of polars': that is none, and passes by who takes care of what breaks."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != PANIC:
            raise
        raise FramesFailedError().with_traceback(error.__traceback__) from error


def set_process_gauges(*, slots: int, triage_slots: int) -> None:
    """Show that this process works, and how much it takes at a time."""
    UP.set(1)
    SLOTS.labels("all").set(slots)
    SLOTS.labels("survey").set(triage_slots)


def _set_in_flight_gauges(held: Iterable[ClaimedChunk | ClaimedStep]) -> None:
    """Show what this process works on."""
    kinds = [_kind(one) for one in held]
    for kind in ("chunk", "survey", "step"):
        IN_FLIGHT.labels(kind).set(kinds.count(kind))


def _kind(held: ClaimedChunk | ClaimedStep) -> str:
    if isinstance(held, ClaimedStep):
        return "step"
    return "survey" if held.throttle_key == TRIAGE_KEY else "chunk"


def _ids(held: ClaimedChunk | ClaimedStep) -> dict[str, str | int]:
    if isinstance(held, ClaimedStep):
        return {"job": str(held.job_id), "lease": str(held.token)}
    return {"job": str(held.job_id), "chunk": held.n, "lease": str(held.lease_token)}
