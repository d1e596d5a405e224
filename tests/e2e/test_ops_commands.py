"""`mailsift ops`: the operator's pictures in the terminal, for people and for machines, and the orders."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

from mailsift.jobs.admin.console import Console
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.throttle import SessionOutcome
from mailsift.settings import Settings
from mailsift.storage.database import unavailable
from tests.support.busy_installation import fill, report_sessions, sql
from tests.support.commands import CommandLine, Keyboard
from tests.support.installation import settings_for
from tests.support.servers import Urls


@pytest.fixture(scope="module")
def settings(short_tmp: Path, shared_servers: Callable[[], Urls]) -> Settings:
    made = settings_for(short_tmp / "ops", **shared_servers()._asdict(), sandbox={})
    asyncio.run(fill(made))
    asyncio.run(report_sessions(made, {"google": [SessionOutcome.CLEAN] * 3 + [SessionOutcome.RATE]}))
    return made


def printed(keyboard: Keyboard, settings: Settings, *words: object) -> list[dict[str, Any]]:
    typed = keyboard.type(settings, "ops", *words, "--json")
    assert typed.status == 0, typed.err
    return [json.loads(line) for line in typed.out.splitlines()]


def test_top_shows_one_picture_of_everything(settings: Settings, keyboard: Keyboard) -> None:
    typed = keyboard.type(settings, "ops", "top", "--once")
    assert typed.status == 0
    for word in (
        "throughput",
        "oldest ready",
        "time to empty",
        "schedule is late",
        "newsletter 1",
        "worker-0:40",
    ):
        assert word in typed.out
    assert "▁" in typed.out or "█" in typed.out


def test_top_for_machines_is_one_object_with_the_same_numbers(settings: Settings, keyboard: Keyboard) -> None:
    (seen,) = printed(keyboard, settings, "top")
    assert seen["backlog"]["ready"] + seen["backlog"]["waiting"] + seen["backlog"]["leased"] == 240 * 900
    assert seen["slots"]["all"] == 35
    assert seen["jobs"]["running"] == 8
    assert "schedules_late" in {alarm["code"] for alarm in seen["alarms"]}
    assert seen["today"]["valid"] > 0
    assert len(seen["minutes"]) == 61


def test_top_goes_on_until_it_is_stopped(settings: Settings) -> None:
    with CommandLine(settings).start("ops", "top") as process:
        assert process.stdout is not None
        pictures = 0
        while pictures < 3:  # the second comes a second later, from the database again
            line = process.stdout.readline()
            assert line, "it ended by itself"
            pictures += "throughput" in line
        process.terminate()


def test_top_goes_on_where_the_database_goes_while_it_reads(
    settings: Settings, keyboard: Keyboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails_with(error: MailsiftError) -> Callable[..., NoReturn]:
        def fail(*_: object, **__: object) -> NoReturn:
            raise error

        return fail

    full = MailsiftError("storage_full", "There is no room left where the database lies.", retryable=True)
    for read, error in (
        (Console.jobs, unavailable()),
        (Console.sources, unavailable()),
        (Console.jobs, full),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(Console, read.__name__, fails_with(error))
            typed = keyboard.type(settings, "ops", "top", "--once")
        assert typed.status == 0, typed.err
        assert "schedule is late" in typed.out  # the alarms, which are read again
        assert "throughput" not in typed.out


def test_jobs_are_filtered_by_state_account_text_and_age(settings: Settings, keyboard: Keyboard) -> None:
    everything = printed(keyboard, settings, "jobs", "--state", "", "--limit", 1000)
    assert len(everything) == 60
    assert {one["state"] for one in printed(keyboard, settings, "jobs", "--state", "ended")} <= {
        "completed",
        "failed",
        "cancelled",
    }
    (one,) = printed(keyboard, settings, "jobs", "--state", "", "--text", "newsletter 17")
    assert (one["name"], one["total"]) == ("newsletter 17", 20000)
    old = printed(keyboard, settings, "jobs", "--state", "", "--age", ">8h", "--limit", 1000)
    assert 0 < len(old) < 10
    typed = keyboard.type(settings, "ops", "jobs", "--limit", 2)
    assert "newsletter 1" in typed.out
    assert "--limit shows more" in typed.err


def test_a_filter_nobody_can_mean_is_refused(settings: Settings, keyboard: Keyboard) -> None:
    typed = keyboard.type(settings, "ops", "jobs", "--age", "yesterday")
    assert (typed.status, typed.err.startswith("mailsift: bad_filter:")) == (2, True)


def test_workers_are_shown_and_drained_by_name(settings: Settings, keyboard: Keyboard) -> None:
    assert len(printed(keyboard, settings, "workers")) == 9
    typed = keyboard.type(settings, "ops", "workers", "--drain", "worker-0")
    assert (typed.status, "3 processes drain" in typed.err) == (0, True)
    assert {one["state"] for one in printed(keyboard, settings, "workers") if one["host"] == "worker-0"} <= {
        "draining",
        "drained",
        "gone",
    }
    typed = keyboard.type(settings, "ops", "workers", "--undrain", "all")
    assert "6 processes claim again" in typed.err  # worker-1 was drained from the start
    typed = keyboard.type(settings, "ops", "workers", "--drain", "nobody")
    assert (typed.status, "worker_not_found" in typed.err) == (2, True)


def test_a_provider_is_held_and_let_go_of(settings: Settings, keyboard: Keyboard) -> None:
    rows = printed(keyboard, settings, "throttles", "--hold", "google")
    held = {one["source"]: one for one in rows if one["provider"] == "google"}
    assert (held[""]["state"], held["*"]["state"], held[""]["edited_by"]) == ("held", "held", "cli")
    assert held[""]["mix"] == {"clean": 3, "rate": 1}
    again = printed(keyboard, settings, "throttles", "--let-go", "google", "--reset", "google")
    assert {one["state"] for one in again if one["provider"] == "google"} == {"open"}
    assert "google" in keyboard.type(settings, "ops", "throttles").out


@pytest.mark.parametrize(
    ("name", "meant"),
    [("gogle", "google"), ("gmail.com", "google"), ("mx1.example.com", "example.com"), ("zzzz", "")],
)
def test_a_hold_that_would_hold_nobody_is_refused(
    settings: Settings, keyboard: Keyboard, name: str, meant: str
) -> None:
    typed = keyboard.type(settings, "ops", "throttles", "--hold", name)
    assert typed.status == 2
    assert typed.err.startswith("mailsift: bad_provider: ")
    assert meant in typed.err
    assert name not in keyboard.type(settings, "ops", "throttles").out


def test_a_domain_opts_out_and_in_again(settings: Settings, keyboard: Keyboard) -> None:
    (shy,) = printed(
        keyboard, settings, "opt-outs", "--add", "Shy.Example.", "--note", "their postmaster wrote"
    )
    assert (shy["domain"], shy["note"], shy["added_by"]) == ("shy.example", "their postmaster wrote", "cli")
    typed = keyboard.type(settings, "ops", "opt-outs", "--remove", "shy.example", "--remove", "bold.example")
    assert "bold.example had not opted out" in typed.err
    assert "shy.example" not in typed.out
    assert keyboard.type(settings, "ops", "opt-outs", "--add", "no domain").status == 2


def test_an_order_asks_first_and_reaches_all_that_match(settings: Settings, keyboard: Keyboard) -> None:
    words = ("ops", "do", "pause", "--state", "running", "--account", "globex")
    refused = keyboard.type(settings, *words, stdin=b"n\n")
    assert refused.status == 1
    assert "Go on?" in refused.err
    before = len(printed(keyboard, settings, "jobs", "--state", "running", "--account", "globex"))
    assert before > 0
    done = keyboard.type(settings, *words, "--yes")
    assert done.err.strip() == f"pause: {before} jobs."
    assert printed(keyboard, settings, "jobs", "--state", "running", "--account", "globex") == []
    lines = asyncio.run(sql(settings, "SELECT actor, action FROM audit WHERE action LIKE 'job%'"))
    assert [(line["actor"], line["action"]) for line in lines] == [("cli", "job.pause")] * before + [
        ("cli", "jobs.pause")
    ]
