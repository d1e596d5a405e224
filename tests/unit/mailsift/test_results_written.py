"""The result file of `mailsift run` and `mailsift jobs`: whole or not there, whatever interrupts."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any
from uuid import UUID, uuid4

import pytest
from typing_extensions import override

from mailsift.cli import lists
from mailsift.cli.lists import PipeSink, PlaceSink
from mailsift.cli.pairs import check_writable
from mailsift.jobs.places.place import parse_sink
from mailsift.jobs.results.export import Selection
from mailsift.jobs.views import JobOptions, JobView
from mailsift.pipeline.errors import MailsiftError
from mailsift.storage.database import unavailable
from mailsift.storage.states import JobState
from tests.support.job_views import RUNNING, START


class Complete:
    """The service of a job that is complete, and its browser."""

    async def has_ended(self, *_: object) -> bool:
        return True

    @property
    def browser(self) -> Complete:
        return self

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
        await lists.export_job(service, *ids, out)  # type: ignore[arg-type]  # all of a service that it needs
    assert names(tmp_path) == []
    out.write_text("an older result")
    with pytest.raises(KeyboardInterrupt):
        await lists.export_job(service, *ids, out)  # type: ignore[arg-type]  # same
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

    monkeypatch.setattr(lists, "watch_job", watch)
    everything: Any = (Complete(), Worker(), uuid4(), job := uuid4(), tmp_path / "out.csv")
    with pytest.raises(KeyboardInterrupt):
        await lists.follow_job(*everything, as_json=False)
    printed = "".join(capsys.readouterr())
    assert f"mailsift jobs resume {job} --output" in printed


async def test_who_has_lost_the_database_is_told_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def away(*_: object, **__: object) -> None:
        raise unavailable()

    class Worker:
        ensure = None

    monkeypatch.setattr(lists, "watch_job", away)
    everything: Any = (
        SimpleNamespace(pause=away, has_ended=away),
        Worker(),
        uuid4(),
        job := uuid4(),
        tmp_path / "out.csv",
    )
    with pytest.raises(MailsiftError, match="database_unavailable"):
        await lists.follow_job(*everything, as_json=False)
    assert f"mailsift jobs resume {job} --output" in "".join(capsys.readouterr())


class Faltering(Complete):
    """The same; what it needs is away when the step of this name is taken for the first time."""

    def __init__(self, step: str, error: MailsiftError) -> None:
        self.step, self.error = step, error
        self.lists: list[tuple[bytes, str]] = []

    def falter(self, step: str) -> None:
        if step == self.step:
            self.step = ""
            raise self.error

    async def account(self, _: str) -> UUID:
        return RUNNING.account_id

    async def receive(
        self, _account: object, pieces: AsyncIterator[bytes], _options: object, *, once: str, **_: object
    ) -> SimpleNamespace:
        self.lists.append((b"".join([piece async for piece in pieces]), once))
        self.falter("receive")
        return SimpleNamespace(job_id=RUNNING.id)

    @override
    async def has_ended(self, *_: object) -> bool:
        self.falter("has_ended")
        return True

    async def get(self, *_: object) -> JobView:
        self.falter("get")
        return replace(RUNNING, state=JobState.COMPLETED, finished_at=START)

    @override
    @asynccontextmanager
    async def selection(self, *_: object) -> AsyncIterator[Selection]:
        self.falter("selection")
        yield Selection(Path("results.parquet"), frozenset())


@pytest.mark.parametrize("code", ["database_unavailable", "storage_full", "blob_store_failed"])
@pytest.mark.parametrize("step", ["receive", "has_ended", "get", "selection"])
async def test_a_list_waits_for_what_goes_away_at_any_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, code: str
) -> None:
    service = Faltering(step, MailsiftError(code, "It is away.", retryable=True))
    places = SimpleNamespace(with_environment=lambda: None)

    @asynccontextmanager
    async def opened(_: object) -> AsyncIterator[SimpleNamespace]:
        yield SimpleNamespace(jobs=service, places=places)

    monkeypatch.setattr(lists, "open_container", opened)
    monkeypatch.setattr(lists, "export", lambda _results, out, **_: out.write_text("email\n"))
    monkeypatch.setattr(lists, "rows_by_result", lambda _: {})
    (source := tmp_path / "list.csv").write_text("email\na@example.com\n")
    settings, worker = SimpleNamespace(home=tmp_path), SimpleNamespace(ensure=lambda: None)
    given: Any = (settings, worker, str(source), JobOptions(), str(out := tmp_path / "out.csv"))
    await lists.submit_and_follow(*given, as_json=False)
    assert out.read_text() == "email\n"
    ((sent, once),) = set(service.lists)  # sent again it is the same list, of which there is one job
    assert (sent, len(service.lists)) == (source.read_bytes(), 1 + (step == "receive"))
    assert once


async def test_a_disk_that_fills_up_while_the_result_is_written_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def export(_results: Path, out: Path, **_: object) -> int:
        out.write_text("email\nhalf of a li")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(lists, "export", export)
    with pytest.raises(MailsiftError) as caught:
        await lists.export_job(Complete(), uuid4(), uuid4(), tmp_path / "out.csv")  # type: ignore[arg-type]  # same
    assert (caught.value.code, names(tmp_path)) == ("output_not_writable", [])
    assert caught.value.message.endswith("out.csv cannot be written: No space left on device.")


@pytest.fixture(params=[errno.ENOSPC, errno.EPIPE])
def full_pipe(request: pytest.FixtureRequest) -> Iterator[tuple[IO[bytes], str]]:
    """Something that takes nothing, and what the system says of that."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as pipe, Path("/dev/full").open("wb") as full:
        yield pipe if request.param == errno.EPIPE else full, os.strerror(request.param)


