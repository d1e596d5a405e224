"""Whom is asked how fast, and from where, in SQL: what every process knows of that within seconds.

Operators edit limits and hold providers. A source rests at a provider while its budget there is used up, and
is held while a block list has it. The ledger has what each source asked of each provider by hour, and what
its name is worth there for it. Domains that do not want to be asked have opted out.
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Final

from sqlalchemy import text

from mailsift.pipeline.background import record_failure, repeating
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.opt_outs import OptOuts
from mailsift.pipeline.providers import Provider
from mailsift.pipeline.throttle import (
    NO_COUNTS,
    Ask,
    LedgerCounts,
    LedgerKind,
    Report,
    Standing,
    decay_after_silence,
    highest_step,
    provider_at_step,
    update_standing,
)
from mailsift.storage.database import Connection, Database, DatabaseError, from_row, rows_as, statement

ANY_SOURCE: Final = "*"
ANY_PROVIDER: Final = "*"
"""The provider of a hold that is a source's: nobody at all is asked from there, or from anywhere."""
MOST_RAISE: Final = 2.0
"""An edit may at most double what the provider table (with the overrides file) allows: politeness is not
given up with a click. Whoever needs more says so in the overrides file."""
EDITS_REFRESH_SECONDS: Final = 2.0
_EDIT_KNOWN_SECONDS: Final = 1.5 * EDITS_REFRESH_SECONDS  # by then every process knows of an edit
HELD_SECONDS: Final = 30.0  # when to ask again while a provider is held

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ThrottleEdit:
    """A change of a provider's limits at one source, or at every one (ANY_SOURCE).

    A hold may be of every provider (ANY_PROVIDER), at one source or at all.

    Attributes:
        rate, sessions: instead of the row's; None = the row's.
        held: nothing is asked there at all.
        held_until: when that ends by itself; None = when somebody ends it.
    """

    provider: str
    source: str
    rate: float | None = None
    sessions: int | None = None
    held: bool = False
    held_until: datetime | None = None
    note: str = ""
    edited_by: str = ""
    edited_at: datetime | None = None


class EditBook:
    """What one process knows of edits, and of the paces that sources have earned.

    Args:
        edits: what operators changed.
        steps: how often a pace has doubled, by provider and source (mailsift.pipeline.throttle).
    """

    def __init__(
        self, edits: Iterable[ThrottleEdit] = (), steps: Mapping[tuple[str, str], int] | None = None
    ) -> None:
        self.learn(edits, steps)

    def learn(
        self, edits: Iterable[ThrottleEdit], steps: Mapping[tuple[str, str], int] | None = None
    ) -> None:
        """Know these and nothing else from now on."""
        self._edits = {(edit.provider, edit.source): edit for edit in edits}
        self._steps = dict(steps or {})

    def holds(self, ask: Ask) -> bool:
        """Say whether nothing may be asked there now."""
        return any(edit.held for edit in self._edits_for(ask.provider, ask.source))

    def hold_seconds(self, ask: Ask, now: float) -> float:
        """Return for how many seconds from `now` (since the epoch) nothing may be asked there.

        0 = it may be; infinite: until somebody lets go.
        """
        held = [edit for edit in self._edits_for(ask.provider, ask.source) if edit.held]
        ends = [math.inf if edit.held_until is None else edit.held_until.timestamp() for edit in held]
        return max(0.0, *(end - now for end in ends), 0.0)

    def row(self, row: Provider, ask: Ask) -> Provider:
        """Return the provider's row at the pace that was earned, or as edited.

        What names the source counts most; an edited rate holds whatever was earned.
        """
        rate, sessions = None, None
        for edit in self._edits_for(ask.provider, ask.source):
            rate, sessions = edit.rate or rate, edit.sessions or sessions
        if rate is None and self._steps:
            row = provider_at_step(row, self._steps.get((row.key, ask.source), 0))
        if rate is None and sessions is None:
            return row
        return bounded(row, rate=rate, sessions=sessions)

    def _edits_for(self, provider: str, source: str) -> list[ThrottleEdit]:
        if not self._edits:
            return []
        everybody = (ANY_PROVIDER, ANY_SOURCE)
        places = (everybody, (ANY_PROVIDER, source), (provider, ANY_SOURCE), (provider, source))
        return [edit for place in places if (edit := self._edits.get(place)) is not None]


