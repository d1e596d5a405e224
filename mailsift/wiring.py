"""The one place where concrete parts meet."""

from __future__ import annotations

import os
import secrets
import socket
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr

from jobs.engine import Engine, EngineConfig
from jobs.intake import IntakeLimits
from jobs.service import JobService
from jobs.steps import StepPlan, StepWorker
from jobs.tasks import CeleryWaker, make_app
from jobs.work import ChunkWorker, WorkPlan
from mailsift.settings import Settings
from mailsift.wiring_webhooks import Stores, errands, open_sender
from pipeline.clock import system_clock
from pipeline.domains import DnsConfig, DomainFacts
from pipeline.guard import AddressGuard
from pipeline.judge import Policy
from pipeline.lists import Lists
from pipeline.probe_config import parse_source
from pipeline.prober import ProbeConfig, Prober
from pipeline.providers import Providers
from pipeline.reach import Lookout, Reach
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


@dataclass(frozen=True, slots=True)
class _Outside:
    """What the pipeline knows of the world outside, and the limits it keeps there."""

    guard: AddressGuard
    providers: Providers
    cache: RedisFactCache
    domains: DomainFacts
    throttle: RedisThrottle

    def lookout(self, settings: Settings) -> Lookout:
        return Lookout(
            domains=self.domains,
            throttle=self.throttle,
            guard=self.guard,
            names=settings.preflight_domains,
            sources=[parse_source(text, helo_name=settings.helo_name) for text in _sources(settings)],
            port=settings.smtp_port,
        )


@asynccontextmanager
async def _open_outside(settings: Settings) -> AsyncIterator[_Outside]:
    providers = Providers.load(settings.overrides)
    guard = AddressGuard(allow_non_public=settings.allow_non_public)
    redis = open_redis(settings)
    cache = RedisFactCache(redis)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(redis.aclose)
        domains = DomainFacts(
            config=DnsConfig(servers=settings.dns_servers),
            cache=cache,
            providers=providers,
            guard=guard,
            clock=system_clock,
        )
        stack.push_async_callback(domains.aclose)
        limits = ThrottleConfig(processes=settings.worker_processes)
        throttle = RedisThrottle(redis, row=providers.row, config=limits)
        yield _Outside(guard, providers, cache, domains, throttle)


@asynccontextmanager
async def open_lookout(settings: Settings) -> AsyncIterator[Lookout]:
    """Give what finds out whether mail servers can be reached; needs REDIS_URL."""
    async with _open_outside(settings) as outside:
        yield outside.lookout(settings)


@asynccontextmanager
async def open_sifter(settings: Settings) -> AsyncIterator[Sifter]:
    """Give the whole pipeline, with its resolver, throttle and fact cache; needs REDIS_URL."""
    async with _open_outside(settings) as outside:
        prober = Prober(
            config=ProbeConfig(
                port=settings.smtp_port,
                helo_name=settings.helo_name,
                mail_from=settings.mail_from,
                sources=_sources(settings),
                session_seconds=WorkPlan().patient_s,
            ),
            throttle=outside.throttle,
            providers=outside.providers,
            guard=outside.guard,
            cache=outside.cache,
            clock=system_clock,
            token=lambda: secrets.token_hex(16),
        )
        yield Sifter(
            lists=Lists.load(settings.overrides),
            providers=outside.providers,
            domains=outside.domains,
            prober=prober,
            reach=Reach(outside.lookout(settings).look, monotonic=time.monotonic),
            policy=Policy(disposable_invalid=settings.disposable_invalid),
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
        blobs, waker, scratch = open_blobs(settings), open_waker(settings), scratch_folder(settings)
        jobs = JobService(database=database, blobs=blobs, waker=waker, scratch=scratch)
        sender = await stack.enter_async_context(open_sender(settings))
        engine = Engine(
            config=EngineConfig(
                owner=f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}",
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


def _sources(settings: Settings) -> tuple[str, ...]:
    return settings.source_addresses or ("",)


def _address(url: SecretStr | None) -> str:
    if url is None:
        raise AssertionError("mailsift.installation sets the addresses")
    return url.get_secret_value()