async def test_a_pipe_that_takes_no_result_is_one_line(
    monkeypatch: pytest.MonkeyPatch, full_pipe: tuple[IO[bytes], str]
) -> None:
    def export(_results: Path, out: IO[bytes], **_: object) -> int:
        return out.write(b"email\n")

    monkeypatch.setattr(lists, "export", export)
    monkeypatch.setattr(sys, "stdout", full_pipe[0])
    with pytest.raises(MailsiftError) as caught:
        await lists.export_job(Complete(), uuid4(), uuid4(), PipeSink())  # type: ignore[arg-type]  # same
    assert caught.value.code == "output_not_writable"
    assert caught.value.message == f"standard output cannot be written: {full_pipe[1]}."


@pytest.mark.parametrize(
    ("trouble", "expected"),
    [
        (
            OSError(errno.ENOSPC, "full"),
            "output_not_writable: s3://lake/a.csv cannot be written: No space left",
        ),
        (MailsiftError("place_not_found", "There is no such object."), "place_not_found"),
    ],
)
async def test_a_result_that_does_not_get_to_its_place_is_one_line(
    tmp_path: Path, trouble: Exception, expected: str
) -> None:
    class Full:
        async def write(self, *_: object, **__: object) -> None:
            trouble.__context__ = FileNotFoundError(errno.ENOENT, "what a store said")
            raise trouble

    places: Any = Full()
    sink = PlaceSink(parse_sink("s3://lake/a.csv"), places, tmp_path)
    with pytest.raises(MailsiftError, match=expected):
        await lists.export_job(Complete(), uuid4(), uuid4(), sink)  # type: ignore[arg-type]  # same


async def test_a_list_that_is_called_as_a_result_in_the_making_once_was_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def export(_results: Path, out: Path, **_: object) -> int:
        return out.write_text("email\n")

    monkeypatch.setattr(lists, "export", export)
    monkeypatch.setattr(lists, "rows_by_result", lambda _: {})
    (source := tmp_path / "out.csv.partial").write_text("the list")
    await lists.export_job(Complete(), uuid4(), uuid4(), tmp_path / "out.csv")  # type: ignore[arg-type]  # same
    assert source.read_text() == "the list"
    assert sorted(names(tmp_path)) == ["out.csv", "out.csv.partial"]


@pytest.mark.parametrize("older", ["an older result", None])
async def test_a_result_goes_where_a_link_leads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, older: str | None
) -> None:
    def export(_results: Path, out: Path, **_: object) -> int:
        return out.write_text("email\n")

    monkeypatch.setattr(lists, "export", export)
    monkeypatch.setattr(lists, "rows_by_result", lambda _: {})
    (folder := tmp_path / "shared").mkdir()
    if older is not None:
        (folder / "latest").write_text(older)
    (out := tmp_path / "out.csv").symlink_to("shared/latest")
    await lists.export_job(Complete(), uuid4(), uuid4(), out)  # type: ignore[arg-type]  # same
    assert out.is_symlink()
    assert (names(folder), out.read_text()) == (["latest"], "email\n")


def test_a_link_that_leads_to_no_folder_is_told_before_the_work(tmp_path: Path) -> None:
    (out := tmp_path / "out.csv").symlink_to("gone/latest")
    with pytest.raises(MailsiftError) as caught:
        check_writable(out)
    assert caught.value.code == "output_not_writable"
