from __future__ import annotations

import asyncio
import contextlib
import io
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import psutil
import pytest

import mailsift
from mailsift.jobs.columns import ADDRESS, ADDRESS_N
from mailsift.jobs.intake import process
from mailsift.jobs.intake.models import Intake, IntakeLimits, IntakeOptions
from mailsift.jobs.intake.process import ReaderStuckError, take_in
from mailsift.pipeline.errors import MailsiftError, NoThreadsError
from tests.support.child_processes import open_pipes
from tests.support.hostile_files import BAD, HEADER, LINE, OF_EACH_KIND, in_zone
from tests.support.workers import Held, signal_held

MIB = 2**20


async def intake(
    folder: Path, data: bytes, *, column: str = "", limits: IntakeLimits | None = None
) -> Intake | MailsiftError:
    source, workdir = folder / "list*[a].csv", folder / "work"
    workdir.mkdir()
    source.write_bytes(data)
    try:
        return await take_in(
            source, workdir, options=IntakeOptions(column=column), limits=limits or IntakeLimits(seconds=60)
        )
    except MailsiftError as error:
        return error


# One of each kind; test_standing_reader.py has them all.
@pytest.mark.parametrize("name", OF_EACH_KIND)
async def test_bad_input_ends_with_its_code_and_leaves_the_parent_alone(tmp_path: Path, name: str) -> None:
    make, code = BAD[name]
    data = make()
    before = psutil.Process().memory_info().rss
    error = await intake(tmp_path, data)
    assert isinstance(error, MailsiftError)
    assert (error.code, error.retryable) == (code, False)
    assert "secret" not in str(error)
    assert len(error.message) < 300
    assert psutil.Process().memory_info().rss - before < 8 * MIB
    assert not children()


@pytest.mark.parametrize(
    ("zone", "expected"), [("Turkey", "Turkey"), ("+05:30", "UTC"), ("Nowhere/Atall", "UTC")]
)
async def test_a_moment_in_a_zone_that_nobody_knows_is_told_in_utc(
    tmp_path: Path, zone: str, expected: str
) -> None:
    taken = await intake(tmp_path, in_zone(zone))
    assert isinstance(taken, Intake)
    frame = pl.read_parquet(tmp_path / "work" / "rows.parquet").drop(ADDRESS_N, ADDRESS)
    _, at, nested = frame.row(0)
    aware = datetime(2024, 1, 1, tzinfo=UTC)
    assert (at, nested["of"]) == (aware, [aware])
    assert [at.tzinfo.key, nested["of"][0].tzinfo.key] == [expected, expected]


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        (IntakeLimits(bytes=1000), "file_too_large"),
        (IntakeLimits(rows=99), "too_many_rows"),
        (IntakeLimits(columns=2), "too_many_columns"),
        (IntakeLimits(line_bytes=28), "line_too_long"),
        (IntakeLimits(memory_bytes=200 * MIB), "intake_crashed"),
        (IntakeLimits(seconds=0.01), "intake_timeout"),
    ],
)
async def test_a_limit_exceeded_is_said(tmp_path: Path, limits: IntakeLimits, code: str) -> None:
    error = await intake(tmp_path, HEADER + LINE * 100, limits=limits)
    assert isinstance(error, MailsiftError)
    assert error.code == code


async def test_limits_that_are_just_reached_are_kept(tmp_path: Path) -> None:
    data = HEADER + LINE * 100
    got = await intake(
        tmp_path, data, limits=IntakeLimits(bytes=len(data), rows=100, columns=3, line_bytes=len(LINE) - 1)
    )
    assert isinstance(got, Intake)
    assert got.rows == 100


@pytest.mark.parametrize("mark", [b"", b'"'])
async def test_rows_are_counted_whatever_reads_them(tmp_path: Path, mark: bytes) -> None:
    line = b"1," + mark + b"a@example.com" + mark + b',"two\nlines"\n' if mark else LINE
    error = await intake(tmp_path, HEADER + line * 101, limits=IntakeLimits(rows=100))
    assert isinstance(error, MailsiftError)
    assert error.code == "too_many_rows"


async def test_errors_say_where(tmp_path: Path) -> None:
    error = await intake(tmp_path, HEADER + LINE * 10 + b'\n5,"open\n' + LINE * 9)
    assert isinstance(error, MailsiftError)
    assert "line 13 " in error.message


