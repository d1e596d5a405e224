"""What is shown of a running job and at its end."""

from __future__ import annotations

import io
import os
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.live import Live
from typing_extensions import override

from mailsift.cli import lists, terminal
from mailsift.cli.lists import Speed, show_summary, summary_of
from mailsift.jobs.eta import TimeLeft
from mailsift.jobs.views import WAITS_FOR_MEMORY, WAITS_FOR_STORAGE, WAITS_FOR_THREADS, JobView
from mailsift.pipeline.errors import MailsiftError
from mailsift.storage.database import unavailable
from mailsift.storage.sql.chunks import Waiting
from mailsift.storage.states import JobState
from tests.support.job_views import RUNNING, START

DONE = replace(RUNNING, state=JobState.COMPLETED, finished_at=START + timedelta(seconds=12.3456))


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What the console gets, which is no terminal and 40 columns wide."""
    stream = io.StringIO()
    monkeypatch.setattr(lists, "console", Console(file=stream, width=40))
    return stream


def text(view: JobView, rate: float) -> str:
    console = Console(file=io.StringIO(), width=200)
    with console.capture() as captured:
        console.print(lists.progress_bar(view, rate))
    return captured.get()


def test_speed_is_that_of_the_last_ten_seconds() -> None:
    speed = Speed()
    assert speed.update(100.0, 0) == 0.0
    assert speed.update(105.0, 50) == 10.0
    assert speed.update(110.0, 200) == 20.0
    assert speed.update(115.0, 200) == 15.0  # since 105.0
    assert speed.update(140.0, 200) == 0.0


def test_the_summary_has_the_seconds_from_submission_to_end() -> None:
    assert summary_of(DONE) == {
        "job_id": "00000000-0000-0000-0000-000000000007",
        "status": "completed",
        "total_emails": 2_000,
        "processed": 500,
        "valid": 400,
        "invalid": 60,
        "risky": 40,
        "tiers": {"send": 390, "review": 40, "remove": 70},
        "duplicates": 100,
        "address_column": "Work email",
        "seconds": 12.346,
    }


def test_a_job_that_has_not_ended_has_no_seconds() -> None:
    assert summary_of(RUNNING)["seconds"] == 0


def test_the_picture_tells_progress_speed_and_end() -> None:
    line = text(replace(RUNNING, time_left=TimeLeft(30.0)), rate=50.0)
    counts = ("500/2,000", "25%", "valid 400", "risky 40", "invalid 60")
    for part in ("validating", *counts, "50/s", "ETA 0:00:30"):
        assert part in line


def test_the_picture_tells_what_the_job_waits_for() -> None:
    waits = [
        Waiting(key, reason, 1_200, START + timedelta(seconds=n))
        for n, (key, reason) in enumerate([("google", "greylisted"), ("*", "throttled")])
    ]
    line = text(replace(RUNNING, waiting=tuple(waits)), rate=0.0)
    at = START.astimezone().strftime("%H:%M:%S")
    assert f"waiting until {at}" in line
    assert f"waits: 1,200 addresses, greylisted at google, until {at}" in line
    assert "waits: 1,200 addresses, throttled, until" in line


def test_before_the_list_is_read_nothing_is_promised() -> None:
    line = text(replace(RUNNING, state=JobState.INTAKE, total=0, processed=0), rate=0.0)
    assert "reading the list" in line
    assert "ETA" not in line


def test_what_makes_verdicts_poorer_is_said_loudly() -> None:
    assert "Warning: probe_unavailable: this machine cannot reach mail servers" in text(
        replace(RUNNING, warning="probe_unavailable"), rate=1.0
    )


def test_the_summary_names_the_file_in_one_piece(printed: io.StringIO) -> None:
    out = Path("/a/rather/long/[red]folder[/red]/with a name/that/does/not/fit/results.csv")
    show_summary(DONE, {"deliverable": 400, "catch_all": 40, "syntax_error": 60}, out)
    lines = printed.getvalue().splitlines()
    assert lines[-1] == f"Result: {out}"
    assert lines[-3:-1] == ["2,000 rows, 100 duplicates, 12.3 s (162 rows/s)", "Address column: Work email"]
    assert any(line.split() == ["deliverable", "400", "20.0", "%"] for line in lines)


def test_the_summary_shows_a_hostile_name_as_text(printed: io.StringIO) -> None:
    show_summary(DONE, {}, "s3://lists/\x1b[2Jlist.csv")
    assert printed.getvalue().splitlines()[-1] == "Result: s3://lists/\ufffd[2Jlist.csv"


def test_one_row_is_no_rows(printed: io.StringIO) -> None:
    show_summary(replace(DONE, total=1, addresses=1, processed=1), {}, "results.csv")
    assert "1 row, 0 duplicates, 12.3 s" in printed.getvalue()
    wait = Waiting("google", "greylisted", 1, START)
    assert "waits: 1 address, greylisted" in text(replace(RUNNING, waiting=(wait,)), rate=0.0)


@pytest.mark.parametrize(
    ("reason", "why"),
    [
        (WAITS_FOR_STORAGE, "is a disk full"),
        (WAITS_FOR_MEMORY, "was killed"),
        (WAITS_FOR_THREADS, "starts no more"),
    ],
)
def test_a_job_that_waits_for_what_the_machine_lacks_says_so_and_until_when(reason: str, why: str) -> None:
    waits = Waiting("", reason, 0, START)
    line = text(replace(RUNNING, state=JobState.INTAKE, total=0, processed=0, waiting=(waits,)), 0)
    assert f"waiting for {reason} until {START.astimezone():%H:%M:%S} (" in line
    assert why in line
    assert "reading" not in line
    assert "addresses" not in line


def test_nobody_s_work_ends_because_its_progress_cannot_be_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stderr", full)
        with Live(console=terminal.console, transient=True, auto_refresh=False):
            terminal.console.print("on its way")
        terminal.console.print("done")
        assert Path(f"/proc/self/fd/{full.fileno()}").readlink() == Path(
            os.devnull
        )  # nor at the interpreter's end


class _Looks:
    """A service that shows a job as it was at each look, and then its end."""

    def __init__(self, *views: JobView) -> None:
        self._views = iter((*views, DONE))

    async def get(self, *_: object) -> JobView:
        return next(self._views)


class _Outage(_Looks):
    """The same, with looks at which the database is away."""

    def __init__(self, *views: JobView | None) -> None:
        self._views = iter((*views, DONE))  # type: ignore[arg-type]  # None: it is away

    @override
    async def get(self, *_: object) -> JobView:
        if (view := next(self._views)) is None:
            raise unavailable()
        return view


async def test_a_database_that_goes_away_is_waited_for_and_told_of_once(printed: io.StringIO) -> None:
    looks: Any = _Outage(RUNNING, None, None, None, RUNNING, None)
    ids = (RUNNING.account_id, RUNNING.id)
    assert await lists.watch_job(looks, *ids, keep_alive=lambda: None, quiet_seconds=0.0) == DONE
    assert printed.getvalue().count("isn’t responding. Nothing is lost") == 2


async def test_a_database_that_stays_away_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lists, "_OUTAGE_SECONDS", 0.5)
    looks: Any = _Outage(RUNNING, *[None] * 9)
    with pytest.raises(MailsiftError, match="database_unavailable"):
        await lists.watch_job(looks, RUNNING.account_id, RUNNING.id, keep_alive=lambda: None)


async def test_a_log_is_told_what_is_new_and_nothing_twice(
    printed: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list may wait for days beside a cron job whose output is mailed."""
    monkeypatch.setattr(Speed, "update", lambda *_: 0.0)
    waits, further = (replace(RUNNING, warning="no_way_out", processed=n) for n in (500, 501))
    looks = _Looks(RUNNING, waits, waits, waits, further, replace(further, warning=""), waits)
    await lists.watch_job(
        looks,  # type: ignore[arg-type]
        RUNNING.account_id,
        RUNNING.id,
        keep_alive=lambda: None,
        quiet_seconds=0.0,
    )
    lines = printed.getvalue().splitlines()
    assert [line.startswith("Warning: no_way_out") for line in lines].count(True) == 2
    assert [line.split()[1] for line in lines if line.startswith("validating")] == [
        *("500/2,000", "500/2,000", "501/2,000", "501/2,000", "500/2,000"),
    ]
