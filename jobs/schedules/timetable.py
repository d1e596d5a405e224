"""Which slots of a schedule are run, and when; what a cron line says. Pure decisions, time passed in."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import partial
from hashlib import blake2b
from itertools import islice, pairwise, takewhile
from math import inf
from typing import Final
from uuid import UUID

from cronsim import CronSim, CronSimError

from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.zones import is_zone, zone_named
from mailsift.storage.sql.schedules import PUNCTUAL, Slot

WINDOW = timedelta(hours=24)
"""How far back missed slots are caught up."""

_SHIFT = timedelta(hours=3)
"""A zone whose rules are changed moves by no more."""

_MOMENT = timedelta(microseconds=1)
_ANY_DAY: Final = datetime(2024, 1, 1, tzinfo=UTC)
_ANOTHER_DAY: Final = datetime(2025, 2, 1, tzinfo=UTC)
_LEAST_GAP_S: Final = 60
_LOOKED_AT: Final = 1_500
"""How many slots show what lies between two: those of a day, where there is one every minute."""


class CatchUp(StrEnum):
    """What becomes of slots that were missed, at most a day ago."""

    NONE = "none"
    LATEST = "latest"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class DueRun:
    """What a due schedule does now.

    Attributes:
        slot: the slot to run; None = none is worth it.
        next: the slot that is looked at after it; it may lie in the past when there is more to catch up.
    """

    slot: datetime | None
    next: Slot


@dataclass(frozen=True, slots=True)
class Timetable:
    """The slots of one schedule; each starts a little later than the cron line says when there is jitter.

    Attributes:
        cron: five fields.
        zone: IANA name of the zone the cron line is read in.
        seed: the schedule's id: every process finds the same delay for the same slot.
        jitter: the longest delay, in seconds.
        ends_at: no later slot is run; None = for ever.
    """

    cron: str
    zone: str
    seed: UUID
    jitter: int = 0
    ends_at: datetime | None = None

    def slot(self, at: datetime) -> Slot:
        """Return a slot with the moment its run starts."""
        digest = blake2b(f"{self.seed}:{at.timestamp():.0f}".encode(), digest_size=8).digest()
        return Slot(at, at + timedelta(seconds=int.from_bytes(digest) % (self.jitter + 1)))

    def following(self, after: datetime) -> Slot:
        """Return the first slot after a time, past the end too."""
        return next(self._slots(after))

    def standing(self, at: datetime) -> Slot:
        """Return the slot that a time stands for which was written down as one.

        Its zone may have other rules now: then it is the last one shortly before, or else the next one.
        """
        found = self.following(at - _MOMENT)
        if found.at == at:
            return found
        earlier = list(takewhile(lambda one: one.at < at, self._slots(at - _SHIFT)))
        return earlier[-1] if earlier else found

    def upcoming(self, after: datetime) -> Slot:
        """Return the first slot after a time.

        Raises:
            MailsiftError: `schedule_ended` when there is none before its end.
        """
        found = self.following(after)
        if self.is_over(found):
            raise MailsiftError("schedule_ended", "No runs are left before the schedule ends.")
        return found

    def is_over(self, slot: Slot) -> bool:
        """Say whether a slot lies past the end."""
        return not self.includes(slot.at)

    def includes(self, at: datetime) -> bool:
        """Say whether a moment does not lie past the end."""
        return self.ends_at is None or at <= self.ends_at

    def has_slots_of(self, other: Timetable) -> bool:
        """Say whether both have the same slots, wherever they end."""
        return replace(self, ends_at=None) == replace(other, ends_at=None)

    def starts(self, first: datetime, *, now: datetime, count: int) -> tuple[datetime, ...]:
        """Return when so many next runs start; `first` is the first slot that has not been looked at.

        What should have started before `now` is late, and not shown.
        """
        later = max(first - _MOMENT, now - timedelta(seconds=self.jitter))
        slots = takewhile(lambda slot: not self.is_over(slot), self._slots(later))
        return tuple(islice((slot.starts_at for slot in slots if slot.starts_at > now), count))

    def due(
        self, catch_up: CatchUp, *, slot: Slot, now: datetime, freed_at: datetime | None = None
    ) -> DueRun:
        """Decide what a schedule runs whose first slot that has not been looked at is due.

        `freed_at` is when the last run ended, where slots wait for that: they were not missed until then.
        """
        now = max(now, slot.starts_at)  # it is due, whoever has written down when it starts
        # What has waited behind the delay of the first slot is looked at after it.
        last = now - (slot.starts_at - slot.at)
        oldest = max(slot.at, now - WINDOW - timedelta(seconds=self.jitter)) - _MOMENT
        begun = list(takewhile(lambda one: one.at <= last and self._has_begun(one, now), self._slots(oldest)))
        following = self.following(begun[-1].at if begun else oldest)
        missed = [one for one in begun if now - one.starts_at <= WINDOW]
        if catch_up is CatchUp.ALL and missed:
            return DueRun(missed[0].at, missed[1] if len(missed) > 1 else following)
        latest = missed[-1] if missed else None
        if freed_at is not None and slot.starts_at <= freed_at and now - freed_at <= WINDOW:
            latest = latest or slot
        if (
            latest is not None
            and catch_up is CatchUp.NONE
            and now - max(latest.starts_at, freed_at or latest.starts_at) > PUNCTUAL
        ):
            latest = None
        return DueRun(latest.at if latest else None, following)

    def _slots(self, after: datetime) -> Iterator[Slot]:
        """Yield the slots after a time, past the end too."""
        return map(self.slot, fires(self.cron, self.zone, after=after))

    def _has_begun(self, slot: Slot, now: datetime) -> bool:
        return slot.starts_at <= now and self.includes(slot.at)


def check_cron(cron: str, zone: str) -> None:
    """Refuse what never fires.

    Raises:
        MailsiftError: `schedule_cron_invalid`, `schedule_zone_invalid`.
    """
    _check_zone(zone)
    if len(cron) > 200 or len(cron.split()) != 5:
        raise MailsiftError("schedule_cron_invalid", "A cron line must have five fields.")
    try:
        next(CronSim(cron, _ANY_DAY))
    except (CronSimError, StopIteration):
        raise MailsiftError("schedule_cron_invalid", "The cron line is malformed or never fires.") from None


def _check_zone(zone: str) -> None:
    if not is_zone(zone):
        raise MailsiftError("schedule_zone_invalid", "The time zone must be an IANA name.")


def check_jitter(cron: str, jitter: int) -> None:
    """Refuse a delay by which runs of a good cron line would overtake each other: slots would be left out.

    Raises:
        MailsiftError: `schedule_jitter_too_long`.
    """
    if jitter < _LEAST_GAP_S:
        return
    slots = islice(takewhile(lambda slot: slot < _ANOTHER_DAY, CronSim(cron, _ANY_DAY)), _LOOKED_AT)
    shortest = min(((later - slot).total_seconds() for slot, later in pairwise(slots)), default=inf)
    if jitter >= shortest:
        text = f"The delay must be shorter than the {shortest:,.0f} seconds between two runs."
        raise MailsiftError("schedule_jitter_too_long", text)


def fires(cron: str, zone: str, *, after: datetime) -> Iterator[datetime]:
    """Yield the slots after a time, in UTC.

    A time the clocks skip fires right after the gap, one they repeat fires once (cronsim, as Debian's cron).

    Raises:
        MailsiftError: `schedule_zone_invalid` for a zone that this machine's tables do not know.
    """
    _check_zone(zone)
    for slot in CronSim(cron, after.astimezone(zone_named(zone))):
        moment = slot.astimezone(UTC)
        if moment > after:  # within an hour that is repeated, cronsim begins with its first pass
            yield moment


_ORDINALS: Final = {"second": 2, "third": 3, "fourth": 4, "fifth": 5, "sixth": 6, "seventh": 7, "eighth": 8}
_TH: Final = r"(second|third|fourth|fifth|sixth|seventh|eighth|\d+)(?:th|st|nd|rd)?"


def _rhythm(whole: int, even: str, found: re.Match[str]) -> str:
    """Say a rhythm; one that does not divide the hour or the day evenly keeps the words that count it."""
    step = _ORDINALS.get(found[1]) or int(found[1])
    return found[0] if whole % step else even.format(step)


_Better = tuple[str, str | Callable[[re.Match[str]], str]]
_BETTER: Final[tuple[_Better, ...]] = (
    (rf"Every {_TH} minute of every hour\b", partial(_rhythm, 60, "Every {} minutes")),
    (rf"At minute 0 past every {_TH} hour\b", partial(_rhythm, 24, "Every {} hours, on the hour")),
    (r"At the start of every hour\b", "Every hour, on the hour"),
    (r"\b([23]?1)th\b", r"\1st"),
    (r"\b(2?2)th\b", r"\1nd"),
    (r"\b(2?3)th\b", r"\1rd"),
    (r"\b(days?) of month\b", r"\1 of the month"),
    (r"\bthrough\b", "to"),
    (r"^At ([\d:]+(?: and [\d:]+)?) (?:on (?=\w+day$)|(?=every day$))(?:every )?(\w+)$", r"Every \2 at \1"),
    (r"^At ([\d:]+(?: and [\d:]+)?) on (\w+day to \w+day)$", r"\2 at \1"),
)


def in_words(cron: str) -> str:
    """Return what a good cron line of five fields says: "Every Monday at 06:00".

    The library explains every line; the usual ones are then put as people say them.
    """
    words = CronSim(cron, _ANY_DAY).explain()
    for pattern, better in _BETTER:
        words = re.sub(pattern, better, words)
    return words
