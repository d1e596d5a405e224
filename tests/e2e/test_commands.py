"""The commands that need no worker: check, doctor, migrate, help; and what is refused before any work."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import pytest
import typer
from pydantic import SecretStr
from sqlalchemy import URL, make_url

from mailsift import cli
from mailsift.cli import app
from mailsift.cli.pairs import name_of
from mailsift.container import open_service
from mailsift.jobs.views import JobOptions, dump_options
from mailsift.pipeline.facts import Mode
from mailsift.pipeline.frames import VERDICTS
from mailsift.sandbox.client import SandboxProcess
from mailsift.settings import Settings
from tests.support.busy_installation import sql
from tests.support.child_processes import environment_for
from tests.support.commands import CommandLine, Keyboard
from tests.support.installation import settings_for
from tests.support.servers import Urls
from tests.support.workers import ROOT


@pytest.fixture(scope="module")
def settings(short_tmp: Path, shared_servers: Callable[[], Urls]) -> Iterator[Settings]:
    with SandboxProcess(domains=5) as sandbox:
        yield settings_for(short_tmp / "commands", **shared_servers()._asdict(), sandbox=sandbox.env)


def test_who_checks_many_on_a_terminal_sees_how_far_it_is_and_how_many_were_not_asked(
    settings: Settings, short_tmp: Path
) -> None:
    slowly = short_tmp / "slowly.toml"
    slowly.write_text("[limits]\nrate = 5\nburst = 5\n")
    line = CommandLine(settings.model_copy(update={"overrides": slowly}))
    given = [f"nobody{number}@ordinary.sandbox.test" for number in range(150)]
    screen, typed = line.on_terminal("check", "--json", "--deadline", "2", *given)
    assert typed.status == 0
    results = [json.loads(answer)["result"] for answer in typed.out.splitlines()]
    assert len(results) == len(given)
    left = results.count("not_asked")
    assert left > 0
    assert "of 2 seconds" in screen
    assert screen.count("could not be asked in time") == 1
    assert f"{left} of 150 addresses could not be asked in time: give more seconds with --deadline" in screen


def test_check_prints_one_object_a_line_with_the_email_and_13_fields_that_are_never_null(
    settings: Settings, keyboard: Keyboard
) -> None:
    expected = {
        "known@ordinary.sandbox.test": "deliverable",
        "nobody@ordinary.sandbox.test": "mailbox_not_found",
        "not an address": "syntax_error",
        "Known@Ordinary.sandbox.TEST": "deliverable",
        "known@catch-all.sandbox.test": "catch_all",
        "info@nxdomain.sandbox.test": "domain_not_found",
        "known@greylist.sandbox.test": "deferred",
    }
    typed = keyboard.type(settings, "check", "--json", *expected)
    assert (typed.status, typed.err) == (0, "")
    results = [json.loads(line) for line in typed.out.splitlines()]
    assert {one["email"]: one["result"] for one in results} == expected
    assert [list(one) for one in results] == [["email", "mailsift_address", *VERDICTS]] * len(expected)
    judged = {one["email"]: one["mailsift_address"] for one in results}
    assert judged["Known@Ordinary.sandbox.TEST"] == "known@ordinary.sandbox.test"
    assert judged["not an address"] == ""
    assert all(value is not None for one in results for value in one.values())


def test_a_plan_says_who_will_be_asked_and_starts_nothing(
    settings: Settings, keyboard: Keyboard, tmp_path: Path
) -> None:
    source = tmp_path / "list.txt"
    source.write_text("".join(f"user{n}@gmail.com\n" for n in range(150)) + "a@servfail.sandbox.test\n")
    typed = keyboard.type(settings, "run", str(source), "--plan", "--json")
    assert (typed.status, typed.err) == (0, "")
    plan = json.loads(typed.out)
    assert (plan["addresses"], plan["probes"]) == (151, {"google": 150, "": 1})
    assert plan["seconds"] > 0
    other = tmp_path / "other.csv"
    other.write_text("email\na@example.com\n")
    typed = keyboard.type(settings, "run", str(source), str(other), "--plan")
    assert "other.csv: 1 address in mode deep" in typed.err
    assert "2 lists, 152 addresses, one after the other" in typed.err
    typed = keyboard.type(settings, "run", str(source), "--plan")
    assert "151 addresses in mode deep: 0:0" in typed.err
    assert "google: 150 addresses at " in typed.err
    assert "1 % are at domains whose mail servers nobody has looked up yet." in typed.err
    assert set(tmp_path.iterdir()) == {source, other}


def test_a_plan_shows_a_hostile_name_as_text(settings: Settings, keyboard: Keyboard, tmp_path: Path) -> None:
    sources = [tmp_path / "one.txt", tmp_path / "\x1b[2J.txt"]
    for source in sources:
        source.write_text("a@example.com\n")
    printed = keyboard.type(settings, "run", "--mode", "fast", *sources, "--plan").err
    assert "\ufffd[2J.txt: 1 address in mode fast" in printed


def test_a_plan_ends_at_the_deadline(settings: Settings, keyboard: Keyboard, tmp_path: Path) -> None:
    slowly, source = tmp_path / "slowly.toml", tmp_path / "list.txt"
    slowly.write_text("[limits]\nrate = 5\nburst = 5\n")
    source.write_text("".join(f"user{n}@gmail.com\n" for n in range(150)))
    slow = settings.model_copy(update={"overrides": slowly})
    seconds = [
        json.loads(keyboard.type(slow, "run", str(source), "--plan", "--json", *more).out)["seconds"]
        for more in ((), ("--deadline", "2"))
    ]
    assert seconds[0] > 20
    assert 2 < seconds[1] < 10  # what is left gets its verdicts then


def test_a_schedule_is_made_for_a_place_and_taken_away_again(settings: Settings, keyboard: Keyboard) -> None:
    words = ("create", "https://files.example.com/list.csv?signature=x", "--cron", "0 6 * * 1", "--json")
    made = json.loads(keyboard.type(settings, "schedules", *words, "--recheck", "stale").out)
    assert (made["job_id"], made["name"], made["recheck"]) == (None, "list.csv", "stale")
    for command, enabled in (("pause", False), ("resume", True)):
        assert keyboard.type(settings, "schedules", command, made["schedule_id"]).status == 0
        listed = json.loads(keyboard.type(settings, "schedules", "list", "--json").out)
        assert (listed["schedule_id"], listed["enabled"]) == (made["schedule_id"], enabled)
    assert "list.csv" in keyboard.type(settings, "schedules", "list").out
    assert keyboard.type(settings, "schedules", "delete", made["schedule_id"]).status == 0
    assert keyboard.type(settings, "schedules", "list", "--json").out == ""
    lines = asyncio.run(
        sql(settings, "SELECT actor, action FROM audit WHERE action LIKE 'schedule%' ORDER BY id")
    )
    assert {line["actor"] for line in lines} == {"cli"}
    done = ["create", "pause", "resume", "delete"]
    assert [line["action"] for line in lines] == [f"schedule.{verb}" for verb in done]


def test_a_schedule_of_a_job_runs_its_list_with_its_options(
    settings: Settings, keyboard: Keyboard, tmp_path: Path
) -> None:
    source = tmp_path / "list.csv"
    source.write_text("private,work\na@example.com,b@example.com\n")
    given = JobOptions(mode=Mode.MEDIUM, column="work", evidence=True, repair=True)

    async def submit() -> str:
        async with open_service(settings) as service:
            return str(await service.submit(await service.account("local"), source, given))

    def options(*words: str) -> dict[str, object]:
        made = keyboard.type(settings, "schedules", "create", job, "--cron", "0 6 * * 1", "--json", *words)
        schedule = json.loads(made.out)["schedule_id"]
        (row,) = asyncio.run(sql(settings, f"SELECT options FROM schedule WHERE id = '{schedule}'"))  # noqa: S608 - ours
        return dict(row["options"])

    job = asyncio.run(submit())
    assert options() == dump_options(given)
    assert options("--mode", "fast") == {**dump_options(given), "mode": "fast"}


def test_check_reads_addresses_from_stdin_whatever_their_bytes(
    settings: Settings, keyboard: Keyboard
) -> None:
    stdin = "\ufeffa@example.com\r\n\n  \nb\u2028c@example.com\n".encode() + b"d\xff@example.com"
    typed = keyboard.type(settings, "check", "-", "--json", "--mode", "fast", stdin=stdin)
    results = [json.loads(line) for line in typed.out.split("\n")[:-1]]
    assert [one["email"] for one in results] == [
        "a@example.com",
        "b\u2028c@example.com",
        "d\ufffd@example.com",
    ]
    assert [one["result"] for one in results][:2] == ["passed", "syntax_error"]
    assert keyboard.type(settings, "check", "-", stdin=b" \n").out == ""


def test_check_takes_an_argument_that_is_no_text(settings: Settings, keyboard: Keyboard) -> None:
    typed = keyboard.type(settings, "check", "--mode", "fast", "--json", os.fsdecode(b"\xff@example.com"))
    assert json.loads(typed.out)["email"] == "\ufffd@example.com"


def test_fast_mode_asks_nobody(settings: Settings, keyboard: Keyboard) -> None:
    deaf = settings.model_copy(update={"dns_servers": ("127.0.0.1:1",)})
    (result,) = keyboard.type(deaf, "check", "x@gmail.com", "--mode", "fast", "--json").out.splitlines()
    assert (json.loads(result)["result"], json.loads(result)["score"]) == ("passed", 60)


def test_check_shows_the_evidence(settings: Settings, keyboard: Keyboard) -> None:
    words = ("check", "known@exim.sandbox.test", "--evidence")
    result = json.loads(keyboard.type(settings, *words, "--json").out)
    assert result["evidence"]["mailbox"]["answer"] == "accepted"
    assert sum(result["evidence"]["score_parts"].values()) == result["score"]
    text = keyboard.type(settings, *words).out
    assert "known@exim.sandbox.test" in text
    assert '"answer": "accepted"' in text


HOSTILE = [
    "[red]a@example.com",
    r"\[/x]b@example.com",
    ":bomb:c@example.com",
    "[link=http://x.test]d@example.com[/link]",
]


def test_check_shows_hostile_text_as_text(settings: Settings, keyboard: Keyboard) -> None:
    printed = keyboard.type(settings, "check", "--mode", "fast", "--evidence", *HOSTILE).out
    for text in HOSTILE:
        assert printed.count(text) == 2
    coloured = "\x1b[31me\x07\u202e\u009b31m@example.com"
    printed = keyboard.type(settings, "check", "--mode", "fast", "--evidence", coloured).out
    assert "\ufffd[31me\ufffd\ufffd\ufffd31m@example.com" in printed
    assert not {"\x1b", "\x07", "\u202e", "\u009b"} & set(printed)


def test_an_error_shows_a_hostile_name_as_text(settings: Settings, keyboard: Keyboard) -> None:
    printed = keyboard.type(settings, "run", "\x1b[2J\u202e.csv").err
    assert printed.startswith("mailsift: file_not_found: There is no file \ufffd[2J\ufffd.csv. ")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("run", "missing.csv"), "file_not_found"),
        (("run", "."), "not_a_file"),
        (("run", "a" * 300), "file_not_found"),
        (("run", "list.csv", "--output", f"{'a' * 300}.csv"), "output_not_writable"),
        (("run", "list.csv", "--output", "out.pdf"), "unknown_export_format"),
        (("run", "list.csv", "--output", "missing/out.csv"), "output_not_writable"),
        (("run", "list.csv", "--output", "./list.csv"), "output_is_input"),
        (("run", "list.csv", "list.csv.mailsift.csv"), "output_is_input"),
        (("run", "list.csv", "there/list.csv", "--output", "there"), "output_not_writable"),
        (("run", "list.csv", "there/../list.csv"), "output_not_writable"),
        (("outcomes", "import", "list.csv", "missing.csv", "--account", "acme"), "file_not_found"),
        (("outcomes", "import", "/dev/null", "--account", "acme"), "not_a_file"),
        (("suppressions", "import", "/dev/null", "--account", "acme"), "not_a_file"),
        (("jobs", "results", "x", "--output", "out"), "unknown_export_format"),
        (("jobs", "resume", "x", "--output", "missing/out.csv"), "output_not_writable"),
        (("jobs", "retry", "x", "--output", "folder.csv"), "output_not_writable"),
        (("demo", "--folder", "list.csv/demo"), "output_not_writable"),
        (("demo", "--folder", "list.csv"), "output_not_writable"),
        (("keys", "create", "--account", ""), "account_name_invalid"),
        (("keys", "create", "--account", "a" * 81), "account_name_invalid"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_starts(
    words: tuple[str, ...], code: str, keyboard: Keyboard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("there").mkdir()
    for name in ("list.csv", "list.csv.mailsift.csv", "there/list.csv"):
        Path(name).write_text("a@example.com\n")
    Path("folder.csv").mkdir()
    typed = keyboard.type(Settings(home=tmp_path / "home"), *words)
    assert (typed.status, typed.out) == (2, "")
    assert typed.err.startswith(f"mailsift: {code}: ")
    assert typed.err.count("\n") == 1
    assert not (tmp_path / "home").exists()
    assert Path("list.csv").read_text() == "a@example.com\n"


def test_a_demo_without_room_for_its_list_says_so(keyboard: Keyboard, tmp_path: Path) -> None:
    (tmp_path / "list.csv").mkdir()
    typed = keyboard.type(Settings(home=tmp_path / "home"), "demo", "--rows", "1", "--folder", str(tmp_path))
    assert (typed.status, typed.out) == (2, "")
    assert typed.err.splitlines()[-1].startswith(f"mailsift: output_not_writable: {tmp_path} ")


@pytest.mark.parametrize(
    "words", ["run list.csv", "jobs list", "keys create --account acme", "check --mode medium a@example.com"]
)
def test_a_home_that_cannot_be_made_is_told_by_every_command_that_needs_one(
    words: str, keyboard: Keyboard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("list.csv").write_text("a@example.com\n")
    typed = keyboard.type(Settings(home=tmp_path / "list.csv" / "home"), *words.split())
    assert (typed.status, typed.out) == (2, "")
    assert typed.err.startswith(
        f"mailsift: bad_settings: MAILSIFT_HOME: {tmp_path}/list.csv/home can’t be written"
    )


@pytest.mark.parametrize(
    "words",
    ["run list.csv --max-age inf", "run list.csv --deadline inf", "keys create --account acme --days inf"],
)
def test_a_time_without_end_is_no_time(
    words: str, settings: Settings, keyboard: Keyboard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("list.csv").write_text("a@example.com\n")
    typed = keyboard.type(settings, *words.split())
    assert (typed.status, "Invalid value" in typed.err) == (2, True)


@pytest.mark.parametrize("words", ["run list.csv", "worker", "check a@example.com"])
def test_a_mistake_in_the_overrides_is_told_at_once(
    words: str, settings: Settings, keyboard: Keyboard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("list.csv").write_text("a@example.com\n")
    Path("overrides.toml").write_text("[nonsense]\n")
    wrong = settings.model_copy(update={"overrides": tmp_path / "overrides.toml"})
    typed = keyboard.type(wrong, *words.split())
    assert typed.status == 2
    assert typed.err.startswith("mailsift: bad_overrides: Overrides file: unknown table [nonsense]")


@pytest.mark.parametrize("words", ["run list.csv", "worker"])
def test_a_file_of_opt_outs_that_is_not_there_is_told_at_once(
    words: str, settings: Settings, keyboard: Keyboard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("list.csv").write_text("a@example.com\n")
    typed = keyboard.type(settings.model_copy(update={"opt_outs": tmp_path / "gone"}), *words.split())
    assert typed.status == 2
    assert typed.err.startswith("mailsift: bad_opt_outs: Opt-outs file: it can’t be read")


def test_an_argument_that_is_no_text_is_refused_in_one_line(settings: Settings, keyboard: Keyboard) -> None:
    for words in (
        ("keys", "create", "--account", "acme", "--name", "\udcff"),
        ("accuracy", "--account", "\udcff"),
        ("users", "link", "\udcff"),
        ("ops", "jobs", "--text", "\udcff"),
    ):
        typed = keyboard.type(settings, *words)
        assert (typed.status, typed.out) == (2, "")
        assert typed.err == "mailsift: bad_text: An argument or what was typed is no UTF-8.\n"


def test_a_policy_nested_without_end_is_none(settings: Settings, keyboard: Keyboard, tmp_path: Path) -> None:
    (tmp_path / "list.csv").write_text("a@example.com\n")
    typed = keyboard.type(settings, "run", tmp_path / "list.csv", "--policy", '{"a":' + 100_000 * "[")
    assert (typed.status, typed.err.split(":")[1]) == (2, " policy_invalid")


def test_a_terminal_that_knows_only_some_letters_gets_the_others_in_ascii(settings: Settings) -> None:
    environment = {**os.environ, **settings.environment(), "PYTHONIOENCODING": "latin-1"}  # noqa: TID251 - for a child
    words = ("check", "--mode", "fast", "--json", "\N{CYRILLIC SMALL LETTER A}@example.com")
    done = subprocess.run(
        [sys.executable, "-m", "mailsift", *words], env=environment, capture_output=True, check=True
    )
    assert json.loads(done.stdout)["email"] == "\N{CYRILLIC SMALL LETTER A}@example.com"


MEANT_FOR_OTHERS = {
    "POLARS_MAX_THREADS": "0",  # as many as there are, as other tools understand it
    "PYTHONWARNINGS": "error",  # for a developer's own programs; as root, a worker is warned of that
    "PROMETHEUS_MULTIPROC_DIR": "/nowhere",  # of another program
}


def test_variables_that_are_meant_for_other_programs_keep_no_list_from_its_end(short_tmp: Path) -> None:
    """Workers panicked, died of a warning, or had no place to count."""
    source, out = short_tmp / "others.csv", short_tmp / "others.out.csv"
    source.write_text("email\nann@example.com\n")
    home = Settings(home=short_tmp / "others")
    done = subprocess.run(
        [sys.executable, "-m", "mailsift", "run", source, "--mode", "fast", "--output", out],
        env=environment_for(home.environment(), MEANT_FOR_OTHERS),
        capture_output=True,
        cwd=ROOT,
        timeout=30,
        check=False,
    )
    assert (done.returncode, len(out.read_text().splitlines())) == (0, 2), done.stderr.decode()


_DEAF: Final = (
    "signal.signal(signal.SIGCHLD, signal.SIG_IGN)",
    "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})",
)
"""What a program may have done for itself before it started ours."""


def test_who_is_started_by_a_program_that_hears_no_signals_hears_them_itself(short_tmp: Path) -> None:
    """PostgreSQL took the end of its children for an error; Valkey did not end."""
    source, out = short_tmp / "deaf.csv", short_tmp / "deaf.out.csv"
    source.write_text("email\nann@example.com\n")
    home = Settings(home=short_tmp / "deaf")
    starter = "; ".join(
        ("import os, signal, sys", *_DEAF, "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])")
    )
    command = ["-m", "mailsift", "run", source, "--mode", "fast", "--output", out]
    done = subprocess.run(
        [sys.executable, "-c", starter, *map(str, command)],
        env=environment_for(home.environment()),
        capture_output=True,
        cwd=ROOT,
        timeout=60,
        check=False,
    )
    left = CommandLine(home).running()
    assert (done.returncode, left) == (0, []), done.stderr.decode()
    assert len(out.read_text().splitlines()) == 2


def test_a_terminal_that_says_it_has_no_columns_gets_tables_all_the_same(settings: Settings) -> None:
    environment = environment_for(settings.environment(), {"COLUMNS": "0"})
    command = [sys.executable, "-m", "mailsift", "settings"]
    done = subprocess.run(command, env=environment, capture_output=True, cwd=ROOT, check=True)
    assert b"MAILSIFT_HOME" in done.stdout


def test_standard_streams_that_are_closed_are_no_numbers_for_sockets(short_tmp: Path) -> None:
    """As `2>&-` and some supervisors leave them: servers of ours took one for their own, and died of it."""
    source, out = short_tmp / "closed.csv", short_tmp / "closed.out.csv"
    source.write_text("email\nann@example.com\n")
    home = Settings(home=short_tmp / "closed")
    command = [sys.executable, "-m", "mailsift", "run", source, "--mode", "fast", "--output", out]
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *map(str, command)],
        env=environment_for(home.environment()),
        cwd=ROOT,
        check=False,
    )
    assert (done.returncode, len(out.read_text().splitlines())) == (0, 2)
    assert CommandLine(home).running() == []


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_an_output_that_takes_nothing_is_told_in_one_line(settings: Settings, more: tuple[str, ...]) -> None:
    environment = {**os.environ, **settings.environment()}  # noqa: TID251 - for a child
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "mailsift", "check", "--mode", "fast", "a@example.com", *more],
            env=environment,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    text = "mailsift: output_not_writable: Can’t write: No space left on device.\n"
    assert (done.returncode, done.stderr) == (2, text)


NOBODY_READS = "mailsift: output_not_writable: Standard output is closed.\n"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("check - --mode fast <&-", (0, "")),
        ("run missing.csv 2>/dev/full", (2, "")),
        ("run missing.csv 2>&-", (2, "")),
        ("run list.csv --output - >&-", (2, NOBODY_READS)),
        ("check a@example.com --mode fast >&-", (2, NOBODY_READS)),
        ("check a@example.com --mode fast --json >&-", (2, NOBODY_READS)),
        ("settings >&-", (2, NOBODY_READS)),
        ("--help >&-", (2, NOBODY_READS)),
        ("check a@example.com --mode fast <&- >&- 2>&-", (2, "")),
    ],
)
def test_a_stream_that_is_closed_is_no_traceback(
    settings: Settings, tmp_path: Path, words: str, expected: tuple[int, str]
) -> None:
    (tmp_path / "list.csv").write_text("a@example.com\n")
    environment = {**os.environ, **settings.environment()}  # noqa: TID251 - for a child
    done = subprocess.run(
        ["/bin/sh", "-c", f'"{sys.executable}" -m mailsift {words}'],
        env=environment,
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == expected


@pytest.mark.parametrize("letters", ["ascii", "latin-1", "utf-8"])
def test_json_is_json_whatever_letters_the_terminal_knows(settings: Settings, letters: str) -> None:
    command = [sys.executable, "-m", "mailsift", "check", "jürgen@müller.example", "--mode", "fast", "--json"]
    environment = environment_for(settings.environment(), {"PYTHONIOENCODING": letters, "LC_ALL": "C.UTF-8"})
    done = subprocess.run(command, env=environment, capture_output=True, cwd=ROOT, check=True)
    assert json.loads(done.stdout.decode())["email"] == "jürgen@müller.example"


def test_a_command_that_gets_no_threads_says_so_in_a_line_and_leaves_nothing(
    short_tmp: Path, keyboard: Keyboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    home = Settings(home=short_tmp / "no threads")
    with monkeypatch.context() as machine:
        machine.setattr(threading.Thread, "start", refuse)
        typed = keyboard.type(home, "jobs", "list")
    assert (typed.status, typed.err.startswith("mailsift: no_threads: ")) == (2, True)
    assert CommandLine(home).running() == []


def test_only_a_new_key_makes_an_account(settings: Settings, keyboard: Keyboard) -> None:
    nobody = "4a8d5a9e-0b8a-4c55-8c5c-1c0b7a3f1d11"
    for words in (("list",), ("revoke", nobody), ("roll", nobody)):
        typed = keyboard.type(settings, "keys", *words, "--account", "a typo")
        assert typed.err.startswith("mailsift: account_not_found: ")
    assert keyboard.type(settings, "keys", "create", "--account", " a  typo ").status == 0
    assert len(keyboard.type(settings, "keys", "list", "--json", "--account", "a typo").out.splitlines()) == 1


@pytest.mark.parametrize(
    ("out", "why"),
    [(">/dev/full", "Can’t write: No space left on device"), (">&-", "Standard output is closed")],
)
def test_a_key_that_nobody_could_read_opens_nothing(
    settings: Settings, keyboard: Keyboard, out: str, why: str
) -> None:
    environment = {**os.environ, **settings.environment()}  # noqa: TID251 - for a child
    keyboard.type(settings, "keys", "create", "--account", out)
    (known,) = _keys(settings, keyboard, out)
    for words in ("create", f"roll {known['id']}"):
        done = subprocess.run(
            ["/bin/sh", "-c", f'"{sys.executable}" -m mailsift keys {words} --account "{out}" {out}'],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        assert done.returncode == 2
        assert done.stderr.startswith(f"mailsift: output_not_writable: {why}.")
    (first, *others) = _keys(settings, keyboard, out)
    assert first["revoked_at"] == ""
    assert all(key["revoked_at"] for key in others)


def _keys(settings: Settings, keyboard: Keyboard, account: str) -> list[dict[str, str]]:
    typed = keyboard.type(settings, "keys", "list", "--json", "--account", account)
    return [json.loads(line) for line in typed.out.splitlines()]


def test_as_many_jobs_as_nobody_has_are_no_number(settings: Settings, keyboard: Keyboard) -> None:
    typed = keyboard.type(settings, "jobs", "list", "--limit", 30 * "9")
    assert (typed.status, "Invalid value" in typed.err) == (2, True)


def test_a_list_is_called_what_can_be_read_of_its_name() -> None:
    assert name_of(os.fsdecode(b"/lists/m\xfcller.csv")) == "m\N{REPLACEMENT CHARACTER}ller.csv"


def test_a_job_nobody_knows_is_not_found(settings: Settings, keyboard: Keyboard) -> None:
    nobodys = "4a8d5a9e-0b8a-4c55-8c5c-1c0b7a3f1d11"
    for name in ("", nobodys[:-1], nobodys):
        typed = keyboard.type(settings, "jobs", "show", name)
        assert (typed.status, typed.err) == (2, "mailsift: job_not_found: There is no such job.\n")


def test_migrate_may_be_repeated_and_other_commands_ask_for_it(
    settings: Settings, keyboard: Keyboard, empty_database_url: str, tmp_path: Path
) -> None:
    fresh = settings.model_copy(update={"database_url": SecretStr(empty_database_url)})
    (source := tmp_path / "list.csv").write_text("a@example.com\n")
    for words in (("jobs", "list"), ("run", source, "--mode", "fast", "--output", tmp_path / "out.csv")):
        typed = keyboard.type(fresh, *words)
        assert (typed.status, typed.err.split(": ")[1]) == (2, "database_not_migrated")
    assert _health(keyboard, fresh)["database"] == "failed"
    first, second = keyboard.type(fresh, "migrate"), keyboard.type(fresh, "migrate")
    assert first == second
    assert (first.status, first.err) == (0, "")
    assert _health(keyboard, fresh)["database"] == "ok"
    assert keyboard.type(fresh, "jobs", "list", "--json").status == 0


def test_doctor_finds_everything_well(settings: Settings, keyboard: Keyboard) -> None:
    typed = keyboard.type(settings, "doctor")
    assert typed.status == 0, typed.out
    # the null sender is worth a word, which goes over several lines
    assert [line.split("  ")[0] for line in typed.out.splitlines() if not line.startswith(" ")] == [
        *("database", "redis", "blobs", "keys", "resolver", "port 25", "reverse name", "sender")
    ]


def test_doctor_names_what_does_not_answer(settings: Settings, keyboard: Keyboard) -> None:
    gone = {
        "database_url": SecretStr("postgresql://nobody@127.0.0.1:1/gone"),
        "redis_url": SecretStr("redis://127.0.0.1:1"),
        "dns_servers": ("127.0.0.1:1",),
    }
    broken = settings.model_copy(update=gone)
    assert keyboard.type(broken, "doctor").status == 1
    health = _health(keyboard, broken)
    assert {name for name, state in health.items() if state == "ok"} == {"blobs", "keys"}
    assert health["database"] == health["redis"] == health["resolver"] == "failed"


@pytest.mark.parametrize(
    ("wrong", "check"),
    [
        ({"blob_url": "az://lists"}, "blobs"),
        ({"secret_keys": SecretStr("a:short")}, "keys"),
        ({"secret_keys": SecretStr("a:\N{LATIN SMALL LETTER E WITH ACUTE}")}, "keys"),
        ({"secret_keys": SecretStr(",".join(2 * ["a:" + 43 * "A" + "="]))}, "keys"),
        ({"key_peppers": SecretStr("a:short")}, "keys"),
    ],
    ids=["no account", "short", "no base64", "twice", "pepper"],
)
def test_doctor_names_the_setting_that_opens_nothing(
    wrong: dict[str, Any], check: str, settings: Settings, keyboard: Keyboard
) -> None:
    health = _health(keyboard, settings.model_copy(update=wrong))
    assert health[check] == "failed"


def test_a_mistyped_variable_is_told_once_and_its_value_never(
    settings: Settings, keyboard: Keyboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAILSIFT_DATABSE_URL", "postgresql://me:s3cret@db/mine")
    typed = keyboard.type(settings, "jobs", "list", "--json")
    assert typed.status == 0
    (line,) = typed.err.splitlines()
    assert "MAILSIFT_DATABSE_URL" in line
    assert "MAILSIFT_DATABASE_URL" in line
    assert "s3cret" not in line
    done = keyboard.type(settings, "doctor", "--json")
    (finding,) = [one for one in json.loads(done.out) if one["name"] == "settings"]
    assert (finding["health"], done.status) == ("warning", 0)
    assert "MAILSIFT_DATABASE_URL" in finding["detail"]
    assert "s3cret" not in done.out + done.err


def _health(keyboard: Keyboard, settings: Settings) -> dict[str, str]:
    return {one["name"]: one["health"] for one in json.loads(keyboard.type(settings, "doctor", "--json").out)}


@pytest.mark.parametrize("command", ["migrate", "jobs list", "run list.csv"])
def test_without_its_database_a_command_says_so_in_one_line(
    command: str, settings: Settings, keyboard: Keyboard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("list.csv").write_text("a@example.com\n")
    gone = settings.model_copy(update={"database_url": SecretStr("postgresql://nobody@127.0.0.1:1/gone")})
    typed = keyboard.type(gone, *command.split())
    assert typed.status == 2
    assert typed.err.startswith("mailsift: database_unavailable: ")
    assert "Connection refused" in typed.err
    assert typed.err.count("\n") == 1


@pytest.mark.parametrize("command", ["migrate", "jobs list", "doctor"])
@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (lambda url: url.set(username="stranger"), "stranger"),
        (lambda url: url.set(database="elsewhere"), "elsewhere"),
        (lambda url: url.update_query_dict({"sslmode": "perhaps"}), "perhaps"),
        (lambda url: url.update_query_dict({"connect_timeout": "soon"}), "soon"),
    ],
    ids=["role", "database", "sslmode", "number"],
)
def test_why_the_database_lets_nobody_in_is_said(
    command: str, change: Callable[[URL], URL], cause: str, settings: Settings, keyboard: Keyboard
) -> None:
    assert settings.database_url is not None
    other = change(make_url(settings.database_url.get_secret_value())).set(password="hunter2")
    text = other.render_as_string(hide_password=False)
    typed = keyboard.type(settings.model_copy(update={"database_url": SecretStr(text)}), *command.split())
    assert typed.status == (1 if command == "doctor" else 2)
    (line,) = [one for one in (typed.out + typed.err).splitlines() if "database_unavailable: " in one]
    assert cause in line
    assert "hunter2" not in typed.out + typed.err


def _commands(group: Any, *words: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield words, group
    if hasattr(group, "list_commands"):
        for name in group.list_commands(None):
            yield from _commands(group.get_command(None, name), *words, name)


COMMANDS = dict(_commands(typer.main.get_command(app)))


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_explains_itself(words: tuple[str, ...], keyboard: Keyboard) -> None:
    typed = keyboard.type(None, *words, "--help")
    assert (typed.status, typed.err) == (0, "")
    assert COMMANDS[words].help.split(".")[0] in " ".join(typed.out.split())  # however wide the terminal is


def test_the_list_of_commands_says_what_they_say_of_themselves() -> None:
    for name, row in cli.COMMANDS.items():
        assert COMMANDS[(name,)].help.splitlines()[0] == row.summary


@pytest.mark.parametrize(
    "words", [name for name, one in COMMANDS.items() if name and hasattr(one, "commands")]
)
def test_a_command_with_others_below_it_lists_them_by_whole_sentences(
    words: tuple[str, ...], keyboard: Keyboard
) -> None:
    help_text = " ".join(keyboard.type(None, *words, "--help").out.split())
    first = {
        name: " ".join(one.help.split("\n\n")[0].split()) for name, one in COMMANDS[words].commands.items()
    }
    assert [name for name, sentence in first.items() if sentence not in help_text] == []


@pytest.mark.parametrize(("typed", "meant"), [("rnu", "run"), ("job", "jobs"), ("jobs lst", "list")])
def test_who_mistypes_a_command_is_told_which_is_like_it(typed: str, meant: str, keyboard: Keyboard) -> None:
    done = keyboard.type(None, *typed.split())
    assert done.status == 2
    assert done.err.endswith(f"Did you mean '{meant}'?\n")


@pytest.mark.parametrize(
    ("typed", "usage", "sentence"),
    [
        ("--zz", "mailsift [OPTIONS] COMMAND", "No such option: --zz"),
        ("run", "mailsift run [OPTIONS]", "Missing argument 'FILE...'."),
        ("jobs show x y", "mailsift jobs show [OPTIONS]", "Got unexpected extra argument(s) (y)"),
    ],
)
def test_what_is_mistyped_is_refused_with_a_code_as_everything_is(
    typed: str, usage: str, sentence: str, keyboard: Keyboard
) -> None:
    done = keyboard.type(None, *typed.split())
    assert done.status == 2
    assert usage in done.err
    assert done.err.endswith(f"\nmailsift: bad_usage: {sentence}\n")


def test_help_loads_no_command() -> None:
    script = "import sys\nfrom mailsift.cli import main\ntry: main()\nfinally: print(sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script, "--help"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "'mailsift.cli'" in done.stdout
    assert all(name not in done.stdout for name in ("mailsift.cli.run", "mailsift.settings", "structlog"))


def test_the_version_is_that_of_the_package(keyboard: Keyboard) -> None:
    typed = keyboard.type(None, "--version")
    assert (typed.status, typed.out) == (0, f"mailsift {version('mailsift')}\n")


def test_every_setting_is_listed(keyboard: Keyboard) -> None:
    listed = keyboard.type(None, "settings").out
    assert all(name in listed for name, _, _ in Settings.describe())


_READ = """
import uvloop
from mailsift.cli.lists import pieces_of

async def read():
    print("now", flush=True)
    async for _ in pieces_of("-", None, None):
        print("more", flush=True)

uvloop.run(read())
"""


@pytest.mark.parametrize("so_far", [b"", b"a@example.com\n"])
def test_ctrl_c_does_not_wait_for_who_writes_into_our_pipe(so_far: bytes) -> None:
    command = [sys.executable, "-c", _READ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"now\n"
            process.stdin.write(so_far)
            process.stdin.flush()
            assert process.stdout.readline() == b"more\n" if so_far else True
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == -signal.SIGINT
        finally:
            process.kill()
