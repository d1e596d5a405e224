"""The connection breaks while PostgreSQL commits a list's job or its verdicts: nobody knows it did."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url
from typing_extensions import override

from mailsift.container import OtherParts, open_service
from mailsift.jobs.service import JobService
from mailsift.jobs.submissions import Submitted
from mailsift.jobs.views import AccountId
from mailsift.settings import Settings
from mailsift.storage.blobs import Blobs
from mailsift.storage.local_files import Incoming
from mailsift.storage.states import JobState
from tests.support.connections import talking
from tests.support.installation import code_of
from tests.support.ready_jobs import FAST, Planter, engine_on, work_until_ended


@asynccontextmanager
async def deaf_to_commits(
    database_url: str, *, times: int = 1, sent: bytes = b"INSERT INTO job "
) -> AsyncIterator[str]:
    """Give an address of the database behind a relay that hangs up once.

    Args:
        database_url: of the database, at a unix socket.
        times, said: a transaction that says this so often gets no answer to its COMMIT.
    """
    url = make_url(database_url)
    socket, left = Path(str(url.query["host"])) / ".s.PGSQL.5432", [1]

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers, server = await asyncio.open_unix_connection(socket)
        asked = bytearray()

        async def pass_answers() -> None:
            while data := await answers.read(65_536):
                if left[0] and asked.count(sent) == times and b"COMMIT" in asked:
                    left[0] = 0
                    break
                writer.write(data)
            writer.transport.abort()

        passing = asyncio.create_task(pass_answers())
        try:
            while data := await reader.read(65_536):
                if b"BEGIN" in data:
                    asked.clear()
                asked += data
                server.write(data)
        finally:
            passing.cancel()
            server.close()

    async with talking(relay) as port:
        yield url.set(host="127.0.0.1", port=port, query={}).render_as_string(hide_password=False)


class StoredTogether(Blobs):
    """Hold stored lists until all are: one is inserted, the others share the next commit."""

    def __init__(self, settings: Settings, *, lists: int) -> None:
        super().__init__(settings.blobs, settings.home / "blob-cache")
        self._missing, self._complete = lists, asyncio.Event()

    @override
    @asynccontextmanager
    async def stream_in(self, key: str) -> AsyncIterator[Incoming]:
        async with super().stream_in(key) as incoming:
            yield incoming
        self._missing -= 1
        if not self._missing:
            self._complete.set()
        await self._complete.wait()


async def send(service: JobService, account: AccountId, name: str, *, once: bool = True) -> Submitted:
    async def pieces() -> AsyncIterator[bytes]:
        yield f"email\n{name}@example.com\n".encode()

    return await service.receive(account, pieces(), FAST, source_name=name, once=name if once else "")


async def test_a_list_that_is_sent_again_as_nobody_heard_of_it_is_validated(
    make_settings: Callable[..., Settings], settings: Settings, service: JobService, database_url: str
) -> None:
    account = await service.account("tests")
    async with (
        deaf_to_commits(database_url) as url,
        open_service(make_settings(database_url=url)) as cut_off,
    ):
        assert await code_of(send(cut_off, account, "ann")) == "database_unavailable"
    again = await send(service, account, "ann")
    assert not again.fresh
    async with engine_on(settings) as engine:
        view = await work_until_ended(engine, service, account, again.job_id)
    assert (view.state, view.valid) == (JobState.COMPLETED, 1)


@pytest.mark.parametrize("once", [True, False])
async def test_lists_that_are_committed_together_and_nobody_heard_of_it_are_validated(
    make_settings: Callable[..., Settings],
    settings: Settings,
    service: JobService,
    database_url: str,
    *,
    once: bool,
) -> None:
    account = await service.account("tests")
    async with (
        deaf_to_commits(database_url, times=2) as url,
        open_service(
            make_settings(database_url=url), OtherParts(blobs=StoredTogether(settings, lists=3))
        ) as cut_off,
    ):
        sent = await asyncio.gather(*(send(cut_off, account, f"user{n}", once=once) for n in range(3)))
    jobs = [one.job_id for one in sent]
    assert not all(one.fresh for one in sent)  # some were there when they were inserted once more
    async with engine_on(settings) as engine:
        views = [await work_until_ended(engine, service, account, job) for job in jobs]
    assert [(view.state, view.valid) for view in views] == [(JobState.COMPLETED, 1)] * 3


@pytest.mark.parametrize("small", [True, False])
async def test_verdicts_whose_commit_nobody_heard_of_count_once_and_their_list_is_finished_at_once(
    make_settings: Callable[..., Settings],
    planter: Planter,
    service: JobService,
    database_url: str,
    *,
    small: bool,
) -> None:
    account, job = await planter.plant(["ann@example.com", "nobody"], small=small)
    async with (
        deaf_to_commits(database_url, sent=b"UPDATE chunk SET state = 'done'") as url,
        engine_on(make_settings(database_url=url, lease_seconds=60.0)) as engine,
    ):
        view = await work_until_ended(engine, service, account, job, within=30)
    assert (view.state, view.valid, view.invalid) == (JobState.COMPLETED, 1, 1)
    assert await planter.sql("SELECT attempt, step_attempt FROM chunk, job") == [
        {"attempt": 1, "step_attempt": 1}
    ]
