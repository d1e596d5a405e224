"""The work of one chunk: read its addresses, validate them, write the segment, and commit.

The commit is fenced by the lease, all or nothing.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final
from uuid import UUID

import polars as pl
import structlog

from mailsift.jobs.metrics import FAILING_CHUNKS, count_verdicts, count_waiting
from mailsift.jobs.outcomes.service import OutcomeService
from mailsift.jobs.results.files import to_parquet, to_segment
from mailsift.jobs.tracing import Stopwatch
from mailsift.jobs.views import JobOptions, load_options
from mailsift.pipeline.errors import MailsiftError, error_fields
from mailsift.pipeline.facts import Mode, WaitReason
from mailsift.pipeline.frames import WAITING
from mailsift.pipeline.probe.config import PATIENT_SECONDS, subnet_of
from mailsift.pipeline.throttle import (
    NEVER_STOPS,
    NO_STOP,
    AskedCounts,
    ListStop,
    StopPolicy,
    StopRule,
    ThrottleKey,
)
from mailsift.pipeline.tiers import Tier, TierPolicy, tier_expression
from mailsift.pipeline.validator import ValidationRequest, ValidationResult, Validator
from mailsift.pipeline.verdict import Result, Status
from mailsift.storage.blobs import Blobs, JobBlobs
from mailsift.storage.database import Connection, Database
from mailsift.storage.sql import chunks, jobs, throttles
from mailsift.storage.sql.chunks import (
    MAX_ATTEMPTS,
    MIXED_KEY,
    SHARED_KEYS,
    SLOW_KEY,
    TRIAGE_KEY,
    ClaimedChunk,
    LeaseLostError,
    LeaseTerms,
    NewChunk,
)
from mailsift.storage.sql.jobs import ClaimedStep, VerdictCounts

_log = structlog.get_logger()

_LOST: Final = {"blob_not_found", "blob_damaged"}
_COMMIT_PAUSE: Final = 1 / 12
"""Of a lease, until a commit for which the database was away is tried again."""


@dataclass(frozen=True, slots=True)
class ChunkSizes:
    """How deferred chunks are cut.

    Attributes:
        own_chunk: addresses of one provider that are worth chunks of their own.
        provider_chunk: addresses in a chunk of one provider.
        parts: chunks into which a job's addresses at a provider are cut for each source that could ask for
            them, so that all sources have something to do until the end.
        full_session: addresses that fill a session, beside a random one, at the provider of a throttle key.
        mixed_chunk: addresses in a chunk of many small providers.
        unasked_chunk: addresses in a chunk for which no mail server will be asked: they wait for DNS only.
    """

    own_chunk: int = 50
    provider_chunk: int = 1_000
    mixed_chunk: int = 500
    unasked_chunk: int = 20_000
    parts: int = 16
    full_session: Callable[[str], int] = lambda _: 1

    def for_mode(self, mode: Mode) -> ChunkSizes:
        """Return how to cut what waits in a job of this mode."""
        return self if mode is Mode.DEEP else replace(self, mixed_chunk=self.unasked_chunk)

    def of_provider(self, key: str, addresses: float, sources: int) -> int:
        """Return the size of a provider's chunks when so many addresses wait for so many sources.

        They fill whole sessions: one more for the few that are left over of every chunk costs a connection.
        """
        if sources <= 1:
            return self.provider_chunk
        fair = math.ceil(addresses / (sources * self.parts))
        size, session = max(self.own_chunk, min(self.provider_chunk, fair)), self.full_session(key)
        return size - size % session if size > session else size


@dataclass(frozen=True, slots=True)
class DeferredChunk:
    """A chunk to be.

    Attributes:
        frame: its addresses (frames.WAITING).
        throttle_key: of what they wait for.
        reason: why they wait, "" when they do not.
        delay: for how many seconds.
        subnet: of the source that a greylisting server expects them from, "" for any.
    """

    frame: pl.DataFrame
    throttle_key: str
    reason: str
    delay: float
    subnet: str = ""


@dataclass(frozen=True, slots=True)
class WorkPlan:
    """How chunks are worked.

    Attributes:
        cut: how deferred chunks are cut.
        delays: seconds before the second, third … try at a server that said "later".
        dns_s: seconds without news from DNS after which the slow domains come back among the slow ones.
        brisk_s: wall-clock seconds of an SMTP session at first; slower hosts come back together.
        patient_s: the same for the slow ones.
        budget_s: seconds after which a chunk opens no new session.
        max_attempts: a chunk that workers gave up more often is split.
        sources: the identities this process asks from.
        stop: when a job leaves a provider alone.
    """

    cut: ChunkSizes = field(default_factory=ChunkSizes)
    delays: tuple[float, ...] = (300.0, 900.0, 3600.0)
    dns_s: float = 1.0
    brisk_s: float = 8.0
    patient_s: float = PATIENT_SECONDS
    budget_s: float = 15.0
    max_attempts: int = MAX_ATTEMPTS
    sources: frozenset[str] = frozenset()
    stop: StopRule = NO_STOP

    def request(self, chunk: ClaimedChunk, options: JobOptions) -> ValidationRequest:
        """Return the pipeline's request for a chunk's addresses.

        The first look at a big list leaves more than a few to be asked by all sources.
        """
        is_for_all = chunk.throttle_key == TRIAGE_KEY and chunk.live_sources > 1 and not chunk.small
        return ValidationRequest(
            mode=options.mode,
            evidence=options.evidence,
            max_age=options.max_age,
            probe_limit=self.cut.own_chunk if is_for_all else self.cut.provider_chunk,
            delays=self.delays,
            dns_s=None if chunk.throttle_key == SLOW_KEY else self.dns_s,
            session_s=self.patient_s if chunk.throttle_key == SLOW_KEY else self.brisk_s,
            budget_s=self.budget_s,
            final=chunk.deadline_passed or chunk.test,  # a scripted world says the same at any time
            list_id=str(chunk.job_id),
            owner=str(chunk.account_id),
            closed=self.sources.difference(chunk.sources) if chunk.sources else (),
        )


@dataclass(frozen=True, slots=True)
class SmallList:
    """A list that is in the store and, because it is small, in memory as well, from its intake to its finish.

    Whoever does not hold it, because its worker died or something has to wait, reads it from the store.

    Attributes:
        rows: its `rows.parquet`.
        addresses: what its `addresses.parquet` holds (frames.ADDRESSES).
        verdicts: those of all its addresses (frames.SEGMENT), once they are committed; None before.
    """

    rows: bytes
    addresses: pl.DataFrame
    verdicts: pl.DataFrame | None = None

    def judged(self, verdicts: pl.DataFrame) -> SmallList | None:
        """Return the list with verdicts that are committed; None unless every address has one."""
        return replace(self, verdicts=verdicts) if verdicts.height == self.addresses.height else None


@dataclass(frozen=True, slots=True)
class ChunkDone:
    """What a closed chunk leaves to be done.

    Attributes:
        last: whether it was the job's last open one, so that the job is to be finished.
        finish: that step, where it has been leased to the caller.
        in_hand: the list with its verdicts, where nothing of it has to be read for that.
    """

    last: bool
    finish: ClaimedStep | None = None
    in_hand: SmallList | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkWorker:
    """Does chunks, one call each, many at once on one loop.

    Attributes:
        validator, test_validator: judge them; the other one those of test accounts.
        outcomes: what became of messages that the job's account really sent.
        terms: on which it takes the finish of a small job with its last chunk.
    """

    database: Database
    blobs: Blobs
    validator: Validator
    test_validator: Validator
    work_plan: WorkPlan
    outcomes: OutcomeService
    terms: LeaseTerms

    async def work(
        self, chunk: ClaimedChunk, watch: Stopwatch, in_hand: SmallList | None = None
    ) -> ChunkDone:
        """Validate the chunk and commit what came of it; returns what is to be done next.

        `in_hand` is the list, where the chunk holds all of it and this worker has just read it.

        Raises:
            LeaseLostError: the lease was lost or the job ended meanwhile; nothing was changed.
        """
        try:
            with watch.phase("read"):
                frame = await self._read(chunk) if in_hand is None else in_hand.addresses
        except MailsiftError as error:
            if error.code not in _LOST or chunk.attempt <= self.work_plan.max_attempts:
                raise
            # After a restore, perhaps. It does not come back; the finish finds out what has no verdict.
            return await self._commit(chunk, [])
        if chunk.attempt > self.work_plan.max_attempts and len(frame) > 1:
            FAILING_CHUNKS.labels("split").inc()
            return await self._commit(chunk, split_chunk(chunk, self.work_plan.max_attempts))
        with watch.phase("sift"):
            stop = await self._stop_state(chunk)
            result = await self._validate(chunk, frame, stop)
        with watch.phase("store"):
            segment_key = await self._store_segment(chunk, result.finished)
            cut = self.work_plan.cut.for_mode(load_options(chunk.options).mode)
            groups = group_deferred(
                result.waiting,
                cut,
                sources=chunk.live_sources,
                throttle_key=chunk.throttle_key,
                share=chunk.share,
            )
            deferred = await self._store_deferred(chunk, groups)
        with watch.phase("commit"):
            done = await self._commit(chunk, deferred, result, segment_key, stop)
        if not chunk.test:
            count_verdicts(result.finished)
            count_waiting(result.waiting)
        judged = None if in_hand is None else in_hand.judged(result.finished)
        return replace(done, in_hand=judged)

    async def _read(self, chunk: ClaimedChunk) -> pl.DataFrame:
        source = await self.blobs.fetch(chunk.source_key)
        return await asyncio.to_thread(read_slice, source, chunk.source_offset, chunk.addresses)

    async def _validate(self, chunk: ClaimedChunk, frame: pl.DataFrame, stop: ListStop) -> ValidationResult:
        options = load_options(chunk.options)
        validator = self.test_validator if chunk.test else self.validator
        known = await self.outcomes.facts_of(chunk.account_id, frame["address"], options.outcome_age)
        if chunk.attempt > self.work_plan.max_attempts:
            FAILING_CHUNKS.labels("given_up").inc()
            return validator.give_up(frame, options.mode, outcomes=known)
        request = replace(self.work_plan.request(chunk, options), outcomes=known, stop=stop)
        return await validator.validate(frame, request)

    async def _stop_state(self, chunk: ClaimedChunk) -> ListStop:
        rule = self.work_plan.stop
        if load_options(chunk.options).mode is not Mode.DEEP or not rule.share:
            return NEVER_STOPS
        provider = "" if chunk.throttle_key in SHARED_KEYS else chunk.throttle_key
        return await self.database.run(chunks.asked_before, chunk.job_id, rule, provider=provider)

    async def _store_segment(self, chunk: ClaimedChunk, finished: pl.DataFrame) -> str | None:
        if finished.is_empty():
            return None
        data = await asyncio.to_thread(to_segment, finished)
        key = JobBlobs(chunk.job_id).segment(chunk.n, chunk.lease_token, data)
        await self.blobs.put_bytes(key, data)
        return key

    async def _store_deferred(self, chunk: ClaimedChunk, deferred: list[DeferredChunk]) -> list[NewChunk]:
        if not deferred:
            return []
        key = JobBlobs(chunk.job_id).deferred(chunk.n, chunk.lease_token)
        data = await asyncio.to_thread(to_parquet, pl.concat([one.frame for one in deferred]))
        await self.blobs.put_bytes(key, data)
        new, offset = [], 0
        for one in deferred:
            size = len(one.frame)
            new.append(
                NewChunk(
                    size,
                    key,
                    offset,
                    one.throttle_key,
                    one.reason,
                    one.delay,
                    subnet=one.subnet,
                    domains=one.frame["domain"].n_unique(),
                )
            )
            offset += size
        return new

    async def _commit(
        self,
        chunk: ClaimedChunk,
        deferred: list[NewChunk],
        result: ValidationResult | None = None,
        segment_key: str | None = None,
        stop: ListStop = NEVER_STOPS,
    ) -> ChunkDone:
        close = partial(
            close_chunk,
            chunk=chunk,
            segment_key=segment_key,
            counts=VerdictCounts(),
            deferred=deferred,
            terms=self.terms,
            stop=stop,
        )
        if result is not None:
            counts = counts_of(result.finished, load_options(chunk.options).tiers)
            close = partial(
                close,
                counts=replace(counts, probes=result.probes),
                warning=warning_of(result.finished),
                rests=result.rests,
                asked=result.asked,
            )
        return await self._once_there(close)

    async def _once_there(self, commit: Callable[[Connection], Awaitable[ChunkDone]]) -> ChunkDone:
        """Commit a chunk as soon as the database is there, or until its lease is lost.

        Its verdicts are stored and mail servers have answered: to begin anew would ask them again. It keeps
        its slot meanwhile, for which nothing could be claimed.
        """
        is_told = False
        while True:
            try:
                return await self.database.run(commit)
            except MailsiftError as error:
                if not error.retryable:
                    raise
                if not is_told:
                    _log.warning("chunk.commit_error", **error_fields(error))
                    is_told = True
            await asyncio.sleep(self.terms.lease_s * _COMMIT_PAUSE)


def read_slice(path: object, offset: int, length: int) -> pl.DataFrame:
    """Read the addresses of one chunk; only the row groups that hold them are decoded.

    Raises:
        MailsiftError: `blob_damaged`.
    """
    try:
        frame = pl.scan_parquet(str(path), glob=False).slice(offset, length).collect()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise _damaged() from error
    if len(frame) != length:
        raise _damaged()
    return frame


def _damaged() -> MailsiftError:
    return MailsiftError("blob_damaged", "A stored file differs from what was written.")


def group_deferred(
    waiting: pl.DataFrame,
    cut: ChunkSizes,
    *,
    sources: int = 1,
    throttle_key: str = MIXED_KEY,
    share: float = 1.0,
) -> list[DeferredChunk]:
    """Group the waiting addresses of one chunk, which is of a throttle key and this share of its job.

    Slow hosts come together, a busy provider gets chunks of its own, of which what is left stays its own, the
    rest is mixed. Delays that are close (a factor of two) wait together for the longest of them. Whom a
    greylisting server knows by one of our sources does not wait together with others.
    """
    if waiting.is_empty():
        return []
    subnets = {identity: subnet_of(identity) for identity in waiting["known_by"].unique()}
    crowd = pl.len().over("throttle_key") >= cut.own_chunk
    if throttle_key not in SHARED_KEYS:
        crowd |= pl.col("throttle_key") == throttle_key
    grouped = waiting.with_columns(
        pl.when(pl.col("reason") == WaitReason.SLOW.value)
        .then(pl.lit(SLOW_KEY))
        .when(crowd)
        .then("throttle_key")
        .otherwise(pl.lit(MIXED_KEY))
        .alias("throttle_key"),
        pl.col("delay").map_elements(_bin, return_dtype=pl.Int32).alias("bin"),
        pl.col("known_by").replace_strict(subnets, return_dtype=pl.String).alias("subnet"),
    )
    groups = grouped.partition_by(["throttle_key", "reason", "bin", "subnet"], maintain_order=True)
    return [one for group in groups for one in _cut(group, cut, sources, share)]


def _bin(delay: float) -> int:
    return math.ceil(math.log2(delay)) if delay > 1 else 0


def _cut(group: pl.DataFrame, cut: ChunkSizes, sources: int, share: float) -> Iterator[DeferredChunk]:
    key, reason, subnet = group["throttle_key"][0], group["reason"][0], group["subnet"][0]
    delay = float(group.select(pl.col("delay").max()).item())
    if key in {MIXED_KEY, SLOW_KEY}:
        size = cut.mixed_chunk
    else:
        size = cut.of_provider(key, len(group) / share, 1 if subnet else sources)
    for part in group.select(*WAITING).iter_slices(size):
        yield DeferredChunk(part, key, reason if delay > 0 else "", delay, subnet)


def split_chunk(chunk: ClaimedChunk, max_attempts: int) -> list[NewChunk]:
    """Split a chunk that keeps killing its workers; each half has one more try before it is split again."""
    left = chunk.addresses // 2
    return [
        NewChunk(
            size,
            chunk.source_key,
            offset,
            chunk.throttle_key,
            attempt=max_attempts - 1,
            subnet=chunk.subnet,
        )
        for size, offset in (
            (left, chunk.source_offset),
            (chunk.addresses - left, chunk.source_offset + left),
        )
    ]


def counts_of(finished: pl.DataFrame, policy: TierPolicy) -> VerdictCounts:
    """Count rows by status and by tier, and the addresses they share."""
    tiers = finished.select("status", "rows", tier_expression(policy).alias("tier"))
    # Six sums take two thirds of what two groups do.
    sums = [
        pl.col("rows").filter(pl.col(column) == name.value).sum().alias(name.value)
        for column, names in (("status", Status), ("tier", Tier))
        for name in names
    ]
    return VerdictCounts(**tiers.select(sums).row(0, named=True), addresses=len(finished))


def warning_of(finished: pl.DataFrame) -> str:
    """Return the code of what makes these verdicts poorer than they could be, "" when nothing does."""
    warning = Result.PROBE_UNAVAILABLE.value
    return warning if (finished["result"] == warning).any() else ""


async def close_chunk(  # noqa: PLR0913 - what one commit writes
    connection: Connection,
    chunk: ClaimedChunk,
    *,
    segment_key: str | None,
    counts: VerdictCounts,
    deferred: Sequence[NewChunk],
    warning: str = "",
    rests: Mapping[tuple[str, str], float] | None = None,
    terms: LeaseTerms | None = None,
    asked: Mapping[ThrottleKey, AskedCounts] | None = None,
    stop: ListStop = NEVER_STOPS,
) -> ChunkDone:
    """Close a chunk: count its rows, point to its segment, insert what comes back later.

    Args:
        connection: an open transaction.
        chunk: as claimed.
        segment_key: blob with its verdicts, None when there are none.
        counts: its rows that have a verdict.
        deferred: the chunks that come back later.
        warning: code of what the customer should know about these verdicts, or "".
        rests: seconds until asking a provider from a source makes sense again, by throttle key and identity.
        terms: on which the caller takes the finish of a small job at once, under the lease's token; None: it
            does not.
        asked: what servers answered about real recipients, by provider and source.
        stop: when the job leaves a provider alone, and what it had asked when the chunk was claimed.

    Returns:
        What is to be done next, also when this was committed before and nobody heard of it.

    Raises:
        LeaseLostError: the lease is gone; the transaction must be rolled back.
    """
    progress = await jobs.count(
        connection,
        chunk.job_id,
        counts,
        n=chunk.n,
        token=chunk.lease_token,
        added=len(deferred),
        warning=warning,
    )
    if progress is None or not await chunks.close(connection, chunk, segment_key):
        if not await chunks.is_closed(connection, chunk, segment_key, deferred):
            raise LeaseLostError
        return ChunkDone(last=True, finish=await _lease_finish(connection, chunk, terms))
    first_free, still_open = progress
    left = [new for new in deferred if new.throttle_key == chunk.throttle_key]
    if left and chunk.throttle_key not in SHARED_KEYS:
        await chunks.give_back(connection, chunk, left)
    await _put_off(connection, chunk.job_id, deferred, rests or {}, first_n=first_free)
    if asked or deferred:
        await _apply_stop_rule(connection, chunk.job_id, asked or {}, stop)
    done = await _close_job(connection, chunk, terms, still_open=still_open)
    await jobs.record_use(connection, chunk.job_id, counts)
    return done


async def _close_job(
    connection: Connection, chunk: ClaimedChunk, terms: LeaseTerms | None, *, still_open: int
) -> ChunkDone:
    """Let the job be finished when no chunk is open, a small one by the caller."""
    if still_open or not await jobs.close(connection, chunk.job_id):
        return ChunkDone(last=False)
    return ChunkDone(last=True, finish=await _lease_finish(connection, chunk, terms))


async def _lease_finish(
    connection: Connection, chunk: ClaimedChunk, terms: LeaseTerms | None
) -> ClaimedStep | None:
    """Lease the finish of a small job that is due, or is leased to the caller already."""
    if terms is None or not chunk.small:
        return None
    return await jobs.lease_finish(
        connection, chunk.job_id, owner=terms.owner, lease=terms.lease_s, token=chunk.lease_token
    )


async def _apply_stop_rule(
    connection: Connection, job_id: UUID, asked: Mapping[ThrottleKey, AskedCounts], stop: ListStop
) -> None:
    """Let the job leave providers alone where too few of its addresses are known, in all its chunks."""
    rule = stop.rule
    if not rule.share:
        return
    for place in await chunks.count_asked(connection, job_id, asked, stop):
        _log.warning("job.stopped", provider=place.provider, source=place.source, policy=rule.policy)
    if rule.policy is not StopPolicy.LATER:
        return
    for provider, seconds in sorted((await chunks.stopped_providers(connection, job_id)).items()):
        await chunks.hold(
            connection,
            job_id,
            throttle_key=provider,
            delay=seconds,
            waits_for=WaitReason.TOO_MANY_MISSING,
        )


_BOUND_TO_SOURCE: Final = frozenset({WaitReason.THROTTLED.value, WaitReason.BLOCKED.value})
"""Waits between a provider and one source of ours: another source may go on."""


async def _put_off(
    connection: Connection,
    job_id: UUID,
    deferred: Sequence[NewChunk],
    rests: Mapping[tuple[str, str], float],
    *,
    first_n: int,
) -> None:
    """Insert the chunks that come back later, numbered from `first_n`; hold the others of their providers."""
    opens = await _hold_sources(connection, rests, deferred)
    due = [_with_earliest_start(new, opens) for new in deferred]
    await chunks.insert(connection, job_id, first_n, due)
    for new in _longest_waits(deferred):
        delay = opens.get(new.throttle_key, new.delay) if new.waits_for in _BOUND_TO_SOURCE else new.delay
        if delay > 0:
            await chunks.hold(
                connection, job_id, throttle_key=new.throttle_key, delay=delay, waits_for=new.waits_for
            )


async def _hold_sources(
    connection: Connection, rests: Mapping[tuple[str, str], float], deferred: Sequence[NewChunk]
) -> dict[str, float]:
    """Hold sources at the providers that have chunks of their own.

    Returns in how many seconds the first source of the fleet may ask these, by throttle key.
    """
    keys = {new.throttle_key for new in deferred if new.waits_for in _BOUND_TO_SOURCE} - set(SHARED_KEYS)
    await throttles.record_rests(connection, {place: s for place, s in rests.items() if place[0] in keys})
    return await throttles.opens_in(connection, keys)


def _with_earliest_start(new: NewChunk, opens: Mapping[str, float]) -> NewChunk:
    """Let a chunk that was throttled wait only until some source may ask for it."""
    if new.waits_for != WaitReason.THROTTLED or new.throttle_key not in opens:
        return new
    delay = min(new.delay, opens[new.throttle_key])
    return replace(new, delay=delay, waits_for=new.waits_for if delay > 0 else "")


def _longest_waits(deferred: Sequence[NewChunk]) -> Iterable[NewChunk]:
    """Return one chunk for each provider and reason for which others wait as well: that which waits longest.

    Greylisted addresses hold up no others: for those the wait has yet to begin.
    """
    found = {(new.throttle_key, new.waits_for): new for new in sorted(deferred, key=lambda new: new.delay)}
    return [
        new
        for new in found.values()
        if new.delay > 0 and new.throttle_key not in SHARED_KEYS and new.waits_for != WaitReason.GREYLISTED
    ]
