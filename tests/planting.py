"""Jobs whose list has been taken in already, so that a test of the engine need not wait for it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import polars as pl
from sqlalchemy import text
from typing_extensions import override

from jobs.columns import ADDRESS_N, names_metadata
from jobs.engine import Engine
from jobs.options import dump_options
from jobs.service import JobService
from jobs.states import Step, target
from jobs.views import AccountId, JobId, JobOptions, JobView
from mailsift.settings import Settings
from mailsift.wiring import open_blobs, open_database
from mailsift.wiring_engine import open_engine
from pipeline import syntax
from pipeline.facts import Mode
from pipeline.frames import ADDRESSES
from pipeline.sift import Request, Sifted, Sifter
from storage import chunk_rows, event_rows, job_rows
from storage.blobs import JobBlobs
from storage.chunk_rows import NewChunk
from storage.database import Row
from storage.job_rows import NewJob

FAST = JobOptions(mode=Mode.FAST)


@dataclass(frozen=True, slots=True)
class Planter:
    """Inserts jobs into one installation."""

    settings: Settings
    folder: Path

    async def plant(
        self,
        addresses: list[str],
        *,
        chunk: int = 1_000,
        small: bool = True,
        options: JobOptions = FAST,
        account: str = "tests",
    ) -> tuple[AccountId, JobId]:
        """Insert a queued job with these addresses, so many a chunk."""
        job_id, blobs = uuid4(), open_blobs(self.settings)
        await blobs.put_file(JobBlobs(job_id).rows, _rows_file(addresses, self.folder / f"{job_id}.rows"))
        await blobs.put_file(
            JobBlobs(job_id).addresses, _addresses_file(addresses, self.folder / f"{job_id}.addresses")
        )
        key = JobBlobs(job_id).addresses
        cuts = range(0, len(addresses), chunk)
        chunks = [NewChunk(min(chunk, len(addresses) - start), key, start) for start in cuts]
        database = open_database(self.settings)
        async with database.begin() as connection:
            account_id = await job_rows.ensure_account(connection, account)
            new = NewJob(job_id, account_id, "list", dump_options(options), "list.csv", "", 0)
            await job_rows.insert(connection, new)
            await job_rows.move(
                connection,
                job_id,
                to=target(Step.PLAN),
                allowed={"uploading"},
                address_column="email",
                total=len(addresses),
                addresses=len(addresses),
                chunks=len(chunks),
                chunks_open=len(chunks),
                small=small,
            )
            await chunk_rows.insert(connection, job_id, 0, chunks)
            await job_rows.catch_up(connection, job_id)
        await database.aclose()
        return AccountId(account_id), JobId(job_id)

    async def sql(self, statement: str, **values: object) -> list[Row]:
        """Run one statement: look at leases, or move their time."""
        database = open_database(self.settings)
        async with database.begin() as connection:
            found = await connection.execute(text(statement), values)
            rows = list(found.mappings()) if found.returns_rows else []
        await database.aclose()
        return rows

    async def events(self, job_id: JobId) -> list[dict[str, Any]]:
        """Return what has been told of a job, oldest first."""
        database = open_database(self.settings)
        async with database.begin() as connection:
            found = await event_rows.of_job(connection, job_id)
        await database.aclose()
        return [json.loads(event.body) for event in found]


def _rows_file(addresses: list[str], path: Path) -> Path:
    rows = pl.DataFrame(
        {ADDRESS_N: pl.int_range(len(addresses), dtype=pl.UInt32, eager=True), "c0": addresses}
    )
    rows.write_parquet(path, metadata=names_metadata(["email"]))
    return path


def _addresses_file(addresses: list[str], path: Path) -> Path:
    parsed = syntax.parse(pl.Series("raw", addresses, pl.String))
    numbered = parsed.with_columns(
        pl.int_range(len(addresses), dtype=pl.UInt32).alias("n"), pl.lit(1, pl.UInt32).alias("rows")
    )
    numbered.select(*ADDRESSES).write_parquet(path)
    return path


@asynccontextmanager
async def engine_on(
    settings: Settings, sifter: Callable[[Sifter], Sifter] | None = None, **config: object
) -> AsyncIterator[Engine]:
    """Give an engine that does not linger, with another sifter perhaps and changes to its config."""
    async with open_engine(settings) as engine:
        usual = {"linger_s": 0.0, "poll_s": 0.02}
        engine._config = replace(engine._config, **usual | config)  # type: ignore[arg-type]  # floats and ints
        engine._pulse._every = engine._config.heartbeat_s
        if sifter is not None:
            engine._chunks._sifter = sifter(engine._chunks._sifter)
        yield engine


async def work_until_ended(
    engine: Engine, service: JobService, account: AccountId, job_id: JobId, *, within: float = 15.0
) -> JobView:
    """Drain again and again, as wake-ups would, until the job has ended."""
    limit = time.monotonic() + within
    while (view := await service.get(account, job_id)).finished_at is None:
        assert time.monotonic() < limit, view
        await engine.drain()
        await asyncio.sleep(0.02)
    return view


class Changed(Sifter):
    """A sifter of the product's own parts that a test gets in the way of."""

    def __init__(self, sound: Sifter) -> None:
        self.__dict__.update(vars(sound))


class Gate(Changed):
    """Holds every frame until it is opened."""

    def __init__(self, sound: Sifter) -> None:
        super().__init__(sound)
        self.entered, self.opened = asyncio.Event(), asyncio.Event()

    @override
    async def sift(self, frame: pl.DataFrame, request: Request) -> Sifted:
        self.entered.set()
        await self.opened.wait()
        return await super().sift(frame, request)


async def caught(engine: Engine) -> tuple[Gate, asyncio.Task[None]]:
    """Let an engine with a gate drain; returns when the gate holds a frame."""
    gate = engine._chunks._sifter
    assert isinstance(gate, Gate)
    draining = asyncio.create_task(engine.drain())
    await gate.entered.wait()
    return gate, draining


class Poisoned(Changed):
    """Breaks whenever one address is in the frame, or so many times."""

    def __init__(
        self, sound: Sifter, *, address: str = "", times: int = 0, error: Exception | None = None
    ) -> None:
        super().__init__(sound)
        self._address, self.left, self._error = address, times, error or ValueError("poison")
        self.sizes: list[int] = []

    @override
    async def sift(self, frame: pl.DataFrame, request: Request) -> Sifted:
        self.sizes.append(len(frame))
        if self.left > 0 or self._address in frame["address"]:
            self.left -= 1
            raise self._error
        return await super().sift(frame, request)
