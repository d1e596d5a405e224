"""The keys of the message broker: what type each is, and the way back when somebody made one of another."""

from __future__ import annotations

import socket

from redis import Redis

from mailsift.storage.redis.connection import BROKER_PREFIX

_SECONDS = 5.0


def broker_keys(queue: str) -> dict[str, bytes]:
    """Return the type of each key the broker library keeps for a worker of this machine."""
    box = f"celery@{socket.gethostname()}.celery.pidbox"
    lists = (queue, *(f"{queue}\x06\x16{step}" for step in (3, 6, 9)), box)
    bound = (queue, "celery.pidbox", "reply.celery.pidbox", "celeryev")
    return {
        **{BROKER_PREFIX + name: b"list" for name in lists},
        **{f"{BROKER_PREFIX}_kombu.binding.{name}": b"set" for name in bound},
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
        mailsift.storage.redis.connection.ClientError: Redis does not answer.
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
