"""bandit reads every line of the product; what it finds is excused on the spot, with a reason."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from typing import Any

from tests.support.workers import ROOT

PACKAGES = ("mailsift", "api", "accounts", "jobs", "events", "storage", "pipeline", "sandbox")
SKIPPED = (
    "B105",  # takes numbers and None for passwords; ruff's S105 looks at the value
    "B311",  # as in pyproject.toml: randomness that must not be guessed uses secrets
    "B404",  # to import subprocess is no fault; every use of it is looked at (B603)
)


def _sources() -> set[str]:
    return {str(file.relative_to(ROOT)) for package in PACKAGES for file in (ROOT / package).rglob("*.py")}


async def _judged(*where: str) -> dict[str, Any]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bandit", "-q", "-r", *where, "-f", "json", "--skip", ",".join(SKIPPED)),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    report: dict[str, Any] = json.loads((await process.communicate())[0])
    return report


def _is_excused(issue: dict[str, Any]) -> bool:
    """Tell whether a comment on these lines excuses this rule, by ruff's name of it, and says why."""
    lines = (ROOT / issue["filename"]).read_text().splitlines()
    excuse = re.compile(rf"# noqa: (?:[A-Z]+\d+, ?)*S{issue['test_id'][1:]}\b[A-Z0-9, ]* - \w")
    return any(excuse.search(lines[number - 1]) for number in issue["line_range"])


async def test_bandit_has_read_every_file_and_finds_nothing_without_an_excuse() -> None:
    report = await _judged(*PACKAGES)
    assert [_line(issue) for issue in report["results"] if not _is_excused(issue)] == []
    assert report["errors"] == []
    metrics = report["metrics"]
    assert metrics.keys() - {"_totals"} == _sources()
    assert len(metrics) > 150
    assert metrics["_totals"]["loc"] > 10_000
    assert metrics["_totals"]["nosec"] == metrics["_totals"]["skipped_tests"] == 0


def _line(issue: dict[str, Any]) -> str:
    return f"{issue['filename']}:{issue['line_number']} {issue['test_id']} {issue['issue_text']}"