@pytest.fixture
def held_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop every child as soon as it has started: none has ended before somebody has looked."""
    monkeypatch.setattr(subprocess, "Popen", Held)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP"])
async def test_a_child_goes_on_whoever_asks_it_to_stop(tmp_path: Path, name: str) -> None:
    task = asyncio.create_task(intake(tmp_path, HEADER + LINE * 200_000))
    child = await child_of_this_process()
    while not task.done():
        with contextlib.suppress(psutil.NoSuchProcess):
            child.send_signal(signal.Signals[name])
        await asyncio.sleep(0.01)
    found = await task
    assert isinstance(found, Intake)
    assert found.rows == 200_000  # polars takes a file for ended where it was interrupted


@pytest.mark.parametrize("name", ["SIGKILL", "SIGQUIT", "SIGUSR1"])
@pytest.mark.usefixtures("held_children")
async def test_a_child_that_was_stopped_from_outside_may_be_tried_again(tmp_path: Path, name: str) -> None:
    task = asyncio.create_task(intake(tmp_path, HEADER + LINE))
    child = await child_of_this_process()
    signal_held(child, signal.Signals[name])
    error = await task
    assert isinstance(error, MailsiftError)
    assert (error.code, error.retryable) == ("intake_crashed", True)


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk that has room for next to nothing."""
    place = tmp_path / "full"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32k", "tmpfs", place], check=True)
    yield place
    subprocess.run(["umount", place], check=True)


@pytest.mark.needs("root")
@pytest.mark.parametrize("room", [0, 4, 8, 16])
async def test_a_small_list_is_not_blamed_for_a_full_disk(tmp_path: Path, full_disk: Path, room: int) -> None:
    """Where not even the head of a file can be written, polars does not say why."""
    source = tmp_path / "list.csv"
    source.write_bytes(HEADER + b"".join(b"%d,a%d@example.com,%d\n" % (n, n, n * n) for n in range(2_000)))
    (full_disk / "ballast").write_bytes(bytes((32 - room) * 1024))
    with pytest.raises(MailsiftError) as failed:
        await take_in(source, full_disk, options=IntakeOptions(), limits=IntakeLimits(seconds=60))
    assert (failed.value.code, failed.value.retryable) == ("intake_crashed", True)


@pytest.mark.needs("root")
async def test_a_full_disk_and_a_file_that_is_gone_say_nothing_about_the_list(
    tmp_path: Path, full_disk: Path
) -> None:
    source = tmp_path / "list.csv"
    source.write_bytes(HEADER + b"".join(b"%d,a%d@example.com,%d\n" % (n, n, n * n) for n in range(20_000)))
    for asked in (source, tmp_path / "gone.csv"):
        with pytest.raises(MailsiftError) as failed:
            await take_in(asked, full_disk, options=IntakeOptions(), limits=IntakeLimits(seconds=60))
        assert (failed.value.code, failed.value.retryable) == ("intake_crashed", True), asked


@pytest.mark.parametrize(
    ("does", "code"), [("time.sleep(60)", "intake_crashed"), ("exec('while 1: pass')", "intake_timeout")]
)
async def test_a_child_that_stands_still_is_not_waited_for_as_one_that_reads_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str, code: str
) -> None:
    """polars waits for ever for a thread that the system did not give it: nothing is used up meanwhile."""
    monkeypatch.setattr(process, "COMMAND", (sys.executable, "-ISc", f"import time; {does}"))
    error = await intake(tmp_path, HEADER + LINE, limits=IntakeLimits(seconds=3, still_seconds=0.7))
    assert isinstance(error, MailsiftError)
    assert (error.code, isinstance(error, ReaderStuckError)) == (code, code == "intake_crashed")


