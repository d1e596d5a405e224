"""The gauges of the installation: read when asked, not too often, and honest about what cannot be read."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from prometheus_client import generate_latest

from mailsift import gauges
from mailsift.cli.serve import worker_settings
from mailsift.gauges import InstallationGauges
from mailsift.jobs.admin.console import InstallationReader
from mailsift.jobs.engine.heartbeat import HealthWatch
from mailsift.jobs.tasks import CeleryWaker, make_app
from mailsift.pipeline.throttle import SessionOutcome
from mailsift.runtime.worker import run_sweeper
from mailsift.settings import Settings
from mailsift.storage.blobs import Blobs
from mailsift.storage.database import Database
from mailsift.storage.redis.connection import connect
from mailsift.storage.redis.throttle import RedisThrottle
from tests.support.exposition import Exposed, scraped
from tests.support.installation import settings_for, until
from tests.support.ports import free_port
from tests.support.small_disk import small_disk
from tests.support.throttling import CONFIG, ask, row, session

GONE = "postgresql://nobody@127.0.0.1:1/gone"


@asynccontextmanager
async def reader(
    folder: Path, database_url: str, redis_url: str, monotonic: Callable[[], float] = time.monotonic
) -> AsyncIterator[InstallationGauges]:
    database, redis = Database(database_url), connect(redis_url, timeout=20.0)
    health = HealthWatch(folder=folder, blobs=Blobs(folder.as_uri(), folder))
    seen = InstallationReader(database=database, redis=redis, queue="mailsift", health=health)
    try:
        yield InstallationGauges(seen.read, monotonic=monotonic)
    finally:
        await database.aclose()
        await redis.aclose()


async def exposed(found: InstallationGauges) -> Exposed:
    page = await asyncio.to_thread(generate_latest, found)
    return Exposed(page.decode())


async def test_an_empty_installation_shows_every_gauge_at_rest(
    tmp_path: Path, database_url: str, redis_url: str
) -> None:
    async with reader(tmp_path, database_url, redis_url) as found:
        page = await exposed(found)
    assert page.value("mailsift_gauges_up") == 2
    names = {family.name for gauge in gauges.METRICS for family in gauge.describe()}
    ratios = {
        "mailsift_throttle_penalty_seconds",
        "mailsift_throttle_pace_ratio",
    }  # of providers that were asked
    assert names - ratios == set(page.samples)
    for name in names - {"mailsift_gauges_up", "mailsift_alarm"}:
        assert page.value(name) == 0, name
    assert page.value("mailsift_alarm") == page.value("mailsift_alarm", alarm="no_workers") == 1


@pytest.mark.needs("root")
@pytest.mark.parametrize("home_is_full", [False, True])
def test_of_two_disks_the_one_with_the_least_room_is_told(tmp_path: Path, *, home_is_full: bool) -> None:
    with (
        small_disk(tmp_path / "full", mebibytes=64) as full,
        small_disk(tmp_path / "empty", mebibytes=32) as empty,
    ):
        assert full is not None
        assert empty is not None
        (full / "ballast").write_bytes(bytes(60 * 2**20))
        home, store = (full, empty) if home_is_full else (empty, full)
        health = HealthWatch(folder=home, blobs=Blobs((store / "lists").as_uri(), home / "cache")).current()
    assert health.disk_size == 64 * 2**20
    assert health.disk_free <= 4 * 2**20


@pytest.mark.parametrize(("database_up", "redis_up"), [(True, False), (False, True), (False, False)])
async def test_what_cannot_be_read_is_left_out_and_said(
    tmp_path: Path, database_url: str, redis_url: str, database_up: bool, redis_up: bool
) -> None:
    urls = database_url if database_up else GONE, redis_url if redis_up else "redis://127.0.0.1:1"
    async with reader(tmp_path, *urls) as found:
        page = await exposed(found)
    assert page.value("mailsift_gauges_up", source="database") == database_up
    assert page.value("mailsift_gauges_up", source="redis") == redis_up
    assert page.value("mailsift_alarm", alarm="database_gone") == (not database_up)
    assert page.value("mailsift_alarm", alarm="redis_gone") == (not redis_up)
    assert ("mailsift_jobs" in page.samples) == database_up
    assert ("mailsift_broker_queue_len" in page.samples) == redis_up


async def test_wake_ups_in_the_queue_are_counted_once_in_three_seconds_at_most(
    tmp_path: Path, database_url: str, redis_url: str
) -> None:
    waker = CeleryWaker(make_app(redis_url))
    await waker.wake(3)
    moments = iter([0.0, 0.0, 2.9, 3.0, 3.0])
    async with reader(tmp_path, database_url, redis_url, lambda: next(moments)) as found:
        assert (await exposed(found)).value("mailsift_broker_queue_len") == 3
        await waker.wake(2)
        assert (await exposed(found)).value("mailsift_broker_queue_len") == 3
        assert (await exposed(found)).value("mailsift_broker_queue_len") == 5


async def test_a_provider_that_asked_for_less_is_shown_and_a_customers_mail_host_is_not(
    tmp_path: Path, database_url: str, redis_url: str
) -> None:
    redis = connect(redis_url)
    throttle = RedisThrottle(redis, row=row, config=CONFIG)
    for provider in ("google", "customer.example"):
        await session(throttle, ask(provider, source="192.0.2.7"), SessionOutcome.RATE)
    await session(throttle, ask("outlook"))
    await redis.aclose()
    async with reader(tmp_path, database_url, redis_url) as found:
        page = await exposed(found)
    assert 25 < page.value("mailsift_throttle_penalty_seconds", provider="google", source="192.0.2.7") < 40
    assert page.value("mailsift_throttle_pace_ratio", provider="google") == 0.5
    assert page.value("mailsift_throttle_pace_ratio", provider="outlook", source="default") == 1
    assert page.values("mailsift_throttle_penalty_seconds", "provider") == {"google", "outlook"}


async def test_a_sweeper_shows_when_it_swept(tmp_path: Path, database_url: str, redis_url: str) -> None:
    settings = settings_for(
        tmp_path / "home",
        database_url=database_url,
        redis_url=redis_url,
        metrics_port=free_port(),
    )
    stop = asyncio.Event()
    running = asyncio.create_task(run_sweeper(settings, stop=stop))
    port = settings.metrics_port
    assert port is not None

    async def swept() -> bool:
        try:
            page = await scraped(port)
        except httpx.TransportError:
            return False
        return page.value("mailsift_sweeper_last_tick_timestamp_seconds") > 0

    await until(swept, within=30)
    assert (await scraped(port)).value("mailsift_build_info", role="sweeper") == 1
    stop.set()
    await running


def test_the_worker_beside_an_api_has_the_next_port(tmp_path: Path) -> None:
    assert worker_settings(Settings(home=tmp_path, metrics_port=9125)).metrics_port == 9126
    assert worker_settings(Settings(home=tmp_path)).metrics_port is None
