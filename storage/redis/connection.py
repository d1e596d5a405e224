"""Redis: how to reach it, what to do while it is gone, and every key that is Mailsift's.

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
import time
from collections.abc import Awaitable, Callable
from typing import Final, ParamSpec, TypeVar

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
log = logging.getLogger(__name__)


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
    said = str(error).rpartition(_OF_PIPELINE)[2].lstrip("('\"")
    return isinstance(error, _OUTAGES) or said.partition(" ")[0] in _OUTAGE_CODES


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


_WORDS: Final = (
    (AuthenticationError, "It does not take our name or password."),
    (NoPermissionError, "Our user may not do here what it must (ACL)."),
    (ReadOnlyError, "It is a replica, which takes nothing: MAILSIFT_REDIS_URL must name the primary."),
    (OutOfMemoryError, "It is full (maxmemory) and takes nothing."),
    (BusyLoadingError, "It is still loading its file."),
    (_CLUSTER, "It is part of a cluster, which has our keys elsewhere: use a server that stands alone."),
    (ResponseError, "It answers, but does not do what it must."),
)


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
                log.warning("%s works without Redis: %s", self._purpose, type(error).__name__)
            self._gone_until = self._monotonic() + _PROBE_SECONDS
            return None
        if self._gone_until is not None:
            self._gone_until = None
            log.warning("%s has Redis again", self._purpose)
        return answer
