"""Which jobs an operator means: from the words of a form or a command to a filter, and back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from mailsift.jobs.intake.models import LIST_FAULTS
from mailsift.pipeline.clock import utc_datetime
from mailsift.pipeline.errors import MailsiftError
from mailsift.storage.sql.job_search import JobFilter
from mailsift.storage.states import ENDED, JobState

GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "open": tuple(state.value for state in JobState if state not in ENDED),
    "ended": tuple(sorted(state.value for state in ENDED)),
}
"""Names for several states."""

BROKEN: Final = "broken"
"""What failed for reasons of ours and was not run again."""

_AGE: Final = re.compile(r"([<>])([1-9]\d{0,4})([mhd])")
_UNITS: Final = {"m": "minutes", "h": "hours", "d": "days"}


def read_filter(words: Mapping[str, str], *, now: float) -> JobFilter:
    """Return the filter.

    Args:
        words: `state` (a state, one of GROUPS, or BROKEN), `account`, `text`, and `age` such as `<24h`
            (younger than a day) or `>7d`; each may be missing or empty.
        now: seconds since the epoch.

    Raises:
        MailsiftError: `bad_filter`.
    """
    state = words.get("state", "").strip()
    after, before = _ages(words.get("age", "").strip(), utc_datetime(now))
    return JobFilter(
        states=() if state == BROKEN else _states(state),
        account=_searched(words, "account"),
        text=_searched(words, "text"),
        after=after,
        before=before,
        broken_but=LIST_FAULTS if state == BROKEN else None,
    )


def _searched(words: Mapping[str, str], name: str) -> str:
    return words.get(name, "").replace("\0", "").strip()[:200]


def _states(word: str) -> tuple[str, ...]:
    if not word:
        return ()
    if word in GROUPS:
        return GROUPS[word]
    if word not in set(JobState):
        known = ", ".join([*GROUPS, BROKEN, *JobState])
        raise MailsiftError("bad_filter", f"The state must be one of: {known}.")
    return (word,)


def _ages(word: str, now: datetime) -> tuple[datetime | None, datetime | None]:
    if not word:
        return None, None
    found = _AGE.fullmatch(word)
    if found is None:
        raise MailsiftError("bad_filter", "Write an age as <24h (younger) or >7d (older).")
    than, number, unit = found.groups()
    moment = now - timedelta(**{_UNITS[unit]: int(number)})
    return (moment, None) if than == "<" else (None, moment)