@pytest.mark.needs("root", "setpriv", "prlimit")
@pytest.mark.parametrize("threads", [1, 3, 4, 6, 10])
async def test_a_list_is_not_blamed_for_a_machine_that_starts_no_more_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    """Its reader gets so many, as somebody who may read what we may: for root there is no limit."""
    nobody, may = "65531", "+dac_override,+dac_read_search"
    monkeypatch.setattr(
        process,
        "COMMAND",
        (
            *("setpriv", "--reuid", nobody, "--clear-groups", "--inh-caps", may, "--ambient-caps", may),
            *("--bounding-set", f"-all,{may}", "prlimit", f"--nproc={threads}"),
            *process.COMMAND,
        ),
    )
    columns = io.BytesIO()
    pl.DataFrame({"email": ["ann@example.com"]}).write_parquet(columns)
    for number, data in enumerate((HEADER + LINE, columns.getvalue())):
        (folder := tmp_path / str(number)).mkdir()
        error = await intake(folder, data, limits=IntakeLimits(seconds=60, threads=4))
        assert isinstance(error, NoThreadsError)
        assert (error.code, error.retryable) == ("intake_crashed", True)


@pytest.mark.usefixtures("held_children")
async def test_what_is_told_to_our_group_does_not_reach_the_child(tmp_path: Path) -> None:
    task = asyncio.create_task(intake(tmp_path, HEADER + LINE))
    child = await child_of_this_process()
    assert os.getsid(child.pid) == child.pid != os.getsid(0)
    child.send_signal(signal.SIGCONT)
    assert isinstance(await task, Intake)


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT", "SIGXCPU"])
@pytest.mark.usefixtures("held_children")
async def test_a_child_that_breaks_over_its_file_is_not_tried_again(tmp_path: Path, name: str) -> None:
    task = asyncio.create_task(intake(tmp_path, HEADER + LINE))
    child = await child_of_this_process()
    signal_held(child, signal.Signals[name])
    error = await task
    assert isinstance(error, MailsiftError)
    assert (error.code, error.retryable) == ("intake_crashed", False)


@pytest.mark.usefixtures("held_children")
async def test_a_cancelled_task_leaves_no_child(tmp_path: Path) -> None:
    task = asyncio.create_task(intake(tmp_path, HEADER + LINE))
    await child_of_this_process()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not children()


async def test_a_task_cancelled_before_its_turn_leaves_no_child_and_no_open_pipe(tmp_path: Path) -> None:
    threads = ThreadPoolExecutor(1)
    asyncio.get_running_loop().set_default_executor(threads)
    busy = threading.Event()
    holding = threads.submit(busy.wait, 30)
    before = open_pipes()
    task = asyncio.create_task(intake(tmp_path, HEADER + LINE))
    await child_of_this_process()
    task.cancel()
    await asyncio.sleep(0)
    busy.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert holding.result()
    assert open_pipes() <= before
    assert not children()


def children() -> list[psutil.Process]:
    """Return the intake processes of this process, which may have servers of other tests as children too."""
    found = []
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.NoSuchProcess):
            if "mailsift.jobs.intake.child" in child.cmdline():
                found.append(child)
    return found


async def child_of_this_process() -> psutil.Process:
    while not (found := children()):  # noqa: ASYNC110 - the kernel sets no event
        await asyncio.sleep(0.001)
    return found[0]


@pytest.mark.usefixtures("held_children")
async def test_the_child_inherits_no_settings_and_its_arguments_name_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAILSIFT_DATABASE_URL", "postgresql://secret")
    task = asyncio.create_task(intake(tmp_path, HEADER + LINE))
    child = await child_of_this_process()
    seen = child.environ(), child.cmdline()
    child.send_signal(signal.SIGCONT)
    assert isinstance(await task, Intake)
    assert "secret" not in str(seen)
    assert str(tmp_path) not in str(seen[1])


@pytest.mark.usefixtures("held_children")
async def test_the_child_has_its_code_from_where_its_parent_has_it(tmp_path: Path) -> None:
    task = asyncio.create_task(intake(tmp_path, HEADER + LINE))
    child = await child_of_this_process()
    folder = child.environ()["PYTHONPATH"]
    child.send_signal(signal.SIGCONT)
    assert isinstance(await task, Intake)
    assert f"{folder}/mailsift/__init__.py" == mailsift.__file__


def test_it_works_on_an_event_loop_outside_the_main_thread(tmp_path: Path) -> None:
    got: list[Intake | MailsiftError] = []
    thread = threading.Thread(target=lambda: got.append(asyncio.run(intake(tmp_path, HEADER + LINE))))
    thread.start()
    thread.join()
    assert isinstance(got[0], Intake)
    assert any((tmp_path / "work").iterdir())
