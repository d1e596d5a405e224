"""How many decisions a second the shared throttle makes, batched and one by one, on one embedded Valkey.

A decision is one ask answered (rate, sessions, penalty and the destination's own limits) and its session
reported afterwards.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from redis.asyncio import Redis

from mailsift.pipeline.providers import Provider
from mailsift.pipeline.throttle import Ask, Report, SessionOutcome
from mailsift.runtime.embedded import EmbeddedServers
from mailsift.storage.redis.connection import connect
from mailsift.storage.redis.throttle import RedisThrottle

SECONDS = 3.0
BATCH = 200
RECIPIENTS = 20
ROOMY = Provider("roomy", sessions=10_000, rate=1e6, burst=1_000_000, recipients=50)


async def decisions(redis: Redis, batch: int) -> tuple[float, float]:
    """Return decisions and recipients a second with `batch` asks a call."""
    throttle = RedisThrottle(redis, row=lambda _: ROOMY)
    asks = [Ask(f"d{n}.example", "", f"192.0.2.{n % 250}", RECIPIENTS) for n in range(BATCH)]
    calls: list[Sequence[Ask]] = [asks[start : start + batch] for start in range(0, BATCH, batch)]
    await redis.flushdb()
    made = recipients = 0
    began = time.perf_counter()
    while (took := time.perf_counter() - began) < SECONDS:
        for call in calls:
            grants = await throttle.grant(call)
            made += len(grants)
            recipients += sum(grant.recipients for grant in grants)
            pairs = zip(call, grants, strict=True)
            await throttle.report([Report(ask, grant.lease, SessionOutcome.CLEAN) for ask, grant in pairs])
    return made / took, recipients / took


async def main(url: str) -> None:
    """Measure and print both ways of asking."""
    async with connect(url) as redis:
        for title, batch in (("one by one", 1), (f"{BATCH} a call", BATCH)):
            made, recipients = await decisions(redis, batch)
            print(f"throttle, {title:<12}{made:>10,.0f} decisions/s {recipients:>12,.0f} recipients/s")


if __name__ == "__main__":
    with (
        tempfile.TemporaryDirectory(prefix="ms-") as home,
        EmbeddedServers(Path(home), postgres=False) as servers,
    ):
        asyncio.run(main(servers.redis_url))
