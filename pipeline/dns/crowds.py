"""A brake on floods of random names below one domain (random.example.com, a million times)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from pipeline.dns.client import DnsClient
from pipeline.dns.rules import DnsAnswer, Outcome, Question
from pipeline.public_suffixes import public_suffixes


@dataclass(slots=True)
class _Crowd:
    """The names below one registrable domain that are being asked for, and those that wait for their turn."""

    key: str
    running: int = 0
    waiting: deque[str] = field(default_factory=deque)
    suspected: bool = False  # the registrable domain itself has been asked for
    gone: DnsAnswer | None = None  # ... and does not exist


class Crowds:
    """Lets at most `limit` names below one registrable domain be asked for at a time.

    When more come, the registrable domain itself is asked for: if it does not exist, nothing below it does
    (RFC 8020), and the names that wait need no question of their own.

    Args:
        client: asks for registrable domains.
        limit: names in flight below one registrable domain.
        start: is told a name whose turn has come.
        bury: is told a name that cannot exist, and the answer that says so.
    """

    def __init__(
        self,
        *,
        client: DnsClient,
        limit: int,
        start: Callable[[str], None],
        bury: Callable[[str, DnsAnswer], None],
    ) -> None:
        self._client = client
        self._limit = limit
        self._start = start
        self._bury = bury
        self._crowds: dict[str, _Crowd] = {}
        self._inside: dict[str, _Crowd] = {}

    def enter(self, domain: str) -> None:
        """Start a name now, when its turn comes, or never."""
        key = self._registrable_above(domain)
        if not key:
            self._start(domain)
            return
        crowd = self._crowds.setdefault(key, _Crowd(key))
        if crowd.gone is not None:
            self._bury(domain, crowd.gone)
        elif crowd.running < self._limit:
            self._run(crowd, domain)
        else:
            crowd.waiting.append(domain)
            self._suspect(crowd)

    def leave(self, domain: str) -> None:
        """Take note that a name has been answered."""
        crowd = self._inside.pop(domain, None)
        if crowd is None:
            return
        crowd.running -= 1
        if crowd.waiting:
            self._run(crowd, crowd.waiting.popleft())
        elif not crowd.running:
            self._crowds.pop(crowd.key, None)

    def _run(self, crowd: _Crowd, domain: str) -> None:
        crowd.running += 1
        self._inside[domain] = crowd
        self._start(domain)

    def _suspect(self, crowd: _Crowd) -> None:
        if not crowd.suspected:
            crowd.suspected = True
            self._client.ask(crowd.key, Question.MX, partial(self._heard, crowd))

    def _heard(self, crowd: _Crowd, answer: DnsAnswer) -> None:
        if answer.outcome is not Outcome.NO_NAME:
            return
        crowd.gone = answer
        while crowd.waiting:
            self._bury(crowd.waiting.popleft(), answer)

    def _registrable_above(self, domain: str) -> str:
        """Return the registrable domain a name lies below, "" for a name that is one (or a public suffix)."""
        if domain.count(".") < 2:
            return ""
        registrable = public_suffixes().privatesuffix(domain)
        return registrable if registrable and registrable != domain else ""
