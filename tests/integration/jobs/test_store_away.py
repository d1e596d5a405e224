"""An object store that goes away at every stage of a job: the job waits for it and goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mailsift.container import open_service
from mailsift.jobs.engine import step
from mailsift.storage.states import JobState
from tests.support.connections import talking
from tests.support.installation import settings_for
from tests.support.machines import BUCKET, s3, s3_environment
from tests.support.ready_jobs import FAST, Gate, Planter, caught, engine_on, work_until_ended


class Line:
    """The line to a server; while it is cut every connection breaks as soon as it is made."""

    def __init__(self, host: str, port: int) -> None:
        self._behind = (host, port)
        self.cut = False
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.cut:
            writer.transport.abort()
            return
        onward, back = await asyncio.open_connection(*self._behind)
        ways = [asyncio.create_task(self._pass(*way)) for way in ((reader, back), (onward, writer))]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        for end in (writer, back):
            end.transport.abort()

    async def _pass(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while (data := await source.read(65_536)) and not self.cut:
            target.write(data)
            await target.drain()


@asynccontextmanager
async def line_to(endpoint: str) -> AsyncIterator[Line]:
    host, _, port = endpoint.removeprefix("http://").partition(":")
    line = Line(host, int(port))
    async with talking(line.serve) as at:
        line.url = f"http://127.0.0.1:{at}"
        yield line


@pytest.fixture
async def line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Line]:
    with s3("127.0.0.1", tmp_path) as endpoint:
        async with line_to(endpoint) as line:
            for name, value in s3_environment(line.url).items():
                monkeypatch.setenv(name, value)
            yield line


async def test_a_job_waits_for_its_object_store_and_loses_no_attempt(
    tmp_path: Path, database_url: str, redis_url: str, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_for(
        tmp_path / "home",
        database_url=database_url,
        redis_url=redis_url,
        sandbox={},
        blob_url=f"s3://{BUCKET}/mailsift",
    )
    source = tmp_path / "list.csv"
    source.write_text("email\na@example.com\nb@example.com\nnobody\n")
    planter, sound = Planter(settings, tmp_path), step.write_results

    async def cut_first(*given: Any) -> None:
        line.cut = True
        await sound(*given)

    async with open_service(settings) as service, engine_on(settings, gate := Gate()) as engine:
        account = await service.account("tests")
        job = await service.submit(account, source, FAST)

        async def waits(state: JobState) -> None:
            view = await service.get(account, job)
            assert (view.state, [wait.reason for wait in view.waiting]) == (state, ["storage"])
            line.cut = False
            await planter.sql("UPDATE job SET step_until = NULL")
            await planter.sql("UPDATE chunk SET ready_at = clock_timestamp() WHERE state = 'ready'")

        line.cut = True
        await engine.drain()
        await waits(JobState.INTAKE)
        draining = await caught(engine, gate)
        line.cut = True
        gate.opened.set()
        await draining
        await waits(JobState.RUNNING)
        with monkeypatch.context() as patched:
            patched.setattr(step, "write_results", cut_first)
            await engine.drain()
        await waits(JobState.FINALIZING)
        view = await work_until_ended(engine, service, account, job, within=60)
    assert (view.state, view.valid, view.invalid) == (JobState.COMPLETED, 2, 1)
    assert await planter.sql("SELECT attempt FROM chunk") == [{"attempt": 1}]
    assert await planter.sql("SELECT step_attempt FROM job") == [{"step_attempt": 1}]
    assert [event["type"] for event in await planter.events(job)] == ["bulk.validation.completed"]