def bounded(row: Provider, *, rate: float | None, sessions: int | None) -> Provider:
    """Return the row with these limits (None = its own), at most MOST_RAISE times its own."""
    return replace(
        row,
        rate=row.rate if rate is None else min(rate, row.rate * MOST_RAISE),
        sessions=row.sessions if sessions is None else max(1, min(sessions, most_sessions(row))),
    )


def most_sessions(row: Provider) -> int:
    """Return the sessions an edit may give a provider."""
    return int(row.sessions * MOST_RAISE)


_EDITS = text("""
    SELECT provider, source, rate, sessions,
        held AND (held_until IS NULL OR held_until > clock_timestamp()) AS held,
        CASE WHEN held_until > clock_timestamp() THEN held_until END AS held_until,
        note, edited_by, edited_at
    FROM throttle_edit
    WHERE rate IS NOT NULL OR sessions IS NOT NULL
        OR held AND (held_until IS NULL OR held_until > clock_timestamp())
    ORDER BY provider, source
""")


async def edits(connection: Connection) -> Sequence[ThrottleEdit]:
    """Return every edit; one whose hold is over by itself is not held."""
    return await rows_as(ThrottleEdit, connection, _EDITS)


async def held_sources(connection: Connection) -> dict[str, str]:
    """Return the sources that nothing is asked from, and the note of who holds each."""
    return {
        one.source: one.note for one in await edits(connection) if one.held and one.provider == ANY_PROVIDER
    }


_DROP_EMPTY_EDIT = text(
    "DELETE FROM throttle_edit WHERE rate IS NULL AND sessions IS NULL AND NOT held AND provider = :provider"
)
_PUT_EDIT = text("""
    INSERT INTO throttle_edit (provider, source, rate, sessions, note, edited_by)
    VALUES (:provider, :source, :rate, :sessions, :note, :edited_by)
    ON CONFLICT (provider, source) DO UPDATE SET rate = excluded.rate, sessions = excluded.sessions,
        note = excluded.note, edited_by = excluded.edited_by, edited_at = clock_timestamp()
""")


async def put_edit(connection: Connection, edit: ThrottleEdit) -> None:
    """Write down new limits (None, None: the row's again); a hold stays as it is."""
    await connection.execute(_PUT_EDIT, asdict(edit))
    await connection.execute(_DROP_EMPTY_EDIT, asdict(edit))


_HOLD = text("""
    INSERT INTO throttle_edit (provider, source, held, held_until, note, edited_by)
    VALUES (:provider, :source, true,
        CASE WHEN :seconds > 0 THEN clock_timestamp() + make_interval(secs => :seconds) END,
        :note, :edited_by)
    ON CONFLICT (provider, source) DO UPDATE SET held = true, held_until = excluded.held_until,
        note = excluded.note, edited_by = excluded.edited_by, edited_at = clock_timestamp()
""")


async def hold(connection: Connection, edit: ThrottleEdit, *, seconds: float) -> None:
    """Ask a provider nothing more for so many seconds, 0 = until somebody lets go."""
    await connection.execute(_HOLD, asdict(edit) | {"seconds": seconds})


_LET_GO = text("""
    UPDATE throttle_edit SET held = false, held_until = NULL, edited_by = :edited_by,
        edited_at = clock_timestamp()
    WHERE provider = :provider AND source = :source AND held
""")
# What waits for a provider that was held is looked at again as soon as everybody knows: who took it for held
# still would leave it for as long as one asks again while it is.
_RELEASE_CHUNKS = text("""
    UPDATE chunk SET ready_at = clock_timestamp() + make_interval(secs => :known_seconds), waits_for = ''
    WHERE (job_id, n) IN (
        SELECT job_id, n FROM chunk
        WHERE state = 'ready' AND :provider IN ('*', lane) AND waits_for = 'throttled'
          AND ready_at < clock_timestamp() + make_interval(secs => :seconds) FOR UPDATE SKIP LOCKED)
""")


