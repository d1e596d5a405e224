"""What is remembered of a domain, for operators to look at and to forget."""

from __future__ import annotations

from dataclasses import dataclass

from redis.asyncio import Redis

from pipeline.dns.codec import decode_domain
from pipeline.facts import CatchAllFact, DomainFact
from pipeline.ports import FactKind
from pipeline.probe.cache import unpack_catch_all
from storage.facts import fact_key

_KINDS = (FactKind.DOMAIN, FactKind.CATCH_ALL)


@dataclass(frozen=True, slots=True)
class DomainMemory:
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


class FactDesk:
    """Looks into the fact cache."""

    def __init__(self, redis: Redis) -> None:
        """Take a client (the caller closes it)."""
        self._redis = redis

    async def look(self, domain: str) -> DomainMemory:
        """Return what is remembered of a domain, as the pipeline writes it (lower case, IDNA).

        Raises:
            storage.redis.ClientError: Redis does not answer.
        """
        async with self._redis.pipeline(transaction=False) as pipe:
            for kind in _KINDS:
                _ = pipe.get(fact_key(kind, domain))
                _ = pipe.pttl(fact_key(kind, domain))
            dns, dns_left, catch_all, catch_all_left = await pipe.execute()
        known = unpack_catch_all(catch_all) if catch_all else None
        return DomainMemory(
            domain,
            decode_domain(domain, dns) if dns else None,
            max(0, dns_left) / 1000,
            known[0] if known else None,
            max(0, catch_all_left) / 1000,
        )

    async def forget(self, domain: str) -> int:
        """Forget it, so that it is asked for again; returns how many facts there were.

        Raises:
            storage.redis.ClientError: Redis does not answer.
        """
        return int(await self._redis.delete(*(fact_key(kind, domain) for kind in _KINDS)))
