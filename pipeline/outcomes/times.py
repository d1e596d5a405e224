"""Reads when something happened, however senders and spreadsheets write it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta, timezone
from functools import cache, lru_cache
from typing import Any, ClassVar, Final
from unicodedata import combining, normalize

_EARLIEST: Final = 946_684_800.0
"""The year 2000: reports of messages sent before are no reports."""
_LATEST: Final = 4_102_444_800.0  # the year 2100
_SCALES: Final = (1.0, 1e3, 1e6, 1e9)
"""Seconds, and what is counted in thousandths, millionths and billionths of one."""
_SHEET_DAYS: Final = (36_526, 73_050)
"""The same years in the days that spreadsheets count."""
_SHEET_BEGINS: Final = datetime(1899, 12, 30, tzinfo=UTC)
_DIGITS: Final = {8: "%Y%m%d", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}
_SLASHED: Final = re.compile(r"\s*(\d{1,2})([/.\-])(\d{1,2})[/.\-](?:\d{4}|\d{2})\b")
_MONTHS_OF_A_YEAR: Final = 12
_LONGEST: Final = 100
_BESIDE: Final = re.compile(
    r" \([^)]*\)$|\[[\w/+-]+\]$|\b(?:GMT|UTC)(?=[+-]\d)|\b(?:a|as|alle|de|del|kl|om|um)\b\.?(?= )|\bUhr\b"
    r"|(?<=\d)\.(?= *[A-Za-z])"
)
"""Words around the parts of a date that say nothing more."""
_DOTTED: Final = re.compile(r"(?<=\d{4} )\d{1,2}(?:\.\d\d){1,2}\b")
"""A time of day behind its day, as Finns and some mail programs write it: "3 Nov 2026 17.30.05"."""
_WHERE_A_PART_IS_MISSING: Final = (datetime(2001, 1, 1, tzinfo=UTC), datetime(2004, 2, 2, tzinfo=UTC))

_MONTHS: Final = (
    "jan january januar janvier janv enero ene janeiro gennaio gen januari styczen stycznia sty",
    "feb february februar fevrier fevr febrero fevereiro fev febbraio februari luty lutego lut",
    "mar march marz maerz mrz mars marzo marco maart mrt marzec marca",
    "apr april avril avr abril abr aprile kwiecien kwietnia kwi",
    "may mai mayo maio maggio mag mei maj maja",
    "jun june juni juin junio junho giugno giu czerwiec czerwca cze",
    "jul july juli juillet juil julio julho luglio lug lipiec lipca lip",
    "aug august aout agosto ago augustus sierpien sierpnia sie",
    "sep sept september septembre septiembre setembro settembre set wrzesien wrzesnia wrz",
    "oct october oktober okt octobre octubre outubro out ottobre ott pazdziernik pazdziernika paz",
    "nov november novembre noviembre novembro listopad listopada lis",
    "dec december dezember dez decembre diciembre dic dezembro dicembre grudzien grudnia gru",
)
"""What the months are called where mail senders live, in full and in short, without accents."""

_JAPANESE: Final = str.maketrans({"年": "-", "月": "-", "日": " "})
"""What stands behind the year, the month and the day in Japanese and Chinese."""

_ZONES: Final = {
    name: hours
    for hours, names in {
        -8: "PST",
        -7: "PDT MST",
        -6: "MDT CST",
        -5: "CDT EST",
        -4: "EDT",
        1: "WEST BST CET MEZ",
        2: "CEST MESZ EET",
        3: "EEST MSK",
        9: "JST KST",
        10: "AEST",
        11: "AEDT",
    }.items()
    for name in names.split()
}
"""Hours from UTC of zones that are written as letters; what is not here is taken as UTC (RFC 5322 §4.3)."""


def epoch(value: object, *, day_first: bool | None = None) -> float:
    """Return epoch seconds of a time; 0.0 when it is none, or not of this century.

    Numbers count seconds, their parts, or a spreadsheet's days; texts are ISO 8601, RFC 5322 or what people
    write, in the languages of _MONTHS. A time without a zone is taken as UTC.

    Args:
        value: a number or a text.
        day_first: how 5/6/2026 is meant; None: not known, and the earlier of the two days counts, for what is
            older says less.
    """
    text = str(value if value is not None else "").strip()
    if len(text) > _LONGEST:  # what is remembered is short
        return 0.0
    try:
        found = _from_number(float(text), text)
    except (ValueError, OverflowError):
        found = _from_text(text, day_first)
    return found if _EARLIEST <= found < _LATEST else 0.0


def day_first_in(cells: Iterable[str]) -> bool | None:
    """Say whether days stand before months in a column of dates; None where it does not show."""
    for cell in cells:
        if found := _SLASHED.match(cell):
            first, separator, second = int(found[1]), found[2], int(found[3])
            if separator == "." or first > _MONTHS_OF_A_YEAR:
                return True
            if second > _MONTHS_OF_A_YEAR:
                return False
    return None


def _from_number(number: float, text: str) -> float:
    if pattern := _DIGITS.get(len(text)):
        try:
            return datetime.strptime(text, pattern).replace(tzinfo=UTC).timestamp()
        except ValueError:
            pass  # so many digits of something else
    if _SHEET_DAYS[0] <= number < _SHEET_DAYS[1]:
        return (_SHEET_BEGINS + timedelta(days=number)).timestamp()
    return next((number / scale for scale in _SCALES if _EARLIEST <= number / scale < _LATEST), 0.0)


@lru_cache(maxsize=4_096)  # senders' exports name minutes or days
def _from_text(text: str, day_first: bool | None) -> float:
    try:
        return _epoch_seconds(datetime.fromisoformat(text.removesuffix(" UTC")))
    except (ValueError, OverflowError):
        pass
    if not re.search(r"\d", text):
        return 0.0
    plain = "".join(letter for letter in normalize("NFKD", text) if not combining(letter))
    plain = _BESIDE.sub(" ", plain.translate(_JAPANESE)).strip()
    plain = _DOTTED.sub(lambda time: time[0].replace(".", ":"), plain)
    known = day_first_in([plain]) if day_first is None else day_first
    orders = (True, False) if known is None else (known,)
    return min(filter(None, (_parse_written(plain, order) for order in orders)), default=0.0)


def _parse_written(text: str, day_first: bool) -> float:
    """Return the time of a text that names day, month and year; else 0.0."""
    year_first = bool(re.match(r"\d{4}", text))
    order = {"dayfirst": day_first and not year_first, "yearfirst": year_first}
    try:
        one, other = (
            _parser().parse(text, default, **order, tzinfos=_zone) for default in _WHERE_A_PART_IS_MISSING
        )
        return _epoch_seconds(one) if one == other else 0.0
    except (ValueError, ArithmeticError):  # the parser counts in decimals, which have errors of their own
        return 0.0


def _zone(name: str | None, offset: int | None) -> timezone:
    seconds = offset if offset is not None else 3_600 * _ZONES.get((name or "").upper(), 0)
    return timezone(timedelta(seconds=seconds))


def _epoch_seconds(time: datetime) -> float:
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


@cache
def _parser() -> Any:
    from dateutil import parser  # noqa: PLC0415 - most times are ISO 8601, and never need it

    class Words(parser.parserinfo):  # type: ignore[misc]
        MONTHS: ClassVar = [tuple(names.split()) for names in _MONTHS]

    return parser.parser(Words())
