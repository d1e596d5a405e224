"""What is made of the table of alarms: Prometheus' rules and the runbook (`mailsift ops alarm-rules`)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Final

from mailsift.jobs.admin.alarms import AlarmRule, Level

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
