"""The form of a schedule: what it offers, and what it says once it is filled in."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from starlette.datastructures import FormData

from api.pages.forms import choice, text
from jobs.cron import check_cron
from jobs.schedule_views import Overlap, Recheck, ScheduleSpec
from jobs.timetable import CatchUp
from pipeline.errors import MailsiftError

RHYTHMS: Final = {
    "0 6 * * *": "Every day at 06:00",
    "0 6 * * 1-5": "Monday to Friday at 06:00",
    "0 6 * * 1": "Every Monday at 06:00",
    "0 6 1 * *": "On the first day of every month at 06:00",
    "0 6 1 1,4,7,10 *": "On the first day of every quarter at 06:00",
    "": "As this cron line says:",
}
RECHECKS: Final = {
    Recheck.ALL.value: "Every address, whatever is remembered",
    Recheck.STALE.value: "Addresses whose verdict has grown old",
    Recheck.RISKY.value: "Only the rows that were risky the last time",
}
OVERLAPS: Final = {
    Overlap.SKIP.value: "The new run is left out",
    Overlap.QUEUE.value: "The new run waits for it",
    Overlap.CANCEL_PREVIOUS.value: "The old run is cancelled",
}
CATCH_UPS: Final = {
    CatchUp.LATEST.value: "Run the last one",
    CatchUp.ALL.value: "Run every one of the last day",
    CatchUp.NONE.value: "Leave them out",
}
JITTERS: Final = {
    "0": "Exactly on time",
    "300": "Up to 5 minutes later",
    "1800": "Up to 30 minutes later",
    "3600": "Up to 1 hour later",
}
FAILURES: Final = {
    "1": "1 failed run",
    "3": "3 failed runs in a row",
    "5": "5 failed runs in a row",
    "0": "Never",
}
ZONES: Final = (
    "UTC",
    "Africa/Johannesburg",
    "America/Chicago",
    "America/Los_Angeles",
    "America/New_York",
    "America/Sao_Paulo",
    "Asia/Dubai",
    "Asia/Kolkata",
    "Asia/Shanghai",
    "Asia/Singapore",
    "Asia/Tokyo",
    "Australia/Sydney",
    "Europe/Berlin",
    "Europe/Istanbul",
    "Europe/London",
    "Europe/Madrid",
    "Europe/Paris",
    "Europe/Warsaw",
)


@dataclass(frozen=True, slots=True)
class Filled:
    """The fields as texts, as they are shown again when something is wrong with them."""

    name: str = ""
    rhythm: str = "0 6 * * 1"
    cron: str = ""
    zone: str = "UTC"
    recheck: str = Recheck.ALL.value
    overlap: str = Overlap.SKIP.value
    catch_up: str = CatchUp.LATEST.value
    jitter: str = "0"
    failures: str = "5"
    ends: str = ""

    def spec(self) -> ScheduleSpec:
        """Return what the schedule does.

        Raises:
            MailsiftError: `schedule_cron_invalid`, `schedule_zone_invalid`, `bad_option`.
        """
        cron = self.rhythm or self.cron
        check_cron(cron, self.zone)
        return ScheduleSpec(
            cron=cron,
            zone=self.zone,
            name=self.name,
            recheck=Recheck(self.recheck),
            overlap=Overlap(self.overlap),
            catch_up=CatchUp(self.catch_up),
            jitter_seconds=int(self.jitter),
            pause_after_failures=int(self.failures),
            ends_at=_end_of(self.ends, self.zone),
        )


def read(form: FormData) -> Filled:
    """Return the fields of the form.

    Raises:
        MailsiftError: `bad_option`.
    """
    return Filled(
        name=text(form, "name"),
        rhythm=choice(form, "rhythm", RHYTHMS),
        cron=" ".join(text(form, "cron").split()),
        zone=text(form, "zone", most=64),
        recheck=choice(form, "recheck", RECHECKS),
        overlap=choice(form, "overlap", OVERLAPS),
        catch_up=choice(form, "catch_up", CATCH_UPS),
        jitter=_whole(form, "jitter"),
        failures=_whole(form, "failures"),
        ends=text(form, "ends", most=10),
    )


def filled_from(spec: ScheduleSpec) -> Filled:
    """Return the form of a schedule that exists."""
    filled = Filled(
        name=spec.name,
        zone=spec.zone,
        recheck=spec.recheck.value,
        overlap=spec.overlap.value,
        catch_up=spec.catch_up.value,
        jitter=str(spec.jitter_seconds),
        failures=str(spec.pause_after_failures),
        ends=spec.ends_at.astimezone(ZoneInfo(spec.zone)).date().isoformat() if spec.ends_at else "",
    )
    known = spec.cron in RHYTHMS
    return replace(filled, rhythm=spec.cron if known else "", cron="" if known else spec.cron)


def with_this(known: dict[str, str], value: str, words: str) -> list[tuple[str, str]]:
    """Return the choices of a field, with the value it has by other ways among them."""
    return [*known.items(), *([] if value in known else [(value, words.format(value))])]


def _whole(form: FormData, name: str) -> str:
    value = text(form, name, most=6)
    if not (value.isascii() and value.isdecimal()) or int(value) > 86_400:
        raise MailsiftError("bad_option", f"The field “{name}” is not one of the choices.")
    return str(int(value))


def _end_of(day: str, zone: str) -> datetime | None:
    """Return the last moment of a day, in UTC."""
    if not day:
        return None
    try:
        start = datetime.combine(datetime.strptime(day, "%Y-%m-%d").date(), time(), ZoneInfo(zone))  # noqa: DTZ007 - only its date
    except ValueError:
        raise MailsiftError("bad_option", "The last day is not a date.") from None
    return (start + timedelta(days=1)).astimezone(UTC) - timedelta(seconds=1)
