"""The pipeline's fact cache: in Redis for all processes, or in the memory of one alone."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from redis.asyncio import Redis
from typing_extensions import override

from mailsift.pipeline.clock import Clock
from mailsift.pipeline.facts import (
    CacheEntry,
    CatchAllFact,
    Claimed,
    DomainFact,
    FactCache,
    FactKind,
    decode_domain,
)
from mailsift.pipeline.probe.cache import unpack_catch_all
from mailsift.storage.redis.connection import PREFIX, RedisCircuitBreaker

_KEPT_FACTS = 200_000  # of one process alone, some hundred bytes each; the longest known are forgotten first
_KEYS_A_COMMAND = 500  # a command keeps the server busy for as long as it runs

# KEYS: facts; ARGV: value and milliseconds to live of each. One command costs the client a tenth of one SET
# for each fact.
_REMEMBER = """
for i, key in ipairs(KEYS) do
    redis.call('SET', key, ARGV[2 * i - 1], 'PX', ARGV[2 * i])
end
"""


# KEYS: facts; ARGV: the mark of a claim, milliseconds it lives. Returns for each key the fact, 1 for a claim
# made here, or nothing when somebody else has claimed it.
_GET_OR_CLAIM = """
local found = redis.call('MGET', unpack(KEYS))
for i, value in ipairs(found) do
    if value == false then
        redis.call('SET', KEYS[i], ARGV[1], 'PX', ARGV[2])
        found[i] = 1
    elseif value == ARGV[1] then
        found[i] = false
    end
end
return found
"""
_CLAIM = b"\0claimed"  # in the place of a fact; no fact looks like it
_CLAIM_SECONDS = 10


class RedisFactCache(FactCache):
    """Facts shared by all processes, and claims to look them up. Without Redis it is an empty cache."""

    def __init__(self, redis: Redis, *, breaker: RedisCircuitBreaker | None = None) -> None:
        """Take a client (the caller closes it)."""
        self._redis = redis
        self._remember = redis.register_script(_REMEMBER)
        self._claim = redis.register_script(_GET_OR_CLAIM)
        self._breaker = breaker or RedisCircuitBreaker("The fact cache")

    @override
    async def get(self, kind: FactKind, keys: Sequence[str]) -> Mapping[str, bytes]:
        if not keys:
            return {}
        found = await self._breaker.call(self._read, [_fact_key(kind, key) for key in keys])
        return _facts(keys, found or [])

    @override
    async def get_or_claim(self, kind: FactKind, keys: Sequence[str]) -> Claimed:
        if not keys:
            return Claimed({})
        found = await self._breaker.call(self._read_or_claim, [_fact_key(kind, key) for key in keys])
        if found is None:
            return Claimed({})
        elsewhere = frozenset([key for key, value in zip(keys, found, strict=True) if value is None])
        return Claimed(_facts(keys, found), elsewhere)

    @override
    async def put(self, kind: FactKind, entries: Sequence[CacheEntry]) -> None:
        fresh = [entry for entry in entries if entry.ttl > 0]
        if fresh:
            await self._breaker.call(self._write, kind, fresh)

    async def _read(self, keys: Sequence[str]) -> list[bytes | None]:
        async with self._redis.pipeline(transaction=False) as pipe:
            for start in range(0, len(keys), _KEYS_A_COMMAND):
                _ = pipe.mget(keys[start : start + _KEYS_A_COMMAND])
            return [value for values in await pipe.execute() for value in values]

    async def _read_or_claim(self, keys: Sequence[str]) -> list[bytes | int | None]:
        async with self._redis.pipeline(transaction=False) as pipe:
            for start in range(0, len(keys), _KEYS_A_COMMAND):
                some = keys[start : start + _KEYS_A_COMMAND]
                await self._claim(keys=some, args=[_CLAIM, _CLAIM_SECONDS * 1000], client=pipe)
            return [value for values in await pipe.execute() for value in values]

    async def _write(self, kind: FactKind, entries: Sequence[CacheEntry]) -> None:
        for start in range(0, len(entries), _KEYS_A_COMMAND):
            some = entries[start : start + _KEYS_A_COMMAND]
            values = [part for entry in some for part in (entry.value, max(1, int(entry.ttl * 1000)))]
            await self._remember(keys=[_fact_key(kind, entry.key) for entry in some], args=values)


class LocalFactCache(FactCache):
    """Remembers facts between the calls of one process, where no Redis is shared. On one event loop only."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._facts: OrderedDict[tuple[FactKind, str], tuple[float, bytes]] = OrderedDict()

    @override
    async def get(self, kind: FactKind, keys: Sequence[str]) -> Mapping[str, bytes]:
        now = self._clock()
        known = ((key, self._facts.get((kind, key))) for key in keys)
        return {key: fact[1] for key, fact in known if fact is not None and fact[0] > now}

    @override
    async def put(self, kind: FactKind, entries: Sequence[CacheEntry]) -> None:
        now = self._clock()
        for entry in entries:
            self._facts[kind, entry.key] = (now + entry.ttl, entry.value)
        while len(self._facts) > _KEPT_FACTS:
            self._facts.popitem(last=False)


def _facts(keys: Sequence[str], found: Sequence[bytes | int | None]) -> dict[str, bytes]:
    """Return what is a fact: neither nothing nor a claim."""
    pairs = zip(keys, found, strict=False)
    return {key: value for key, value in pairs if isinstance(value, bytes) and value != _CLAIM}


def _fact_key(kind: FactKind, key: str) -> str:
    """Return where a fact lies."""
    return f"{PREFIX}fact:{kind}:{key}"


_KINDS = (FactKind.DOMAIN, FactKind.CATCH_ALL)


@dataclass(frozen=True, slots=True)
class KnownDomain:
    """What is known of a domain; None = nothing. Ages are seconds until it is forgotten by itself."""

    domain: str
    dns: DomainFact | None
    dns_left_s: float
    catch_all: CatchAllFact | None
    catch_all_left_s: float

    @property
    def empty(self) -> bool:
        """Whether nothing is known."""
        return self.dns is None and self.catch_all is None


class FactInspector:
    """Looks into the fact cache."""

    def __init__(self, redis: Redis) -> None:
        """Take a client (the caller closes it)."""
        self._redis = redis

    async def read(self, domain: str) -> KnownDomain:
        """Return what is remembered of a domain, as the pipeline writes it (lower case, IDNA).

        Raises:
            mailsift.storage.redis.connection.ClientError: Redis isn’t responding.
        """
        async with self._redis.pipeline(transaction=False) as pipe:
            for kind in _KINDS:
                _ = pipe.mget(_fact_key(kind, domain))  # unlike GET, without an error for another type
                _ = pipe.pttl(_fact_key(kind, domain))
            (dns,), dns_left, (catch_all,), catch_all_left = await pipe.execute()
        known = unpack_catch_all(catch_all) if catch_all else None
        return KnownDomain(
            domain,
            decode_domain(domain, dns) if dns else None,
            max(0, dns_left) / 1000,
            known.fact if known else None,
            max(0, catch_all_left) / 1000,
        )

    async def forget(self, domain: str) -> int:
        """Forget it, so that it is asked for again; returns how many facts there were.

        Raises:
            mailsift.storage.redis.connection.ClientError: Redis isn’t responding.
        """
        return int(await self._redis.delete(*(_fact_key(kind, domain) for kind in _KINDS)))
