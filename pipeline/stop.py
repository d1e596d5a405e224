"""When a list is left alone at a provider because too many of its addresses are unknown there; pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from mailsift.pipeline.facts import Answer


class ThrottleKey(NamedTuple):
    """A throttle key: a provider and one of our sources."""

    provider: str
    source: str


class AskedCounts(NamedTuple):
    """Real recipients about which a provider said something definite, and those it does not know."""

    asked: int
    missing: int


class StopPolicy(StrEnum):
    """What becomes of a list's other addresses at a provider that knows too few of them."""

    LATER = "later"  # they wait, and are asked bit by bit
    NOT_ASKED = "not_asked"  # they end as not asked


@dataclass(frozen=True, slots=True)
class StopRule:
    """When a list stops at a provider.

    Attributes:
        share: of the recipients that may be unknown; 0 = a list never stops.
        least: recipients after which the share says something.
        seconds: how long the list then leaves the provider alone.
        policy: what becomes of the addresses that are left.
    """

    share: float = 0.3
    least: int = 200
    seconds: float = 3_600.0
    policy: StopPolicy = StopPolicy.LATER

    def stops(self, seen: AskedCounts) -> bool:
        """Tell whether the list is to be left alone there."""
        return self.share > 0 and seen.asked >= self.least and seen.missing >= self.share * seen.asked


NO_STOP: Final = StopRule(share=0.0)

_DEFINITE: Final = frozenset({Answer.ACCEPTED, Answer.NOT_FOUND, Answer.DISABLED, Answer.FULL})
_MISSING: Final = frozenset({Answer.NOT_FOUND, Answer.DISABLED})


def asked_of(answers: Iterable[tuple[ThrottleKey, Answer]]) -> dict[ThrottleKey, AskedCounts]:
    """Count what was heard about real recipients; what was not definite tells nothing of the list."""
    counted: dict[ThrottleKey, AskedCounts] = {}
    for place, answer in answers:
        if answer in _DEFINITE:
            before = counted.get(place, AskedCounts(0, 0))
            counted[place] = AskedCounts(before.asked + 1, before.missing + (answer in _MISSING))
    return counted
