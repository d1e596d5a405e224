"""What a source's name is worth at a provider: what it asked there, and the pace it has earned; pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from mailsift.pipeline.providers import Provider


class LedgerKind(StrEnum):
    """What is counted of a source at a provider; refusals of us once a session, by what they are about."""

    PROBES = "probes"  # recipients that were answered, random ones among them
    RANDOM = "random"  # the random ones alone
    UNKNOWN = "unknown"  # real recipients nobody knows there
    RATE = "rate"  # we are too fast
    REPUTATION = "reputation"  # we are listed, or have a bad name
    IDENTITY = "identity"  # our name, reverse name or sender
    POLICY = "policy"  # refused for another reason


REFUSALS: Final = (LedgerKind.RATE, LedgerKind.REPUTATION, LedgerKind.IDENTITY, LedgerKind.POLICY)

_RULES_ABOUT: Final = {
    LedgerKind.RATE: "rate limit rate-code",
    LedgerKind.REPUTATION: "block-list names-us names-us-for-now names-an-address warning-link",
    LedgerKind.IDENTITY: "bad-sender-code sender our-host proof-of-identity authentication-code",
}
REFUSAL_KINDS: Final = {rule: kind for kind, rules in _RULES_ABOUT.items() for rule in rules.split()}
"""What a refusal of us is about, by the reply rule that recognised it; POLICY for all others."""


def refusal_kind(rule: str) -> LedgerKind:
    """Return what a refusal of us, or of our pace, is about by its reply rule."""
    return REFUSAL_KINDS.get(rule, LedgerKind.POLICY)


@dataclass(frozen=True, slots=True)
class LedgerCounts:
    """What a session, or many, amount to by kind; kinds that did not occur may be missing."""

    counts: Mapping[LedgerKind, int] = field(default_factory=dict)

    def __add__(self, other: LedgerCounts) -> LedgerCounts:
        """Return both together."""
        kinds = dict.fromkeys((*self.counts, *other.counts))
        return LedgerCounts({kind: self.of(kind) + other.of(kind) for kind in kinds})

    def of(self, *kinds: LedgerKind) -> int:
        """Return how often these kinds occurred."""
        return sum(self.counts.get(kind, 0) for kind in kinds)


NO_COUNTS: Final = LedgerCounts()


@dataclass(frozen=True, slots=True)
class Standing:
    """The name of a source at a provider; times are seconds since the epoch.

    Attributes:
        step: how often the pace has doubled (above 0) or halved (below) since the source was new.
        clean: recipients that were answered since the last step.
        refused: sessions since then in which we were told that we are too fast, or have a bad name.
        stepped_at: when the last step was.
        asked_at: when anybody was asked last.
    """

    step: int = 0
    clean: int = 0
    refused: int = 0
    stepped_at: float = 0.0
    asked_at: float = 0.0


GROW_PROBES: Final = 1_000
"""Recipients answered at the table's pace before it doubles; each further doubling takes twice as many."""
GROW_SECONDS: Final = 3 * 86_400.0
"""A pace is held for so long at least before it doubles."""
MEND_PROBES: Final = 200
MEND_SECONDS: Final = 3_600.0
"""The same below the table's pace: what was halved comes back sooner than it was earned."""
MOST_REFUSED: Final = 0.05
FEWEST_REFUSED: Final = 3
"""So many refusals of us, and this share of the sessions' recipients, halve the pace."""
SILENCE_SECONDS: Final = 14 * 86_400.0
"""A name is forgotten: the pace halves for each such stretch without a question, down to the table's."""
LOWEST_STEP: Final = -3
HIGHEST_STEP: Final = 10


def update_standing(
    standing: Standing | None, counts: LedgerCounts, now: float, highest: int = HIGHEST_STEP
) -> Standing:
    """Return what a name is worth after something was heard.

    It doubles its pace after GROW_PROBES clean recipients (twice as many for every step) and GROW_SECONDS,
    halves it when we are refused, and steps back after silence.

    Args:
        standing: what it was; None: nobody there knew us.
        counts: what happened since.
        now: seconds since the epoch.
        highest: the step at which the provider's ceiling is reached (`highest_step`): no more can be earned.
    """
    if standing is None:
        standing = Standing(stepped_at=now, asked_at=now)
    current = decay_after_silence(replace(standing, step=min(standing.step, highest)), now)
    current = replace(
        current,
        clean=current.clean + counts.of(LedgerKind.PROBES),
        refused=current.refused + counts.of(LedgerKind.RATE, LedgerKind.REPUTATION),
        asked_at=now,
    )
    if current.refused >= FEWEST_REFUSED and current.refused >= MOST_REFUSED * current.clean:
        return _at_step(current, max(LOWEST_STEP, current.step - 1), now)
    is_mending = current.step < 0
    probes_needed = MEND_PROBES if is_mending else GROW_PROBES * 2**current.step
    seconds_needed = MEND_SECONDS if is_mending else GROW_SECONDS
    if current.clean >= probes_needed and now - current.stepped_at >= seconds_needed:
        return _at_step(current, min(highest, current.step + 1), now)
    return current


def decay_after_silence(standing: Standing, now: float) -> Standing:
    """Return what is left of a name after silence; what was heard before counts towards no step any more."""
    silences = int(max(0.0, now - standing.asked_at) // SILENCE_SECONDS)
    if not silences or standing.step < 0:
        return standing
    return _at_step(standing, max(0, standing.step - silences), now)


def _at_step(standing: Standing, step: int, now: float) -> Standing:
    return replace(standing, step=step, clean=0, refused=0, stepped_at=now)


def highest_step(row: Provider) -> int:
    """Return the step at which a provider is at its ceiling: what is lost from there is felt at once."""
    if not row.ceiling:
        return HIGHEST_STEP
    return min(HIGHEST_STEP, max(0, math.ceil(math.log2(row.ceiling / row.rate))))


def provider_at_step(row: Provider, step: int) -> Provider:
    """Return the provider's row at the pace that was earned there, at most its ceiling.

    A row without a ceiling is asked at its rate, whatever was earned.
    """
    if not row.ceiling or not step:
        return row
    rate = max(row.rate, min(row.ceiling, row.rate * 2.0**step)) if step > 0 else row.rate * 2.0**step
    burst = max(1, int(row.burst * min(rate / row.rate, _MAX_BURST_FACTOR)))
    return replace(row, rate=rate, burst=burst)


_MAX_BURST_FACTOR: Final = 4.0
