"""A cron line in English."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Final

from cronsim import CronSim

_ANY_DAY: Final = datetime(2024, 1, 1, tzinfo=UTC)
_ORDINALS: Final = {"second": 2, "third": 3, "fourth": 4, "fifth": 5, "sixth": 6, "seventh": 7, "eighth": 8}
_TH: Final = r"(second|third|fourth|fifth|sixth|seventh|eighth|\d+)(?:th|st|nd|rd)?"


def _rhythm(whole: int, told: str, found: re.Match[str]) -> str:
    """Say a rhythm; one that does not divide the hour or the day evenly keeps the words that count it."""
    step = _ORDINALS.get(found[1]) or int(found[1])
    return found[0] if whole % step else told.format(step)


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
    told = CronSim(cron, _ANY_DAY).explain()
    for pattern, better in _BETTER:
        told = re.sub(pattern, better, told)
    return told
