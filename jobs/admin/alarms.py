"""What an alarm is, and what it looks at; mailsift.jobs.admin.alarm_table has them all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from mailsift.storage.redis.broker import BrokerCounts
from mailsift.storage.redis.throttle_view import LearnedRate
from mailsift.storage.sql.stats import Snapshot
from mailsift.storage.sql.workers import ProcessHealth, Worker


class Level(StrEnum):
    """How bad it is."""

    CRITICAL = "critical"  # nothing flows, or a number is wrong
    WARNING = "warning"  # it flows more slowly than it could


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """What the alarms look at.

    Attributes:
        stats: what the database says; None while it does not answer.
        throttles, broker: what Redis says; None while it does not answer.
        own: what this very process sees of its disk and of the blob store.
    """

    stats: Snapshot | None
    throttles: Sequence[LearnedRate] | None = ()
    broker: BrokerCounts | None = None
    own: ProcessHealth = field(default_factory=ProcessHealth)
    version: str = ""

    @property
    def live(self) -> Sequence[Worker]:
        """The processes that may claim."""
        return self.stats.live if self.stats else ()

    @property
    def healths(self) -> list[ProcessHealth]:
        """What each process that is heard of sees, this one included."""
        return [self.own, *(worker.health for worker in self.live)]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmRule:
    """A row of the one table from which /ops, `mailsift ops top`, metrics, Prometheus and runbook come.

    Attributes:
        code: stable.
        page: where operators look into it, below `/ops`, filtered.
        cause, effect, action: for people: what it means, what comes of it, what to do.
        check: gives a sentence for everything that is wrong; None: only Prometheus can see it.
        expr: what Prometheus asks; "": whether the API says that this alarm rings.
        hold: for how long it has to be so before Prometheus tells anybody.
    """

    code: str
    level: Level
    title: str
    page: str
    cause: str
    effect: str
    action: str
    check: Callable[[Installation], Iterator[str]] | None = None
    expr: str = ""
    hold: str = "1m"

    @property
    def address(self) -> str:
        """Where its page also says what it means and what to do."""
        return f"/ops{self.page}{'&' if '?' in self.page else '?'}alarm={self.code}"

    @property
    def alert(self) -> str:
        """Its name in Prometheus and in the runbook."""
        return "Mailsift" + "".join(word.capitalize() for word in self.code.split("_"))


@dataclass(frozen=True, slots=True)
class Alarm:
    """One thing that is wrong: the rule, and one English sentence."""

    rule: AlarmRule
    text: str

    @property
    def code(self) -> str:
        """Of the rule."""
        return self.rule.code

    @property
    def level(self) -> Level:
        """Of the rule."""
        return self.rule.level


def evaluate(rules: Sequence[AlarmRule], seen: Installation) -> list[Alarm]:
    """Return what is wrong by these rules, the worst first."""
    found = [Alarm(rule, text) for rule in rules if rule.check for text in rule.check(seen)]
    return sorted(found, key=lambda alarm: list(Level).index(alarm.level))
