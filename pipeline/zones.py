"""Time zones by their IANA names (RFC 6557), and how clocks there show a moment."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta, tzinfo
from functools import cache
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

DEFAULT_ZONE: Final = "UTC"
_NO_PLACES: Final = frozenset({"Factory", "localtime", "posixrules"})
_COPIES: Final = ("right/", "posix/")
"""Folders in which some machines have all zones again: with leap seconds, and without."""


def is_zone(name: str) -> bool:
    """Say whether this is the name of a time zone."""
    return _find(name) is not None


def zone_named(name: str) -> tzinfo:
    """Return the time zone; UTC for a name that this machine's tables do not know (any more)."""
    return _find(name) or UTC


@cache
def zone_names() -> tuple[str, ...]:
    """Return what people choose from: places, and UTC first."""
    places = sorted(name for name in available_timezones() - _NO_PLACES if "/" in name and name[:4] != "Etc/")
    return (DEFAULT_ZONE, *places)


def in_zone(at: datetime, zone: str) -> datetime:
    """Return a moment as clocks there show it; in UTC what lies there in a year that is none (1 to 9999)."""
    try:
        return at.astimezone(zone_named(zone))
    except OverflowError:
        return at.astimezone(UTC)


def local_text(at: datetime, zone: str = DEFAULT_ZONE) -> str:
    """Write a moment as 21 Nov 2026, 05:31 CET."""
    there = in_zone(at, zone)
    return f"{there.day} {there:%b %Y, %H:%M} {abbreviation(there)}"


def abbreviation(there: datetime) -> str:
    """Return what a zone is called at that moment: CET; where it has no letters, UTC−3 or UTC+5:45."""
    name, offset = there.tzname() or "", there.utcoffset() or timedelta()
    if name.isalpha():
        return name
    hours, minutes = divmod(round(abs(offset).total_seconds()) // 60, 60)
    return f"UTC{'−' if offset < timedelta() else '+'}{hours}" + (f":{minutes:02}" if minutes else "")


def midnight(at: datetime, zone: str) -> datetime:
    """Return when the day of a moment began there, UTC."""
    there = zone_named(zone)
    return datetime.combine(at.astimezone(there).date(), time(), there).astimezone(UTC)


def _find(name: str) -> tzinfo | None:
    try:
        return None if name in _NO_PLACES or name.startswith(_COPIES) else ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None
