"""Charts as SVG: no script draws; colours are classes and lengths attributes, as the pages' policy wants it.

Those of verdicts (gauge, ring, bars, intervals) are hidden from screen readers: the numbers stand beside them
as text. The others carry a label.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from markupsafe import Markup

from mailsift.api.pages.words import percent
from mailsift.pipeline.outcomes.chances import Bin, Calibration, MeasuredShare
from mailsift.pipeline.verdict import SCORE_BANDS, Status

_COLUMNS_WIDTH: Final = 720.0
_COLUMNS_HEIGHT: Final = 120.0
_COLUMNS_BOX: Final = f"0 0 {_COLUMNS_WIDTH:g} {_COLUMNS_HEIGHT:g}"
_COLUMN_GAP: Final = 0.2  # of a column's width
_STEPS: Final = (1.0, 2.0, 2.5, 5.0, 10.0)
STATUS_ORDER: Final = (Status.VALID, Status.RISKY, Status.INVALID)
"""How verdicts stand beside each other everywhere."""
_SVG: Final = Markup('<svg class="{}" viewBox="{}"{} aria-hidden="true" focusable="false">{}</svg>')
_LABELLED: Final = Markup('<svg class="{}" viewBox="{}"{} role="img" aria-label="{}">{}</svg>')
_STRETCHED: Final = Markup(' preserveAspectRatio="none"')
_FULL: Final = 1_000


def columns(series: Sequence[float], *, label: str, titles: Sequence[str] = (), top: float = 0.0) -> Markup:
    """Draw values, none below 0, as columns from a common ground, a place for nothing too.

    The label says in words what the chart shows, to who cannot see it; `titles` are shown to who points at a
    column. `top` is the value at the upper edge, where higher columns are cut; 0 = the largest.
    """
    highest = top or max(series, default=0.0) or 1.0
    step = _COLUMNS_WIDTH / max(1, len(series))
    bars = []
    for n, value in enumerate(series):
        height = round(max(_COLUMNS_HEIGHT * min(value, highest) / highest, 1.0 if value else 0.0), 1)
        title = Markup("<title>{}</title>").format(titles[n]) if n < len(titles) else ""
        bars.append(
            Markup(
                '<g><rect class="c-reach" x="{left}" width="{step}" height="{full}"/>'
                '<rect class="{colour}" x="{x}" y="{y}" width="{w}" height="{h}"/>{title}</g>'
            ).format(
                colour="c-accent" if value <= highest else "c-cut",
                left=f"{n * step:.1f}",
                step=f"{step:.1f}",
                full=f"{_COLUMNS_HEIGHT:g}",
                x=f"{(n + _COLUMN_GAP / 2) * step:.1f}",
                y=f"{_COLUMNS_HEIGHT - height:.1f}",
                w=f"{step * (1 - _COLUMN_GAP):.1f}",
                h=f"{height:.1f}",
                title=title,
            )
        )
    return _LABELLED.format("chart", _COLUMNS_BOX, _STRETCHED, label, Markup("").join(bars))


def stack(parts: Mapping[str, float], *, label: str = "") -> Markup:
    """Draw parts of a whole, by the class that colours each, as a bar; no label where numbers are beside."""
    box, drawn = "0 0 100 10", _filled(parts, 100)
    if label:
        return _LABELLED.format("stack", box, _STRETCHED, label, drawn)
    return _SVG.format("stack", box, _STRETCHED, drawn)


def _filled(parts: Mapping[str, float], full: int) -> Markup:
    """Draw parts side by side on a ground that is `full` long; what is empty is left out."""
    whole, at, drawn = sum(parts.values()), 0.0, [_rect("c-none", 0, full)]
    for colour, value in parts.items():
        if value:
            width = full * value / whole
            drawn.append(_rect(colour, at, width))
            at += width
    return Markup("").join(drawn)


def cells(colours: Sequence[str], *, label: str, titles: Sequence[str]) -> Markup:
    """Draw a strip of equal cells, each with the class that colours it and a title."""
    step = _COLUMNS_WIDTH / max(1, len(colours))
    gap = min(1.5, step * 0.12)
    drawn = [
        Markup('<rect class="{}" x="{}" width="{}" height="24"><title>{}</title></rect>').format(
            colour, f"{n * step:.2f}", f"{step - gap:.2f}", title
        )
        for n, (colour, title) in enumerate(zip(colours, titles, strict=True))
    ]
    box = f"0 0 {_COLUMNS_WIDTH:g} 24"
    return _LABELLED.format("strip", box, _STRETCHED, label, Markup("").join(drawn))


def nice_top(value: float) -> float:
    """Return the round number at or above a value, for the upper edge of a chart; 1 for nothing."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in _STEPS if step * power >= value * (1 - 1e-9))


def robust_top(values: Sequence[float]) -> float:
    """Return the upper edge of a chart that a few spikes do not set: what is above it is cut.

    A spike is more than three times what all but a twentieth of the columns with anything in them reach.
    """
    reached = sorted(value for value in values if value > 0)
    if not reached:
        return nice_top(0)
    usual = reached[int(0.95 * (len(reached) - 1))]
    return nice_top(reached[-1] if reached[-1] <= 3 * usual else 1.2 * usual)


