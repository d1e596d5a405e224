"""Redis: how to reach it, what to do while it is gone, every key that is Mailsift's, and the broker in it.

| key                                      | type   | holds                                 | lives         |
|------------------------------------------|--------|---------------------------------------|---------------|
| ms:fact:domain:<domain>                  | string | DomainFact, bytes of the pipeline (+) | fact's TTL    |
| ms:fact:catch_all:<domain>               | string | CatchAllFact                          | fact's TTL    |
| ms:fact:mailbox:<digest>                 | string | MailboxFact                           | fact's TTL    |
| ms:throttle:state:<provider>:<source>    | hash   | rate clock, learned share, penalty    | (*)           |
| ms:throttle:sessions:<provider>:<source> | zset   | lease -> its end, epoch seconds       | longest lease |
| ms:throttle:address:<ip>                 | zset   | lease -> its end, of one destination  | longest lease |
| ms:throttle:pace:<ip>:<source>           | string | rate clock of destination x source    | pause         |
| ms:throttle:asked:<provider>:<source>    | hash   | what counts as harvesting there       | some minutes  |
| ms:throttle:asked:<network>:<source>     | hash   | the same of a /24 or /48, or a server | some minutes  |
| ms:throttle:domains:<provider>, <ip>     | set    | ten of the domains they serve         | an hour       |
| ms:throttle:list:<job>:<n>:<provider>:<source> | hash | what a list asked there | five minutes |
| ms:throttle:since                        | string | since when it knows what is asked     | a day         |
| ms:throttle:seen                         | zset   | <provider>:<source> -> sessions, 200  | a day         |
| ms:throttle:mix                          | hash   | outcomes of these, for people         | a day         |
| ms:limit:<zone>:<holder>                 | string | rate clock of an account's requests   | until full    |
| ms:mark:<name>                           | string | a revoked API key                     | five minutes  |
| ms:writable                              | string | that it takes what is written         | a second      |

(+) or for ten seconds a mark that somebody is looking it up
(*) a day after the last lesson; when nothing is learned, until its rate clock has run out

Celery keeps its own keys under BROKER_PREFIX. Losing all of it costs time, never correctness.
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final, ParamSpec, TypeVar

from redis import Redis as BlockingRedis
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    AskError,
    AuthenticationError,
    BusyLoadingError,
    ClusterCrossSlotError,
    ClusterDownError,
    MasterDownError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from mailsift.pipeline.errors import MailsiftError

T = TypeVar("T")
_P = ParamSpec("_P")

Client = Redis
"""What `connect` makes."""
ClientError = RedisError
"""Whatever goes wrong between us and Redis."""

PREFIX = "ms:"
BROKER_PREFIX = f"{PREFIX}celery:"
"""Of Celery's own keys."""
WRITABLE_KEY = f"{PREFIX}writable"
"""Written by who wants to know whether the server takes anything: it answers when it is full, too."""
_CONNECTIONS = 16  # of a process, at most
_PROBE_SECONDS = 3.0  # between two looks whether Redis is back
_log = logging.getLogger(__name__)


def connect(url: str, *, timeout: float = 2.0) -> Redis:
    """Make a client with a bounded pool; nothing is dialled before the first command.

    Args:
        url: `redis://`, `rediss://` or `unix:///path?db=n`.
        timeout: seconds to connect, to wait for a reply and to wait for a free connection.
    """
    pool = BlockingConnectionPool.from_url(
        url,
        max_connections=_CONNECTIONS,
        timeout=timeout,
        socket_timeout=timeout,
        socket_connect_timeout=timeout,
        # a pooled connection may be from before a restart: try once more, at once
        retry=Retry(NoBackoff(), 1, supported_errors=(RedisConnectionError,)),
    )
    return Redis.from_pool(pool)


def script_text(name: str) -> str:
    """Return a script that runs on the server: one of storage/lua."""
    return files("mailsift.storage").joinpath("lua", f"{name}.lua").read_text(encoding="utf-8")


