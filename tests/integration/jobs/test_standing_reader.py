"""The process that reads small lists one after the other, and when another one takes its place."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from mailsift.jobs.intake.models import Intake, IntakeLimits, IntakeOptions
from mailsift.jobs.intake.process import StandingReader, take_in
from mailsift.pipeline.errors import MailsiftError
from tests.support.child_processes import open_pipes
from tests.support.hostile_files import BAD, HEADER, LINE

LIMITS = IntakeLimits(seconds=60)


@pytest.fixture
async def reader() -> AsyncIterator[StandingReader]:
    standing = StandingReader(lists=3)
    yield standing
    await standing.aclose()


class Lists:
    """Hands lists to a reader, each in a folder of its own."""

    def __init__(self, reader: StandingReader, folder: Path) -> None:
        self._reader, self._folder, self._number = reader, folder, 0

    async def read(
        self, data: bytes = HEADER + LINE * 3, limits: IntakeLimits = LIMITS
    ) -> Intake | MailsiftError:
        self._number += 1
        workdir = self._folder / str(self._number)
        workdir.mkdir()
        source = self._folder / f"{self._number}.csv"
        source.write_bytes(data)
        try:
            return await take_in(source, workdir, options=IntakeOptions(), limits=limits, reader=self._reader)
        except MailsiftError as error:
            return error


@pytest.fixture
def lists(reader: StandingReader, tmp_path: Path) -> Lists:
    return Lists(reader, tmp_path)


def standing(reader: StandingReader) -> psutil.Process | None:
    return psutil.Process(reader.pid) if reader.pid else None


async def test_one_process_reads_list_after_list_and_is_replaced_after_so_many(
    reader: StandingReader, lists: Lists
) -> None:
    pids = []
    for _ in range(2):
        assert isinstance(await lists.read(), Intake)
        pids.append(reader.pid)
    assert pids[0] == pids[1]
    assert isinstance(await lists.read(), Intake)
    assert pids[0] is not None
    assert not psutil.pid_exists(pids[0])
    assert standing(reader) is None


async def test_a_process_that_rests_is_gone_until_the_next_list(reader: StandingReader, lists: Lists) -> None:
    assert isinstance(await lists.read(), Intake)
    await reader.rest()
    assert standing(reader) is None
    assert isinstance(await lists.read(), Intake)
    assert standing(reader) is not None


async def test_bad_input_ends_with_its_code_and_the_next_list_is_read(tmp_path: Path) -> None:
    reader = StandingReader(lists=1_000)
    lists, before = Lists(reader, tmp_path), psutil.Process().memory_info().rss
    for name, (make, code) in BAD.items():
        error = await lists.read(make())
        assert isinstance(error, MailsiftError), name
        assert (error.code, error.retryable) == (code, False), name
        assert "secret" not in str(error), name
        assert len(error.message) < 300, name
        assert isinstance(await lists.read(), Intake), name
    assert psutil.Process().memory_info().rss - before < 2**26
    await reader.aclose()


async def test_a_customers_mistake_keeps_the_process_and_a_limit_ends_it(
    reader: StandingReader, lists: Lists
) -> None:
    assert isinstance(await lists.read(b"name,age\nBob,31\n"), MailsiftError)
    assert standing(reader) is not None
    error = await lists.read(limits=IntakeLimits(rows=2, seconds=60))
    assert isinstance(error, MailsiftError)
    assert error.code == "too_many_rows"
    assert standing(reader) is None


async def test_a_list_whose_process_dies_meanwhile_is_read_all_the_same(
    reader: StandingReader, lists: Lists
) -> None:
    await lists.read()
    before = standing(reader)
    assert before is not None
    before.kill()
    assert isinstance(await lists.read(), Intake)
    assert isinstance(await lists.read(), Intake)
    assert standing(reader) not in {None, before}


async def test_a_list_it_is_slow_over_is_judged_alone(tmp_path: Path) -> None:
    reader = StandingReader(timeout_s=1.5)
    lists = Lists(reader, tmp_path)
    while (process := standing(reader)) is None:  # an interpreter may need longer to start
        assert isinstance(await lists.read(), Intake)
    process.send_signal(signal.SIGSTOP)
    assert isinstance(await lists.read(), Intake)
    assert standing(reader) is None


async def test_a_list_that_kills_its_process_is_tried_alone_before_it_is_called_so(
    lists: Lists, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone: list[str] = []
    sound = __import__("mailsift.jobs.intake.process", fromlist=["ask_child"])
    ask = sound.ask_child

    async def counted(work: str, *given: object) -> object:
        alone.append(work)
        return await ask(work, *given)

    monkeypatch.setattr(sound, "ask_child", counted)
    error = await lists.read(limits=IntakeLimits(memory_bytes=200 * 2**20, seconds=60))
    assert isinstance(error, MailsiftError)
    assert (error.code, error.retryable, alone) == ("intake_crashed", False, ["take_in"])


async def test_a_cancelled_reading_and_a_closed_reader_leave_no_process(
    reader: StandingReader, lists: Lists
) -> None:
    await lists.read()
    process = standing(reader)
    assert process is not None
    process.send_signal(signal.SIGSTOP)
    task = asyncio.create_task(lists.read())
    while not reader.is_reading:  # noqa: ASYNC110 - a lock sets no event
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not psutil.pid_exists(process.pid)
    before = open_pipes()
    await lists.read()
    process = standing(reader)
    assert process is not None
    await reader.aclose()
    assert not psutil.pid_exists(process.pid)
    assert open_pipes() <= before


async def test_it_inherits_three_pipes_and_no_settings_and_has_a_session_of_its_own(
    reader: StandingReader, lists: Lists, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAILSIFT_DATABASE_URL", "postgresql://secret")
    ours = os.open(os.devnull, os.O_RDONLY)
    os.set_inheritable(ours, True)  # noqa: FBT003 - the library's signature
    await lists.read()
    os.close(ours)
    process = standing(reader)
    assert process is not None
    assert "secret" not in str(process.environ())
    assert os.getsid(process.pid) == process.pid
    open_files = [file.fd for file in process.open_files()]
    assert not open_files  # but its pipes


async def test_what_is_counted_of_each_chunk_comes_back_from_the_process(
    reader: StandingReader, tmp_path: Path
) -> None:
    source = tmp_path / "list.csv"
    source.write_text("email\n" + "".join(f"u{n}@gmail.com\nu{n}@a.example\n" for n in range(20)))
    options = IntakeOptions(chunk_addresses=30, forecast=True)
    taken = await take_in(source, tmp_path, options=options, limits=IntakeLimits(seconds=60), reader=reader)
    assert [dict(chunk.free_mail) for chunk in taken.chunks] == [{}, {"google": 10}, {"google": 10}]
