"""Detects when a provider begins to refuse almost everybody: that is about us, not about the mailboxes."""

from __future__ import annotations

from collections import deque
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Final

import structlog

from mailsift.pipeline.facts import DEFINITE, GONE, Answer, MailboxFact

REFUSALS: Final = GONE | {Answer.UNCLEAR}
COUNTED: Final = REFUSALS | DEFINITE
_MAX_GAUGES: Final = 2_048
_MAX_DOMAINS: Final = 2_000
_MAX_ANSWERS: Final = 2_000
_MAX_DOUBTS: Final = 100  # more than a call lives to see
RECENT: Final = 50  # answers that are looked at together
BASELINE: Final = 200  # answers before them without which nothing is compared
JUMP: Final = 0.9  # refused share of the recent answers from which on they are doubted
NORMAL: Final = 0.5  # refused share of the baseline, at most; and of the recent answers for the doubt to end
NEWCOMER: Final = 5  # refusals that count at a domain that has accepted nobody; a dead company is no news

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class RefusalJump:
    """What a doubt rests on: answers and the refusals among them, recently and before."""

    answers: int
    refused: int
    answers_before: int
    refused_before: int


class RefusalGauge:
    """Counts the answers of one provider; where there is no good past there is no jump. Pure.

    Attributes:
        answers: how many were counted; the latest one has this number.
    """

    def __init__(self) -> None:
        self.answers = 0
        self._recent: deque[tuple[int, bool]] = deque()
        self._refused = 0
        self._answers_before = self._refused_before = 0
        self._accepting: set[str] = set()
        self._refusals_by_domain: dict[str, int] = {}
        self._doubted_from = 0  # the first number that is doubted; 0 = nobody is now
        self._past_doubts: deque[range] = deque(maxlen=_MAX_DOUBTS)

    def count(self, domain: str, *, refused: bool) -> RefusalJump | None:
        """Take one answer about a mailbox; returns what the doubt rests on when it begins here."""
        self.answers += 1
        if refused and not self._counts(domain):
            return None
        if not refused:
            if len(self._accepting) >= _MAX_DOMAINS:
                self._accepting.clear()
            self._accepting.add(domain)
        self._recent.append((self.answers, refused))
        self._refused += refused
        if len(self._recent) > RECENT:
            self._move_to_baseline()
        if not self._doubting:
            return self._begin_doubt()
        self._end_doubt()
        return None

    def doubts(self, number: int) -> bool:
        """Tell whether the refusal with this number is not to be believed."""
        is_doubted_now = self._doubting and number >= self._doubted_from
        return is_doubted_now or any(number in doubt for doubt in self._past_doubts)

    @property
    def _doubting(self) -> bool:
        return self._doubted_from > 0

    def _counts(self, domain: str) -> bool:
        if domain in self._accepting:
            return True
        if len(self._refusals_by_domain) >= _MAX_DOMAINS:
            self._refusals_by_domain.clear()
        self._refusals_by_domain[domain] = times = self._refusals_by_domain.get(domain, 0) + 1
        return times <= NEWCOMER

    def _move_to_baseline(self) -> None:
        """Move the oldest recent answer into the past; while there is doubt the past is frozen."""
        _, refused = self._recent.popleft()
        self._refused -= refused
        if self._doubting:
            return
        self._answers_before += 1
        self._refused_before += refused
        if self._answers_before > _MAX_ANSWERS:  # what was long ago counts less and less
            self._answers_before //= 2
            self._refused_before //= 2

    def _begin_doubt(self) -> RefusalJump | None:
        size = len(self._recent)
        was_normal = self._refused_before <= NORMAL * self._answers_before
        if size < RECENT or self._answers_before < BASELINE or not was_normal:
            return None
        if self._refused < JUMP * size:
            return None
        self._doubted_from = self._recent[0][0]
        return RefusalJump(size, self._refused, self._answers_before, self._refused_before)

    def _end_doubt(self) -> None:
        if self._refused <= NORMAL * len(self._recent):
            self._past_doubts.append(range(self._doubted_from, self.answers + 1))
            self._doubted_from = 0
            self._recent.clear()
            self._refused = 0


class Breaker:
    """The gauges of a process: one for each list, provider and source, the least used forgotten.

    Lists do not share a gauge: after a good list a bad one would look like a jump.
    """

    def __init__(self) -> None:
        self.gauge = lru_cache(maxsize=_MAX_GAUGES)(lambda _list_id, _provider, _source: RefusalGauge())


class RefusalWatch:
    """Counts the answers of one call to the prober, and names the refusals that are doubted in the end."""

    def __init__(self, breaker: Breaker, list_id: str) -> None:
        self._breaker = breaker
        self._list_id = list_id
        self._refused: dict[str, tuple[RefusalGauge, int]] = {}

    def count(self, provider: str, address: str, fact: MailboxFact) -> None:
        """Count an answer; one that the random recipient got as well (blanket) counts neither way."""
        if fact.blanket or fact.answer not in COUNTED:
            return
        refused = fact.answer in REFUSALS
        gauge = self._breaker.gauge(self._list_id, provider, fact.source)
        jump = gauge.count(address.rpartition("@")[2], refused=refused)
        if refused:
            self._refused[address] = gauge, gauge.answers
        if jump is not None:
            _log.warning(
                "refusals.jumped",
                provider=provider,
                source=fact.source,
                **asdict(jump),
                then="not believed; the addresses come back later",
            )

    def doubted(self) -> list[str]:
        """Return the addresses whose refusals are not to be believed."""
        return [address for address, (gauge, number) in self._refused.items() if gauge.doubts(number)]
