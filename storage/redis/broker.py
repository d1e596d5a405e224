"""The message broker as Redis sees it: its keys, how much lies in them, and how a broken one is mended."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import Any, Final

from redis import Redis
from redis.asyncio import Redis as AsyncRedis
from redis.exceptions import ResponseError

from mailsift.storage.redis.connection import BROKER_PREFIX, WRITABLE_KEY

_PRIORITIES: Final = ("", *(f"\x06\x16{step}" for step in (3, 6, 9)))  # the library keeps one list for each
_BINDINGS: Final = ("binding", "binding_permanent")
_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class BrokerCounts:
    """What lies in the broker.

    Attributes:
        queued: wake-ups that no worker has taken.
        unacked: wake-ups that were taken and not acknowledged; those of dead workers stay here.
        oldest_unacked_s: for how many seconds the oldest of these.
        memory_bytes: what Redis uses, all of it.
        version: of the server.
        spoilt: how many of these keys somebody has overwritten with another type.
    """

    queued: int
    unacked: int
    oldest_unacked_s: float
    memory_bytes: int
    version: str
    spoilt: int = 0


async def counts(redis: AsyncRedis, queue: str) -> BrokerCounts:
    """Count the messages of a queue, and see whether there could be more of them.

    Raises:
        mailsift.storage.redis.connection.ClientError: Redis isn’t responding, or takes nothing: it is full,
            cannot write its file or is a replica. It can be read all the same.
    """
    async with redis.pipeline(transaction=False) as pipe:
        for priority in _PRIORITIES:
            _ = pipe.llen(f"{BROKER_PREFIX}{queue}{priority}")
        _ = pipe.hlen(f"{BROKER_PREFIX}unacked")
        _ = pipe.zrange(f"{BROKER_PREFIX}unacked_index", 0, 0, withscores=True)
        _ = pipe.time()
        _ = pipe.info("memory")
        _ = pipe.info("server")
        _ = pipe.set(WRITABLE_KEY, 1, px=1_000)
        found = await pipe.execute(raise_on_error=False)
    if errors := [reply for reply in found if isinstance(reply, Exception) and not _is_wrong_type(reply)]:
        raise errors[0]
    counted: list[Any] = [None if _is_wrong_type(reply) else reply for reply in found]
    *lengths, unacked, oldest, (seconds, _), memory, server, _ = counted
    return BrokerCounts(
        queued=sum(length or 0 for length in lengths),
        unacked=unacked or 0,
        oldest_unacked_s=max(0.0, seconds - oldest[0][1]) if oldest else 0.0,
        memory_bytes=memory["used_memory"],
        version=server.get("valkey_version") or server["redis_version"],
        spoilt=counted.count(None),
    )


def _is_wrong_type(reply: object) -> bool:
    return isinstance(reply, ResponseError) and str(reply).startswith("WRONGTYPE")


def broker_keys(queue: str) -> dict[str, bytes]:
    """Return the type of each key the broker library keeps for a worker of this machine."""
    box = f"celery@{socket.gethostname()}.celery.pidbox"
    lists = (*(queue + priority for priority in _PRIORITIES), box)
    bound = (queue, "celery.pidbox", "reply.celery.pidbox", "celeryev")
    return {
        **{BROKER_PREFIX + name: b"list" for name in lists},
        **{f"{BROKER_PREFIX}_kombu.{kind}.{name}": b"set" for kind in _BINDINGS for name in bound},
        f"{BROKER_PREFIX}_kombu.binding_deadlines": b"zset",
        f"{BROKER_PREFIX}unacked": b"hash",
        f"{BROKER_PREFIX}unacked_index": b"zset",
        f"{BROKER_PREFIX}unacked_mutex": b"string",
    }


def mend_broker_keys(url: str, queue: str) -> list[str]:
    """Delete the broker's keys of a wrong type, over which every worker would stumble again and again.

    Nothing is lost by it: the broker holds wake-ups, and those come again.

    Returns:
        The names of the keys that were deleted.

    Raises:
        mailsift.storage.redis.connection.ClientError: Redis isn’t responding.
    """
    right = broker_keys(queue)
    with Redis.from_url(url, socket_timeout=_SECONDS, socket_connect_timeout=_SECONDS) as client:
        pipe = client.pipeline(transaction=False)
        for key in right:
            pipe.type(key)
        found = dict(zip(right, pipe.execute(), strict=True))
        wrong = [key for key, kind in right.items() if found[key] not in {kind, b"none"}]
        if wrong:
            client.delete(*wrong)
    return wrong
