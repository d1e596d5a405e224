"""Logs are JSON lines on stderr, whoever writes them, with ids and without anybody's data."""

from __future__ import annotations

import asyncio
import errno
import io
import json
import logging
import sys
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from structlog.contextvars import bound_contextvars
from typing_extensions import override

from mailsift import cli
from mailsift.logs import configure_logs, configure_server_logs
from tests.support.captured_logs import our_logs

SECRET = "jane@example.com paid with svc_key_abc"


class Cramped(io.StringIO):
    """A stream on a disk that may be full."""

    is_full = False

    def __init__(self) -> None:
        super().__init__()
        self.taken: list[str] = []

    @override
    def write(self, text: str) -> int:
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        count = super().write(text)
        self.taken += text.splitlines()
        return count


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    with our_logs():
        yield


def logged(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    printed = capsys.readouterr()
    assert printed.out == ""
    return [json.loads(line) for line in printed.err.splitlines()]


def test_an_event_is_one_json_line_with_its_fields(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(logging.INFO)
    structlog.get_logger().info("chunk.done", chunk=7)
    (line,) = logged(capsys)
    assert (line["event"], line["chunk"], line["level"]) == ("chunk.done", 7, "info")
    assert line["timestamp"].endswith("Z")


def test_a_command_shows_warnings_only(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs()
    structlog.get_logger().info("chunk.done")
    structlog.get_logger().warning("wake_up.lost")
    assert [line["event"] for line in logged(capsys)] == ["wake_up.lost"]


@pytest.mark.parametrize(("level", "expected"), [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)])
def test_a_server_shows_what_its_level_says(
    level: Any, expected: int, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_server_logs(level)
    log = structlog.get_logger()
    for tell in (log.debug, log.info, log.warning, log.error):
        tell("something")
    assert len(logged(capsys)) == expected


def test_the_addresses_of_webhooks_are_not_logged_by_the_http_client() -> None:
    configure_logs(logging.INFO)
    assert not logging.getLogger("httpx").isEnabledFor(logging.INFO)


def test_a_library_writes_the_same_lines_with_the_ids_of_who_is_worked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure_logs(logging.INFO)
    with bound_contextvars(job="1234"):
        logging.getLogger("kombu.connection").warning("%s is away\nand more", "the broker")
    logging.getLogger("kombu.connection").info("what libraries chat about")
    (line,) = logged(capsys)
    assert (line["event"], line["logger"], line["level"], line["job"]) == (
        "the broker is away",
        "kombu.connection",
        "warning",
        "1234",
    )


def test_a_log_that_cannot_be_written_stops_no_work_and_is_written_again_when_it_can(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Cramped()
    monkeypatch.setattr(sys, "stderr", stream)
    configure_logs(logging.INFO)
    for stream.is_full in (True, False):
        structlog.get_logger().warning("house")
        logging.getLogger("kombu.connection").warning("library")
    stream.close()
    structlog.get_logger().warning("house")
    logging.getLogger("kombu.connection").warning("library")
    assert [json.loads(line)["event"] for line in stream.taken] == ["house", "library"]
    assert logged(capsys) == []


def test_a_library_whose_log_is_closed_is_not_told_of_to_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when a program sends our events to `logging`, too, which has the stream that is closed."""
    stream = Cramped()
    monkeypatch.setattr(sys, "stderr", stream)
    configure_logs(logging.INFO)
    stream.close()
    structlog.configure(logger_factory=structlog.stdlib.LoggerFactory())
    structlog.get_logger().warning("house")
    logging.getLogger("kombu.connection").warning("%d", "no number")


def test_an_exception_is_told_by_its_class_and_its_places_but_not_its_words(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure_logs(logging.INFO)
    log = logging.getLogger("library")
    try:
        int(SECRET)
    except ValueError as error:
        structlog.get_logger().exception("house")
        log.exception("it went wrong: %r", error)  # noqa: TRY401 - what libraries do
        log.warning("it went wrong: %s", error)
        log.warning("it went wrong: %(why)s", {"why": error})
        log.error(error)  # noqa: TRY400 - same
    house, quoting, *others = logged(capsys)
    assert house["error"] == quoting["error"] == "builtins.ValueError"
    assert house["places"] == quoting["places"] == [house["places"][0]]
    assert house["places"][0].startswith("test_logs.py:")
    assert quoting["event"] == "it went wrong: %r"
    assert [line["event"] for line in others] == ["it went wrong: ValueError"] * 2 + ["ValueError"]


async def test_a_task_that_nobody_waited_for_tells_no_more_than_that(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure_logs(logging.INFO)

    async def broken() -> None:
        raise ValueError("Jane Doe")

    loop = asyncio.get_running_loop()
    task = loop.create_task(broken())
    await asyncio.wait([task])
    error = task.exception()
    loop.call_exception_handler(
        {"message": "Task exception was never retrieved", "future": task, "exception": error}
    )
    (line,) = logged(capsys)
    assert (line["event"], line["error"]) == ("Task exception was never retrieved", "builtins.ValueError")
    assert "Jane" not in json.dumps(line)


def test_a_warning_of_python_is_a_line_too(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(logging.INFO)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(capture=False)
        logging.captureWarnings(capture=True)
        warnings.warn(f"about {SECRET}", stacklevel=1)
    (line,) = logged(capsys)
    assert line["logger"] == "py.warnings"
    assert line["event"].endswith("UserWarning: about [address] paid with [secret]")


def test_what_nobody_catches_in_a_server_is_a_line_without_its_words(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure_server_logs("info")

    def broken() -> None:
        raise ValueError(SECRET)

    thread = threading.Thread(target=broken)
    with warnings.catch_warnings():
        thread.start()
        thread.join()
    try:
        broken()
    except ValueError as error:
        sys.excepthook(type(error), error, error.__traceback__)
    lines = logged(capsys)
    assert [(line["event"], line["error"]) for line in lines] == [("uncaught", "builtins.ValueError")] * 2
    assert "jane" not in json.dumps(lines)


def test_a_record_that_cannot_be_formatted_tells_who_wrote_it(capsys: pytest.CaptureFixture[str]) -> None:
    logging.getLogger().handlers = []  # the test runner's own would raise
    configure_logs(logging.INFO)
    logging.getLogger("library").warning("two %s %s", SECRET)  # noqa: PLE1206 - that is the point
    (line,) = logged(capsys)
    assert line["event"] == "log.broken"
    assert line["source"] == "library"


def test_an_address_in_any_field_is_replaced(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(logging.INFO)
    structlog.get_logger().info(SECRET, who=SECRET, more={"deep": [SECRET, {SECRET: 1}]}, raw=SECRET.encode())
    (line,) = logged(capsys)
    clean = "[address] paid with [secret]"
    assert (line["event"], line["who"], line["raw"]) == (clean, clean, clean)
    assert line["more"] == {"deep": [clean, {clean: 1}]}


@pytest.mark.parametrize(("command", "lines"), [("doctor", 0), ("check", 1)])
def test_only_what_prints_its_own_findings_logs_none(
    command: str, lines: int, capsys: pytest.CaptureFixture[str]
) -> None:
    cli.logs_for(command)
    structlog.get_logger().warning("resolver.distrusted")
    assert len(logged(capsys)) == lines
