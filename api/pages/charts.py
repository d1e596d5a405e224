"""Charts as SVG, drawn here: no script draws, and colours are classes, as the pages' policy wants it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

_WIDTH: Final = 720.0
_HEIGHT: Final = 120.0
_GAP: Final = 0.2  # of a column's width
_STEPS: Final = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a stacked bar: how much, and the class that colours it."""

    value: float
    colour: str


def columns(series: Sequence[float], *, label: str, titles: Sequence[str] = (), top: float = 0.0) -> Markup:
    """Draw values as columns from a common ground, a place for nothing too.

    Args:
        series: in order; none below 0.
        label: says in words what the chart shows, to who cannot see it.
        titles: one a column, shown to who points at it.
        top: the value at the upper edge; 0 = the largest.
    """
    highest = top or max(series, default=0.0) or 1.0
    step = _WIDTH / max(1, len(series))
    bars = []
    for n, value in enumerate(series):
        height = round(max(_HEIGHT * min(value, highest) / highest, 1.0 if value else 0.0), 1)
        title = Markup("<title>{}</title>").format(titles[n]) if n < len(titles) else ""
        bars.append(
            Markup(
                '<g><rect class="c-reach" x="{left}" width="{step}" height="{full}"/>'
                '<rect class="c-accent" x="{x}" y="{y}" width="{w}" height="{h}"/>{title}</g>'
            ).format(
                left=f"{n * step:.1f}",
                step=f"{step:.1f}",
                full=f"{_HEIGHT:g}",
                x=f"{(n + _GAP / 2) * step:.1f}",
                y=f"{_HEIGHT - height:.1f}",
                w=f"{step * (1 - _GAP):.1f}",
                h=f"{height:.1f}",
                title=title,
            )
        )
    return Markup(
        '<svg class="chart" viewBox="0 0 {w} {h}" preserveAspectRatio="none" role="img" aria-label="{label}">'
        "{bars}</svg>"
    ).format(w=f"{_WIDTH:g}", h=f"{_HEIGHT:g}", label=label, bars=Markup("").join(bars))


def stack(parts: Sequence[Part], *, label: str) -> Markup:
    """Draw parts of a whole as one bar."""
    whole = sum(part.value for part in parts)
    at, drawn = 0.0, []
    for part in parts:
        width = 100 * part.value / whole if whole else 0.0
        if width:
            rect = Markup('<rect class="{}" x="{}" width="{}" height="10"/>')
            drawn.append(rect.format(part.colour, f"{at:.2f}", f"{width:.2f}"))
        at += width
    return Markup(
        '<svg class="stack" viewBox="0 0 100 10" preserveAspectRatio="none" role="img" aria-label="{}">'
        '<rect class="c-none" width="100" height="10"/>{}</svg>'
    ).format(label, Markup("").join(drawn))


def cells(colours: Sequence[str], *, label: str, titles: Sequence[str]) -> Markup:
    """Draw a strip of equal cells, each with the class that colours it and a title."""
    step = _WIDTH / max(1, len(colours))
    gap = min(1.5, step * 0.12)
    drawn = [
        Markup('<rect class="{}" x="{}" width="{}" height="24"><title>{}</title></rect>').format(
            colour, f"{n * step:.2f}", f"{step - gap:.2f}", title
        )
        for n, (colour, title) in enumerate(zip(colours, titles, strict=True))
    ]
    return Markup(
        '<svg class="strip" viewBox="0 0 {} 24" preserveAspectRatio="none" role="img" aria-label="{}">'
        "{}</svg>"
    ).format(f"{_WIDTH:g}", label, Markup("").join(drawn))


def nice_top(value: float) -> float:
    """Return the round number at or above a value, for the upper edge of a chart; 1 for nothing."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in _STEPS if step * power >= value * (1 - 1e-9))