def bar(valid: int, invalid: int, risky: int) -> Markup:
    """Return rows by status as one stacked bar of full width."""
    parts = {"c-valid": valid, "c-risky": risky, "c-invalid": invalid}
    return _SVG.format("bar", f"0 0 {_FULL} 10", _STRETCHED, _filled(parts, _FULL))


def gauge(score: int, status: Status) -> Markup:
    """Return a score of 0 to 100 as a half circle, with the bands of the three statuses below it."""
    bands = [
        Markup('<path class="gauge-band s-{}" d="{}"/>').format(name.value, _arc(low, high + 1, 62))
        for name, (low, high) in SCORE_BANDS.items()
    ]
    ground = Markup('<path class="gauge-ground" d="{}"/>').format(_arc(0, 100, 50))
    value = Markup('<path class="gauge-value s-{}" d="{}"/>').format(status.value, _arc(0, max(score, 1), 50))
    number = Markup('<text class="gauge-number" x="70" y="70">{}</text>').format(score)
    return _SVG.format("gauge", "0 0 140 80", "", Markup("").join((ground, value, *bands, number)))


def interval(found: float, low: float, high: float, kind: str) -> Markup:
    """Return a share with the interval where the truth is, on a line from 0 to 1."""
    ground, span = _rect("c-none", 0, _FULL), _rect(f"c-{kind} faint", _FULL * low, _FULL * (high - low))
    here = _rect(f"c-{kind}", max(0.0, _FULL * found - 3), 6)
    return _SVG.format("bar", f"0 0 {_FULL} 10", _STRETCHED, ground + span + here)


def _rect(kind: str, x: float, width: float) -> Markup:
    return Markup('<rect class="{}" x="{:.2f}" width="{:.2f}" height="10"/>').format(kind, x, width)


def _arc(start: float, end: float, radius: float) -> str:
    """Return the path of an arc of the half circle; 0 is left, 100 right."""
    (x1, y1), (x2, y2) = _place(min(start, 100), radius), _place(min(end, 100), radius)
    return f"M{x1} {y1}A{radius} {radius} 0 0 1 {x2} {y2}"


def _place(value: float, radius: float) -> tuple[str, str]:
    angle = math.pi * (1 - value / 100)
    return _number_text(70 + radius * math.cos(angle)), _number_text(72 - radius * math.sin(angle))


def _number_text(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def over_time(days: Sequence[tuple[str, MeasuredShare]]) -> Markup:
    """Draw a share by day, rising, each with its interval, from 0 at the ground to 1; "" for none."""
    if not days:
        return Markup()
    step = _COLUMNS_WIDTH / len(days)
    drawn = []
    for n, (day, one) in enumerate(days):
        x, width = (n + 0.2) * step, min(step * 0.6, 24.0)
        top, bottom = (_COLUMNS_HEIGHT * (1 - value) for value in (one.high, one.low))
        title = f"{day}: {percent(one.value)} of {one.n:,} arrived"
        drawn.append(
            Markup(
                '<g><rect class="c-none" x="{x}" width="{w}" height="{full}"/><rect class="c-accent"'
                ' fill-opacity="0.4" x="{x}" y="{top}" width="{w}" height="{height}"/>'
                '<rect class="c-accent" x="{x}" y="{y}" width="{w}" height="2"/><title>{title}</title></g>'
            ).format(
                x=_number_text(x),
                w=_number_text(width),
                full=_number_text(_COLUMNS_HEIGHT),
                top=_number_text(top),
                height=_number_text(max(bottom - top, 1)),
                y=_number_text(min(_COLUMNS_HEIGHT * (1 - one.value), _COLUMNS_HEIGHT - 2)),
                title=title,
            )
        )
    label = f"The share of messages that arrived, from {days[0][0]} to {days[-1][0]}"
    return _LABELLED.format("days", _COLUMNS_BOX, _STRETCHED, label, Markup("").join(drawn))


def diagram(found: Calibration) -> Markup:
    """Draw what was said against what arrived; a point on the diagonal is a chance that held."""
    most = max(one.n for one in found.bins)
    ground = Markup(
        '<rect class="c-none" width="100" height="100"/><path class="l-accent" d="M0 100L100 0"/>'
    )
    points = [
        Markup('<circle class="c-accent" cx="{}" cy="{}" r="{}"><title>{}</title></circle>').format(
            _number_text(100 * one.said),
            _number_text(100 * (1 - one.arrived)),
            _number_text(1.2 + 2.3 * math.sqrt(one.n / most)),
            _said(one),
        )
        for one in found.bins
    ]
    label = "; ".join(map(_said, found.bins))
    return _LABELLED.format("reliability", "-6 -6 112 112", "", label, ground + Markup("").join(points))


def _said(one: Bin) -> str:
    return f"said {percent(one.said)}, arrived {percent(one.arrived)}, n {one.n:,}"
