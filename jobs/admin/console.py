"""What operators look at: every question has one picture, for pages and terminal alike."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib.metadata import version
from itertools import starmap
from typing import Final

import structlog

from mailsift.events.retry import DeliveryState
from mailsift.jobs.admin.alarms import Alarm, Installation, alarms
from mailsift.jobs.engine.heartbeat import HealthWatch
from mailsift.jobs.eta import Batch, JobLoad, ProviderBacklog, TimeLeft, time_left
from mailsift.jobs.forecasts import Forecasts
from mailsift.jobs.intake.models import LIST_FAULTS
from mailsift.jobs.rates import FleetConfig, ProviderRates, allowed_rate
from mailsift.jobs.views import JobId, JobView, view_of
from mailsift.pipeline.clock import utc_datetime
from mailsift.pipeline.errors import MailsiftError, error_fields
from mailsift.pipeline.providers import Provider, Providers, as_key
from mailsift.pipeline.syntax.address import read_domain
from mailsift.pipeline.throttle import (
    REFUSAL_LEDGER_KINDS,
    Ask,
    LedgerCounts,
    LedgerKind,
    Standing,
    provider_at_step,
)
from mailsift.pipeline.wording import counted
from mailsift.storage.database import Connection, Database, DatabaseError, unavailable
from mailsift.storage.redis.connection import BrokerCounts, Client, RedisCircuitBreaker, broker_counts
from mailsift.storage.redis.facts import FactInspector, KnownDomain
from mailsift.storage.redis.throttle import LearnedRate, ThrottleInspector
from mailsift.storage.sql import chunks, jobs, people, stats, throttles, workers
from mailsift.storage.sql.chunks import MAX_ATTEMPTS, MIXED_KEY, SLOW_KEY, TRIAGE_KEY, FailingChunk, Lease
from mailsift.storage.sql.jobs import SEARCH_NEWEST, JobEvent, JobFilter, job_not_found
from mailsift.storage.sql.people import AuditFilter, AuditRow
from mailsift.storage.sql.stats import (
    ChunkHistory,
    ChunkSpan,
    DeliveryHistory,
    EndpointRow,
    Interval,
    KeyBacklog,
    ObservedWait,
    Outbox,
    ScheduleRow,
    Snapshot,
)
from mailsift.storage.sql.throttles import (
    ANY_PROVIDER,
    ANY_SOURCE,
    MOST_RAISE,
    EditBook,
    LedgerPlace,
    LiveSource,
    ThrottleEdit,
    most_sessions,
)
from mailsift.storage.sql.workers import Worker
from mailsift.storage.states import ENDED, ChunkState, JobState


@dataclass(frozen=True, slots=True)
class Overview:
    """Whether it flows.

    Attributes:
        broker: what lies in it; None while Redis isn’t responding.
        alarms: what is wrong, the worst first.
        backlogs: the fullest ones.
        left: when everything that waits is done.
    """

    stats: Snapshot
    broker: BrokerCounts | None
    alarms: Sequence[Alarm]
    backlogs: Sequence[RatedBacklog]
    left: TimeLeft


@dataclass(frozen=True, slots=True)
class RatedBacklog:
    """What waits for one throttle key, and how fast its provider may be asked.

    Attributes:
        title: its name for people.
        rate: recipients a second that are allowed there now, all sources together; None = no limit of one
            provider.
        seconds: how long what remains takes at least; None when there is no rate, or held without an end.
        held: an operator holds the provider.
    """

    row: KeyBacklog
    title: str
    rate: float | None
    seconds: float | None
    held: bool


@dataclass(frozen=True, slots=True)
class AccountJob:
    """A job with the name of its account."""

    account: str
    view: JobView


@dataclass(frozen=True, slots=True)
class JobsPage:
    """Some jobs; `matching` counts all that match, up to MOST_COUNTED."""

    jobs: Sequence[AccountJob]
    matching: int


@dataclass(frozen=True, slots=True)
class JobDetails:
    """A job as operators see it."""

    job: AccountJob
    priority: str
    backlogs: Sequence[RatedBacklog]
    strip: Sequence[ChunkSpan]
    leases: Sequence[Lease]
    failing_chunks: Sequence[FailingChunk]
    events: Sequence[JobEvent]
    audit: Sequence[AuditRow]
    history: JobTimeline


@dataclass(frozen=True, slots=True)
class JobTimeline:
    """What the database knows of the course of a job.

    Attributes:
        step_at: when its reading or its finish was last begun.
        chunks: what happened to its chunks.
        waits: what waits, by reason.
        deliveries: who was told, and how that went.
    """

    step_at: datetime | None
    chunks: ChunkHistory
    waits: Sequence[ObservedWait]
    deliveries: Sequence[DeliveryHistory]


@dataclass(frozen=True, slots=True)
class SourceRow:
    """A source of the fleet; `held`: an operator lets nobody be asked from it."""

    source: LiveSource
    held: bool

    @property
    def state(self) -> str:
        """One word: held or open."""
        return "held" if self.held else "open"


@dataclass(frozen=True, slots=True)
class ThrottleRow:
    """A provider at one source (ANY_SOURCE: an edit for every one).

    Attributes:
        base: the provider table's row, with the overrides file.
        now: the same as edited.
        edit: what operators changed, and who.
        waiting: its addresses without a verdict.
    """

    learned: LearnedRate
    base: Provider
    now: Provider
    held: bool
    edit: ThrottleEdit | None
    waiting: int

    @property
    def rate(self) -> float:
        """Recipients a second that are allowed at this moment, as edited and as learned."""
        is_open = not self.held and self.learned.closed_s <= 0
        return allowed_rate(self.now, self.learned.share) if is_open else 0.0

    @property
    def highest_rate(self) -> float:
        """The most an edit may set."""
        return self.base.rate * MOST_RAISE

    @property
    def most_sessions(self) -> int:
        """The most an edit may set."""
        return most_sessions(self.base)

    @property
    def state(self) -> str:
        """One word: held, refused (it refuses us), closed (a penalty), slowed (it was learned) or open."""
        if self.held:
            return "held"
        if self.learned.closed_s > 0:
            return "refused" if self.learned.refuses else "closed"
        return "slowed" if self.learned.share < 1 else "open"


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """What a source asked of a provider in some hours, and what its name is worth there.

    Attributes:
        provider, source: the place; the provider `other` is all that are in no table.
        standing: None: the pace is not earned there.
        rate: recipients a second the name is worth; None where no name counts.
    """

    provider: str
    source: str
    counts: LedgerCounts
    standing: Standing | None = None
    rate: float | None = None

    @property
    def unknown_share(self) -> float:
        """Which share of the real recipients nobody knew."""
        real = self.counts.of(LedgerKind.PROBES) - self.counts.of(LedgerKind.RANDOM)
        return self.counts.of(LedgerKind.UNKNOWN) / real if real > 0 else 0.0

    @property
    def refusals(self) -> dict[LedgerKind, int]:
        """Sessions in which we were refused, by what it was about."""
        return {kind: self.counts.of(kind) for kind in REFUSAL_LEDGER_KINDS if self.counts.of(kind)}


_MOST_SECONDS: Final = 5.0
"""What one look may take, at the database and at Redis."""

_log = structlog.get_logger()


class InstallationReader:
    """Reads the same numbers for pages, terminal and metrics."""

    def __init__(self, *, database: Database, redis: Client, queue: str, health: HealthWatch) -> None:
        self._database = database
        self._redis = redis
        self._queue = queue
        self._health = health
        self._throttle = ThrottleInspector(redis)
        self._breaker = RedisCircuitBreaker("The operator console")
        self._version = version("mailsift")

    async def read(self, *, today: datetime | None = None) -> Installation:
        """Return everything; what does not answer is None.

        The verdicts of the day that began at `today` are counted; None = in UTC.
        """
        snapshot, (throttles, broker), _ = await asyncio.gather(
            self._snapshot(today), self._read_redis(), self._health.recheck()
        )
        return Installation(
            stats=snapshot,
            throttles=throttles,
            broker=broker,
            own=self._health.current(),
            version=self._version,
        )

    async def broker(self) -> BrokerCounts | None:
        """Return what lies in the broker; None while it is gone."""
        return await self._breaker.call(broker_counts, self._redis, self._queue)

    async def _snapshot(self, today: datetime | None) -> Snapshot | None:
        try:
            async with asyncio.timeout(_MOST_SECONDS), self._database.begin() as connection:
                await stats.limit_time(connection, _MOST_SECONDS)
                return await stats.snapshot(connection, today=today)
        except (DatabaseError, MailsiftError, OSError) as error:
            _log.warning("installation.unreadable", source="database", **error_fields(error))
            return None

    async def _read_redis(self) -> tuple[list[LearnedRate] | None, BrokerCounts | None]:
        return await self._breaker.call(self._throttle.read), await self.broker()


MOST_COUNTED: Final = 10_000
_STRIP_CELLS: Final = 240
_SOME: Final = 1_000
_REASONS: Final = 10
_DELIVERIES: Final = 40
_FULLEST: Final = 8


class Console:
    """Reads everything across accounts; whoever calls has made sure that an operator asks."""

    def __init__(
        self,
        *,
        database: Database,
        redis: Client,
        forecasts: Forecasts,
        reader: InstallationReader,
        fleet: FleetConfig,
    ) -> None:
        self._database = database
        self._reader = reader
        self._forecasts = forecasts
        self._fleet = fleet
        self._throttles = ThrottleInspector(redis)
        self._facts = FactInspector(redis)
        self._breaker = RedisCircuitBreaker("The operator console")

    async def overview(self, *, today: datetime | None = None) -> Overview:
        """Return whether it flows, and if not why not; `today` is as for InstallationReader.read.

        Raises:
            MailsiftError: `database_unavailable`.
        """
        seen = await self._reader.read(today=today)
        if seen.stats is None:
            raise unavailable()
        async with self._database.begin() as connection:
            rates = self._fleet.rates(await self._fleet.limits(connection), seen.throttles)
            fullest = await stats.backlogs(connection, limit=_FULLEST)
        left = await self._forecasts.of_all()
        backlogs = [rated_backlog(row, rates) for row in fullest]
        return Overview(seen.stats, seen.broker, alarms(seen), backlogs, left)

    async def throughput(self, *, seconds: float, count: int) -> Sequence[Interval]:
        """Return what was done in each of so many intervals, the last of which is not over."""
        return await self._database.run(stats.throughput, seconds=seconds, count=count)

    async def alarms(self) -> Sequence[Alarm]:
        """Return what is wrong, the worst first; also while the database does not answer."""
        return alarms(await self._reader.read())

    async def jobs(
        self, wanted: JobFilter, *, limit: int = 50, page: int = 1, sort: str = SEARCH_NEWEST
    ) -> JobsPage:
        """Return matching jobs of all accounts; pages count from 1.

        `sort` is a column of jobs.SEARCH_ORDERS, descending with a minus before it.
        """
        async with self._database.begin() as connection:
            rows = await jobs.matching(connection, wanted, limit=limit, offset=limit * (page - 1), sort=sort)
            matching = await jobs.count_matching(connection, wanted, most=MOST_COUNTED)
        return JobsPage([AccountJob(row["account_name"], view_of(row)) for row in rows], matching)

    async def job(self, job_id: JobId) -> JobDetails:
        """Return everything about one job.

        Raises:
            MailsiftError: `job_not_found`.
        """
        learned = await self._breaker.call(self._throttles.read)
        row = await self._database.run(jobs.with_account, job_id)
        if row is None:
            raise job_not_found()
        left = await self._forecasts.of([row])
        async with self._database.begin() as connection:
            rates = self._fleet.rates(await self._fleet.limits(connection), learned)
            backlogs = await stats.backlogs(connection, job_id=job_id)
            return JobDetails(
                job=AccountJob(row["account_name"], view_of(row, time_left=left.get(row["id"]))),
                priority=row["options"].get("priority", "normal"),
                backlogs=[rated_backlog(row, rates) for row in backlogs],
                strip=await stats.strip(connection, job_id, cells=_STRIP_CELLS),
                leases=await chunks.held_leases(connection, limit=_SOME, job_id=job_id),
                failing_chunks=await chunks.failing(connection, limit=_SOME, job_id=job_id),
                events=await jobs.events_of(connection, job_id),
                audit=await people.audited(
                    connection, None, limit=50, wanted=AuditFilter(subject=str(job_id))
                ),
                history=JobTimeline(
                    row["step_at"],
                    await stats.chunk_history(connection, job_id, limit=_REASONS),
                    await stats.waits(connection, job_id),
                    await stats.delivery_history(connection, job_id, limit=_DELIVERIES),
                ),
            )

    async def workers(self) -> Sequence[Worker]:
        """Return every process that did not say goodbye; who is gone is forgotten after a day."""
        return await self._database.run(workers.known)

    async def leases(self) -> Sequence[Lease]:
        """Return what is leased, what ends first comes first."""
        return await self._database.run(chunks.held_leases, limit=_SOME)

    async def failing_chunks(self) -> Sequence[FailingChunk]:
        """Return chunks that were tried more than twice, open ones first."""
        return await self._database.run(chunks.failing, limit=_SOME)

    async def throttles(self) -> Sequence[ThrottleRow] | None:
        """Return the providers that are asked most, wait, or were edited; None while Redis is gone."""
        async with self._database.begin() as connection:
            limits, waiting = await self._fleet.limits(connection), await _waiting(connection)
        places = [(edit.provider, edit.source) for edit in limits.edits]
        keys = waiting.keys() - set(chunks.SHARED_KEYS)
        places += [(key, source) for key in keys for source in limits.sources]
        learned = await self._breaker.call(self._throttles.read, places)
        if learned is None:
            return None
        return throttle_rows(learned, limits.edits, waiting, self._fleet.providers, limits.steps)

    async def ledger(self, *, hours: int) -> Sequence[LedgerRow]:
        """Return what each source asked of each provider in the last hours, the busiest first."""
        async with self._database.begin() as connection:
            totals = await throttles.ledger_totals(connection, hours=hours)
            standings = await throttles.standings(connection)
        return _ledger_rows(totals, standings, self._fleet.providers)

    async def throttle(self, provider: str, source: str) -> ThrottleRow:
        """Return one provider at one source of ours, or at every one (ANY_SOURCE).

        While Redis is gone, nothing is known to have been learned.

        Raises:
            MailsiftError: `bad_provider`, `unknown_source`.
        """
        key = provider_key(provider)
        async with self._database.begin() as connection:
            await self._fleet.check_source(connection, source)
            limits, waiting = await self._fleet.limits(connection), await _waiting(connection)
        found = await self._breaker.call(self._throttles.read, [(key, source)])
        places = {(one.provider, one.source): one for one in found or ()}
        learned = places.get((key, source), LearnedRate(key, source))
        return throttle_rows([learned], limits.edits, waiting, self._fleet.providers, limits.steps)[0]

    async def sources(self) -> Sequence[SourceRow]:
        """Return the sources of the workers that claim, each once."""
        async with self._database.begin() as connection:
            book = EditBook(await throttles.edits(connection))
            live = await throttles.live_sources(connection)
        return [SourceRow(one, book.holds(Ask(ANY_PROVIDER, one.identity, "", 1))) for one in live]

    async def facts(self, name: str) -> KnownDomain | None:
        """Return what is remembered of a domain, or of an address's domain; None while Redis is gone.

        Raises:
            MailsiftError: `bad_domain`.
        """
        domain = domain_of(name)
        return await self._breaker.call(self._facts.read, domain)

    async def deliveries(self) -> tuple[Outbox, Sequence[EndpointRow]]:
        """Return how the deliveries of all accounts stand, and which endpoints need a look."""
        async with self._database.begin() as connection:
            return await stats.outbox(connection), await stats.endpoints(connection, limit=_SOME)

    async def schedules(self) -> Sequence[ScheduleRow]:
        """Return the schedules of all accounts, late ones first."""
        return await self._database.run(stats.schedules, limit=_SOME)

    async def audit(
        self, *, limit: int = 100, before: int | None = None, words: str = ""
    ) -> Sequence[AuditRow]:
        """Return what was done by anybody in any account, newest first; with these words in it."""
        return await self._database.run(
            people.audited, None, limit=limit, before=before, wanted=AuditFilter(words=words)
        )


async def _waiting(connection: Connection) -> dict[str, int]:
    """Return how many addresses without a verdict each throttle key has."""
    return {row.throttle_key: row.remaining for row in await stats.backlogs(connection, limit=_SOME)}


_SHARED_KEYS: Final[Mapping[str, str]] = {
    TRIAGE_KEY: "not looked at yet",
    MIXED_KEY: "many small providers",
    SLOW_KEY: "slow hosts",
}


def key_title(throttle_key: str) -> str:
    """Return what people call a throttle key: the provider, or what shares a key."""
    return _SHARED_KEYS.get(throttle_key, throttle_key)


def rated_backlog(row: KeyBacklog, rates: ProviderRates) -> RatedBacklog:
    """Return a backlog with its rate; only a provider has one."""
    title = key_title(row.throttle_key)
    if row.throttle_key in _SHARED_KEYS:
        return RatedBacklog(row, title, None, None, held=False)
    sources = rates.at_sources(row.throttle_key)
    queue = ProviderBacklog(row.throttle_key, sources, (Batch(row.remaining, domains=row.domains),))
    rate = sum(source.rate for source in sources if not source.held)
    seconds = time_left(JobLoad((queue,))).seconds
    return RatedBacklog(row, title, rate, seconds, held=all(source.held for source in sources))


def throttle_rows(
    learned: Sequence[LearnedRate],
    edits: Sequence[ThrottleEdit],
    waiting: Mapping[str, int],
    providers: Providers,
    steps: Mapping[tuple[str, str], int] | None = None,
) -> list[ThrottleRow]:
    """Put together what is known of every provider x source: held and closed ones first, then the busiest."""
    book, edited = EditBook(edits, steps), {(edit.provider, edit.source): edit for edit in edits}
    rows = []
    for one in learned:
        ask, base = Ask(one.provider, one.source, "", 1), providers.row(one.provider)
        rows.append(
            ThrottleRow(
                learned=one,
                base=base,
                now=book.row(base, ask),
                held=book.holds(ask),
                edit=edited.get((one.provider, one.source)) or edited.get((one.provider, ANY_SOURCE)),
                waiting=waiting.get(one.provider, 0),
            )
        )
    return sorted(rows, key=_urgency)


def _urgency(row: ThrottleRow) -> tuple[bool, bool, int, int, str, str]:
    one = row.learned
    return not row.held, one.closed_s <= 0, -row.waiting, -one.sessions, one.provider, one.source


def _ledger_rows(
    totals: Mapping[LedgerPlace, LedgerCounts],
    standings: Mapping[LedgerPlace, Standing],
    providers: Providers,
) -> list[LedgerRow]:
    """Put the ledger of some time and what it has earned together, the busiest first."""
    rows = []
    for key, counts in totals.items():
        standing = standings.get(key)
        rate = provider_at_step(providers.row(key[0]), standing.step).rate if standing else None
        rows.append(LedgerRow(*key, counts, standing, rate))
    return sorted(rows, key=lambda row: (-row.counts.of(LedgerKind.PROBES), row.provider, row.source))


_ERRORS: Final[Mapping[str, str]] = {
    chunks.LEASE_EXPIRED: "its worker died or hung: the lease ran out",
    chunks.TAKEN_BACK: "an operator took it back",
    "": "nothing was said yet",
}


def describe_trouble(chunk: FailingChunk) -> str:
    """Say what happened to a chunk that was tried again and again."""
    if chunk.state == ChunkState.CANCELLED:
        return "its job was cancelled"
    if chunk.state != ChunkState.DONE:
        return _ERRORS.get(chunk.last_error, chunk.last_error)
    if chunk.attempt <= MAX_ATTEMPTS:
        return "went well in the end"
    return "was split in two" if chunk.addresses > 1 else "its address was judged without asking anybody"


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """Something that happened to a job, or will.

    Attributes:
        title: what, in a few words.
        detail: what there is to say beside it, "" for nothing.
        kind: how it went: `good`, `bad`, `warn`, or "" for neither.
    """

    at: datetime
    title: str
    detail: str = ""
    kind: str = ""


_WAITS: Final[Mapping[str, str]] = {
    "throttled": "the rate of a provider",
    "greylisted": "greylisting",
    "deferred": "servers that said later",
    "blocked": "providers that refuse us",
    "resolver": "a resolver to trust",
    "too_many_missing": "providers where too many do not exist",
    "our_network": "our network",
    "slow": "slow hosts",
    "budget": "their next turn",
    "error": "an error to pass",
}
_ENDS: Final = {
    JobState.COMPLETED: ("Completed", "good"),
    JobState.FAILED: ("Failed", "bad"),
    JobState.CANCELLED: ("Cancelled", "warn"),
}


def timeline(view: JobView, history: JobTimeline) -> list[TimelineEntry]:
    """Return what happened to a job and what is to come, in the order of time."""
    return sorted(_entries(view, history), key=lambda entry: entry.at)


def _entries(view: JobView, history: JobTimeline) -> Iterator[TimelineEntry]:
    course = history.chunks
    yield TimelineEntry(view.created_at, "Uploaded", view.name)
    if history.step_at is not None and view.state is JobState.INTAKE:
        yield TimelineEntry(history.step_at, "Reading began")
    if course.first_at is not None:
        counts = ((view.total, "row"), (view.addresses, "address"), (view.chunks, "chunk"))
        read = ", ".join(starmap(counted, counts))
        yield TimelineEntry(course.first_at, "Read, and the first chunk begun", read)
    for failed in course.failures:
        count, most = counted(failed.chunks, "chunk"), counted(failed.attempts, "try", "tries")
        text = f"{count}, up to {most}: {failed.error}"
        yield TimelineEntry(failed.last_at or view.created_at, "Tried again", text, "warn")
    if course.last_at is not None and course.done:
        yield TimelineEntry(
            course.last_at, "Last chunk begun so far", f"{course.done:,} of {view.chunks:,} are done"
        )
    for wait in history.waits:
        what = _WAITS.get(wait.reason, wait.reason.replace("_", " "))
        who = counted(wait.addresses, "address waits", "addresses wait")
        yield TimelineEntry(wait.until, "Goes on", f"{who} for {what}")
    if history.step_at is not None and view.state in {JobState.FINALIZING, JobState.COMPLETED}:
        yield TimelineEntry(history.step_at, "Finishing began")
    if view.finished_at is not None:
        title, kind = _ENDS[view.state]
        yield TimelineEntry(view.finished_at, title, view.error_detail or view.error_code, kind)
    yield from map(_delivery_entry, history.deliveries)


_DELIVERED: Final[Mapping[str, tuple[str, str]]] = {
    DeliveryState.SUCCEEDED: ("Told", "good"),
    DeliveryState.EXHAUSTED: ("Gave up telling", "bad"),
    DeliveryState.SKIPPED: ("Did not tell", "warn"),
    DeliveryState.PENDING: ("Will tell", ""),
    DeliveryState.DELIVERING: ("Tells", ""),
}


def _delivery_entry(one: DeliveryHistory) -> TimelineEntry:
    title, kind = _DELIVERED.get(one.state, (one.state, ""))
    tries = "" if not one.attempts else f", {counted(one.attempts, 'try', 'tries')}"
    return TimelineEntry(one.at, f"{title} {one.host}", f"{one.type}{tries}", kind)


_GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "open": tuple(state.value for state in JobState if state not in ENDED),
    "ended": tuple(sorted(state.value for state in ENDED)),
}
"""Names for several states."""

BROKEN: Final = "broken"
"""What failed for reasons of ours and was not run again."""


def read_filter(words: Mapping[str, str], *, now: float) -> JobFilter:
    """Return the filter.

    Args:
        words: `state` (a state, one of _GROUPS, or BROKEN), `account`, `text`, and `age` such as `<24h`
            (younger than a day) or `>7d`; each may be missing or empty.
        now: seconds since the epoch.

    Raises:
        MailsiftError: `bad_filter`.
    """
    state = words.get("state", "").strip()
    after, before = _ages(words.get("age", "").strip(), utc_datetime(now))
    return JobFilter(
        states=() if state == BROKEN else _states(state),
        account=_searched(words, "account"),
        text=_searched(words, "text"),
        after=after,
        before=before,
        broken_but=LIST_FAULTS if state == BROKEN else None,
    )


def _searched(words: Mapping[str, str], name: str) -> str:
    return words.get(name, "").replace("\0", "").strip()[:200]


def _states(word: str) -> tuple[str, ...]:
    if not word:
        return ()
    if word in _GROUPS:
        return _GROUPS[word]
    if word not in set(JobState):
        known = ", ".join([*_GROUPS, BROKEN, *JobState])
        raise MailsiftError("bad_filter", f"The state must be one of: {known}.")
    return (word,)


_AGE: Final = re.compile(r"([<>])([1-9]\d{0,4})([mhd])")
_UNITS: Final = {"m": "minutes", "h": "hours", "d": "days"}


def _ages(word: str, now: datetime) -> tuple[datetime | None, datetime | None]:
    if not word:
        return None, None
    found = _AGE.fullmatch(word)
    if found is None:
        raise MailsiftError("bad_filter", "Write an age as <24h (younger) or >7d (older).")
    than, number, unit = found.groups()
    limit = now - timedelta(**{_UNITS[unit]: int(number)})
    return (limit, None) if than == "<" else (None, limit)


def provider_key(name: str) -> str:
    """Return the key of a provider: one of the table, or a host's registrable domain.

    Raises:
        MailsiftError: `bad_provider`.
    """
    key = as_key(name)
    if not key:
        raise MailsiftError(
            "bad_provider", "Name a provider by its key, such as google, or by its host’s domain."
        )
    return key


def domain_of(name: str) -> str:
    """Return the domain as the pipeline writes it: lower case, ASCII (IDNA 2008).

    Raises:
        MailsiftError: `bad_domain`.
    """
    domain = read_domain(name)
    if not domain:
        raise MailsiftError("bad_domain", "This isn’t a domain name.")
    return domain
