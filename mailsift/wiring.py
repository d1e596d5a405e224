"""The one place where concrete parts meet."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import SecretStr

from api.single import SingleValidator
from jobs.service import JobService
from jobs.tasks import CeleryWaker, make_app
from mailsift.settings import Settings
from pipeline.clock import system_clock
from pipeline.dns.domains import DnsConfig, DomainFacts
from pipeline.guard import AddressGuard
from pipeline.judge.row import Policy
from pipeline.lists import Lists
from pipeline.probe.prober import Prober
from pipeline.probe.reach import Lookout, Reach
from pipeline.providers import Providers
from pipeline.smtp.config import PATIENT_SECONDS, ProbeConfig, parse_source
from storage.blobs import Blobs
from storage.database import Database
from storage.facts import RedisFactCache
from storage.redis import Client, connect
from storage.repeating import repeating
from storage.throttle import RedisThrottle, ThrottleConfig
from storage.throttle_edits import EditBook, kept_fresh

if TYPE_CHECKING:
    from pipeline.sift import Sifter
    from pipeline.single_frame import SingleFrames


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
async def _open_outside(settings: Settings, database: Database | None = None) -> AsyncIterator[_Outside]:
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
        edits = EditBook()
        if database is not None:
            await stack.enter_async_context(kept_fresh(database, edits))
        limits = ThrottleConfig(
            lease_seconds=settings.lease_seconds, processes=settings.worker_processes, edits=edits
        )
        throttle = RedisThrottle(redis, row=providers.row, config=limits)
        await stack.enter_async_context(repeating(throttle.renew, every=settings.heartbeat_seconds))
        yield _Outside(guard, providers, cache, domains, throttle)


@asynccontextmanager
async def open_lookout(settings: Settings) -> AsyncIterator[Lookout]:
    """Give what finds out whether mail servers can be reached; needs REDIS_URL."""
    async with _open_outside(settings) as outside:
        yield outside.lookout(settings)


@dataclass(frozen=True, slots=True)
class _Pipeline:
    """All that a sifter is made of."""

    outside: _Outside
    lists: Lists
    prober: Prober
    reach: Reach
    policy: Policy

    def sifter(self) -> Sifter:
        # Only here: it brings the frames, which not every process needs.
        from pipeline.sift import Sifter  # noqa: PLC0415

        return Sifter(
            lists=self.lists,
            providers=self.outside.providers,
            domains=self.outside.domains,
            prober=self.prober,
            reach=self.reach,
            policy=self.policy,
        )

    def frames(self) -> SingleFrames:
        from pipeline.single_frame import SingleFrames  # noqa: PLC0415 - see sifter

        return SingleFrames(self.sifter())


@asynccontextmanager
async def _open_pipeline(settings: Settings, database: Database | None) -> AsyncIterator[_Pipeline]:
    async with _open_outside(settings, database) as outside:
        prober = Prober(
            config=ProbeConfig(
                port=settings.smtp_port,
                helo_name=settings.helo_name,
                mail_from=settings.mail_from,
                sources=_sources(settings),
                session_seconds=PATIENT_SECONDS,
            ),
            throttle=outside.throttle,
            providers=outside.providers,
            guard=outside.guard,
            cache=outside.cache,
            clock=system_clock,
            token=lambda: secrets.token_hex(16),
        )
        yield _Pipeline(
            outside=outside,
            lists=Lists.load(settings.overrides),
            prober=prober,
            reach=Reach(outside.lookout(settings).look, monotonic=time.monotonic),
            policy=Policy(disposable_invalid=settings.disposable_invalid),
        )


@asynccontextmanager
async def open_sifter(settings: Settings, database: Database | None = None) -> AsyncIterator[Sifter]:
    """Give the whole pipeline, with its resolver, throttle and fact cache; needs REDIS_URL.

    With a database its throttle obeys what operators changed.
    """
    async with _open_pipeline(settings, database) as pipeline:
        yield pipeline.sifter()


@asynccontextmanager
async def open_single(settings: Settings, database: Database) -> AsyncIterator[SingleValidator]:
    """Give what judges one address at a time; needs REDIS_URL."""
    async with _open_pipeline(settings, database) as pipeline:
        yield SingleValidator(lists=pipeline.lists, policy=pipeline.policy, frames=pipeline.frames)


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


def source_labels(settings: Settings) -> tuple[str, ...]:
    """Return the names of our own addresses, without the credentials some have."""
    return tuple(parse_source(one, helo_name=settings.helo_name).label for one in _sources(settings))


def _sources(settings: Settings) -> tuple[str, ...]:
    return settings.source_addresses or ("",)


def _address(url: SecretStr | None) -> str:
    if url is None:
        raise AssertionError("mailsift.installation sets the addresses")
    return url.get_secret_value()
