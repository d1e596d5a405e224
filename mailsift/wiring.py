"""The one place where concrete parts meet."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from pydantic import SecretStr

from jobs.engine import Engine, EngineConfig
from jobs.intake import IntakeLimits
from jobs.service import JobService
from jobs.steps import StepPlan, StepWorker
from jobs.tasks import CeleryWaker, make_app
from jobs.work import ChunkWorker, WorkPlan
from mailsift.settings import Settings
from pipeline.clock import system_clock
from pipeline.domains import DnsConfig, DomainFacts
from pipeline.guard import AddressGuard
from pipeline.lists import Lists
from pipeline.prober import ProbeConfig, Prober
from pipeline.providers import Providers
from pipeline.sift import Sifter
from storage.blobs import Blobs
from storage.database import Database
from storage.facts import RedisFactCache
from storage.redis import Client, connect
from storage.throttle import RedisThrottle, ThrottleConfig


def scratch_folder(settings: Settings) -> Path:
    """Return the folder for files that live as long as one call."""
    folder = settings.home / "scratch"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def open_database(settings: Settings, *, pool_size: int = 4) -> Database:
    """Return the database; needs DATABASE_URL."""
    return Database(_address(settings.database_url), pool_size=pool_size)


def open_redis(settings: Settings) -> Client:
    """Return a Redis client; needs REDIS_URL."""
    return connect(_address(settings.redis_url))


def open_waker(settings: Settings) -> CeleryWaker:
    """Return what wakes the workers; needs REDIS_URL."""
    return CeleryWaker(make_app(_address(settings.redis_url)))


def open_blobs(settings: Settings) -> Blobs:
    """Return the blob store of this installation."""
    return Blobs(settings.blobs, settings.home / "blob-cache")


@asynccontextmanager
async def open_sifter(settings: Settings) -> AsyncIterator[Sifter]:
    """Give the whole pipeline, with its resolver, throttle and fact cache; needs REDIS_URL."""
    providers = Providers.load(settings.overrides)
    guard = AddressGuard(allow_non_public=settings.allow_non_public)
    async with AsyncExitStack() as stack:
        redis = open_redis(settings)
        stack.push_async_callback(redis.aclose)
        cache = RedisFactCache(redis)
        domains = DomainFacts(
            config=DnsConfig(servers=settings.dns_servers),
            cache=cache,
            providers=providers,
            guard=guard,
            clock=system_clock,
        )
        stack.push_async_callback(domains.aclose)
        prober = Prober(
            config=ProbeConfig(
                port=settings.smtp_port,
                helo_name=settings.helo_name,
                mail_from=settings.mail_from,
                sources=settings.source_addresses or ("",),
                session_seconds=WorkPlan().patient_s,
            ),
            throttle=RedisThrottle(
                redis, row=providers.row, config=ThrottleConfig(processes=settings.worker_processes)
            ),
            providers=providers,
            guard=guard,
            cache=cache,
            clock=system_clock,
            token=lambda: secrets.token_hex(16),
        )
        yield Sifter(
            lists=Lists.load(settings.overrides), providers=providers, domains=domains, prober=prober
        )


@asynccontextmanager
async def open_service(settings: Settings) -> AsyncIterator[JobService]:
    """Give the job service; needs DATABASE_URL and REDIS_URL."""
    database = open_database(settings)
    try:
        yield JobService(
            database=database,
            blobs=open_blobs(settings),
            waker=open_waker(settings),
            scratch=scratch_folder(settings),
        )
    finally:
        await database.aclose()


@asynccontextmanager
async def open_engine(settings: Settings) -> AsyncIterator[Engine]:
    """Give the engine of one worker process; needs DATABASE_URL and REDIS_URL."""
    async with AsyncExitStack() as stack:
        sifter = await stack.enter_async_context(open_sifter(settings))
        database = open_database(settings, pool_size=settings.chunk_slots)
        stack.push_async_callback(database.aclose)
        blobs = open_blobs(settings)
        engine = Engine(
            config=EngineConfig(
                owner=f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}",
                slots=settings.chunk_slots,
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
                scratch=scratch_folder(settings),
            ),
            waker=open_waker(settings),
        )
        stack.push_async_callback(engine.aclose)
        yield engine


def _address(url: SecretStr | None) -> str:
    if url is None:
        raise AssertionError("mailsift.installation sets the addresses")
    return url.get_secret_value()
