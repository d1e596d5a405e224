"""Redocly and Spectral find nothing in the OpenAPI description, and it says what a client is made of."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mailsift.api.app import create_app
from mailsift.api.parts import ApiParts
from mailsift.events.payloads import EventType
from mailsift.pipeline.verdict import Result

LINTERS = {
    "redocly": ("lint", "--format=stylish", "openapi.json"),
    "spectral": ("lint", "--ruleset=rules.yaml", "--fail-severity=hint", "openapi.json"),
}

FINE = {
    "redocly": "Your API description is valid.",
    "spectral": "No results with a severity of 'hint' or higher found!",
}
"""What they say when there is neither an error nor a warning."""


@pytest.fixture(scope="module")
def described() -> dict[str, Any]:
    parts = cast("ApiParts", SimpleNamespace(max_bytes=1_000, doors=()))  # a description asks nobody
    return create_app(parts).openapi()


@pytest.mark.needs("redocly", "spectral")
@pytest.mark.parametrize("linter", LINTERS)
async def test_a_linter_finds_nothing(described: dict[str, Any], tmp_path: Path, linter: str) -> None:
    (tmp_path / "openapi.json").write_text(json.dumps(described))
    (tmp_path / "rules.yaml").write_text("extends: ['spectral:oas']\n")
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "REDOCLY_TELEMETRY": "off"}  # noqa: TID251 - for a child
    process = await asyncio.create_subprocess_exec(
        *(linter, *LINTERS[linter]),
        cwd=tmp_path,
        env={**environment, "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    findings = (await process.communicate())[0].decode()
    assert (process.returncode, FINE[linter] in findings) == (0, True), findings


def test_the_description_names_events_results_and_servers(described: dict[str, Any]) -> None:
    assert set(described["webhooks"]) == {kind.value for kind in EventType}
    assert described["servers"]
    schemas = described["components"]["schemas"]
    assert set(schemas["Result"]["enum"]) == {result.value for result in Result}
    description = schemas["FullVerdict"]["properties"]["result"]["description"]
    assert [result for result in Result if f"`{result.value}`: " not in description] == []
    assert "success" in schemas["Envelope_JobResponse_"]["required"]
    upload = described["paths"]["/v1/bulk/jobs"]["post"]["requestBody"]["content"]
    assert set(upload) == {"application/json", "multipart/form-data", "application/octet-stream"}
    posts = [one["post"] for path, one in described["paths"].items() if "post" in one]
    assert all(any(p["name"].lower() == "idempotency-key" for p in post["parameters"]) for post in posts)
    tags = {tag["name"] for tag in described["tags"]}
    assert {tag for one in described["paths"].values() for op in one.values() for tag in op["tags"]} == tags
