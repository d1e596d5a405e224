"""How sure a counted share is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

_Z: Final = 1.959963984540054  # of 95 %, two-sided


@dataclass(frozen=True, slots=True)
class MeasuredShare:
    """A share of what was counted, with its 95 % interval.

    Attributes:
        value: the share, 0 to 1.
        low, high: the truth is between them in 19 of 20 cases.
        n: how many were counted.
    """

    value: float
    low: float
    high: float
    n: int


def wilson(count: float, n: float, *, left: float = 1.0) -> tuple[float, float]:
    """Return the 95 % score interval of a share (Wilson 1927): good for small n and for shares near 0 and 1.

    Args:
        count: how many had it, 0 to n; may be a fraction.
        n: of how many; above 0.
        left: of the variance, where not all there are are many more (finite population correction).
    """
    p, z2 = count / n, _Z * _Z * left
    middle = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = math.sqrt(z2 * (p * (1 - p) / n + z2 / (4 * n * n))) / (1 + z2 / n)
    return max(0.0, middle - half), min(1.0, middle + half)


def share_of(count: int, n: int) -> MeasuredShare | None:
    """Return the share with its interval; None where nothing was counted."""
    return MeasuredShare(count / n, *wilson(count, n), n) if n else None
