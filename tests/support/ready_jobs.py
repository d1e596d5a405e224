"""Jobs whose list has been taken in already, so that a test of the engine need not wait for it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

import polars as pl
from sqlalchemy import text
from typing_extensions import override

from mailsift.container import OtherParts, open_engine
from mailsift.jobs.columns import ADDRESS_N, names_metadata
from mailsift.jobs.engine.engine import Engine
from mailsift.jobs.service import JobService
from mailsift.jobs.views import AccountId, JobId, JobOptions, JobView, dump_options
from mailsift.pipeline.facts import Mode
from mailsift.pipeline.frames import ADDRESSES
from mailsift.pipeline.syntax.column import parse_column
from mailsift.pipeline.validator import ValidationRequest, ValidationResult, Validator
from mailsift.settings import Settings
from mailsift.storage.blobs import JobBlobs
from mailsift.storage.database import Row
from mailsift.storage.sql import accounts, jobs
from mailsift.storage.sql.chunks import NewChunk
from mailsift.storage.sql.jobs import NewJob
from tests.support.job_states import events_of, plan_now
from tests.support.parts import open_blobs, transaction

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
        slices = [NewChunk(min(chunk, len(addresses) - start), key, start) for start in cuts]
        async with transaction(self.settings) as connection:
            account_id = await accounts.ensure_account(connection, account)
            new = NewJob(job_id, account_id, "list", dump_options(options), "list.csv", "", 0)
            await jobs.insert(connection, new)
            await plan_now(connection, job_id, slices, small=small)
        return AccountId(account_id), JobId(job_id)

    async def sql(self, statement: str, **values: object) -> list[Row]:
        """Run one statement: look at leases, or move their time."""
        async with transaction(self.settings) as connection:
            found = await connection.execute(text(statement), values)
            return list(found.mappings()) if found.returns_rows else []

    async def events(self, job_id: JobId) -> list[dict[str, Any]]:
        """Return what has been told of a job, oldest first."""
        async with transaction(self.settings) as connection:
            return [json.loads(event.body) for event in await events_of(connection, job_id)]


def _rows_file(addresses: list[str], path: Path) -> Path:
    rows = pl.DataFrame(
        {ADDRESS_N: pl.int_range(len(addresses), dtype=pl.UInt32, eager=True), "c0": addresses}
    )
    rows.write_parquet(path, metadata=names_metadata(["email"]))
    return path


def _addresses_file(addresses: list[str], path: Path) -> Path:
    parsed = parse_column(pl.Series("raw", addresses, pl.String))
    numbered = parsed.with_columns(
        pl.int_range(len(addresses), dtype=pl.UInt32).alias("n"), pl.lit(1, pl.UInt32).alias("rows")
    )
    numbered.select(*ADDRESSES).write_parquet(path)
    return path


@asynccontextmanager
async def engine_on(
    settings: Settings,
    validator: Callable[[Validator], Validator] | None = None,
    *,
    work_plan: dict[str, object] | None = None,
    **config: object,
) -> AsyncIterator[Engine]:
    """Give an engine that does not linger, with another validator perhaps and changes to its config."""
    usual = {"linger_s": 0.0, "poll_s": 0.1}
    other = OtherParts(validator=validator, engine=usual | config, work_plan=work_plan)
    async with open_engine(settings, other=other) as engine:
        yield engine


async def work_until_ended(
    engine: Engine, service: JobService, account: AccountId, job_id: JobId, *, within: float = 60.0
) -> JobView:
    """Drain again and again, as wake-ups would, until the job has ended and all that was under way."""
    limit, pause = time.monotonic() + within, 0.02
    while not await service.has_ended(account, job_id):
        assert time.monotonic() < limit, await service.get(account, job_id)
        await engine.drain()
        await asyncio.sleep(pause)
        pause = min(2 * pause, 0.16)  # what is not over soon waits for a server or its turn
    view = await service.get(account, job_id)
    await engine.drain()  # whoever ended it may still have to count that
    return view


class Changed(Validator):
    """A validator of the product's own parts that a test gets in the way of."""

    def __init__(self) -> None:
        """It gets its parts when an engine is opened with it."""

    def __call__(self, sound: Validator) -> Self:
        self.__dict__.update(vars(sound))
        return self


class Gate(Changed):
    """Holds every frame until it is opened."""

    def __init__(self) -> None:
        super().__init__()
        self.entered, self.opened = asyncio.Event(), asyncio.Event()

    @override
    async def validate(self, frame: pl.DataFrame, request: ValidationRequest) -> ValidationResult:
        self.entered.set()
        await self.opened.wait()
        return await super().validate(frame, request)


async def caught(engine: Engine, gate: Gate) -> asyncio.Task[bool]:
    """Let an engine with a gate drain; returns when the gate holds a frame."""
    draining = asyncio.create_task(engine.drain())
    await gate.entered.wait()
    return draining


class Poisoned(Changed):
    """Breaks whenever one address is in the frame, or so many times."""

    def __init__(self, *, address: str = "", times: int = 0, error: BaseException | None = None) -> None:
        super().__init__()
        self._address, self.left, self._error = address, times, error or ValueError("poison")
        self.sizes: list[int] = []

    @override
    async def validate(self, frame: pl.DataFrame, request: ValidationRequest) -> ValidationResult:
        self.sizes.append(len(frame))
        if self.left > 0 or self._address in frame["address"]:
            self.left -= 1
            raise self._error
        return await super().validate(frame, request)
