"""What operators look at: every question has one picture, for pages and terminal alike.

And which jobs they mean: from the words of a form or a command to a filter.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from importlib.metadata import version
from typing import Final

import structlog

from mailsift.jobs.admin.alarms import Alarm, Installation, alarms
from mailsift.jobs.admin.models import (
    AccountJob,
    JobDetails,
    JobsPage,
    LedgerRow,
    Overview,
    SourceRow,
    ThrottleRow,
    ledger_rows,
    rated_backlog,
    throttle_rows,
)
from mailsift.jobs.admin.timeline import JobTimeline
from mailsift.jobs.engine.heartbeat import HealthWatch
from mailsift.jobs.forecasts import Forecasts
from mailsift.jobs.intake.models import LIST_FAULTS
from mailsift.jobs.rates import FleetConfig
from mailsift.jobs.views import JobId, view_of
from mailsift.pipeline.clock import utc_datetime
from mailsift.pipeline.errors import MailsiftError, error_fields
from mailsift.pipeline.ports import Ask
from mailsift.pipeline.providers import as_key
from mailsift.pipeline.syntax.address import read_domain
from mailsift.storage.database import Connection, Database, DatabaseError, unavailable
from mailsift.storage.redis import broker
from mailsift.storage.redis.broker import BrokerCounts
from mailsift.storage.redis.connection import Client, RedisCircuitBreaker
from mailsift.storage.redis.facts import FactInspector, KnownDomain
from mailsift.storage.redis.throttle_view import LearnedRate, ThrottleInspector
from mailsift.storage.sql import (
    chunks,
    job_search,
    jobs,
    leases,
    ledger,
    people,
    sources,
    stats,
    throttle_edits,
    timelines,
    workers,
)
from mailsift.storage.sql.job_search import NEWEST, JobFilter
from mailsift.storage.sql.jobs import job_not_found
from mailsift.storage.sql.leases import Lease, TroubledChunk
from mailsift.storage.sql.people import AuditFilter, AuditRow
from mailsift.storage.sql.stats import EndpointRow, Interval, Outbox, ScheduleRow, Snapshot
from mailsift.storage.sql.throttle_edits import ANY_PROVIDER, EditBook
from mailsift.storage.sql.workers import Worker
from mailsift.storage.states import ENDED, JobState

MOST_SECONDS: Final = 5.0
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
        return await self._breaker.call(broker.counts, self._redis, self._queue)

    async def _snapshot(self, today: datetime | None) -> Snapshot | None:
        try:
            async with asyncio.timeout(MOST_SECONDS), self._database.begin() as connection:
                await stats.limit_time(connection, MOST_SECONDS)
                return await stats.snapshot(connection, today=today)
        except (DatabaseError, MailsiftError, OSError) as error:
            _log.warning("installation.unreadable", source="database", **error_fields(error))
            return None

    async def _read_redis(self) -> tuple[list[LearnedRate] | None, BrokerCounts | None]:
        return await self._breaker.call(self._throttle.read), await self.broker()


MOST_COUNTED: Final = 10_000
STRIP_CELLS: Final = 240
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
        self, wanted: JobFilter, *, limit: int = 50, page: int = 1, sort: str = NEWEST
    ) -> JobsPage:
        """Return matching jobs of all accounts; pages count from 1.

        `sort` is a column of job_search.ORDERS, descending with a minus before it.
        """
        async with self._database.begin() as connection:
            rows = await job_search.page(
                connection, wanted, limit=limit, offset=limit * (page - 1), sort=sort
            )
            matching = await job_search.count(connection, wanted, most=MOST_COUNTED)
        return JobsPage([AccountJob(row["account_name"], view_of(row)) for row in rows], matching)

    async def job(self, job_id: JobId) -> JobDetails:
        """Return everything about one job.

        Raises:
            MailsiftError: `job_not_found`.
        """
        learned = await self._breaker.call(self._throttles.read)
        row = await self._database.run(job_search.get, job_id)
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
                strip=await stats.strip(connection, job_id, cells=STRIP_CELLS),
                leases=await leases.held(connection, limit=_SOME, job_id=job_id),
                troubled=await leases.troubled(connection, limit=_SOME, job_id=job_id),
                events=await jobs.events_of(connection, job_id),
                audit=await people.audited(
                    connection, None, limit=50, wanted=AuditFilter(subject=str(job_id))
                ),
                history=JobTimeline(
                    row["step_at"],
                    await timelines.chunks(connection, job_id, limit=_REASONS),
                    await timelines.waits(connection, job_id),
                    await timelines.deliveries(connection, job_id, limit=_DELIVERIES),
                ),
            )

    async def workers(self) -> Sequence[Worker]:
        """Return every process that did not say goodbye; who is gone is forgotten after a day."""
        return await self._database.run(workers.known)

    async def leases(self) -> Sequence[Lease]:
        """Return what is leased, what ends first comes first."""
        return await self._database.run(leases.held, limit=_SOME)

    async def troubled(self) -> Sequence[TroubledChunk]:
        """Return chunks that were tried more than twice, open ones first."""
        return await self._database.run(leases.troubled, limit=_SOME)

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
            totals = await ledger.totals(connection, hours=hours)
            standings = await ledger.standings(connection)
        return ledger_rows(totals, standings, self._fleet.providers)

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
            book = EditBook(await throttle_edits.edits(connection))
            live = await sources.live(connection)
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


GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "open": tuple(state.value for state in JobState if state not in ENDED),
    "ended": tuple(sorted(state.value for state in ENDED)),
}
"""Names for several states."""

BROKEN: Final = "broken"
"""What failed for reasons of ours and was not run again."""

_AGE: Final = re.compile(r"([<>])([1-9]\d{0,4})([mhd])")
_UNITS: Final = {"m": "minutes", "h": "hours", "d": "days"}


def read_filter(words: Mapping[str, str], *, now: float) -> JobFilter:
    """Return the filter.

    Args:
        words: `state` (a state, one of GROUPS, or BROKEN), `account`, `text`, and `age` such as `<24h`
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
    if word in GROUPS:
        return GROUPS[word]
    if word not in set(JobState):
        known = ", ".join([*GROUPS, BROKEN, *JobState])
        raise MailsiftError("bad_filter", f"The state must be one of: {known}.")
    return (word,)


def _ages(word: str, now: datetime) -> tuple[datetime | None, datetime | None]:
    if not word:
        return None, None
    found = _AGE.fullmatch(word)
    if found is None:
        raise MailsiftError("bad_filter", "Write an age as <24h (younger) or >7d (older).")
    than, number, unit = found.groups()
    moment = now - timedelta(**{_UNITS[unit]: int(number)})
    return (moment, None) if than == "<" else (None, moment)
