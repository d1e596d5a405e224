"""When a cron line fires, in its time zone."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from pipeline.errors import MailsiftError


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


def fires(cron: str, zone: str, *, after: datetime) -> Iterator[datetime]:
    """Yield the slots after a time, in UTC.

    A time the clocks skip fires right after the gap, one they repeat fires once (cronsim, as Debian's cron).
    """
    for slot in CronSim(cron, after.astimezone(ZoneInfo(zone))):
        moment = slot.astimezone(UTC)
        if moment > after:  # within an hour that is repeated, cronsim begins with its first pass
            yield moment
