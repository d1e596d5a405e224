"""What limits questions to a provider: the throttle, what a source's name has earned, a list's stop; pure.

The throttle itself is the caller's: here is what it is asked and what it answers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import inf
from typing import Final, NamedTuple, Protocol

from mailsift.pipeline.facts import DEFINITE, GONE, Answer
from mailsift.pipeline.providers import Provider

# What is counted.


class ThrottleKey(NamedTuple):
    """A throttle key: a provider and one of our sources."""

    provider: str
    source: str


class LedgerKind(StrEnum):
    """What is counted of a source at a provider; refusals of us once a session, by what they are about."""

    PROBES = "probes"  # recipients that were answered, random ones among them
    RANDOM = "random"  # the random ones alone
    UNKNOWN = "unknown"  # real recipients nobody knows there
    RATE = "rate"  # we are too fast
    REPUTATION = "reputation"  # we are listed, or have a bad name
    IDENTITY = "identity"  # our name, reverse name or sender
    POLICY = "policy"  # refused for another reason


REFUSAL_LEDGER_KINDS: Final = (LedgerKind.RATE, LedgerKind.REPUTATION, LedgerKind.IDENTITY, LedgerKind.POLICY)


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


class AskedCounts(NamedTuple):
    """Real recipients about which a provider said something definite, and those it does not know."""

    asked: int
    missing: int


NOBODY_ASKED: Final = AskedCounts(0, 0)


# What the throttle is asked, and what it is told.


class SessionOutcome(StrEnum):
    """How a probing session went, for the throttle to learn from."""

    CLEAN = "clean"
    RATE = "rate"  # 421/450/451 about rate: halve
    BLOCKED = "blocked"  # refused us
    FAILED = "failed"  # connect failure, timeout, drop


MANY_DOMAINS: Final = 10
"""A server of so many domains is a hoster's, not the gateway of a company."""
MANY_ADDRESSES: Final = 20
"""Fewer that wait for a server nobody knows are asked at once: to come back later costs more than to be
refused there."""


class Allowance(NamedTuple):
    """How many recipients a session may send at a time where unknown ones are counted: the larger number.

    Attributes:
        unknown: so many more may be unknown, whoever else is known.
        surplus: so many more were known than unknown, less one.
    """

    unknown: int
    surplus: int


@dataclass(frozen=True, slots=True)
class Ask:
    """A request to open one session.

    Attributes:
        provider: throttle key (DomainFact.provider).
        source: the identity of our own address (mailsift.pipeline.probe.config.Source).
        address: destination IP.
        recipients: RCPT commands wanted in this session, at least 1.
        least: fewer are of no use where a provider counts unknown recipients (mailsift.pipeline.providers).
        tally: counts what the list asks there; None: nothing stops it.
        domains: some of those that wait for the provider, to tell a company from a hoster; () where
            too few addresses wait for care.
        seconds: how long the session may run, unless we are held up; 0 = not known.
        patience: seconds that are rather waited than fewer recipients taken because the rate allows no more
            yet: every session costs its server a connection, and the domain's random recipient.
    """

    provider: str
    source: str
    address: str
    recipients: int
    least: int = 1
    tally: ListTally | None = None
    domains: tuple[str, ...] = ()
    seconds: float = 0.0
    patience: float = 0.0


@dataclass(frozen=True, slots=True)
class Grant:
    """The throttle's answer to one Ask.

    Attributes:
        recipients: RCPT commands that may be sent now; 0 means not now.
        lease: names the granted session until it is reported; "" when denied.
        retry_after: seconds until asking again makes sense; 0 when granted.
        blocked: denied because the provider has refused us again and again, not for the sake of its limits.
        busy: denied or cut because of sessions that are open; `retry_after` is a guess, one may end before.
        refill_s: seconds in which the rate allows a full session again; 0 = as the provider's row says.
        stopped: denied because too many of the list's recipients are unknown there.
        allowance: what the session may send at a time; None: all of it.
        seconds: since the grant was asked for, by any clock: where unknown recipients count, the session's
            share is released then, and it may ask for no more recipients.
    """

    recipients: int
    lease: str = ""
    retry_after: float = 0.0
    blocked: bool = False
    busy: bool = False
    refill_s: float = 0.0
    stopped: bool = False
    allowance: Allowance | None = None
    seconds: float = inf


@dataclass(frozen=True, slots=True)
class Report:
    """What became of a granted session; frees its lease.

    Attributes:
        ask, lease: as granted.
        unused: granted RCPT commands that were never sent.
        ledger: what the session's replies amount to.
        asked: what they say of the list.
        beyond: RCPT commands sent beside the granted ones, a witness for one: they are paid for, too.
    """

    ask: Ask
    lease: str
    outcome: SessionOutcome
    unused: int = 0
    ledger: LedgerCounts = NO_COUNTS
    asked: AskedCounts = NOBODY_ASKED
    beyond: int = 0


class Throttle(Protocol):
    """Rate limits shared by all processes: sessions and recipients per provider, source and destination."""

    async def grant(self, asks: Sequence[Ask]) -> Sequence[Grant]:
        """Answer every ask, in order. One round trip however many asks there are."""
        ...

    async def report(self, reports: Sequence[Report]) -> None:
        """Free the leases and learn from the outcomes. One round trip."""
        ...

    def is_held(self, provider: str, source: str) -> bool:
        """Tell whether an operator holds the provider at this source."""
        ...


# What a source's name is worth at a provider: what it asked there, and the pace it has earned.

_RULES_ABOUT: Final = {
    LedgerKind.RATE: "rate limit rate-code",
    LedgerKind.REPUTATION: "block-list names-us names-us-for-now names-an-address warning-link",
    LedgerKind.IDENTITY: "bad-sender-code sender our-host proof-of-identity authentication-code",
}
LEDGER_KIND_OF_RULE: Final = {rule: kind for kind, rules in _RULES_ABOUT.items() for rule in rules.split()}
"""What a refusal of us is about, by the reply rule that recognised it; POLICY for all others."""


def refusal_kind(rule: str) -> LedgerKind:
    """Return what a refusal of us, or of our pace, is about by its reply rule."""
    return LEDGER_KIND_OF_RULE.get(rule, LedgerKind.POLICY)


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


# When a list is left alone at a provider because too many of its addresses are unknown there.


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
