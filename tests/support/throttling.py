"""A small world for the throttle's tests: rows, limits, a clock moved by hand, and one ask at a time."""

from __future__ import annotations

from mailsift.pipeline.providers import Provider
from mailsift.pipeline.throttle import Ask, Grant, Report, SessionOutcome, Throttle
from mailsift.storage.redis.local_throttle import ThrottleConfig

START = 1_800_000_000.0
ROWS = {
    "slow": Provider("slow", sessions=2, rate=1.0, burst=10, recipients=8),
    "wide": Provider("wide", sessions=100, rate=1000.0, burst=1000, recipients=50),
}
OTHER = Provider("default", sessions=3, rate=20.0, burst=50, recipients=50)
CONFIG = ThrottleConfig(
    lease_seconds=60, busy_seconds=0.5, address_sessions=4, address_rate=50.0, address_burst=60
)


class Time:
    """A clock moved by hand."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> float:
        return self.now


def row(key: str) -> Provider:
    return ROWS.get(key, OTHER)


def ask(provider: str = "slow", wanted: int = 1, address: str = "192.0.2.1", source: str = "") -> Ask:
    return Ask(provider, source, address, wanted)


async def one(throttle: Throttle, asked: Ask) -> Grant:
    (grant,) = await throttle.grant([asked])
    return grant


async def end(
    throttle: Throttle, asked: Ask, grant: Grant, outcome: SessionOutcome = SessionOutcome.CLEAN
) -> None:
    await throttle.report([Report(asked, grant.lease, outcome)])


async def session(throttle: Throttle, asked: Ask, outcome: SessionOutcome = SessionOutcome.CLEAN) -> Grant:
    grant = await one(throttle, asked)
    await end(throttle, asked, grant, outcome)
    return grant
