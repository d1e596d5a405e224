"""The Grafana dashboard is one that Grafana takes: unique panels that do not overlap, queries that parse."""

from __future__ import annotations

import json
import subprocess
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.exposition import DASHBOARD, expressions, panels

VARIABLES = {"$__rate_interval": "5m", "$provider": ".*", "${datasource}": "x"}
ROWS = ["Overview", "Jobs", "Queues", "Workers", "Providers", "Webhooks and schedules", "API"]
Box = tuple[int, int, int, int]


def box(panel: dict[str, Any]) -> Box:
    place = panel["gridPos"]
    return place["x"], place["y"], place["x"] + place["w"], place["y"] + place["h"]


def overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def test_every_panel_has_a_place_of_its_own() -> None:
    found: list[dict[str, Any]] = list(panels())
    assert len({panel["id"] for panel in found}) == len(found)
    assert all(box(panel)[2] <= 24 for panel in found)
    assert [pair for pair in combinations(found, 2) if overlap(box(pair[0]), box(pair[1]))] == []


def test_every_panel_says_what_it_shows_and_asks_the_chosen_data_source() -> None:
    found: list[dict[str, Any]] = list(panels())
    assert [panel["title"] for panel in found if panel["type"] == "row"] == ROWS
    for panel in found:
        assert panel["title"]
        if panel["type"] == "row":
            continue
        assert panel["fieldConfig"]["defaults"]["unit"]
        assert panel["targets"]
        for target in panel["targets"]:
            assert (
                target["datasource"] == panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
            )
            assert len({one["refId"] for one in panel["targets"]}) == len(panel["targets"])


def test_every_variable_that_is_used_is_there() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    names = {variable["name"] for variable in dashboard["templating"]["list"]}
    assert names == {"datasource", "provider"}
    assert dashboard["uid"] == "mailsift"


@pytest.mark.needs("promtool")
def test_every_query_is_one_that_prometheus_understands(tmp_path: Path) -> None:
    queries = expressions()
    for variable, value in VARIABLES.items():
        queries = [query.replace(variable, value) for query in queries]
    assert not [query for query in queries if "$" in query]
    recorded = [{"record": f"tests:query:{n}", "expr": query} for n, query in enumerate(queries)]
    path = tmp_path / "rules.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": recorded}]}))
    judged = subprocess.run(
        ["promtool", "check", "rules", str(path)], capture_output=True, text=True, check=False
    )
    assert judged.returncode == 0, judged.stdout + judged.stderr
    assert len(queries) > 80
