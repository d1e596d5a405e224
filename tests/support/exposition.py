"""What Prometheus would read from a metrics port, and what the rules and the dashboard want of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import yaml
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

DEPLOY = Path(__file__).parents[2] / "deploy"
ALERTS = DEPLOY / "prometheus" / "alerts.yml"
DASHBOARD = DEPLOY / "grafana" / "dashboards" / "mailsift.json"

_SELECTOR = re.compile(r"\b(mailsift_\w+)(?:\{([^}]*)\})?")
_MATCHER = re.compile(r'(\w+)(=~|!~|!=|=)"([^"]*)"')
_GROUPED = re.compile(r"\bby \(([^)]*)\)")
_ADDED = {"job", "instance", "le"}
"""Labels that Prometheus adds, and the one of buckets."""


@dataclass(frozen=True)
class Wanted:
    """One metric in an expression: the labels it must have, and the values some must be able to have."""

    metric: str
    labels: frozenset[str]
    values: frozenset[tuple[str, str]]


@dataclass(frozen=True)
class Documented:
    """One metric of docs/metrics.md; a label has no values where words say what it can be."""

    name: str
    type: str
    labels: dict[str, frozenset[str]]
    meaning: str
    shown_by: str


def documented() -> list[Documented]:
    """Read docs/metrics.md."""
    lines = (DEPLOY.parent / "docs" / "metrics.md").read_text().splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("| `")]
    return [
        Documented(name.strip("`"), kind, _labels(labels), meaning, roles)
        for name, kind, labels, meaning, roles in rows
    ]


def _labels(cell: str) -> dict[str, frozenset[str]]:
    found = {}
    for name, words in re.findall(r"`(\w+)`: ((?:`[^`]*`|[^;`]|;(?! `\w+`: ))*)", cell):
        only_values = re.fullmatch(r"`[^`]*`(, `[^`]*`)*", words)
        found[name] = frozenset(re.findall(r"`([^`]*)`", words)) if only_values else frozenset()
    return found


def sample_name(family: Metric) -> str:
    """Return the name of a metric as it is read: the library keeps counters without their end."""
    return f"{family.name}_total" if family.type == "counter" else family.name


class Exposed:
    """What one or several ports show: every sample's name, labels and value."""

    def __init__(self, *texts: str) -> None:
        self.types: dict[str, str] = {}
        self.samples: dict[str, list[tuple[dict[str, str], float]]] = {}
        for text in texts:
            for family in text_string_to_metric_families(text):
                self.types[family.name] = family.type
                for sample in family.samples:
                    self.samples.setdefault(sample.name, []).append((sample.labels, sample.value))

    def labels(self, name: str) -> set[str]:
        return {label for labels, _ in self.samples[name] for label in labels}

    def values(self, name: str, label: str) -> set[str]:
        return {labels[label] for labels, _ in self.samples[name]}

    def value(self, name: str, **wanted: str) -> float:
        """Add up what has these labels."""
        return sum(value for labels, value in self.samples.get(name, []) if wanted.items() <= labels.items())

    def series(self) -> set[tuple[str, tuple[tuple[str, str], ...]]]:
        return {
            (name, tuple(sorted(labels.items())))
            for name, found in self.samples.items()
            for labels, _ in found
        }


async def scraped(*ports: int) -> Exposed:
    """Read these ports as Prometheus does."""
    return Exposed(*[await page(port) for port in ports])


async def page(port: int) -> str:
    async with httpx.AsyncClient() as client:
        answer = await client.get(f"http://127.0.0.1:{port}/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return answer.text


def rules() -> Iterator[dict[str, object]]:
    for group in yaml.load(ALERTS.read_text(), yaml.CSafeLoader)["groups"]:
        yield from group["rules"]


def panels() -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(DASHBOARD.read_text())["panels"]
    return found


def expressions() -> list[str]:
    """Every expression of the alert rules and of the dashboard."""
    dashboard = json.loads(DASHBOARD.read_text())
    return [
        *(str(rule["expr"]) for rule in rules()),
        *(target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())),
    ]


def wanted() -> list[Wanted]:
    """Every metric that the rules and the dashboard name, with the labels they name beside it."""
    return [one for expression in expressions() for one in _wanted(expression)]


def _wanted(expression: str) -> Iterator[Wanted]:
    grouped = {
        label.strip() for labels in _GROUPED.findall(expression) for label in labels.split(",")
    } - _ADDED
    for metric, matchers in _SELECTOR.findall(expression):
        matched = _MATCHER.findall(matchers)
        alone = len(set(_SELECTOR.findall(expression))) == 1
        yield Wanted(
            metric,
            frozenset({label for label, _, _ in matched} | (grouped if alone else set())),
            frozenset((label, value) for label, how, value in matched if how in {"=", "!="}),
        )