async def let_go(connection: Connection, *, provider: str, source: str, edited_by: str) -> bool:
    """End a hold; False when there was none."""
    values = {
        "provider": provider,
        "source": source,
        "edited_by": edited_by,
        "seconds": 2 * HELD_SECONDS,
        "known_seconds": _EDIT_KNOWN_SECONDS,
    }
    if (await connection.execute(_LET_GO, values)).rowcount != 1:
        return False
    await connection.execute(_DROP_EMPTY_EDIT, values)
    await connection.execute(_RELEASE_CHUNKS, values)
    await wake_sources(connection, provider=provider, source=source, after=_EDIT_KNOWN_SECONDS)
    return True


@asynccontextmanager
async def keep_edits_refreshed(database: Database, book: EditBook) -> AsyncIterator[None]:
    """Keep the book as the database has it, until the block ends.

    While the database does not answer, what is known holds on.
    """
    known = True

    async def refresh() -> None:
        nonlocal known
        try:
            async with database.begin() as connection:
                book.learn(await edits(connection), await steps(connection))
        except (MailsiftError, DatabaseError) as error:
            if known:
                _log.warning("The throttle's edits cannot be read: %s", type(error).__name__)
            known = False
        else:
            known = True

    await refresh()
    async with repeating(refresh, every=EDITS_REFRESH_SECONDS, task="throttle_edits"):
        yield


@dataclass(frozen=True, slots=True)
class LiveSource:
    """An identity that probes leave from, and who uses it.

    Attributes:
        identity: the address as the world sees it; "" for default routes that nobody has named.
        processes: worker processes that ask from it.
        beat_age: seconds since the last of them was heard of.
        resting: providers that are not asked from it now because its budget there is used up.
    """

    identity: str
    processes: int
    hosts: tuple[str, ...]
    beat_age: float
    resting: int


_LIVE_SOURCES = statement("""
    SELECT s.identity, count(*) AS processes, array_agg(DISTINCT w.host ORDER BY w.host) AS hosts,
        min(extract(epoch FROM clock_timestamp() - w.beat_at))::float8 AS beat_age,
        (SELECT count(*) FROM source_rest r
         WHERE r.source = s.identity AND r.rests_until > clock_timestamp()) AS resting
    FROM worker w CROSS JOIN LATERAL unnest(w.sources) AS s(identity)
    WHERE {live_worker} GROUP BY s.identity ORDER BY s.identity
""")


async def live_sources(connection: Connection) -> list[LiveSource]:
    """Return the sources of the workers that claim, each once."""
    found = await connection.execute(_LIVE_SOURCES)
    return [LiveSource(**{**row, "hosts": tuple(row["hosts"])}) for row in found.mappings()]


def identities(sources: Sequence[LiveSource]) -> tuple[str, ...]:
    """Return the identities alone."""
    return tuple(source.identity for source in sources)


_RECORD_REST = text("""
    INSERT INTO source_rest (provider, source, rests_until)
    VALUES (:provider, :source, clock_timestamp() + make_interval(secs => :seconds))
    ON CONFLICT (provider, source) DO UPDATE SET rests_until = excluded.rests_until
""")


async def record_rests(connection: Connection, rests: Mapping[tuple[str, str], float]) -> None:
    """Write down for how many seconds a provider (first) need not be asked from a source (second)."""
    if rests:
        rows = [
            {"provider": provider, "source": source, "seconds": seconds}
            for (provider, source), seconds in sorted(rests.items())  # in one order, or two commits deadlock
        ]
        await connection.execute(_RECORD_REST, rows)


_OPENS_IN = statement("""
    SELECT p.provider, min(greatest(0, coalesce(
        extract(epoch FROM r.rests_until - clock_timestamp()), 0)))::float8 AS seconds
    FROM unnest(CAST(:providers AS text[])) AS p(provider)
    CROSS JOIN (
        SELECT DISTINCT unnest(sources) AS identity FROM worker WHERE {live_worker}
    ) s
    LEFT JOIN source_rest r ON r.provider = p.provider AND r.source = s.identity
    GROUP BY p.provider
""")


