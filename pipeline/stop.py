"""When a list is left alone at a provider because too many of its addresses are unknown there; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from mailsift.pipeline.facts import DEFINITE, GONE, Answer


class ThrottleKey(NamedTuple):
    """A throttle key: a provider and one of our sources."""

    provider: str
    source: str


class AskedCounts(NamedTuple):
    """Real recipients about which a provider said something definite, and those it does not know."""

    asked: int
    missing: int


NOBODY_ASKED: Final = AskedCounts(0, 0)


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
        again: seconds after which those come back that were not asked for while the stop was not in the
            database yet.
    """

    share: float = 0.3
    least: int = 200
    seconds: float = 3_600.0
    policy: StopPolicy = StopPolicy.LATER
    again: float = 15.0

    def stops(self, counts: AskedCounts) -> bool:
        """Tell whether the list is to be left alone there."""
        return self.share > 0 and counts.asked >= self.least and counts.missing >= self.share * counts.asked

    def waits(self, counts: AskedCounts, in_flight: int) -> bool:
        """Tell whether another session has to wait for those under way.

        All their recipients may be unknown: so a list never asks for more than one session beyond its stop.
        """
        worst = AskedCounts(counts.asked + in_flight, counts.missing + in_flight)
        return in_flight > 0 and self.stops(worst)


NO_STOP: Final = StopRule(share=0.0)


@dataclass(frozen=True, slots=True)
class ListTally:
    """What all workers together count of one list at one throttle key.

    Attributes:
        name: of the list, and of its stretch: it counts anew after each stop.
        before: what the database knew of when the chunk was claimed; counted from where nobody knows more.
    """

    name: str
    rule: StopRule
    before: AskedCounts = NOBODY_ASKED


class AskedBefore(NamedTuple):
    """What the database knows of a list at a throttle key.

    Attributes:
        counts: since its last stop there.
        stops: how many there were.
        seconds: for how many more it leaves the provider alone; 0 = it does not.
    """

    counts: AskedCounts
    stops: int = 0
    seconds: float = 0.0


_NEVER_ASKED: Final = AskedBefore(NOBODY_ASKED)


@dataclass(frozen=True, slots=True)
class ListStop:
    """What stops one list in time.

    Attributes:
        before: what it has asked; keys of which little is known may be missing.
    """

    list_id: str = ""
    rule: StopRule = NO_STOP
    before: Mapping[ThrottleKey, AskedBefore] = field(default_factory=dict)

    def tally(self, key: ThrottleKey) -> ListTally | None:
        """Return what is to be counted there; None for a list that never stops."""
        if not self.rule.share:
            return None
        known = self.before.get(key, _NEVER_ASKED)
        return ListTally(f"{self.list_id}:{known.stops}", self.rule, known.counts)

    def stops(self, key: ThrottleKey) -> int:
        """Return how often the list had stopped there."""
        return self.before.get(key, _NEVER_ASKED).stops

    def providers(self) -> frozenset[str]:
        """Return where it has ever stopped."""
        return frozenset(key.provider for key, known in self.before.items() if known.stops)

    def rests(self) -> dict[str, float]:
        """Return the providers that it leaves alone now, and for how many more seconds."""
        rests: dict[str, float] = {}
        for key, known in self.before.items():
            if known.seconds > 0:
                rests[key.provider] = max(known.seconds, rests.get(key.provider, 0.0))
        return rests


NEVER_STOPS: Final = ListStop()


def count_asked(answers: Iterable[tuple[ThrottleKey, Answer]]) -> dict[ThrottleKey, AskedCounts]:
    """Count what was heard about real recipients; what was not definite tells nothing of the list."""
    counted: dict[ThrottleKey, AskedCounts] = {}
    for key, answer in answers:
        if answer in DEFINITE:
            before = counted.get(key, NOBODY_ASKED)
            counted[key] = AskedCounts(before.asked + 1, before.missing + (answer in GONE))
    return counted
