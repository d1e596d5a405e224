"""The chance that a message arrives, from what became of others, and how well such chances held."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

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
    # Rounded: of none the lower end is 0, of all the upper one 1, and floats miss both by their last bit.
    return max(0.0, round(middle - half, 12)), min(1.0, round(middle + half, 12))


def share_of(count: int, n: int) -> MeasuredShare | None:
    """Return the share with its interval; None where nothing was counted."""
    return MeasuredShare(count / n, *wilson(count, n), n) if n else None


FEWEST: Final = 100
"""A result with fewer known outcomes has no chance."""
_WEIGHT: Final = 20.0
"""A wider group counts like so many outcomes of the narrower one."""
_BINS: Final = 10
_MOST_UNKNOWN: Final = 0.05  # of a list, of which no chance is known


class Cell(NamedTuple):
    """Addresses that are alike: what was found, who runs the mail server, and the score as what is known."""

    status: str
    result: str
    provider: str
    score: int


def cell_of(verdict: Mapping[Any, Any], provider: str) -> Cell:
    """Return which addresses are like one with this verdict."""
    return Cell(verdict["status"], verdict["result"], provider, verdict["score"])


class SentTally(NamedTuple):
    """How many messages were sent, and how many arrived."""

    sent: int
    arrived: int


_Tallies = Mapping[Cell, SentTally]


class Chances:
    """Chances by cell, each group drawn towards the wider one as far as its own outcomes are few.

    From wide to narrow: everything told at the installation, a result there, the result for the account, the
    result at the provider there, both for the account, and with the score (beta-binomial, the wider group's
    mean as the prior with a weight of 20 outcomes). In the interval the prior weighs half of that:
    where groups differ as much as such a weight supposes, it would hold only 7 of 8 chances else.

    Args:
        own: the account's outcomes.
        others: those of the rest of the installation.
    """

    def __init__(self, own: _Tallies, others: _Tallies) -> None:
        self._own, self._others = _sum_by_group(own), _sum_by_group(others)

    def of(self, cell: Cell) -> MeasuredShare | None:
        """Return the chance of an address, by `n` outcomes with its result; None for fewer than FEWEST."""
        wide, near, full = (
            (cell.result,),
            (cell.result, cell.provider),
            (cell.result, cell.provider, cell.score),
        )
        n = self._own[wide].sent + self._others[wide].sent
        if n < FEWEST:
            return None
        chain = (
            self._others[()],
            self._others[wide],
            self._own[wide],
            self._others[near],
            self._own[near],
            self._own[full],
        )
        mean, strength, prior = 0.5, 2.0, 0.0
        for tally in chain:
            prior = min(_WEIGHT, strength)
            mean = (tally.arrived + prior * mean) / (tally.sent + prior)
            strength = tally.sent + prior
        weight = strength - prior / 2
        return MeasuredShare(mean, *wilson(mean * weight, weight), n)


def _sum_by_group(tallies: _Tallies) -> defaultdict[tuple[object, ...], SentTally]:
    found: defaultdict[tuple[object, ...], SentTally] = defaultdict(lambda: SentTally(0, 0))
    for cell, tally in tallies.items():
        names = (cell.result, cell.provider, cell.score)
        for depth in range(4):
            before = found[names[:depth]]
            found[names[:depth]] = SentTally(before.sent + tally.sent, before.arrived + tally.arrived)
    return found


@dataclass(frozen=True, slots=True)
class Bin:
    """Addresses with about the same chance: the mean of what was said, the share that arrived, how many."""

    said: float
    arrived: float
    n: int


@dataclass(frozen=True, slots=True)
class Calibration:
    """How chances held.

    Attributes:
        error: the expected calibration error: how far `said` and `arrived` lie apart, weighted by n.
        n: outcomes it was measured on, none of which the chances rest on.
        bins: the diagram's points, rising.
    """

    error: float
    n: int
    bins: tuple[Bin, ...]


def calibrate(chances: Chances, held_out: _Tallies) -> Calibration | None:
    """Hold chances against outcomes that they do not rest on; None where there is nothing to compare."""
    sums: defaultdict[int, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    for cell, tally in held_out.items():
        chance = chances.of(cell)
        if chance is not None:
            one = sums[min(_BINS - 1, int(chance.value * _BINS))]
            one[0] += chance.value * tally.sent
            one[1] += tally.arrived
            one[2] += tally.sent
    bins = tuple(Bin(said / n, arrived / n, int(n)) for _, (said, arrived, n) in sorted(sums.items()) if n)
    total = sum(one.n for one in bins)
    if not total:
        return None
    return Calibration(sum(abs(one.said - one.arrived) * one.n for one in bins) / total, total, bins)


@dataclass(frozen=True, slots=True)
class ExpectedBounces:
    """How many messages would come back, of how many; in 19 of 20 cases it is `low` to `high` of them."""

    expected: float
    low: float
    high: float
    addresses: int


def expected_bounces(chances: Chances, counts: Iterable[tuple[Cell, int]]) -> ExpectedBounces | None:
    """Return what would come back of messages to so many addresses of each cell.

    What is called invalid is counted as a bounce until outcomes of such addresses are known. The interval is
    the sum of the cells', as if all erred the same way: wide rather than narrow. To it comes what is left to
    luck where all chances are right, by the variance of so many messages.

    Returns:
        None where of more than a twentieth of the addresses nothing can be said.
    """
    expected = low = high = variance = 0.0
    addresses = unknown = 0
    for cell, count in counts:
        chance = chances.of(cell)
        addresses += count
        if chance is None and cell.status == "invalid":
            chance = MeasuredShare(0.0, 0.0, 0.0, 0)
        if chance is None:
            unknown += count
            continue
        expected += count * (1 - chance.value)
        low += count * (1 - chance.high)
        high += count * (1 - chance.low)
        variance += count * chance.value * (1 - chance.value)
    if not addresses or unknown > _MOST_UNKNOWN * addresses:
        return None
    scale = addresses / (addresses - unknown)
    luck = _Z * math.sqrt(variance * scale)
    return ExpectedBounces(
        expected * scale,
        max(0.0, expected * scale - math.hypot((expected - low) * scale, luck)),
        min(float(addresses), expected * scale + math.hypot((high - expected) * scale, luck)),
        addresses,
    )
