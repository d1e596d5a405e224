"""Runs schemathesis in a process of its own and reads what it did from its report."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_CONFIG, _REPORT = "schemathesis.toml", "report.ndjson"
_ALWAYS = """\
seed = 20261121
continue-on-failure = true
request-timeout = 20
max-stream-events = 1
[cache]
enabled = false
[generation]
database = "none"
[output.sanitization]
enabled = false
"""


@dataclass(frozen=True, slots=True)
class Sent:
    """One request of the judge and its answer.

    Attributes:
        operation: method and path as OpenAPI has them.
        positive: made to be right by the schema.
        key: whose key it carried, if any.
        code: our machine code of an error.
        link: the OpenAPI link that led here.
    """

    operation: str
    positive: bool
    status: int
    key: str
    code: str
    link: str


@dataclass(slots=True)
class Report:
    """What the judge did."""

    exit_code: int
    text: str
    sent: list[Sent] = field(default_factory=list)
    passed: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    phases: dict[str, str] = field(default_factory=dict)

    def statuses(self) -> dict[str, Counter[int]]:
        """Return the statuses seen, by operation."""
        found: dict[str, Counter[int]] = {}
        for one in self.sent:
            found.setdefault(one.operation, Counter())[one.status] += 1
        return found


async def schemathesis(folder: Path, url: str, config: str, *options: str) -> Report:
    """Let it judge the API at `url`.

    Args:
        folder: where configuration and report are written.
        url: of the API.
        config: tables of its configuration.
        options: of its command line.
    """
    (folder / _CONFIG).write_text(_ALWAYS + config)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "schemathesis.cli", "--config-file", _CONFIG),
        *("run", f"{url}/openapi.json", "--no-color", "--report-ndjson-path", _REPORT),
        *options,
        cwd=folder,
        env={"PATH": os.environ["PATH"]},  # noqa: TID251 - for a child
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        text = (await process.communicate())[0].decode()
    except asyncio.CancelledError:
        process.kill()
        raise
    assert process.returncode is not None
    report = Report(process.returncode, text)
    if (folder / _REPORT).exists():
        for line in (folder / _REPORT).read_text().splitlines():
            _take(report, json.loads(line))
    return report


def _take(report: Report, event: dict[str, Any]) -> None:
    if finished := event.get("PhaseFinished"):
        report.phases[finished["phase"]["name"]] = finished["status"]
    recorder = event.get("ScenarioFinished", {}).get("recorder", {})
    report.sent.extend(_requests(recorder))
    for results in recorder.get("checks", {}).values():
        for check in results:
            counter = report.passed if check["status"] == "success" else report.failed
            counter[check["name"]] += 1


def _requests(recorder: dict[str, Any]) -> Iterator[Sent]:
    for id_, case in recorder.get("cases", {}).items():
        exchange = recorder["interactions"].get(id_) or {}
        response = exchange.get("response")
        if response is None:
            continue
        value = case["value"]
        headers = {name.lower(): values[0] for name, values in exchange["request"]["headers"].items()}
        yield Sent(
            operation=f"{value['method']} {value['path']}",
            positive=((value.get("meta") or {}).get("generation") or {}).get("mode") == "positive",
            status=response["status_code"],
            key=headers.get("authorization", "").removeprefix("Bearer "),
            code=_code(response),
            link=(case.get("transition") or {}).get("id", ""),
        )


def _code(response: dict[str, Any]) -> str:
    if response["status_code"] < 400:
        return ""
    body = base64.b64decode((response.get("content") or {}).get("$base64", ""))
    try:
        return str(json.loads(body).get("code", ""))
    except ValueError:
        return ""
