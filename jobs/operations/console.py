"""What operators look at: every question has one picture, for pages and terminal alike."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from jobs.operations import filters
from jobs.operations.alarms import Numbers, alarms
from jobs.operations.looks import JobPicture, JobsPage, Overview, SeenEvent, SeenJob, ThrottleRow
from jobs.operations.paces import Paces, throttle_rows
from jobs.service import view_of
from jobs.views import JobId
from pipeline.errors import MailsiftError
from pipeline.providers import Providers
from pipeline.syntax_exact import parse_exact
from storage import (
    backlog_rows,
    broker,
    chunk_rows,
    job_search,
    late_rows,
    lease_rows,
    people_rows,
    throttle_edits,
    throughput_rows,
    worker_rows,
)
from storage.broker import BrokerCounts
from storage.database import Connection, Database, Row
from storage.fact_desk import DomainMemory, FactDesk
from storage.job_search import JobFilter
from storage.late_rows import EndpointRow, Outbox, ScheduleRow
from storage.lease_rows import Lease, TroubledChunk
from storage.people_rows import AuditRow
from storage.redis import Client, Lifeline
from storage.throttle_edits import ANY_SOURCE
from storage.throttle_view import Learned, ThrottleDesk
from storage.worker_rows import Worker

MOST_COUNTED: Final = 10_000
STRIP_CELLS: Final = 240
_MINUTES: Final = 61  # an hour, and the minute that runs
_RATE_MINUTES: Final = 5
_SOME: Final = 200
_FULLEST_LANES: Final = 8
_LONGEST_NAME: Final = 253  # of a domain, which a provider outside the table is


@dataclass(frozen=True, slots=True)
class World:
    """What the numbers are measured against.

    Attributes:
        providers: the provider table with the overrides file.
        sources: the labels of our own addresses, "" for the default route.
        queue: the broker's queue of wake-ups.
    """

    providers: Providers
    sources: Sequence[str]
    queue: str

    def check_source(self, source: str) -> None:
        """Refuse what is none of our sources, and not ANY_SOURCE.

        Raises:
            MailsiftError: `unknown_source`.
        """
        if source != ANY_SOURCE and source not in self.sources:
            raise MailsiftError("unknown_source", "There is no such source here; * means every one.")


class Console:
    """Reads everything across accounts; whoever calls has made sure that an operator asks."""

    def __init__(self, *, database: Database, redis: Client, world: World) -> None:
        self._database = database
        self._redis = redis
        self._world = world
        self._desk = ThrottleDesk(redis)
        self._facts = FactDesk(redis)
        self._lifeline = Lifeline("The operator console")

    async def overview(self) -> Overview:
        """Return whether it flows, and if not why not."""
        throttles, counts = await asyncio.gather(self._learned(), self.broker())
        async with self._database.begin() as connection:
            minutes = await throughput_rows.last(connection, minutes=_MINUTES)
            numbers = Numbers(
                backlog=await backlog_rows.backlog(connection),
                workers=await worker_rows.everybody(connection),
                minutes=minutes,
                outbox=await late_rows.outbox(connection),
                late_schedules=await late_rows.lateness(connection),
                drift=await backlog_rows.drift(connection),
                throttles=throttles,
                broker=counts,
            )
            rate = await throughput_rows.rate(connection, minutes=_RATE_MINUTES)
            waiting = numbers.backlog.addresses
            paces = await self._paces(connection, throttles)
            fullest = await backlog_rows.lanes(connection, limit=_FULLEST_LANES)
            return Overview(
                numbers=numbers,
                alarms=alarms(numbers),
                rate=rate,
                empty_s=waiting / rate if rate > 0 else (None if waiting else 0.0),
                today=await throughput_rows.today(connection),
                jobs=await job_search.states(connection),
                troubled=await lease_rows.count_troubled(connection),
                lanes=[paces.lane(lane) for lane in fullest],
            )

    async def jobs(self, wanted: JobFilter, *, limit: int = 50, cursor: str = "") -> JobsPage:
        """Return matching jobs of all accounts, newest first.

        Raises:
            MailsiftError: `bad_cursor`.
        """
        before = filters.read_cursor(cursor)
        async with self._database.begin() as connection:
            rows = await job_search.newest(connection, wanted, limit=limit + 1, before=before)
            matching = await job_search.count(connection, wanted, most=MOST_COUNTED)
        shown = [_seen(row) for row in rows[:limit]]
        more = filters.write_cursor(shown[-1].view.created_at, shown[-1].view.id) if len(rows) > limit else ""
        return JobsPage(shown, matching, more)

    async def job(self, job_id: JobId) -> JobPicture:
        """Return everything about one job.

        Raises:
            MailsiftError: `job_not_found`.
        """
        learned = await self._learned()
        async with self._database.begin() as connection:
            row = await job_search.get(connection, job_id)
            if row is None:
                raise MailsiftError("job_not_found", "There is no such job.")
            paces = await self._paces(connection, learned)
            lanes = await backlog_rows.lanes(connection, job_id=job_id)
            events = await job_search.told(connection, job_id)
            return JobPicture(
                job=_seen(row),
                priority=row["options"].get("priority", "normal"),
                lanes=[paces.lane(lane) for lane in lanes],
                strip=await backlog_rows.strip(connection, job_id, cells=STRIP_CELLS),
                leases=await lease_rows.held(connection, limit=_SOME, job_id=job_id),
                troubled=await lease_rows.troubled(connection, limit=_SOME, job_id=job_id),
                events=[
                    SeenEvent(one["type"], one["created_at"], one["deliveries"], one["delivered"])
                    for one in events
                ],
                audit=await job_search.audit_of(connection, str(job_id), limit=50),
            )

    async def workers(self) -> Sequence[Worker]:
        """Return every process that did not say goodbye; who is gone is forgotten after a day."""
        async with self._database.begin() as connection:
            return await worker_rows.everybody(connection)

    async def leases(self, *, limit: int = 100) -> Sequence[Lease]:
        """Return what is leased, what ends first comes first."""
        async with self._database.begin() as connection:
            return await lease_rows.held(connection, limit=limit)

    async def troubled(self, *, limit: int = 100) -> Sequence[TroubledChunk]:
        """Return chunks that were tried more than twice, open ones first."""
        async with self._database.begin() as connection:
            return await lease_rows.troubled(connection, limit=limit)

    async def throttles(self) -> Sequence[ThrottleRow] | None:
        """Return the providers that are asked most, wait, or were edited; None while Redis is gone."""
        async with self._database.begin() as connection:
            edits = await throttle_edits.edits(connection)
            lanes = await backlog_rows.lanes(connection, limit=_SOME)
        waiting = {lane.lane: lane.remaining for lane in lanes if lane.lane not in chunk_rows.FREE_LANES}
        places = [(edit.provider, edit.source) for edit in edits]
        places += [(lane, source) for lane in waiting for source in self._world.sources]
        learned = await self._lifeline.call(lambda: self._desk.look(places))
        if learned is None:
            return None
        return throttle_rows(learned, edits, waiting, self._world.providers)

    async def throttle(self, provider: str, source: str) -> ThrottleRow:
        """Return one provider at one source of ours, or at every one (ANY_SOURCE).

        While Redis is gone, nothing is known to have been learned.

        Raises:
            MailsiftError: `bad_provider`, `unknown_source`.
        """
        key = provider_key(provider)
        self._world.check_source(source)
        async with self._database.begin() as connection:
            edits = await throttle_edits.edits(connection)
            lanes = await backlog_rows.lanes(connection, limit=_SOME)
        found = await self._lifeline.call(lambda: self._desk.look([(key, source)]))
        places = {(one.provider, one.source): one for one in found or ()}
        learned = places.get((key, source), Learned(key, source))
        waiting = {lane.lane: lane.remaining for lane in lanes}
        return throttle_rows([learned], edits, waiting, self._world.providers)[0]

    @property
    def sources(self) -> Sequence[str]:
        """The names of our own addresses, "" for the default route."""
        return self._world.sources

    async def facts(self, name: str) -> DomainMemory | None:
        """Return what is remembered of a domain, or of an address's domain; None while Redis is gone.

        Raises:
            MailsiftError: `bad_domain`.
        """
        domain = domain_of(name)
        return await self._lifeline.call(lambda: self._facts.look(domain))

    async def deliveries(self) -> tuple[Outbox, Sequence[EndpointRow]]:
        """Return how the deliveries of all accounts stand, and which endpoints need a look."""
        async with self._database.begin() as connection:
            return await late_rows.outbox(connection), await late_rows.endpoints(connection, limit=_SOME)

    async def schedules(self) -> Sequence[ScheduleRow]:
        """Return the schedules of all accounts, late ones first."""
        async with self._database.begin() as connection:
            return await late_rows.schedules(connection, limit=_SOME)

    async def broker(self) -> BrokerCounts | None:
        """Return what lies in the broker; None while it is gone."""
        return await self._lifeline.call(lambda: broker.counts(self._redis, self._world.queue))

    async def audit(self, *, limit: int = 100, before: int | None = None) -> Sequence[AuditRow]:
        """Return what was done by anybody in any account, newest first."""
        async with self._database.begin() as connection:
            return await people_rows.audited(connection, None, limit=limit, before=before)

    async def _learned(self) -> Sequence[Learned] | None:
        return await self._lifeline.call(self._desk.look)

    async def _paces(self, connection: Connection, learned: Sequence[Learned] | None) -> Paces:
        edits = await throttle_edits.edits(connection)
        return Paces(self._world.providers, self._world.sources, edits, learned or ())


def provider_key(name: str) -> str:
    """Return the key of a provider: one of the table, or a host's registrable domain.

    Raises:
        MailsiftError: `bad_provider`.
    """
    key = name.strip().lower().rstrip(".")
    if not key or len(key) > _LONGEST_NAME or not key.isprintable() or set(key) & set(" :"):
        raise MailsiftError("bad_provider", "A provider is a key such as google, or a host's domain.")
    return key


def domain_of(name: str) -> str:
    """Return the domain as the pipeline writes it: lower case, ASCII (IDNA 2008).

    Raises:
        MailsiftError: `bad_domain`.
    """
    parsed = parse_exact(f"postmaster@{name.strip().rpartition('@')[2].rstrip('.')}")
    if not parsed.domain:
        raise MailsiftError("bad_domain", "This is not the name of a domain.")
    return parsed.domain


def _seen(row: Row) -> SeenJob:
    return SeenJob(row["account_name"], view_of(row))
