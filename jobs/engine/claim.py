"""What a free slot takes next: a step or a chunk, by account and virtual time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from mailsift.jobs.tracing import Stopwatch
from mailsift.storage.database import Database
from mailsift.storage.sql import chunks, jobs
from mailsift.storage.sql.chunks import (
    JOB_CAP,
    LEASE_SECONDS,
    SHARED_KEYS,
    TRIAGE_KEY,
    ClaimedChunk,
    LeaseTerms,
)
from mailsift.storage.sql.jobs import ClaimedStep, StepClaim
from mailsift.storage.states import JobTransition

_TRANSFERS: Final = 8
"""Lists and results that a process moves from and to places at a time, beside its slots: they cost little but
time."""
_TRANSFERS_AN_ACCOUNT: Final = 2
"""How many of them may be of one account."""


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


@dataclass(frozen=True, slots=True)
class ClaimCapacity:
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


def is_transfer(one: ClaimedChunk | ClaimedStep) -> bool:
    """Say whether this goes from or to a place, and so has no slot."""
    return isinstance(one, ClaimedStep) and one.is_transfer


def claim_capacity(held: Collection[ClaimedChunk | ClaimedStep], config: EngineConfig) -> ClaimCapacity:
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
    return ClaimCapacity(
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


_CHUNKS_A_PROVIDER: Final = 2
"""Chunks of an unhurried provider that a process works on at once."""


def keys_with_spare_sessions(
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
        capacity = claim_capacity(held, self._config)
        found = await self._step(capacity, in_turn=True)
        if found.step is not None:
            return found.step
        if capacity.chunks:
            with watch.phase("claim"):
                chunk = await self._chunk(capacity, keys_with_spare_sessions(held, self._is_unhurried))
            if chunk is not None:
                return chunk
        if not found.is_due or not capacity.out_of_turn:
            return None
        return (await self._step(capacity, in_turn=False)).step

    async def next_ready(self) -> float:
        """Return in how many seconds there may be something to claim that is not there now."""
        return await self._database.run(chunks.next_ready, self._config.sources)

    async def _step(self, capacity: ClaimCapacity, *, in_turn: bool) -> StepClaim:
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

    async def _chunk(self, capacity: ClaimCapacity, shared: Collection[str]) -> ClaimedChunk | None:
        return await self._database.run(
            chunks.claim,
            self._config.terms,
            job_cap=self._config.job_cap,
            small_only=capacity.small_chunks,
            triage=capacity.triage,
            shared=shared,
        )
