"""The engine of one worker process: claim, work, keep the leases, sweep; never wait on a limit."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from dataclasses import dataclass
from uuid import UUID

import structlog

from jobs.attempts import attempt_at_chunk, attempt_at_step, context_of, show_in_flight, show_process
from jobs.commit import LeaseLostError
from jobs.errands import Errands
from jobs.faults import told
from jobs.meters import LEASES_EXPIRED
from jobs.ports import Waker
from jobs.pulse import Pulse
from jobs.steps import StepWorker
from jobs.stopwatch import Stopwatch
from jobs.work import ChunkWorker
from pipeline.errors import MailsiftError
from storage import chunk_rows, job_rows, lease_rows
from storage.chunk_rows import ClaimedChunk
from storage.database import Database, DatabaseError
from storage.job_rows import ClaimedStep

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """How one process works; times in seconds.

    Attributes:
        owner: names this process in its leases; unique.
        crew: names the worker whose pool this process is in; "" = it is on its own.
        slots: chunks and steps in flight at once; one more is kept for small jobs.
        survey_slots: how many of them may be chunks nobody has looked at yet: those are large, and cost
            computing rather than waiting.
        job_cap: chunks of one job that may be leased at once, everywhere.
        lease_s, heartbeat_s: how long a lease lasts, and how often it is renewed and operators are heard.
        sweep_s: how often what the dead left behind is mended.
        run_s: how long one wake-up keeps claiming.
        linger_s: how long an idle process keeps looking before it goes back to sleep.
        poll_s: how often it looks while work is in flight or it lingers.
        small_bytes: lists up to this size are taken in before bigger ones.
    """

    owner: str
    crew: str = ""
    slots: int = 6
    survey_slots: int = 3
    job_cap: int = 64
    lease_s: float = 60.0
    heartbeat_s: float = 10.0
    sweep_s: float = 5.0
    run_s: float = 20.0
    linger_s: float = 1.0
    poll_s: float = 0.2
    small_bytes: int = 256 * 1024


class Engine:
    """Lives as long as its process; `drain` is called by every wake-up, what is in flight lives on."""

    def __init__(
        self,
        *,
        config: EngineConfig,
        database: Database,
        chunks: ChunkWorker,
        steps: StepWorker,
        errands: Errands,
        waker: Waker,
    ) -> None:
        self._config = config
        self._database = database
        self._chunks = chunks
        self._steps = steps
        self._errands = errands
        self._waker = waker
        self._in_flight: dict[UUID, asyncio.Task[None]] = {}
        self._held: dict[UUID, ClaimedChunk | ClaimedStep] = {}
        self._pulse = Pulse(
            owner=config.owner, crew=config.crew, slots=config.slots + 1, every=config.heartbeat_s
        )
        self._heart: asyncio.Task[None] | None = None
        self._swept_at = float("-inf")
        self._closing = False
        self._show()

    async def drain(self) -> None:
        """Claim and start work until there is none or the time of one wake-up is over."""
        await self._start_heart()
        started = idle_since = time.monotonic()
        while not self._closing and time.monotonic() - started < self._config.run_s:
            await self._sweep_when_due()
            if not self._pulse.draining:
                await self._errands.start()
            while await self._claim_one():
                idle_since = time.monotonic()
            if under_way := self._errands.in_flight.union(self._in_flight.values()):
                idle_since = time.monotonic()
                await asyncio.wait(
                    under_way,
                    timeout=self._config.poll_s,
                    return_when=asyncio.FIRST_COMPLETED,
                )
            elif time.monotonic() - idle_since < self._config.linger_s:
                await asyncio.sleep(self._config.poll_s)
            else:
                return
        if not self._closing:
            await self._waker.wake(1)

    def stop(self) -> None:
        """Claim nothing more; `drain` returns at its next look. A signal handler may call it."""
        self._closing = True

    async def aclose(self, grace_s: float = 10.0) -> None:
        """Stop claiming, give what is in flight a moment, and give back the work that is left."""
        self.stop()
        await asyncio.gather(self._close_work(grace_s), self._errands.aclose(grace_s))
        if self._heart is not None:
            self._heart.cancel()
            await asyncio.gather(self._heart, return_exceptions=True)
            await self._say_goodbye()

    async def _close_work(self, grace_s: float) -> None:
        if self._in_flight:
            await asyncio.wait(self._in_flight.values(), timeout=grace_s)
        left = list(self._held.values())
        for task in self._in_flight.values():
            task.cancel()
        await asyncio.gather(*self._in_flight.values(), return_exceptions=True)
        for held in left:
            async with self._database.begin() as connection:
                if isinstance(held, ClaimedChunk):
                    await chunk_rows.release(connection, held, tried=False)
                else:
                    await job_rows.release_step(connection, held)

    async def _claim_one(self) -> bool:
        """Claim and start one piece of work; the last slot is for small jobs only."""
        free = self._config.slots + 1 - len(self._in_flight)
        if free <= 0 or self._closing or self._pulse.draining:
            return False
        async with self._database.begin() as connection:
            step = await job_rows.claim_step(
                connection,
                owner=self._config.owner,
                lease=self._config.lease_s,
                small_bytes=self._config.small_bytes,
                small_only=free == 1,
            )
        if step is not None:
            self._start(step.token, step, self._do_step(step))
            return True
        watch = Stopwatch()
        with watch.phase("claim"):
            chunk = await self._database.run(
                lambda connection: chunk_rows.claim(
                    connection,
                    owner=self._config.owner,
                    lease=self._config.lease_s,
                    job_cap=self._config.job_cap,
                    small_only=free == 1,
                    survey=free == 1 or self._surveys() < self._config.survey_slots,
                )
            )
        if chunk is None:
            return False
        self._start(chunk.lease_token, chunk, self._do_chunk(chunk, watch))
        return True

    def _forget(self, token: UUID) -> None:
        self._in_flight.pop(token, None)
        self._held.pop(token, None)
        show_in_flight(self._held.values())

    def _surveys(self) -> int:
        return sum(
            isinstance(held, ClaimedChunk) and held.lane == chunk_rows.SURVEY_LANE
            for held in self._held.values()
        )

    def _start(
        self, token: UUID, held: ClaimedChunk | ClaimedStep, work: Coroutine[None, None, None]
    ) -> None:
        self._held[token] = held
        show_in_flight(self._held.values())
        self._in_flight[token] = task = asyncio.create_task(work, context=context_of(held))
        task.add_done_callback(lambda _: self._forget(token))
        self._pulse.claimed()

    async def _do_step(self, step: ClaimedStep) -> None:
        try:
            with attempt_at_step(step):
                worth = await self._steps.work(step)
        except LeaseLostError:
            _log.info("job.step.lease_lost")
        except Exception as error:  # noqa: BLE001 - whatever it was, the lease ends and another tries
            _log.warning("job.step.error", **told(error))
        else:
            _log.info("job.step.done", step=step.state)
            await self._waker.wake(min(worth, self._config.slots))

    async def _do_chunk(self, chunk: ClaimedChunk, watch: Stopwatch) -> None:
        try:
            with attempt_at_chunk(chunk, watch):
                last = await self._chunks.work(chunk, watch)
        except LeaseLostError:
            _log.info("chunk.lease_lost")
        except Exception as error:  # noqa: BLE001 - whatever it was, nothing is lost: the chunk goes back
            _log.warning("chunk.error", **told(error))
            await self._release(chunk, error)
        else:
            _log.info("chunk.done", lane=chunk.lane, addresses=chunk.addresses, **watch.fields())
            if last:
                await self._waker.wake(1)

    async def _release(self, chunk: ClaimedChunk, why: Exception) -> None:
        try:
            async with self._database.begin() as connection:
                await chunk_rows.release(
                    connection,
                    chunk,
                    delay=float(min(60, 2**chunk.attempt)),
                    waits_for="error",
                    tried=not _ours_to_blame(why),
                    error=told(why)["error"],
                )
        except Exception as error:  # noqa: BLE001 - then its lease runs out and a sweep frees it
            _log.warning("chunk.release_error", **told(error))

    async def _start_heart(self) -> None:
        """Begin to beat; nothing is claimed before the first beat, which may forbid it."""
        if self._heart is None:
            self._heart = asyncio.create_task(self._keep_beating())
            await self._beat()

    async def _keep_beating(self) -> None:
        while True:
            await self._pulse.rest()
            await self._beat()

    async def _beat(self) -> None:
        """Tell of this process and renew its leases; work whose lease is lost is stopped."""
        before = set(self._in_flight)
        lost: set[UUID] = set()
        try:
            async with self._database.begin() as connection:
                if before:
                    alive = await chunk_rows.renew(connection, before, lease=self._config.lease_s)
                    alive |= await job_rows.renew_steps(connection, before, lease=self._config.lease_s)
                    lost = before - alive
                await self._pulse.beat(connection, in_hand=len(before))
        except Exception as error:  # noqa: BLE001 - the next beat tries again; the fence guards the rest
            _log.warning("heartbeat.error", **told(error))
            return
        self._show()
        for token in lost.intersection(self._in_flight):
            self._in_flight[token].cancel()

    def _show(self) -> None:
        """Show how much this process takes at a time: nothing when it is drained."""
        if self._closing or self._pulse.draining:
            show_process(slots=0, survey_slots=0)
        else:
            show_process(slots=self._config.slots, survey_slots=self._config.survey_slots)

    async def _say_goodbye(self) -> None:
        try:
            async with self._database.begin() as connection:
                await self._pulse.stop(connection)
        except Exception as error:  # noqa: BLE001 - then it is shown as gone
            _log.warning("goodbye.error", **told(error))

    async def _sweep_when_due(self) -> None:
        if time.monotonic() - self._swept_at < self._config.sweep_s:
            return
        self._swept_at = time.monotonic()
        if not self._pulse.draining:
            await self._errands.sweep()
        async with self._database.begin() as connection:
            freed = await lease_rows.free_expired(connection)
        self._pulse.swept()
        if freed:
            LEASES_EXPIRED.add("chunk", amount=freed)
            _log.warning("sweep.leases_freed", chunks=freed)
            await self._waker.wake(min(freed, self._config.slots))


def _ours_to_blame(error: Exception) -> bool:
    """Say whether the database or the blob store failed: then no address is suspected of it."""
    return isinstance(error, DatabaseError) or (isinstance(error, MailsiftError) and error.retryable)
