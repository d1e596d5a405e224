"""What an alarm is, and what it looks at; mailsift.jobs.admin.alarm_table has them all.

And what is made of that table: Prometheus' rules and the runbook (`mailsift ops alarm-rules`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

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


RUNBOOK: Final = "docs/runbook.md"
_MADE_BY: Final = "Made by `make alarms` from jobs/admin/alarm_table.py"


def prometheus_rules(rules: Iterable[AlarmRule]) -> str:
    """Return the rule file of Prometheus."""
    lines = [
        f"# {_MADE_BY}; change it there. {RUNBOOK} says what to do for each.",
        "# critical: act now, even at night; warning: can wait until the morning.",
        "groups:",
        "  - name: mailsift",
        "    rules:",
    ]
    for rule in rules:
        lines += _prometheus_rule(rule)
    return "\n".join(lines) + "\n"


def expression(rule: AlarmRule) -> str:
    """Return what Prometheus asks: its own question, or whether an API says that the alarm rings."""
    return rule.expr or f'max(mailsift_alarm{{alarm="{rule.code}"}}) > 0'


def runbook(rules: Iterable[AlarmRule]) -> str:
    """Return the runbook: a section for each alarm, as `/ops/runbook` shows them."""
    every = list(rules)
    lines = [
        "# Runbook",
        "",
        f"<!-- {_MADE_BY}; change it there. -->",
        "",
        "What every alarm means and what to do. `/ops`, `mailsift ops top`, the metric `mailsift_alarm` and",
        "`deploy/prometheus/alerts.yml` come from the same table. No verdict is lost by any of them: work",
        "that has stopped resumes later.",
        "",
    ]
    for level, heading in (
        (Level.CRITICAL, "Critical: act now, even at night"),
        (Level.WARNING, "Warning: can wait until the morning"),
    ):
        lines += [f"## {heading}", ""]
        for rule in every:
            if rule.level is level:
                lines += _section(rule)
    return "\n".join(lines)


def _section(rule: AlarmRule) -> Iterator[str]:
    where = f"`/ops{rule.page}`" if rule.page else "`/ops`"
    yield from (f"### {rule.alert}", "", f"**{rule.title}** (`{rule.code}`). {rule.cause}", "")
    yield from (f"- Effect: {rule.effect}", f"- What to do: {rule.action}", f"- Look at: {where}", "")


def _prometheus_rule(rule: AlarmRule) -> Iterator[str]:
    asked = expression(rule).splitlines()
    yield f"      - alert: {rule.alert}"
    if len(asked) == 1:
        yield f"        expr: {asked[0]}"
    else:
        yield "        expr: |"
        yield from (f"          {line}" for line in asked)
    if rule.hold != "0s":
        yield f"        for: {rule.hold}"
    yield f"        labels: {{severity: {rule.level.value}}}"
    yield "        annotations:"
    yield f"          summary: {json.dumps(rule.title + '.')}"
    yield f"          description: {json.dumps(f'{rule.cause} {rule.effect}', ensure_ascii=False)}"
    yield f"          page: /ops{rule.page}"
    yield f"          runbook_url: {RUNBOOK}#{rule.alert.lower()}"
