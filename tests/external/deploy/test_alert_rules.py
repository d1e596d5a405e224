"""The alert rules come from the table of alarms, are valid, and each one fires when it should."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from mailsift.jobs.admin.alarms import RULES, AlarmRule, prometheus_rules, runbook
from tests.support.exposition import ALERTS, DEPLOY, rules

SERIES = yaml.load((Path(__file__).parent / "alert_series.yml").read_text(), yaml.CSafeLoader)
RUNBOOK = DEPLOY.parent / "docs" / "runbook.md"
COMMITTED = {str(rule["alert"]): rule for rule in rules()}


def promtool(*words: object) -> str:
    """Return what the judge says; it says nothing bad."""
    done = subprocess.run(
        ["promtool", *map(str, words)], cwd=ALERTS.parent, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_committed_files_are_what_the_table_gives() -> None:
    assert ALERTS.read_text() == prometheus_rules(RULES), "make alarms"
    assert RUNBOOK.read_text() == runbook(RULES), "make alarms"


def test_no_two_alarms_have_one_name_and_every_one_can_be_seen() -> None:
    assert len({rule.code for rule in RULES}) == len({rule.alert for rule in RULES}) == len(RULES)
    assert [rule.code for rule in RULES if not rule.check and not rule.expr] == []


@pytest.mark.needs("promtool")
def test_the_rules_and_the_configuration_that_names_them_are_valid() -> None:
    assert f"SUCCESS: {len(RULES)} rules found" in promtool("check", "rules", ALERTS)
    assert "SUCCESS: 1 rule files found" in promtool("check", "config", "prometheus.yml")


@pytest.mark.needs("promtool")
def test_every_alert_fires_when_it_should_and_none_when_all_is_well(tmp_path: Path) -> None:
    assert set(SERIES["fires"]) == {rule.alert for rule in RULES if rule.expr}
    files = [judged(tmp_path / "well.yml", ALERTS, well())]
    for rule in RULES:  # by itself: in each series all would be evaluated, for an hour
        alone = tmp_path / f"{rule.code}.rules.yml"
        alone.write_text(yaml.safe_dump({"groups": [{"name": rule.code, "rules": [COMMITTED[rule.alert]]}]}))
        files.append(judged(tmp_path / f"{rule.code}.yml", alone, fires(rule)))
    assert promtool("test", "rules", *files).count("SUCCESS") == len(files)


def judged(file: Path, alerts: Path, test: dict[str, Any]) -> Path:
    """Write down what promtool is to try with these alerts."""
    written = {"rule_files": [str(alerts)], "evaluation_interval": "15s", "tests": [test]}
    file.write_text(yaml.safe_dump(written))
    return file


def well() -> dict[str, Any]:
    """The test of an installation that is well."""
    calm = [rings(rule, "0x120") for rule in RULES if not rule.expr]
    return {
        "interval": "1m",
        "input_series": SERIES["well"] + calm,
        "alert_rule_test": [
            {"eval_time": "90m", "alertname": rule.alert, "exp_alerts": []} for rule in RULES
        ],
    }


def fires(rule: AlarmRule) -> dict[str, Any]:
    """The test of one alert that has to fire."""
    usual: dict[str, Any] = {"series": [rings(rule, "1x60")], "after": "30m", "labels": {}}
    case = SERIES["fires"][rule.alert] if rule.expr else usual
    alert = {
        "exp_labels": {"severity": rule.level.value, **case["labels"]},
        "exp_annotations": COMMITTED[rule.alert]["annotations"],
    }
    test = {"eval_time": case["after"], "alertname": rule.alert, "exp_alerts": [alert]}
    return {"interval": "1m", "input_series": case["series"], "alert_rule_test": [test]}


def rings(rule: AlarmRule, values: str) -> dict[str, str]:
    """The series of an alarm that an API says rings, or does not."""
    labels = f'alarm="{rule.code}", severity="{rule.level.value}", instance="api:9125", job="mailsift-api"'
    return {"series": f"mailsift_alarm{{{labels}}}", "values": values}


def test_each_alarm_has_its_section_in_the_runbook_with_what_to_do() -> None:
    sections = re.split(r"^### ", RUNBOOK.read_text(), flags=re.MULTILINE)[1:]
    assert sorted(section.split("\n")[0] for section in sections) == sorted(rule.alert for rule in RULES)
    for rule in RULES:
        for text in (rule.cause, rule.effect, rule.action):
            assert len(text.split()) > 3, rule.code
            assert text.endswith((".", ")")), rule.code
        assert rule.page == "" or rule.page.startswith("/"), rule.code
