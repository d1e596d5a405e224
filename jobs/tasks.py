"""The Celery side: one task without arguments that says "there is work", and how to send it."""

from __future__ import annotations

import asyncio
import os
from urllib.parse import parse_qsl, urlencode

import structlog
from celery import Celery
from kombu.exceptions import OperationalError
from typing_extensions import override

from mailsift.jobs.metrics import WAKE_UPS
from mailsift.jobs.waker import Waker
from mailsift.pipeline.background import guarded
from mailsift.storage.redis.connection import BROKER_PREFIX, ClientError

PULL = "mailsift.pull"
QUEUE = "mailsift"
_OTHERS = tuple(
    f"CELERY_{name}"
    for name in (
        "BROKER_URL",
        "BROKER_READ_URL",
        "BROKER_WRITE_URL",
        "RESULT_BACKEND",
        "LOADER",
        "CONFIG_MODULE",
    )
)
"""What Celery takes from the environment before what an application says; it may be there for another one."""

_log = structlog.get_logger()


def make_app(redis_url: str) -> Celery:
    """Return the Celery application; the broker carries wake-ups and nothing else."""
    for name in _OTHERS:
        os.environ.pop(name, None)  # noqa: TID251 - for a library
    app = Celery("mailsift", broker=broker_url(redis_url))
    app.conf.update(
        task_default_queue=QUEUE,
        task_ignore_result=True,
        task_serializer="json",
        accept_content=["json"],
        # A wake-up that dies with its worker is not worth repeating: the lease and the sweep are the
        # recovery path, and redelivery by the broker can loop.
        task_acks_late=False,
        task_publish_retry=False,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_channel_error_retry=True,  # a key of a wrong type: the consumer starts again, and mends it
        broker_pool_acquire_timeout=5,
        broker_transport_options={
            "global_keyprefix": BROKER_PREFIX,
            "socket_connect_timeout": 5,
            "socket_keepalive": True,
            "health_check_interval": 15,
            # How long one question for a wake-up takes: a worker that stops waits for its answer.
            "polling_interval": 0.2,
        },
        worker_prefetch_multiplier=1,
        worker_disable_prefetch=True,
        worker_send_task_events=False,
        worker_hijack_root_logger=False,
        worker_max_memory_per_child=1_500_000,  # KiB; a leak ends here, warm pools live long otherwise
        worker_cancel_long_running_tasks_on_connection_loss=False,
    )
    return app


def broker_url(redis_url: str) -> str:
    """Return the URL as the broker library spells it: unix sockets and their databases have other names."""
    scheme, separator, rest = redis_url.partition("://")
    if scheme != "unix":
        return redis_url
    place, _, query = rest.partition("?")
    words = [("virtual_host" if name == "db" else name, value) for name, value in parse_qsl(query)]
    return f"redis+socket{separator}{place}" + (f"?{urlencode(words)}" if words else "")


class CeleryWaker(Waker):
    """Sends wake-ups through the broker; those that are wanted while some are sent go together.

    A broker that accepts everything and says nothing holds one thread, and nobody for longer than `patience`
    seconds: what wake-ups are for is done, and a list that is in must not seem to be none.
    """

    def __init__(self, app: Celery, *, patience: float = 2.0) -> None:
        self._app = app
        self._patience = patience
        self._wanted = 0
        self._sending: asyncio.Task[None] | None = None
        self._late_at = 0.0

    @override
    async def wake(self, count: int) -> None:
        self._wanted = max(self._wanted, count)
        now = asyncio.get_running_loop().time()
        if self._sending is None or self._sending.done():
            self._sending, self._late_at = (
                asyncio.create_task(guarded(self._send(), "wake_up")),
                now + self._patience,
            )
        await asyncio.wait({self._sending}, timeout=max(0.0, self._late_at - now))

    async def _send(self) -> None:
        while self._wanted > 0:
            count, self._wanted = self._wanted, 0
            await asyncio.to_thread(send_wake_ups, self._app, count)


def send_wake_ups(app: Celery, count: int) -> None:
    """Put wake-ups into the queue; a broker that is away costs time, not work."""
    try:
        for _ in range(count):
            app.send_task(PULL, retry=False)
            WAKE_UPS.labels("sent").inc()
    except (OperationalError, OSError, ClientError) as error:
        WAKE_UPS.labels("lost").inc()
        _log.warning("wake_up.lost", error=type(error).__qualname__)
