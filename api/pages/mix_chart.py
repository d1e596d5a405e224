"""Charts of verdicts as SVG: a gauge for a score, a ring and bars for a mix, intervals for an estimate.

Colours come from classes and lengths from attributes, because the pages' policy allows no style in a page.
Every chart is hidden from screen readers: the numbers stand beside it as text.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import cos, pi, sin
from typing import Final, NamedTuple

from markupsafe import Markup

from pipeline.judge.decision import BANDS
from pipeline.verdict import Status

ORDER: Final = (Status.VALID, Status.RISKY, Status.INVALID)
"""How verdicts stand beside each other everywhere."""

_SVG: Final = Markup('<svg class="{}" viewBox="{}"{} aria-hidden="true" focusable="false">{}</svg>')
_STRETCHED: Final = Markup(' preserveAspectRatio="none"')
_WIDTH: Final = 1_000
_GAP: Final = 4  # between the arcs of a ring


class Mixed(NamedTuple):
    """Rows by status."""

    valid: int
    risky: int
    invalid: int


def bar(valid: int, invalid: int, risky: int) -> Markup:
    """Return a mix as one stacked bar of full width."""
    total = valid + invalid + risky
    ground = _rect("c-none", 0, _WIDTH)
    pieces = _pieces(Mixed(valid, risky, invalid), total) if total else ()
    inner = Markup("").join((ground, *(_rect(f"c-{name}", x, width) for name, x, width in pieces)))
    return _SVG.format("bar", f"0 0 {_WIDTH} 8", _STRETCHED, inner)


def share(part: int, whole: int, kind: str) -> Markup:
    """Return a part of a whole as a bar; `kind` names the colour: valid, risky, invalid or accent."""
    width = _WIDTH * part / whole if whole else 0.0
    inner = _rect("c-none", 0, _WIDTH) + _rect(f"c-{kind}", 0, width)
    return _SVG.format("bar", f"0 0 {_WIDTH} 8", _STRETCHED, inner)


def ring(valid: int, invalid: int, risky: int) -> Markup:
    """Return a mix as a ring that begins at the top and runs clockwise; scripts may set its arcs anew."""
    arc = Markup(
        '<circle class="ring s-{}" cx="60" cy="60" r="48" pathLength="1000" stroke-dasharray="{}"{}'
        ' transform="rotate(-90 60 60)"/>'
    )
    field = Markup(' data-field="{}_arc" data-attr="stroke-dasharray"')
    drawn = [arc.format("none", f"{_WIDTH} 0", "")]
    for name, dashes in arcs(valid, invalid, risky).items():
        drawn.append(arc.format(name, dashes, field.format(name)))
    return _SVG.format("ring-chart", "0 0 120 120", "", Markup("").join(drawn))


def arcs(valid: int, invalid: int, risky: int) -> dict[str, str]:
    """Return the dashes of each arc of a ring: nothing, then a gap up to its start, then the arc."""
    mix, total = Mixed(valid, risky, invalid), valid + invalid + risky
    between = _GAP if sum(1 for count in mix if count) > 1 else 0
    dashes = dict.fromkeys(Mixed._fields, f"0 {_WIDTH}")
    for name, x, width in _pieces(mix, total) if total else ():
        dashes[name] = f"0 {_short(x)} {_short(max(width - between, 1))} {_WIDTH}"
    return dashes


def gauge(score: int, status: Status) -> Markup:
    """Return a score of 0 to 100 as a half circle, with the bands of the three statuses below it."""
    bands = [
        Markup('<path class="gauge-band s-{}" d="{}"/>').format(name.value, _arc(low, high + 1, 62))
        for name, (low, high) in BANDS.items()
    ]
    ground = Markup('<path class="gauge-ground" d="{}"/>').format(_arc(0, 100, 50))
    value = Markup('<path class="gauge-value s-{}" d="{}"/>').format(status.value, _arc(0, max(score, 1), 50))
    number = Markup('<text class="gauge-number" x="70" y="70">{}</text>').format(score)
    return _SVG.format("gauge", "0 0 140 80", "", Markup("").join((ground, value, *bands, number)))


def interval(found: float, low: float, high: float, kind: str) -> Markup:
    """Return a share with the interval where the truth is, on a line from 0 to 1."""
    ground, span = _rect("c-none", 0, _WIDTH), _rect(f"c-{kind} faint", _WIDTH * low, _WIDTH * (high - low))
    here = _rect(f"c-{kind}", max(0.0, _WIDTH * found - 3), 6)
    return _SVG.format("bar", f"0 0 {_WIDTH} 8", _STRETCHED, ground + span + here)


def _pieces(mix: Mixed, total: int) -> Iterator[tuple[str, float, float]]:
    """Yield name, start and length of each part that is not empty, in thousandths."""
    x = 0.0
    for name, count in zip(Mixed._fields, mix, strict=True):
        width = _WIDTH * count / total
        if count:
            yield name, x, width
        x += width


def _rect(kind: str, x: float, width: float) -> Markup:
    return Markup('<rect class="{}" x="{}" width="{}" height="8"/>').format(kind, _short(x), _short(width))


def _arc(start: float, end: float, radius: float) -> str:
    """Return the path of an arc of the half circle; 0 is left, 100 right."""
    (x1, y1), (x2, y2) = _place(min(start, 100), radius), _place(min(end, 100), radius)
    return f"M{x1} {y1}A{radius} {radius} 0 0 1 {x2} {y2}"


def _place(value: float, radius: float) -> tuple[str, str]:
    angle = pi * (1 - value / 100)
    return _short(70 + radius * cos(angle)), _short(72 - radius * sin(angle))


def _short(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
