"""How many wake-ups lie in the broker: waiting in the queue, and handed out but not acknowledged."""

from __future__ import annotations

from dataclasses import dataclass

from redis.asyncio import Redis

from mailsift.storage.redis.connection import BROKER_PREFIX

_PRIORITIES = ("", *(f"\x06\x16{step}" for step in (3, 6, 9)))  # kombu keeps one list for each


@dataclass(frozen=True, slots=True)
class BrokerCounts:
    """What lies in the broker.

    Attributes:
        queued: wake-ups that no worker has taken.
        unacked: wake-ups that were taken and not acknowledged; those of dead workers stay here.
        oldest_unacked_s: for how many seconds the oldest of these.
        memory_bytes: what Redis uses, all of it.
        version: of the server.
    """

    queued: int
    unacked: int
    oldest_unacked_s: float
    memory_bytes: int
    version: str


async def counts(redis: Redis, queue: str) -> BrokerCounts:
    """Count the messages of a queue.

    Raises:
        mailsift.storage.redis.connection.ClientError: Redis does not answer.
    """
    async with redis.pipeline(transaction=False) as pipe:
        for priority in _PRIORITIES:
            _ = pipe.llen(f"{BROKER_PREFIX}{queue}{priority}")
        _ = pipe.hlen(f"{BROKER_PREFIX}unacked")
        _ = pipe.zrange(f"{BROKER_PREFIX}unacked_index", 0, 0, withscores=True)
        _ = pipe.time()
        _ = pipe.info("memory")
        _ = pipe.info("server")
        *lengths, unacked, oldest, (seconds, _), memory, server = await pipe.execute()
    return BrokerCounts(
        queued=sum(lengths),
        unacked=unacked,
        oldest_unacked_s=max(0.0, seconds - oldest[0][1]) if oldest else 0.0,
        memory_bytes=memory["used_memory"],
        version=server.get("valkey_version") or server["redis_version"],
    )
