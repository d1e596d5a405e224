"""Wake-ups through a broker that is there, and one that says nothing."""

from __future__ import annotations

import asyncio

import pytest
from redis.asyncio import Redis

from mailsift.jobs.tasks import QUEUE, CeleryWaker, make_app
from mailsift.storage.redis.connection import BROKER_PREFIX
from tests.support.connections import talking


async def test_wake_ups_that_are_wanted_at_once_go_together(redis: Redis, redis_url: str) -> None:
    waker = CeleryWaker(make_app(redis_url))
    await asyncio.gather(*(waker.wake(2) for _ in range(10)))
    assert 2 <= await redis.llen(f"{BROKER_PREFIX}{QUEUE}") < 20


@pytest.mark.parametrize(
    "name", ["BROKER_URL", "BROKER_READ_URL", "BROKER_WRITE_URL", "RESULT_BACKEND", "LOADER", "CONFIG_MODULE"]
)
async def test_what_the_environment_says_to_another_program_s_celery_does_not_reach_ours(
    name: str, redis: Redis, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"CELERY_{name}", "redis://127.0.0.1:1/0")
    await CeleryWaker(make_app(redis_url)).wake(1)
    assert await redis.llen(f"{BROKER_PREFIX}{QUEUE}") == 1


async def test_a_broker_that_says_nothing_holds_nobody_up() -> None:
    async def say_nothing(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        while await reader.read(1024):
            pass

    async with talking(say_nothing) as port:
        waker = CeleryWaker(make_app(f"redis://127.0.0.1:{port}/0"), patience=0.01)
        async with asyncio.timeout(30):
            for _ in range(3):
                await waker.wake(1)
