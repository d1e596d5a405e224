"""Logs are JSON lines on stderr."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from mailsift.logs import configure_logs


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    level = logging.getLogger("httpx").level
    yield
    structlog.reset_defaults()
    logging.getLogger("httpx").setLevel(level)


def test_an_event_is_one_json_line_with_its_fields(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(logging.INFO)
    structlog.get_logger().info("chunk.done", chunk=7)
    said = capsys.readouterr()
    (line,) = said.err.splitlines()
    told = json.loads(line)
    assert said.out == ""
    assert (told["event"], told["chunk"], told["level"]) == ("chunk.done", 7, "info")
    assert told["timestamp"].endswith("Z")


def test_a_command_shows_warnings_only(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs()
    structlog.get_logger().info("chunk.done")
    structlog.get_logger().warning("wake_up.lost")
    assert [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()] == ["wake_up.lost"]


def test_the_addresses_of_webhooks_are_not_logged_by_the_http_client() -> None:
    configure_logs(logging.INFO)
    assert not logging.getLogger("httpx").isEnabledFor(logging.INFO)
