"""`mailsift run` and `jobs` as a newcomer types them: the whole way, interrupted, and fed with rubbish."""

from __future__ import annotations

import asyncio
import csv
import gzip
import json
import os
import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openpyxl
import polars as pl
import pytest
import uvloop

from mailsift.cli.demo import disagreements
from mailsift.cli.lists import follow_job, working
from mailsift.cli.options import LOCAL_ACCOUNT
from mailsift.container import open_service
from mailsift.jobs.views import JobOptions
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.frames import VERDICTS
from mailsift.runtime.local_worker import LocalWorker
from mailsift.sandbox.client import SandboxProcess
from mailsift.sandbox.listing import HEADER, write_list
from mailsift.sandbox.world import SandboxWorld, WorldMix
from mailsift.settings import Settings
from tests.support.busy_installation import sql
from tests.support.commands import CommandLine, Keyboard
from tests.support.installation import settings_for
from tests.support.interruptions import FEW, MANY, Story, interrupt_everything
from tests.support.servers import Urls

README = (Path(__file__).parents[2] / "README.md").read_text()
FIELDS = [f"mailsift_{name}" for name in (*VERDICTS, "tier", "tier_reason")]
MAY_BE_BLANK = {"mailsift_suggestion", "mailsift_tier_reason"}
COUNTS = ("valid", "invalid", "risky")
SUMMARY = ["job_id", "status", "total_emails", "processed", *COUNTS, "tiers", "duplicates"]
SUMMARY += ["address_column", "seconds"]
SEED, DOMAINS, ROWS = 7, 60, 300


@pytest.fixture(scope="module")
def sandbox() -> Iterator[SandboxProcess]:
    with SandboxProcess(seed=SEED, domains=DOMAINS, mix=WorldMix.CALM) as running:
        yield running


@pytest.fixture(scope="module")
def settings(short_tmp: Path, sandbox: SandboxProcess, shared_servers: Callable[[], Urls]) -> Settings:
    return settings_for(
        short_tmp / "typed", **shared_servers()._asdict(), sandbox=sandbox.env, max_rows=1_000, max_columns=20
    )


@dataclass(frozen=True, slots=True)
class Finished:
    """A list that was run, its result, and what the command printed last."""

    source: Path
    out: Path
    summary: dict[str, Any]

    @property
    def rows(self) -> list[dict[str, str]]:
        with self.out.open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def finished(settings: Settings) -> Finished:
    source, out = settings.home / "list.csv", settings.home / "checked.csv"
    write_list(SandboxWorld(seed=SEED, domains=DOMAINS, mix=WorldMix.CALM), source, rows=ROWS)
    line = CommandLine(settings)
    typed = line.run("run", source, "--output", out, "--json")
    assert typed.status == 0, typed.err
    assert line.running() == []
    return Finished(source, out, json.loads(typed.out.splitlines()[-1]))


def test_run_gives_every_row_back_in_its_place_with_the_true_verdict(finished: Finished) -> None:
    with finished.source.open(encoding="utf-8", newline="") as file:
        given = list(csv.reader(file))
    assert list(finished.rows[0]) == [*HEADER, "mailsift_address", *FIELDS]
    assert f"the columns you had, and {1 + len(FIELDS)} more" in README
    assert [[_unmarked(row[name]) for name in HEADER] for row in finished.rows] == given[1:]
    wrong = disagreements(finished.out, finished.source.with_name("list.truth.csv"))
    assert wrong.is_empty(), wrong
    assert all(row[name] != "" for row in finished.rows for name in FIELDS if name not in MAY_BE_BLANK)


