"""How often an account may ask, counted in Redis for all processes, and the marks of revoked keys."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

from redis.asyncio import Redis

from mailsift.storage.redis.connection import PREFIX, RedisCircuitBreaker, script_text
from mailsift.storage.shared_calls import SharedCalls

_TOGETHER = 200
_MARK_SECONDS = 300
"""How long a revoked key is marked: longer than anybody remembers that it was good."""


@dataclass(frozen=True, slots=True)
class Zone:
    """A quota: so many units in a window of so many seconds, refilled evenly."""

    name: str
    quota: int
    window: int


@dataclass(frozen=True, slots=True)
class RateLimitDecision:
    """What the limiter says.

    Attributes:
        allowed: the request may go on.
        remaining: units left now.
        reset: seconds until the whole quota is back.
        retry_after: seconds to wait when it is not allowed.
        marked: the mark that was asked about stands.
    """

    allowed: bool
    remaining: int
    reset: float
    retry_after: float
    marked: bool = False


def whole_seconds(wait: float) -> int:
    """Return how long to wait as somebody refused is told it: never too short, and never nothing."""
    return max(1, ceil(wait))


class _Ask(NamedTuple):
    """The keys of a quota and a mark, "" for none; milliseconds of a unit and of the window; units."""

    keys: tuple[str, str]
    terms: tuple[float, int, int]


class RateLimit:
    """GCRA by zone and holder; one script, so that no two processes ever decide at the same time.

    What is asked while a call is under way goes with the next one, together: under load a request costs a
    fraction of a round trip, and no more than one connection is used.
    """

    def __init__(self, redis: Redis) -> None:
        """Take a client; the caller closes it."""
        self._redis = redis
        self._script = redis.register_script(script_text("limit"))
        self._breaker = RedisCircuitBreaker("The rate limit")
        self._calls = SharedCalls(self._decisions, most=_TOGETHER)

    async def take(
        self, zone: Zone, holder: str, *, units: int = 1, mark: str = ""
    ) -> RateLimitDecision | None:
        """Take units from the holder's quota and look for a mark.

        Returns:
            The ruling, or None while Redis is gone: the caller decides whether that opens or closes.
        """
        keys = (f"{PREFIX}limit:{zone.name}:{holder}", _mark_key(mark) if mark else "")
        window = zone.window * 1000
        return await self._calls.ask(_Ask(keys, (window / zone.quota, window, units)))

    async def _decisions(self, batch: Sequence[_Ask]) -> Sequence[RateLimitDecision | None]:
        places: dict[str, int] = {}
        asks = [
            [places.setdefault(key, len(places) + 1) if key else 0 for key in ask.keys] + list(ask.terms)
            for ask in batch
        ]
        request = json.dumps(asks)  # one argument, and every key once: each costs time
        answers = await self._breaker.call(self._script, keys=list(places), args=[request])
        if answers is None:
            return [None] * len(batch)
        return [
            RateLimitDecision(bool(allowed), max(0, remaining), reset / 1000, wait / 1000, bool(marked))
            for allowed, remaining, reset, wait, marked in answers
        ]

    async def mark(self, name: str) -> bool:
        """Set a mark for some minutes; False when Redis is gone."""
        done = await self._breaker.call(self._redis.set, _mark_key(name), "1", ex=_MARK_SECONDS)
        return bool(done)


def _mark_key(name: str) -> str:
    return f"{PREFIX}mark:{name}"
