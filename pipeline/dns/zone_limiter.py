"""A brake on floods of random names below one domain (random.example.com, a million times)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

from mailsift.pipeline.dns.denials import DenialChecker
from mailsift.pipeline.dns.rules import DnsAnswer, DnsOutcome, RecordType
from mailsift.pipeline.providers import public_suffixes


@dataclass(slots=True, eq=False)
class _Zone:
    """The names below one registrable domain that are being asked for, and those that wait for their turn."""

    name: str
    running: int = 0
    answered: int = 0
    waiting: deque[str] = field(default_factory=deque)
    asked: bool = False  # the registrable domain itself has been asked for
    denied: DnsAnswer | None = None  # ... and does not exist
    has_names: bool = False  # a name below it exists, so that it cannot be gone


class ZoneLimiter:
    """Lets at most `limit` names below one registrable domain be asked for at a time.

    When more come, the registrable domain itself is asked for: if it does not exist, nothing below it does
    (RFC 8020), and the names that wait need no question of their own. That is an inference: it waits until
    the names in flight have been answered, and one that exists outweighs it for good.

    Args:
        checker: asks for registrable domains.
        limit: names in flight below one registrable domain.
        start: is told a name whose turn has come.
        fail: is told a name that cannot exist, and the answer that says so.
    """

    def __init__(
        self,
        *,
        checker: DenialChecker,
        limit: int,
        start: Callable[[str], None],
        fail: Callable[[str, DnsAnswer], None],
    ) -> None:
        self._checker = checker
        self._limit = limit
        self._start = start
        self._fail = fail
        self._zones: dict[str, _Zone] = {}
        self._in_flight: dict[str, _Zone] = {}
        self._waiting: dict[str, _Zone] = {}

    def __len__(self) -> int:
        return len(self._zones)

    def enter(self, domain: str) -> None:
        """Start a name now, when its turn comes, or never."""
        above = _registrable_above(domain)
        if not above:
            self._start(domain)
            return
        zone = self._zones.setdefault(above, _Zone(above))
        if zone.running < self._limit and zone.denied is None:
            self._start_name(zone, domain)
            return
        zone.waiting.append(domain)
        self._waiting[domain] = zone
        if not zone.asked:
            zone.asked = True
            self._checker.ask(zone.name, RecordType.MX, partial(self._on_answer, zone))

    def leave(self, domain: str, *, exists: bool) -> None:
        """Take note that a name has been answered, and whether it exists."""
        zone = self._in_flight.pop(domain, None)
        if zone is None:
            return
        zone.running -= 1
        zone.answered += 1
        if exists:
            zone.has_names, zone.denied = True, None
        self._start_waiting(zone)

    def answered_before(self, domains: Iterable[str]) -> int:
        """Return how many names have been answered where some of these still wait for their turn.

        As long as that changes, their turn comes nearer.
        """
        zones = {self._waiting[domain] for domain in domains if domain in self._waiting}
        return sum(zone.answered for zone in zones)

    def _start_name(self, zone: _Zone, domain: str) -> None:
        self._waiting.pop(domain, None)
        zone.running += 1
        self._in_flight[domain] = zone
        self._start(domain)

    def _on_answer(self, zone: _Zone, answer: DnsAnswer) -> None:
        # What an alias leads to may be gone while names below the alias are there.
        if answer.outcome is DnsOutcome.NO_NAME and answer.name == zone.name and not zone.has_names:
            zone.denied = answer
            self._start_waiting(zone)

    def _start_waiting(self, zone: _Zone) -> None:
        """Start what may be started, or fail it all."""
        if zone.denied is None:
            while zone.waiting and zone.running < self._limit:
                self._start_name(zone, zone.waiting.popleft())
        elif not zone.running:
            while zone.waiting:
                domain = zone.waiting.popleft()
                del self._waiting[domain]
                self._fail(domain, zone.denied)
        if not zone.running and not zone.waiting:
            self._zones.pop(zone.name, None)


def _registrable_above(domain: str) -> str:
    """Return the registrable domain a name lies below, "" for a name that is one (or a public suffix)."""
    if domain.count(".") < 2:
        return ""
    registrable = public_suffixes().privatesuffix(domain)
    return registrable if registrable and registrable != domain else ""