def test_the_last_line_of_run_is_the_summary(finished: Finished) -> None:
    summary, statuses = finished.summary, [row["mailsift_status"] for row in finished.rows]
    assert list(summary) == SUMMARY
    assert summary["status"] == "completed"
    assert summary["total_emails"] == summary["processed"] == ROWS
    assert [summary[name] for name in COUNTS] == [statuses.count(name) for name in COUNTS]
    truth = pl.read_csv(finished.source.with_name("list.truth.csv"), infer_schema=False)
    assert summary["duplicates"] == ROWS - truth["email"].fill_null("").n_unique() > 0
    assert 0 < summary["seconds"] < 60


READ: dict[str, Callable[[Path], Any]] = {
    "jsonl": lambda path: [json.loads(line).values() for line in path.read_text().splitlines()],
    "parquet": lambda path: pl.read_parquet(path).rows(),
    "xlsx": lambda path: openpyxl.load_workbook(path)["Results"].iter_rows(min_row=2, values_only=True),
}


def test_every_output_format_holds_the_same_rows(
    finished: Finished, settings: Settings, keyboard: Keyboard
) -> None:
    tables = {}
    for kind, read in READ.items():
        out = finished.out.with_suffix(f".{kind}")
        typed = keyboard.type(settings, "jobs", "results", finished.summary["job_id"], "--output", out)
        assert (typed.status, typed.err) == (0, f"{ROWS} rows: {out}\n")
        tables[kind] = [tuple(map(_text, row)) for row in read(out)]
    as_csv = [tuple(row.values()) for row in finished.rows]
    assert tables["jsonl"] == tables["parquet"]
    assert tables["xlsx"] == as_csv
    assert [[*map(_unmarked, row)] for row in as_csv] == [[*map(_unmarked, row)] for row in tables["jsonl"]]


def _text(value: object) -> str:
    """Write a value as CSV does."""
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _unmarked(text: str) -> str:
    """Take off the mark that keeps a spreadsheet from running a cell."""
    return text.removeprefix("'")


@pytest.fixture(scope="module")
def at_work(
    short_tmp: Path, sandbox: SandboxProcess, shared_servers: Callable[[], Urls]
) -> Iterator[tuple[Settings, LocalWorker]]:
    """An installation with a worker, where who says "later" is asked again ten minutes later."""
    settings = settings_for(
        short_tmp / "at-work",
        **shared_servers()._asdict(),
        sandbox=sandbox.env,
        greylist_delays=(600.0,),
        max_rows=1_000,
        max_columns=20,
    )
    with working(settings) as working_one:
        yield working_one


BAD_FILES = {
    "empty_file": b"email\n",
    "no_address_column": b"name,age\nBob,31\nEve,32\n",
    "column_not_found": b"email\nknown@ordinary.sandbox.test\n",
    "binary_file": random.Random(1).randbytes(5_000),
    "unclosed_quote": b'email,note\na@example.com,"so it begins\nb@example.com,x\n',
    "too_many_rows": b"email\n" + b"a@example.com\n" * 2_000,
    "compression_bomb": gzip.compress(b"a@example.com\n" * 5_000_000),
}


def test_a_bad_file_of_any_kind_fails_its_job_with_a_code_of_its_own(
    at_work: tuple[Settings, LocalWorker], tmp_path: Path
) -> None:
    settings, worker = at_work

    async def codes() -> dict[str, str]:
        async with open_service(settings) as service:
            account = await service.account(LOCAL_ACCOUNT)
            jobs, found = {}, {}
            for code, content in BAD_FILES.items():
                source = tmp_path / f"{code}.csv"
                source.write_bytes(content)
                options = JobOptions(column="no such column" if code == "column_not_found" else "")
                jobs[code] = await service.submit(account, source, options)
            for code, job_id in jobs.items():
                with pytest.raises(MailsiftError) as refused:
                    await follow_job(service, worker, account, job_id, tmp_path / "out.csv", as_json=False)
                found[code] = refused.value.code
            return found

    assert uvloop.run(codes()) == {code: code for code in BAD_FILES}
    assert not (tmp_path / "out.csv").exists()