async def opens_in(connection: Connection, providers: Collection[str]) -> dict[str, float]:
    """Return in how many seconds the first live source may ask each provider; nothing when none is live."""
    if not providers:
        return {}
    found = await connection.execute(_OPENS_IN, {"providers": sorted(providers)})
    return {row.provider: row.seconds for row in found}


_WAKE_SOURCES = text("""
    UPDATE source_rest SET rests_until = clock_timestamp() + make_interval(secs => :seconds)
    WHERE :provider IN ('*', provider) AND :source IN ('*', source)
""")


async def wake_sources(connection: Connection, *, provider: str, source: str, after: float = 0.0) -> None:
    """Let a provider be asked from a source again after so many seconds; `*` stands for all of them."""
    await connection.execute(_WAKE_SOURCES, {"provider": provider, "source": source, "seconds": after})


_PURGE_RESTS = text("DELETE FROM source_rest WHERE rests_until < clock_timestamp() - interval '1 hour'")


async def purge_rests(connection: Connection) -> None:
    """Forget rests that are long over."""
    await connection.execute(_PURGE_RESTS)


_LEDGER_FLUSH_SECONDS: Final = 5.0
_LEDGER_KEPT_DAYS: Final = 90
OTHERS_IN_LEDGER: Final = "other"
"""All providers outside the table together: their keys are domains of customers' mail hosts."""

LedgerPlace = tuple[str, str]
"""Provider and source."""


class LedgerBook:
    """Counts in memory what a process asks and writes it down every few seconds; a kill loses that much."""

    def __init__(
        self, knows: Callable[[str], bool] = lambda _: False, row: Callable[[str], Provider] = Provider
    ) -> None:
        self._knows = knows
        self._row = row
        self._counts: dict[LedgerPlace, LedgerCounts] = {}

    def count(self, reports: Iterable[Report]) -> None:
        """Add what these sessions amount to."""
        for report in reports:
            if report.ledger.counts:
                provider = report.ask.provider if self._knows(report.ask.provider) else OTHERS_IN_LEDGER
                self._add((provider, report.ask.source), report.ledger)

    def drain(self) -> dict[LedgerPlace, LedgerCounts]:
        """Return what was counted since the last time, and begin anew."""
        drained, self._counts = self._counts, {}
        return drained

    async def flush(self, database: Database) -> None:
        """Write down what was counted; it never raises, and what could not be written comes the next time."""
        drained = self.drain()
        if not drained:
            return
        try:
            await database.run(write_ledger, drained, self._row)
        except Exception as error:  # noqa: BLE001 - whatever it was, the counts are kept
            record_failure("ledger", error)
            for key, counts in drained.items():
                self._add(key, counts)

    def _add(self, key: LedgerPlace, counts: LedgerCounts) -> None:
        self._counts[key] = self._counts.get(key, NO_COUNTS) + counts


@asynccontextmanager
async def keep_ledger_written(database: Database, book: LedgerBook) -> AsyncIterator[None]:
    """Write the book down every few seconds and at the end of the block."""
    try:
        async with repeating(lambda: book.flush(database), every=_LEDGER_FLUSH_SECONDS, task="ledger"):
            yield
    finally:
        await book.flush(database)


