"""What the throttle has in Redis, for operators: rates, sessions, penalties and how sessions went."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from redis.asyncio import Redis

from mailsift.pipeline.throttle import SessionOutcome
from mailsift.storage.redis.throttle import MIX_KEY, SEEN_KEY, SESSIONS_KEY, STATE_KEY


@dataclass(frozen=True, slots=True)
class LearnedRate:
    """What is known of a provider at one source; times are seconds from now.

    Attributes:
        share: learned part of the rate, 1 = nothing was learned.
        strikes: rate replies in a row.
        blocks: sessions in a row in which it refused us.
        in_use: sessions that are open.
        closed_s: how long it is left alone, 0 = it is open.
        refuses: it is left alone because it refuses us.
        owed_s: how long until a full burst may be asked again, 0 = now.
        mix: sessions of at most a day by outcome.
    """

    provider: str
    source: str
    share: float = 1.0
    strikes: int = 0
    blocks: int = 0
    in_use: int = 0
    closed_s: float = 0.0
    refuses: bool = False
    owed_s: float = 0.0
    mix: dict[SessionOutcome, int] = field(default_factory=dict)

    @property
    def sessions(self) -> int:
        """Sessions that were counted."""
        return sum(self.mix.values())


_LEARNED = ("share", "strikes", "blocks", "blocked_until", "held")
_FIELDS = (*_LEARNED, "paid_until")


class ThrottleInspector:
    """Looks into the throttle and makes it forget."""

    def __init__(self, redis: Redis) -> None:
        """Take a client (the caller closes it)."""
        self._redis = redis

    async def read(self, also: Sequence[tuple[str, str]] = ()) -> list[LearnedRate]:
        """Return the providers x sources with the most sessions, and `also` these.

        Raises:
            mailsift.storage.redis.connection.ClientError: Redis isn’t responding.
        """
        async with self._redis.pipeline(transaction=False) as pipe:
            _ = pipe.zrevrange(SEEN_KEY, 0, -1)
            _ = pipe.hgetall(MIX_KEY)
            _ = pipe.time()
            seen, mix, (seconds, microseconds) = await pipe.execute()
        places = [_place(name.decode()) for name in seen]
        places += [place for place in also if place not in set(places)]
        states = await self._states(places, now := seconds + microseconds / 1e6)
        counts = {name.decode(): int(value) for name, value in mix.items() if name != b"since"}
        return [_learned(place, state, counts, now) for place, state in zip(places, states, strict=True)]

    async def reset(self, provider: str, source: str) -> bool:
        """Forget what was learned there, penalties too; sessions and rate stay. False: nothing was known.

        Raises:
            mailsift.storage.redis.connection.ClientError: Redis isn’t responding.
        """
        key = f"{STATE_KEY}{provider}:{source}"
        return bool(await self._redis.hdel(key, *_LEARNED, "learned_at"))

    async def _states(
        self, places: Sequence[tuple[str, str]], now: float
    ) -> list[tuple[list[bytes | None], int]]:
        async with self._redis.pipeline(transaction=False) as pipe:
            for provider, source in places:
                _ = pipe.hmget(f"{STATE_KEY}{provider}:{source}", _FIELDS)
                _ = pipe.zcount(f"{SESSIONS_KEY}{provider}:{source}", now, "+inf")
            found = await pipe.execute()
        return list(zip(found[::2], found[1::2], strict=True))


def _place(name: str) -> tuple[str, str]:
    """Split a name; a source may hold colons, a provider does not."""
    provider, _, source = name.partition(":")
    return provider, source


def _learned(
    place: tuple[str, str], state: tuple[list[bytes | None], int], counts: dict[str, int], now: float
) -> LearnedRate:
    (share, strikes, blocks, blocked_until, held, paid_until), in_use = state
    name = ":".join(place)
    return LearnedRate(
        *place,
        share=float(share or 1),
        strikes=int(strikes or 0),
        blocks=int(blocks or 0),
        in_use=in_use,
        closed_s=max(0.0, float(blocked_until or 0) - now),
        refuses=held is not None,
        owed_s=max(0.0, float(paid_until or 0) - now),
        mix={outcome: counts[key] for outcome in SessionOutcome if (key := f"{name}|{outcome}") in counts},
    )
