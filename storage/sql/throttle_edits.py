"""What operators changed of the throttle: the database keeps it, every process knows it within seconds."""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Final

from sqlalchemy import text

from mailsift.pipeline.background import repeating
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.providers import Provider
from mailsift.pipeline.throttle import Ask, provider_at_step
from mailsift.storage.database import Connection, Database, DatabaseError, rows_as
from mailsift.storage.sql import ledger, sources

ANY_SOURCE: Final = "*"
ANY_PROVIDER: Final = "*"
"""The provider of a hold that is a source's: nobody at all is asked from there, or from anywhere."""
MOST_RAISE: Final = 2.0
"""An edit may at most double what the provider table (with the overrides file) allows: politeness is not
given up with a click. Whoever needs more says so in the overrides file."""
REFRESH_SECONDS: Final = 2.0
KNOWN_SECONDS: Final = 1.5 * REFRESH_SECONDS  # by then every process knows of an edit
HELD_SECONDS: Final = 30.0  # when to ask again while a provider is held

log = logging.getLogger(__name__)


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


_LIST = text("""
    SELECT provider, source, rate, sessions,
        held AND (held_until IS NULL OR held_until > clock_timestamp()) AS held,
        CASE WHEN held_until > clock_timestamp() THEN held_until END AS held_until,
        note, edited_by, edited_at
    FROM throttle_edit
    WHERE rate IS NOT NULL OR sessions IS NOT NULL
        OR held AND (held_until IS NULL OR held_until > clock_timestamp())
    ORDER BY provider, source
""")
_PUT = text("""
    INSERT INTO throttle_edit (provider, source, rate, sessions, note, edited_by)
    VALUES (:provider, :source, :rate, :sessions, :note, :edited_by)
    ON CONFLICT (provider, source) DO UPDATE SET rate = excluded.rate, sessions = excluded.sessions,
        note = excluded.note, edited_by = excluded.edited_by, edited_at = clock_timestamp()
""")
_HOLD = text("""
    INSERT INTO throttle_edit (provider, source, held, held_until, note, edited_by)
    VALUES (:provider, :source, true,
        CASE WHEN :seconds > 0 THEN clock_timestamp() + make_interval(secs => :seconds) END,
        :note, :edited_by)
    ON CONFLICT (provider, source) DO UPDATE SET held = true, held_until = excluded.held_until,
        note = excluded.note, edited_by = excluded.edited_by, edited_at = clock_timestamp()
""")
_LET_GO = text("""
    UPDATE throttle_edit SET held = false, held_until = NULL, edited_by = :edited_by,
        edited_at = clock_timestamp()
    WHERE provider = :provider AND source = :source AND held
""")
_DROP_EMPTY = text(
    "DELETE FROM throttle_edit WHERE rate IS NULL AND sessions IS NULL AND NOT held AND provider = :provider"
)
# What waits for a provider that was held is looked at again as soon as everybody knows: who took it for held
# still would leave it for as long as one asks again while it is.
_RELEASE_CHUNKS = text("""
    UPDATE chunk SET ready_at = clock_timestamp() + make_interval(secs => :known_seconds), waits_for = ''
    WHERE (job_id, n) IN (
        SELECT job_id, n FROM chunk
        WHERE state = 'ready' AND :provider IN ('*', lane) AND waits_for = 'throttled'
          AND ready_at < clock_timestamp() + make_interval(secs => :seconds) FOR UPDATE SKIP LOCKED)
""")


async def edits(connection: Connection) -> Sequence[ThrottleEdit]:
    """Return every edit; one whose hold is over by itself is not held."""
    return await rows_as(ThrottleEdit, connection, _LIST)


async def held_sources(connection: Connection) -> dict[str, str]:
    """Return the sources that nothing is asked from, and the note of who holds each."""
    return {
        one.source: one.note for one in await edits(connection) if one.held and one.provider == ANY_PROVIDER
    }


async def put(connection: Connection, edit: ThrottleEdit) -> None:
    """Write down new limits (None, None: the row's again); a hold stays as it is."""
    await connection.execute(_PUT, asdict(edit))
    await connection.execute(_DROP_EMPTY, asdict(edit))


async def hold(connection: Connection, edit: ThrottleEdit, *, seconds: float) -> None:
    """Ask a provider nothing more for so many seconds, 0 = until somebody lets go."""
    await connection.execute(_HOLD, asdict(edit) | {"seconds": seconds})


async def let_go(connection: Connection, *, provider: str, source: str, edited_by: str) -> bool:
    """End a hold; False when there was none."""
    values = {
        "provider": provider,
        "source": source,
        "edited_by": edited_by,
        "seconds": 2 * HELD_SECONDS,
        "known_seconds": KNOWN_SECONDS,
    }
    if (await connection.execute(_LET_GO, values)).rowcount != 1:
        return False
    await connection.execute(_DROP_EMPTY, values)
    await connection.execute(_RELEASE_CHUNKS, values)
    await sources.wake(connection, provider=provider, source=source, after=KNOWN_SECONDS)
    return True


@asynccontextmanager
async def keep_refreshed(database: Database, book: EditBook) -> AsyncIterator[None]:
    """Keep the book as the database has it, until the block ends.

    While the database does not answer, what is known holds on.
    """
    known = True

    async def refresh() -> None:
        nonlocal known
        try:
            async with database.begin() as connection:
                book.learn(await edits(connection), await ledger.steps(connection))
        except (MailsiftError, DatabaseError) as error:
            if known:
                log.warning("The throttle's edits cannot be read: %s", type(error).__name__)
            known = False
        else:
            known = True

    await refresh()
    async with repeating(refresh, every=REFRESH_SECONDS, task="throttle_edits"):
        yield
