"""The result file of `mailsift run` and `mailsift jobs`: whole or not there, whatever interrupts."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

import pytest

from mailsift.cli import ends, lists
from mailsift.cli.ends import PipeSink
from mailsift.jobs.results.export import ExportFormat
from mailsift.jobs.results.selection import Selection
from mailsift.pipeline.errors import MailsiftError
from mailsift.storage.states import JobState


class Complete:
    """The service of a job that is complete."""

    @asynccontextmanager
    async def selection(self, *_: object) -> AsyncIterator[Selection]:
        yield Selection(Path("results.parquet"), frozenset())


def names(folder: Path) -> list[str]:
    return [file.name for file in folder.iterdir()]


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C comes in the midst of writing."""

    def export(_results: Path, out: Path, **_: object) -> int:
        out.write_text("email\nhalf of a li")
        raise KeyboardInterrupt

    monkeypatch.setattr(lists, "export", export)


@pytest.mark.usefixtures("interrupted")
async def test_an_interrupted_export_leaves_what_was_there_before(tmp_path: Path) -> None:
    out, service, ids = tmp_path / "out.csv", Complete(), (uuid4(), uuid4())
    with pytest.raises(KeyboardInterrupt):
        await lists.write(service, *ids, out)  # type: ignore[arg-type]  # all of a service that it needs
    assert names(tmp_path) == []
    out.write_text("an older result")
    with pytest.raises(KeyboardInterrupt):
        await lists.write(service, *ids, out)  # type: ignore[arg-type]  # same
    assert (names(tmp_path), out.read_text()) == ([out.name], "an older result")


@pytest.mark.usefixtures("interrupted")
async def test_who_interrupts_the_export_is_told_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class View:
        state = JobState.COMPLETED

    class Worker:
        ensure = None

    async def watch(*_: object, **__: object) -> View:
        return View()

    monkeypatch.setattr(lists, "watch", watch)
    everything: Any = (Complete(), Worker(), uuid4(), job := uuid4(), tmp_path / "out.csv")
    with pytest.raises(KeyboardInterrupt):
        await lists.follow(*everything, as_json=False)
    told = "".join(capsys.readouterr())
    assert f"mailsift jobs resume {job} --output" in told


async def test_a_disk_that_fills_up_while_the_result_is_written_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def export(_results: Path, out: Path, **_: object) -> int:
        out.write_text("email\nhalf of a li")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(lists, "export", export)
    with pytest.raises(MailsiftError) as caught:
        await lists.write(Complete(), uuid4(), uuid4(), tmp_path / "out.csv")  # type: ignore[arg-type]  # same
    assert (caught.value.code, names(tmp_path)) == ("output_not_writable", [])
    assert caught.value.message.endswith("out.csv cannot be written: No space left on device.")


@pytest.mark.parametrize("trouble", [errno.ENOSPC, errno.EPIPE])
async def test_a_pipe_that_takes_no_result_is_one_line(monkeypatch: pytest.MonkeyPatch, trouble: int) -> None:
    class Pipe(io.RawIOBase):
        @property
        def buffer(self) -> Pipe:
            return self

        def write(self, _: object) -> int:
            raise OSError(trouble, os.strerror(trouble))

    def export(_results: Path, out: IO[bytes], **_: object) -> int:
        return out.write(b"email\n")

    monkeypatch.setattr(ends, "export", export)
    monkeypatch.setattr(sys, "stdout", Pipe())
    with pytest.raises(MailsiftError) as caught:
        await lists.write(Complete(), uuid4(), uuid4(), PipeSink(ExportFormat.CSV))  # type: ignore[arg-type]  # same
    assert caught.value.code == "output_not_writable"
    assert caught.value.message == f"standard output cannot be written: {os.strerror(trouble)}."


async def test_a_list_that_is_called_as_a_result_in_the_making_once_was_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def export(_results: Path, out: Path, **_: object) -> int:
        return out.write_text("email\n")

    monkeypatch.setattr(lists, "export", export)
    monkeypatch.setattr(lists, "rows_by_result", lambda _: {})
    (source := tmp_path / "out.csv.partial").write_text("the list")
    await lists.write(Complete(), uuid4(), uuid4(), tmp_path / "out.csv")  # type: ignore[arg-type]  # same
    assert source.read_text() == "the list"
    assert sorted(names(tmp_path)) == ["out.csv", "out.csv.partial"]
