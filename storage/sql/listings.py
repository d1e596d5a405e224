"""Where sources are listed, in SQL, and the holds that follow from it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from sqlalchemy import text

from mailsift.storage.database import Connection
from mailsift.storage.sql import throttle_edits
from mailsift.storage.sql.throttle_edits import ANY_PROVIDER, ThrottleEdit

WATCH: Final = "block lists"
"""Who holds a source that is listed: what operators hold is theirs to let go of."""


class ListingState(StrEnum):
    """What a zone says of a source."""

    LISTED = "listed"
    CLEAR = "clear"
    UNKNOWN = "unknown"  # no answer, or a zone that is not believed


_DUE = text("""
    INSERT INTO source_listing AS l (source, zone) VALUES (:source, :zone)
    ON CONFLICT (source, zone) DO UPDATE SET looked_at = clock_timestamp()
        WHERE l.looked_at < clock_timestamp() - make_interval(secs => :seconds)
    RETURNING zone
""")
_LEARN = text("""
    UPDATE source_listing SET looked_at = clock_timestamp(), detail = :detail,
        listed_since = CASE :detail WHEN 'listed' THEN coalesce(listed_since, clock_timestamp())
                                    WHEN 'clear' THEN NULL ELSE listed_since END
    WHERE source = :source AND zone = :zone
""")
_ZONES = text(
    "SELECT zone FROM source_listing WHERE source = :source AND listed_since IS NOT NULL"
    " AND zone = ANY(:zones) ORDER BY zone"
)
_HOLDER = text("""
    SELECT edited_by FROM throttle_edit WHERE provider = '*' AND source = :source
        AND held AND (held_until IS NULL OR held_until > clock_timestamp())
""")


async def is_due(connection: Connection, source: str, zone: str, *, seconds: float) -> bool:
    """Say whether nobody has looked for so many seconds; whoever is told so looks now."""
    found = await connection.execute(_DUE, {"source": source, "zone": zone, "seconds": seconds})
    return found.first() is not None


async def learn(connection: Connection, source: str, zone: str, seen: ListingState) -> None:
    """Remember what a zone says; what is unknown changes nothing."""
    await connection.execute(_LEARN, {"source": source, "zone": zone, "detail": seen.value})


async def hold_while_listed(connection: Connection, source: str, zones: Sequence[str]) -> str:
    """Hold a source that is listed, and let go of one that is not any more; says "held", "let go" or ""."""
    found = await connection.execute(_ZONES, {"source": source, "zones": list(zones)})
    listed = list(found.scalars())
    holder = (await connection.execute(_HOLDER, {"source": source})).scalar()
    if listed and holder is None:
        note = f"listed in {', '.join(listed)}"
        edit = ThrottleEdit(ANY_PROVIDER, source, note=note, edited_by=WATCH)
        await throttle_edits.hold(connection, edit, seconds=0)
        return "held"
    if not listed and holder == WATCH:
        await throttle_edits.let_go(connection, provider=ANY_PROVIDER, source=source, edited_by=WATCH)
        return "let go"
    return ""
