"""The alert rules are valid, each one fires when it should, and somebody is told what to do."""

from __future__ import annotations

import re
import subprocess

import pytest
import yaml

from tests.support.exposition import ALERTS, DEPLOY, rules

RULES = {str(rule["alert"]): rule for rule in rules()}
TESTS = DEPLOY / "prometheus" / "alerts_test.yml"
OPERATIONS = DEPLOY.parent / "docs" / "operations.md"


def promtool(*words: object) -> str:
    """Return what the judge says; it says nothing bad."""
    done = subprocess.run(
        ["promtool", *map(str, words)], cwd=ALERTS.parent, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.needs("promtool")
def test_the_rules_and_the_configuration_that_names_them_are_valid() -> None:
    assert f"SUCCESS: {len(RULES)} rules found" in promtool("check", "rules", ALERTS)
    assert "SUCCESS: 1 rule files found" in promtool("check", "config", "prometheus.yml")


@pytest.mark.needs("promtool")
def test_every_alert_fires_when_it_should_and_none_when_all_is_well() -> None:
    assert "SUCCESS" in promtool("test", "rules", TESTS)


def test_every_alert_is_made_to_fire_and_to_be_quiet() -> None:
    tests = yaml.safe_load(TESTS.read_text())["tests"]
    fired = {one["alertname"] for test in tests for one in test["alert_rule_test"] if one["exp_alerts"]}
    quiet = {one["alertname"] for test in tests for one in test["alert_rule_test"] if not one["exp_alerts"]}
    assert fired == quiet == set(RULES)


def test_every_alert_says_how_bad_it_is_what_it_is_and_where_to_read_on() -> None:
    assert len(RULES) > 20
    for name, rule in RULES.items():
        annotations = rule["annotations"]
        assert isinstance(annotations, dict)
        assert rule["labels"] in ({"severity": "critical"}, {"severity": "warning"})
        assert annotations["summary"].endswith(".")
        assert annotations["description"].endswith(".")
        assert annotations["runbook_url"] == f"docs/operations.md#{name.lower()}"


def test_operators_can_read_what_to_do_for_each_alert() -> None:
    headings = re.findall(r"^#+ `?(Mailsift\w+)`?$", OPERATIONS.read_text(), re.MULTILINE)
    assert sorted(headings) == sorted(RULES)
