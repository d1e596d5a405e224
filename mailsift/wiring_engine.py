"""Where the concrete parts of a worker process meet."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from jobs.engine import Engine, EngineConfig
from jobs.intake.plan import IntakeLimits
from jobs.pulse import process_name
from jobs.service import JobService
from jobs.steps import StepPlan, StepWorker
from jobs.work import ChunkWorker, WorkPlan
from mailsift.settings import Settings
from mailsift.wiring import open_blobs, open_database, open_sifter, open_waker, scratch_folder
from mailsift.wiring_webhooks import Stores, errands, open_sender


@asynccontextmanager
async def open_engine(settings: Settings, *, crew: str = "") -> AsyncIterator[Engine]:
    """Give the engine of one worker process, of the pool `crew`; needs DATABASE_URL and REDIS_URL."""
    async with AsyncExitStack() as stack:
        database = open_database(settings, pool_size=settings.chunk_slots)
        stack.push_async_callback(database.aclose)
        sifter = await stack.enter_async_context(open_sifter(settings, database))
        blobs, waker, scratch = open_blobs(settings), open_waker(settings), scratch_folder(settings)
        jobs = JobService(database=database, blobs=blobs, waker=waker, scratch=scratch)
        sender = await stack.enter_async_context(open_sender(settings))
        engine = Engine(
            config=EngineConfig(
                owner=process_name(),
                crew=crew,
                slots=settings.chunk_slots,
                survey_slots=settings.survey_slots,
                lease_s=settings.lease_seconds,
                heartbeat_s=settings.heartbeat_seconds,
                sweep_s=settings.sweep_seconds,
            ),
            database=database,
            chunks=ChunkWorker(
                database=database,
                blobs=blobs,
                sifter=sifter,
                work_plan=WorkPlan(delays=settings.greylist_delays),
            ),
            steps=StepWorker(
                database=database,
                blobs=blobs,
                step_plan=StepPlan(
                    limits=IntakeLimits(
                        rows=settings.max_rows, bytes=settings.max_bytes, columns=settings.max_columns
                    )
                ),
                scratch=scratch,
            ),
            errands=errands(settings, Stores(database, blobs, waker, jobs), sender),
            waker=waker,
        )
        stack.push_async_callback(engine.aclose)
        yield engine