def test_a_bad_file_ends_run_with_status_2_and_one_line(
    at_work: tuple[Settings, LocalWorker], keyboard: Keyboard, tmp_path: Path
) -> None:
    source = tmp_path / "list.csv"
    source.write_bytes(BAD_FILES["binary_file"])
    before = _own_workers(at_work[0])
    typed = keyboard.type(at_work[0], "run", source)
    assert (typed.status, typed.out) == (2, "")
    assert [line for line in typed.err.splitlines() if "mailsift: " in line] == [
        "mailsift: binary_file: The file isn’t text: it contains NUL bytes."
    ]
    assert list(tmp_path.iterdir()) == [source]
    assert _own_workers(at_work[0]) == before


def test_a_list_without_addresses_is_told_with_the_option_that_names_its_column(
    at_work: tuple[Settings, LocalWorker], keyboard: Keyboard, tmp_path: Path
) -> None:
    source = tmp_path / "list.csv"
    source.write_bytes(BAD_FILES["no_address_column"])
    for words in (("--output", tmp_path / "out.csv"), ("--plan",)):
        typed = keyboard.type(at_work[0], "run", source, *words)
        last = typed.err.splitlines()[-1]
        assert (typed.status, last.startswith("mailsift: no_address_column: ")) == (2, True)
        assert "--column" in last


def _own_workers(settings: Settings) -> list[int]:
    return [one.pid for one in CommandLine(settings).workers_of(os.getpid())]


def test_the_named_column_is_the_one_that_is_looked_at(
    at_work: tuple[Settings, LocalWorker], keyboard: Keyboard, tmp_path: Path
) -> None:
    source, out = tmp_path / "list.csv", tmp_path / "out.parquet"
    source.write_text("email,spare\nbroken,a@example.com\na@example.com,b@b@example.com\n")
    typed = keyboard.type(at_work[0], "run", source, "-o", out, "--mode", "fast", "--column", "spare")
    assert typed.status == 0, typed.err
    assert pl.read_parquet(out)["mailsift_result"].to_list() == ["passed", "syntax_error"]


def test_a_cell_that_clearly_means_an_address_is_repaired_on_request(
    at_work: tuple[Settings, LocalWorker], keyboard: Keyboard, tmp_path: Path
) -> None:
    source, out = tmp_path / "list.csv", tmp_path / "out.parquet"
    source.write_text("email\nAnn <ann@example.com>\nann@example.com\n")
    typed = keyboard.type(at_work[0], "run", source, "-o", out, "--mode", "fast", "--repair")
    assert typed.status == 0, typed.err
    assert pl.read_parquet(out)["mailsift_address"].to_list() == ["ann@example.com"] * 2
    assert pl.read_parquet(out)["mailsift_suggestion"].to_list() == ["Validated as ann@example.com.", ""]


