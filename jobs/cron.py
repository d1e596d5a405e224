"""When a cron line fires, and which of its slots are run: pure decisions, time passed in."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import islice
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from pipeline.errors import MailsiftError

WINDOW = timedelta(hours=24)
"""How far back missed slots are caught up."""

PUNCTUAL = timedelta(minutes=5)
"""A slot this late still counts as in time."""


class CatchUp(StrEnum):
    """What becomes of slots that were missed, at most a day ago."""

    NONE = "none"
    LATEST = "latest"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Due:
    """What a due schedule does now.

    Attributes:
        slot: the slot to run; None = none is worth it.
        next: the slot that is looked at after it; it may lie in the past when there is more to catch up.
    """

    slot: datetime | None
    next: datetime


def check_cron(cron: str, zone: str) -> None:
    """Refuse what never fires.

    Raises:
        MailsiftError: `schedule_cron_invalid`, `schedule_zone_invalid`.
    """
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise MailsiftError("schedule_zone_invalid", "The time zone is not an IANA name.") from None
    if len(cron) > 200 or len(cron.split()) != 5:
        raise MailsiftError("schedule_cron_invalid", "A cron line has five fields.")
    try:
        next(CronSim(cron, datetime(2024, 1, 1, tzinfo=UTC)))
    except (CronSimError, StopIteration):
        raise MailsiftError("schedule_cron_invalid", "The cron line never fires or is malformed.") from None


def fires(cron: str, zone: str, *, after: datetime, count: int) -> list[datetime]:
    """Return the next slots after a time, in UTC.

    A time the clocks skip fires right after the gap, one they repeat fires once (cronsim, as Debian's cron).
    """
    slots = CronSim(cron, after.astimezone(ZoneInfo(zone)))
    return [slot.astimezone(UTC) for slot in islice(slots, count)]


def due(cron: str, zone: str, catch_up: CatchUp, *, slot: datetime, now: datetime) -> Due:
    """Decide which slot a due schedule runs.

    Args:
        cron: five fields.
        zone: IANA name.
        catch_up: what becomes of missed slots.
        slot: the first slot that has not been looked at, not after `now`.
        now: the time.
    """
    upcoming = fires(cron, zone, after=now, count=1)[0]
    oldest = max(slot, now - WINDOW)
    missed = [slot] if slot >= oldest else []
    later = CronSim(cron, (oldest if missed else oldest - timedelta(seconds=1)).astimezone(ZoneInfo(zone)))
    for fired in later:
        moment = fired.astimezone(UTC)
        if moment > now:
            break
        missed.append(moment)
    if catch_up is CatchUp.ALL and missed:
        return Due(missed[0], missed[1] if len(missed) > 1 else upcoming)
    latest = missed[-1] if missed else None
    if catch_up is CatchUp.NONE and latest is not None and now - latest > PUNCTUAL:
        latest = None
    return Due(latest, upcoming)