# Two flushes write in the same order, or they deadlock.
_ADD_TO_LEDGER = text("""
    INSERT INTO source_ledger AS l (hour, provider, source, kind, count)
    VALUES (date_trunc('hour', clock_timestamp()), :provider, :source, :kind, :count)
    ON CONFLICT (hour, provider, source, kind) DO UPDATE SET count = l.count + excluded.count
""")
_MEET = text("""
    INSERT INTO source_standing (provider, source, stepped_at, asked_at)
    VALUES (:provider, :source, clock_timestamp(), clock_timestamp())
    ON CONFLICT (provider, source) DO NOTHING
""")
_STANDING = """
    SELECT provider, source, step, clean, refused, extract(epoch FROM stepped_at)::float8 AS stepped_at,
        extract(epoch FROM asked_at)::float8 AS asked_at,
        extract(epoch FROM clock_timestamp())::float8 AS now
    FROM source_standing
"""
_LOCK_STANDING = text(_STANDING + " WHERE provider = :provider AND source = :source FOR UPDATE")
_ALL_STANDINGS = text(_STANDING + " ORDER BY provider, source")
_SET_STANDING = text("""
    UPDATE source_standing SET step = :step, clean = :clean, refused = :refused,
        stepped_at = to_timestamp(:stepped_at), asked_at = to_timestamp(:asked_at)
    WHERE provider = :provider AND source = :source
""")


async def write_ledger(
    connection: Connection,
    counts: Mapping[LedgerPlace, LedgerCounts],
    row_of: Callable[[str], Provider] = Provider,
) -> None:
    """Add to this hour's ledger, and let each name be worth what it now is."""
    for key in sorted(counts):
        values = {"provider": key[0], "source": key[1]}
        for kind in sorted(counts[key].counts):
            await connection.execute(
                _ADD_TO_LEDGER, values | {"kind": kind.value, "count": counts[key].of(kind)}
            )
        if key[0] != OTHERS_IN_LEDGER:
            await connection.execute(_MEET, values)
            row = (await connection.execute(_LOCK_STANDING, values)).mappings().one()
            highest = highest_step(row_of(key[0]))
            standing = update_standing(from_row(Standing, row), counts[key], row["now"], highest)
            await connection.execute(_SET_STANDING, values | asdict(standing))


async def standings(connection: Connection) -> dict[LedgerPlace, Standing]:
    """Return what each source's name is worth at each provider now."""
    found = (await connection.execute(_ALL_STANDINGS)).mappings()
    return {
        (row["provider"], row["source"]): decay_after_silence(from_row(Standing, row), row["now"])
        for row in found
    }


async def steps(connection: Connection) -> dict[LedgerPlace, int]:
    """Return by how many doublings the pace of a source at a provider is off the table's, where it is."""
    return {key: one.step for key, one in (await standings(connection)).items() if one.step}


_LEDGER_TOTALS = text("""
    SELECT provider, source, kind, sum(count)::bigint AS count
    FROM source_ledger WHERE hour > clock_timestamp() - make_interval(hours => :hours)
    GROUP BY provider, source, kind
""")


async def ledger_totals(connection: Connection, *, hours: int) -> dict[LedgerPlace, LedgerCounts]:
    """Return what each source asked of each provider in the last hours."""
    counted: dict[LedgerPlace, dict[LedgerKind, int]] = {}
    known = set(LedgerKind)
    for provider, source, kind, count in await connection.execute(_LEDGER_TOTALS, {"hours": hours}):
        counts = counted.setdefault((provider, source), {})
        if kind in known:  # a later release may know more of them
            counts[LedgerKind(kind)] = count
    return {place: LedgerCounts(counts) for place, counts in counted.items()}


_PURGE_LEDGER = text(
    "DELETE FROM source_ledger WHERE hour < clock_timestamp() - make_interval(days => :days)"
)


async def purge_ledger(connection: Connection) -> None:
    """Forget hours that are long over."""
    await connection.execute(_PURGE_LEDGER, {"days": _LEDGER_KEPT_DAYS})


_LISTING_WATCH: Final = "block lists"
"""Who holds a source that is listed: what operators hold is theirs to let go of."""


class ListingState(StrEnum):
    """What a zone says of a source."""

    LISTED = "listed"
    CLEAR = "clear"
    UNKNOWN = "unknown"  # no answer, or a zone that is not believed


_LISTING_DUE = text("""
    INSERT INTO source_listing AS l (source, zone) VALUES (:source, :zone)
    ON CONFLICT (source, zone) DO UPDATE SET looked_at = clock_timestamp()
        WHERE l.looked_at < clock_timestamp() - make_interval(secs => :seconds)
    RETURNING zone
""")