_CLUSTER = (AskError, ClusterCrossSlotError, ClusterDownError, TryAgainError)  # MOVED is a kind of ASK
_OUTAGES = (
    *_CLUSTER,
    RedisConnectionError,
    RedisTimeoutError,
    MasterDownError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
)
# What a server says that cannot do its work now, where the library has no class of its own for it, or has
# no database of our URL's number ("DB index is out of range"), a cluster none but the first (SELECT).
_OUTAGE_CODES = frozenset({"BUSY", "DB", "LOADING", "MISCONF", "NOREPLICAS", "SELECT", "UNKILLABLE"})
_OF_PIPELINE: Final = "of pipeline caused error: "  # the library's words before those of the server


def _is_outage(error: RedisError) -> bool:
    """Whether the server is the trouble, not what it was asked: a script error would come every time."""
    message = str(error).rpartition(_OF_PIPELINE)[2].lstrip("('\"")
    return isinstance(error, _OUTAGES) or message.partition(" ")[0] in _OUTAGE_CODES


_WORDS: Final = (
    (AuthenticationError, "It does not take our name or password."),
    (NoPermissionError, "Our user may not do here what it must (ACL)."),
    (ReadOnlyError, "It is a replica, which takes nothing: MAILSIFT_REDIS_URL must name the primary."),
    (OutOfMemoryError, "It is full (maxmemory) and takes nothing."),
    (BusyLoadingError, "It is still loading its file."),
    (_CLUSTER, "It is part of a cluster, which has our keys elsewhere: use a server that stands alone."),
    (ResponseError, "It answers, but does not do what it must."),
)


def words_of(error: RedisError) -> str:
    """Say what keeps Redis from working for us, in words of ours: its own may hold anything."""
    reasons = (error, error.__cause__, error.__context__)  # what a connection failed by stands behind it
    for kind, words in _WORDS:
        if any(isinstance(one, kind) for one in reasons):
            return words
    return f"No answer ({type(error).__name__})."


def redis_unavailable() -> MailsiftError:
    """Return the error of who needs Redis while it is away."""
    return MailsiftError("redis_unavailable", "Redis isn’t responding.", retryable=True)


class RedisCircuitBreaker:
    """Calls Redis, and while it does not answer spares its callers the waiting.

    After a failure only one call in a few seconds goes to Redis, to see whether it is back.
    """

    def __init__(self, purpose: str, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Take the name of the user for the log."""
        self._purpose = purpose
        self._monotonic = monotonic
        self._gone_until: float | None = None

    async def call(self, ask: Callable[_P, Awaitable[T]], *args: _P.args, **kwargs: _P.kwargs) -> T | None:
        """Return what `ask` returns, or None when Redis is gone or cannot do its work now.

        Raises:
            ClientError: what was asked is at fault, a script for instance: waiting would not mend it.
        """
        now = self._monotonic()
        if self._gone_until is not None:
            if now < self._gone_until:
                return None
            self._gone_until = now + _PROBE_SECONDS  # the others do not wait for this one's answer
        try:
            answer = await ask(*args, **kwargs)
        except RedisError as error:
            if not _is_outage(error):
                raise
            if self._gone_until is None:
                _log.warning("%s works without Redis: %s", self._purpose, type(error).__name__)
            self._gone_until = self._monotonic() + _PROBE_SECONDS
            return None
        if self._gone_until is not None:
            self._gone_until = None
            _log.warning("%s has Redis again", self._purpose)
        return answer


_PRIORITIES: Final = ("", *(f"\x06\x16{step}" for step in (3, 6, 9)))  # the library keeps one list for each
_BINDINGS: Final = ("binding", "binding_permanent")
_BROKER_SECONDS: Final = 5.0


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


async def broker_counts(redis: Redis, queue: str) -> BrokerCounts:
    """Count the messages of a queue, and see whether there could be more of them.

    Raises:
        ClientError: Redis isn’t responding, or takes nothing: it is full,
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
        ClientError: Redis isn’t responding.
    """
    right = broker_keys(queue)
    with BlockingRedis.from_url(
        url, socket_timeout=_BROKER_SECONDS, socket_connect_timeout=_BROKER_SECONDS
    ) as client:
        pipe = client.pipeline(transaction=False)
        for key in right:
            pipe.type(key)
        found = dict(zip(right, pipe.execute(), strict=True))
        wrong = [key for key, kind in right.items() if found[key] not in {kind, b"none"}]
        if wrong:
            client.delete(*wrong)
    return wrong
