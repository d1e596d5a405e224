"""How figures and times are written on pages: Jinja filters, and nothing that asks anybody."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any, Final

from jinja2 import pass_context
from jinja2.runtime import Context
from markupsafe import Markup, escape

from mailsift.jobs.admin.console import key_title
from mailsift.pipeline.wording import counted
from mailsift.pipeline.zones import DEFAULT, local_text

NOTHING: Final = "–"
_MARKED: Final = re.compile(r"(`[^`]+`|\*[^*]+\*)")
_SIZES: Final = ("bytes", "kB", "MB", "GB", "TB")
_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
_UNITS: Final = ((_DAY, "day"), (_HOUR, "hour"), (_MINUTE, "minute"), (1, "second"))
_PAIRS: Final = ((_DAY, "d", _HOUR, "h"), (_HOUR, "h", _MINUTE, "min"), (_MINUTE, "min", 1, "s"))


def number(value: float | None) -> str:
    """Write 1234567 as 1,234,567; a float keeps one digit after the point."""
    if value is None:
        return NOTHING
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"


def percent(part: float, whole: float = 1.0) -> str:
    """Write a part of a whole in percent; what is not nothing and not all is never shown as 0 % or 100 %."""
    if not whole:
        return NOTHING
    share = 100 * part / whole
    if 0 < share < 0.1:
        return "< 0.1 %"
    if 99.9 < share < 100:
        return "> 99.9 %"
    return f"{share:.0f} %" if share in {0, 100} else f"{share:.1f} %"


def date_time(at: datetime | None, otherwise: str = NOTHING, zone: str = DEFAULT) -> str:
    """Write a time as clocks of a zone show it, 21 Nov 2026, 05:31 CET; UTC is told on hover."""
    return otherwise if at is None else _time(at.astimezone(UTC), local_text(at, zone))


@pass_context
def their_time(context: Context, at: datetime | None, otherwise: str = NOTHING, zone: str = "") -> str:
    """Write a time as the clocks of who looks at the page show it, or those of a zone."""
    return otherwise if at is None else date_time(at, otherwise, zone or context["zone"])


@pass_context
def time_or_value(context: Context, value: object) -> object:
    """Write what may be a time, and leave anything else as it is."""
    return date_time(value, NOTHING, context["zone"]) if isinstance(value, datetime) else value


@pass_context
def ago(context: Context, at: datetime | None, otherwise: str = NOTHING) -> str:
    """Write a time as its distance from now: 3 minutes ago, in 2 hours."""
    if at is None:
        return otherwise
    now: datetime = context["now"]
    seconds = (now - at).total_seconds()
    distance = _distance(seconds if seconds > 0 else 60 * round(-seconds / 60) if seconds < -60 else -seconds)
    text = "just now" if abs(seconds) < 5 else f"{distance} ago" if seconds > 0 else f"in {distance}"
    return _time(at.astimezone(UTC), text)


def duration(seconds: float | None) -> str:
    """Write a span as 2 h 13 min, 45 s or 300 ms."""
    if seconds is None:
        return NOTHING
    if 0.0005 < seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    whole = max(0, round(seconds))
    for large, large_name, small, small_name in _PAIRS:
        if whole >= large:
            rest = whole % large // small
            return f"{whole // large} {large_name}" + (f" {rest} {small_name}" if rest else "")
    return f"{whole} s"


def size(count: float | None) -> str:
    """Write bytes as 1.2 MB; powers of 1000."""
    if count is None:
        return NOTHING
    power = 0
    while count >= 999.5 and power < len(_SIZES) - 1:
        count /= 1000
        power += 1
    return f"{count:.0f} {_SIZES[power]}" if power == 0 or count >= 99.95 else f"{count:.1f} {_SIZES[power]}"


def breakable(address: str) -> Markup:
    """Write an address so that a line may end before its @ sign, and nowhere else."""
    local, at, domain = address.rpartition("@")
    return Markup('{}<wbr><span class="domain">@{}</span>').format(local, domain) if at else escape(address)


def code(text: str) -> Markup:
    """Write a sentence with `names` between backticks and *words* between stars, as documentation does."""
    parts = _MARKED.split(text)
    return Markup("").join(
        Markup("<code>{}</code>").format(part.strip("`"))
        if part.startswith("`")
        else Markup("<em>{}</em>").format(part.strip("*"))
        if part.startswith("*")
        else part
        for part in parts
    )


FILTERS: Final[dict[str, Any]] = {
    "key_title": key_title,
    "number": number,
    "counted": counted,
    "percent": percent,
    "date_time": their_time,
    "time_or_value": time_or_value,
    "ago": ago,
    "duration": duration,
    "size": size,
    "code": code,
    "breakable": breakable,
}


def _distance(seconds: float) -> str:
    for length, name in _UNITS:
        count = int(seconds // length)
        if count:
            return f"{count} {name}{'' if count == 1 else 's'}"
    return "1 second"


def _time(at: datetime, text: str) -> Markup:
    exact = f"{at:%Y-%m-%d %H:%M:%S} UTC"
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        at.isoformat(timespec="seconds"), exact, text
    )