async def is_listing_due(connection: Connection, source: str, zone: str, *, seconds: float) -> bool:
    """Say whether nobody has looked for so many seconds; whoever is told so looks now."""
    found = await connection.execute(_LISTING_DUE, {"source": source, "zone": zone, "seconds": seconds})
    return found.first() is not None


_RECORD_LISTING = text("""
    UPDATE source_listing SET looked_at = clock_timestamp(), detail = :detail,
        listed_since = CASE :detail WHEN 'listed' THEN coalesce(listed_since, clock_timestamp())
                                    WHEN 'clear' THEN NULL ELSE listed_since END
    WHERE source = :source AND zone = :zone
""")


async def record_listing(connection: Connection, source: str, zone: str, seen: ListingState) -> None:
    """Remember what a zone says; what is unknown changes nothing."""
    await connection.execute(_RECORD_LISTING, {"source": source, "zone": zone, "detail": seen.value})


_LISTED_IN = text(
    "SELECT zone FROM source_listing WHERE source = :source AND listed_since IS NOT NULL"
    " AND zone = ANY(:zones) ORDER BY zone"
)
_HOLDER = text("""
    SELECT edited_by FROM throttle_edit WHERE provider = '*' AND source = :source
        AND held AND (held_until IS NULL OR held_until > clock_timestamp())
""")


async def hold_while_listed(connection: Connection, source: str, zones: Sequence[str]) -> str:
    """Hold a source that is listed, and let go of one that is not any more; says "held", "let go" or ""."""
    found = await connection.execute(_LISTED_IN, {"source": source, "zones": list(zones)})
    listed = list(found.scalars())
    holder = (await connection.execute(_HOLDER, {"source": source})).scalar()
    if listed and holder is None:
        note = f"listed in {', '.join(listed)}"
        edit = ThrottleEdit(ANY_PROVIDER, source, note=note, edited_by=_LISTING_WATCH)
        await hold(connection, edit, seconds=0)
        return "held"
    if not listed and holder == _LISTING_WATCH:
        await let_go(connection, provider=ANY_PROVIDER, source=source, edited_by=_LISTING_WATCH)
        return "let go"
    return ""


_OPT_OUTS_REFRESH_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class OptedOut:
    """A domain that does not want to be asked, its subdomains included."""

    domain: str
    note: str
    added_by: str
    added_at: datetime


_OPTED_OUT = text("SELECT domain, note, added_by, added_at FROM opt_out ORDER BY domain")


async def opted_out(connection: Connection) -> Sequence[OptedOut]:
    """Return all of them."""
    return await rows_as(OptedOut, connection, _OPTED_OUT)


_ADD_OPT_OUT = text("""
    INSERT INTO opt_out (domain, note, added_by) VALUES (:domain, :note, :added_by)
    ON CONFLICT (domain) DO UPDATE SET note = excluded.note
""")


async def add_opt_out(connection: Connection, domain: str, *, note: str, added_by: str) -> None:
    """Ask a domain nothing more."""
    await connection.execute(_ADD_OPT_OUT, {"domain": domain, "note": note, "added_by": added_by})


_REMOVE_OPT_OUT = text("DELETE FROM opt_out WHERE domain = :domain")


async def remove_opt_out(connection: Connection, domain: str) -> bool:
    """Let a domain be asked again; False when it had not opted out."""
    return (await connection.execute(_REMOVE_OPT_OUT, {"domain": domain})).rowcount == 1


@asynccontextmanager
async def keep_opt_outs_refreshed(database: Database, book: OptOuts) -> AsyncIterator[None]:
    """Keep the book as the database has it; while that is away, what is known holds on."""

    async def refresh() -> None:
        try:
            book.learn(one.domain for one in await database.run(opted_out))
        except (MailsiftError, DatabaseError) as error:
            _log.debug("The opt-outs cannot be read: %s", type(error).__name__)

    await refresh()
    async with repeating(refresh, every=_OPT_OUTS_REFRESH_SECONDS, task="opt_outs"):
        yield
