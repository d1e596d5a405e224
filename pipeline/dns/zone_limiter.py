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
    inhabited: bool = False  # a name below it exists, so that it cannot be gone


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
        self._inside: dict[str, _Zone] = {}
        self._outside: dict[str, _Zone] = {}

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
            self._run(zone, domain)
            return
        zone.waiting.append(domain)
        self._outside[domain] = zone
        if not zone.asked:
            zone.asked = True
            self._checker.ask(zone.name, RecordType.MX, partial(self._take_answer, zone))

    def leave(self, domain: str, *, exists: bool) -> None:
        """Take note that a name has been answered, and whether it exists."""
        zone = self._inside.pop(domain, None)
        if zone is None:
            return
        zone.running -= 1
        zone.answered += 1
        if exists:
            zone.inhabited, zone.denied = True, None
        self._go_on(zone)

    def answered_before(self, domains: Iterable[str]) -> int:
        """Return how many names have been answered where some of these still wait for their turn.

        As long as that changes, their turn comes nearer.
        """
        zones = {self._outside[domain] for domain in domains if domain in self._outside}
        return sum(zone.answered for zone in zones)

    def _run(self, zone: _Zone, domain: str) -> None:
        self._outside.pop(domain, None)
        zone.running += 1
        self._inside[domain] = zone
        self._start(domain)

    def _take_answer(self, zone: _Zone, answer: DnsAnswer) -> None:
        if answer.outcome is DnsOutcome.NO_NAME and not zone.inhabited:
            zone.denied = answer
            self._go_on(zone)

    def _go_on(self, zone: _Zone) -> None:
        """Start what may be started, or fail it all."""
        if zone.denied is None:
            while zone.waiting and zone.running < self._limit:
                self._run(zone, zone.waiting.popleft())
        elif not zone.running:
            while zone.waiting:
                domain = zone.waiting.popleft()
                del self._outside[domain]
                self._fail(domain, zone.denied)
        if not zone.running and not zone.waiting:
            self._zones.pop(zone.name, None)


def _registrable_above(domain: str) -> str:
    """Return the registrable domain a name lies below, "" for a name that is one (or a public suffix)."""
    if domain.count(".") < 2:
        return ""
    registrable = public_suffixes().privatesuffix(domain)
    return registrable if registrable and registrable != domain else ""