def test_a_job_can_be_looked_at_paused_cancelled_and_retried(
    at_work: tuple[Settings, LocalWorker], keyboard: Keyboard, tmp_path: Path
) -> None:
    settings, _ = at_work
    source, out, again = tmp_path / "[red]list.txt", tmp_path / "out.jsonl", tmp_path / "again.jsonl"
    decided = [f"known{n}@ordinary.sandbox.test" for n in range(20)]
    unknown = [f"known{n}@servfail.sandbox.test" for n in range(3)]
    waiting = [f"known{n}@tempfail.sandbox.test" for n in range(5)]
    source.write_text("\n".join([*decided, *unknown, *waiting]))
    job = _submitted(settings, source)
    limit = time.monotonic() + 120  # DNS is asked a second time before it counts as silent
    while not ((seen := _job(keyboard, settings, job))["waiting"] and seen["processed"] == 23):
        assert time.monotonic() < limit, seen
    assert (seen["status"], seen["valid"], seen["risky"]) == ("running", 20, 3)
    (wait,) = seen["waiting"]
    assert (wait["reason"], wait["addresses"]) == ("deferred", 5)
    assert "[red]list.txt" in keyboard.type(settings, "jobs", "show", job).out

    assert _refused(keyboard, settings, "retry", job, "-o", again) == "job_state_conflict"
    assert keyboard.type(settings, "jobs", "pause", job[:8]).err == "Paused.\n"
    assert _refused(keyboard, settings, "pause", job) == "job_state_conflict"
    listed = [json.loads(line) for line in keyboard.type(settings, "jobs", "list", "--json").out.splitlines()]
    assert (listed[0]["job_id"], listed[0]["status"]) == (job, "paused")
    assert "[red]list.txt" in keyboard.type(settings, "jobs", "list").out
    assert keyboard.type(settings, "jobs", "cancel", job).err == "Cancelled.\n"
    assert _refused(keyboard, settings, "cancel", job) == "job_state_conflict"
    lines = asyncio.run(sql(settings, "SELECT actor, action, subject FROM audit ORDER BY id"))
    done = [(line["actor"], line["action"]) for line in lines if line["subject"] == job]
    assert done == [("cli", "job.pause"), ("cli", "job.cancel")]

    assert keyboard.type(settings, "jobs", "results", job, "-o", out).err == f"23 rows: {out}\n"
    assert pl.read_ndjson(out)["column_1"].to_list() == [*decided, *unknown]
    retried = keyboard.type(settings, "jobs", "retry", job, "-o", again, "--json")
    assert retried.status == 0, retried.err
    assert json.loads(retried.out)["total_emails"] == 3
    assert pl.read_ndjson(again)["column_1"].to_list() == unknown
    assert _job(keyboard, settings, json.loads(retried.out)["job_id"])["parent_id"] == job


def _submitted(settings: Settings, source: Path) -> str:
    async def submit() -> str:
        async with open_service(settings) as service:
            return str(await service.submit(await service.account(LOCAL_ACCOUNT), source, JobOptions()))

    return uvloop.run(submit())


def _job(keyboard: Keyboard, settings: Settings, job: str) -> dict[str, Any]:
    job_shape: dict[str, Any] = json.loads(keyboard.type(settings, "jobs", "show", job, "--json").out)
    return job_shape


def _refused(keyboard: Keyboard, settings: Settings, *words: object) -> str:
    """Return the code a command is refused with."""
    typed = keyboard.type(settings, "jobs", *words)
    assert (typed.status, typed.out, typed.err.count("\n")) == (2, "", 1)
    return typed.err.split(": ")[1]


@pytest.fixture(scope="module", autouse=True)
def story(short_tmp: Path, sandbox: SandboxProcess) -> Iterator[Future[Story]]:
    """A job that is interrupted again and again, while the other tests run."""
    home = short_tmp / "interrupted"
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(interrupt_everything, home, home / "the result.jsonl", sandbox.env)


def test_ctrl_c_pauses_the_job_leaves_nothing_running_and_says_how_to_go_on(story: Future[Story]) -> None:
    course = story.result()
    assert course.interrupted.status == 130
    assert course.left_by_ctrl_c == []
    state, processed = course.paused
    assert state == "paused"
    assert 0 < processed < len(MANY) + len(FEW)


def test_a_killed_run_takes_its_worker_along_and_the_job_goes_on_where_it_was(
    story: Future[Story], short_tmp: Path
) -> None:
    """The worker was killed once as well, before all that: another one took its place."""
    course = story.result()
    assert course.killed[0] == "running"  # the worker claimed nothing more when it noticed
    assert course.resumed.status == 0, course.resumed.err
    summary = json.loads(course.resumed.out)
    assert (summary["status"], summary["valid"], summary["invalid"]) == ("completed", len(MANY), len(FEW))
    came = pl.read_ndjson(short_tmp / "interrupted" / "the result.jsonl")
    assert came["column_1"].to_list() == [*MANY, *FEW]
    assert came["mailsift_status"].to_list() == ["valid"] * len(MANY) + ["invalid"] * len(FEW)
