"""A database that goes away before work can be committed, and for the moment in which it is given back."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator, Callable, MutableMapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from sqlalchemy.engine import make_url
from structlog.testing import capture_logs
from typing_extensions import override

from mailsift.jobs.engine import step
from mailsift.jobs.engine.maintenance import ExpiredLeases
from mailsift.jobs.service import JobService
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.validator import ValidationRequest, ValidationResult
from mailsift.settings import Settings
from mailsift.storage.database import Database
from mailsift.storage.states import JobState
from tests.support.connections import talking
from tests.support.installation import code_of, until
from tests.support.ready_jobs import Gate, Planter, caught, engine_on, work_until_ended


class Line:
    """The line to a database at a unix socket; while it is cut every connection breaks."""

    def __init__(self, database_url: str) -> None:
        self._behind = make_url(database_url)
        self._talks: set[asyncio.StreamWriter] = set()
        self._cut = False

    def cut(self) -> None:
        self._cut = True
        for talk in self._talks:
            talk.transport.abort()

    def mend(self) -> None:
        self._cut = False

    def url(self, port: int) -> str:
        there = self._behind.set(host="127.0.0.1", port=port, query={})
        return there.render_as_string(hide_password=False)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._cut:
            writer.transport.abort()
            return
        socket = Path(str(self._behind.query["host"])) / f".s.PGSQL.{self._behind.query['port']}"
        onward, back = await asyncio.open_unix_connection(socket)
        self._talks.add(writer)
        ways = [asyncio.create_task(_pass(*way)) for way in ((reader, back), (onward, writer))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._talks.discard(writer)
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            back.transport.abort()


async def _pass(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while data := await source.read(65_536):
        target.write(data)
        await target.drain()


class BreakingGate(Gate):
    """Breaks what it has held, as a disk that fails would."""

    @override
    async def validate(self, frame: pl.DataFrame, request: ValidationRequest) -> ValidationResult:
        await super().validate(frame, request)
        raise OSError(errno.EIO, "the disk fails")


class CountingGate(Gate):
    """Counts the frames that are validated."""

    def __init__(self) -> None:
        super().__init__()
        self.frames = 0

    @override
    async def validate(self, frame: pl.DataFrame, request: ValidationRequest) -> ValidationResult:
        self.frames += 1
        return await super().validate(frame, request)


async def mend_after(line: Line, event: str, logs: list[MutableMapping[str, Any]]) -> None:
    """Mend the line once this has been logged."""

    async def is_logged() -> bool:
        return any(entry["event"] == event for entry in logs)

    await until(is_logged, within=10)
    line.mend()


@asynccontextmanager
async def line_to(database_url: str) -> AsyncIterator[tuple[Line, str]]:
    line = Line(database_url)
    async with talking(line.serve) as port:
        yield line, line.url(port)


async def test_a_chunk_that_cannot_be_given_back_while_the_database_is_away_is_when_it_is_there(
    make_settings: Callable[..., Settings], planter: Planter, database_url: str
) -> None:
    await planter.plant(["a@example.com"])

    async def is_given_back() -> bool:
        (chunk,) = await planter.sql("SELECT state, attempt FROM chunk")
        return (chunk["state"], chunk["attempt"]) == ("ready", 0)

    async with (
        line_to(database_url) as (line, url),
        engine_on(make_settings(database_url=url), gate := BreakingGate()) as engine,
    ):
        draining = await caught(engine, gate)
        line.cut()
        with capture_logs() as logs, suppress(MailsiftError):
            gate.opened.set()
            await mend_after(line, "chunk.release_error", logs)
            await draining
        await until(is_given_back, within=10)


async def test_verdicts_that_cannot_be_committed_while_the_database_is_away_are_when_it_is_there(
    make_settings: Callable[..., Settings], planter: Planter, service: JobService, database_url: str
) -> None:
    account, job = await planter.plant(["a@example.com", "nobody"], small=False)
    async with (
        line_to(database_url) as (line, url),
        engine_on(make_settings(database_url=url), gate := CountingGate()) as engine,
    ):
        draining = await caught(engine, gate)
        line.cut()
        with capture_logs() as logs, suppress(MailsiftError):
            gate.opened.set()
            await mend_after(line, "chunk.commit_error", logs)
            await draining
        view = await work_until_ended(engine, service, account, job)
    assert (view.state, view.valid, view.invalid, gate.frames) == (JobState.COMPLETED, 1, 1, 1)
    assert await planter.sql("SELECT attempt FROM chunk") == [{"attempt": 1}]


async def test_a_finish_that_cannot_be_given_back_while_the_database_is_away_is_when_it_is_there(
    make_settings: Callable[..., Settings],
    planter: Planter,
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await planter.plant(["a@example.com"])
    sound = step.write_results

    async def is_given_back() -> bool:
        (job,) = await planter.sql("SELECT state, step_token, step_attempt FROM job")
        return (job["state"], job["step_token"], job["step_attempt"]) == ("finalizing", None, 0)

    async with (
        line_to(database_url) as (line, url),
        engine_on(make_settings(database_url=url)) as engine,
    ):

        async def cut_first(*given: Any) -> None:
            line.cut()
            await sound(*given)

        monkeypatch.setattr(step, "write_results", cut_first)
        with capture_logs() as logs:
            await asyncio.gather(
                mend_after(line, "job.step.release_error", logs), engine.drain(), return_exceptions=True
            )
        await until(is_given_back, within=10)


async def test_after_an_outage_the_living_come_back_before_the_dead_are_swept(
    planter: Planter, database_url: str
) -> None:
    await planter.plant(["a@example.com"])
    now = [0.0]

    async def lease() -> None:
        await planter.sql(
            "UPDATE chunk SET state = 'leased', lease_token = gen_random_uuid(), lease_owner = 'somebody', "
            "lease_until = clock_timestamp() - interval '1 minute'"
        )

    async with line_to(database_url) as (line, url):
        database = Database(url)
        expired = ExpiredLeases(database, rest_s=10.0, steady=lambda: now[0])
        await lease()
        assert await expired.free() == 1
        await lease()
        line.cut()
        assert await code_of(expired.free()) == "database_unavailable"
        assert await code_of(expired.free()) == "database_unavailable"
        line.mend()
        assert await expired.free() == 0
        now[0] = 9.9
        assert await expired.free() == 0
        now[0] = 10.0
        assert await expired.free() == 1
        await database.aclose()
