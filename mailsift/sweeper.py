"""`mailsift sweeper`: the errands of every worker, in a process that never touches a list."""

from __future__ import annotations

import asyncio
import signal
from contextlib import AsyncExitStack

from jobs.pulse import Pulse, process_name
from jobs.service import JobService
from jobs.sweeper import Sweeper
from jobs.tasks import CeleryWaker, make_app
from mailsift.observed import metered_sweeper, traced
from mailsift.settings import Settings
from mailsift.wiring import open_blobs, open_database, scratch_folder
from mailsift.wiring_webhooks import Stores, errands, open_sender
from mailsift.worker import top_up

_GRACE_SECONDS = 15.0  # a webhook that is being sent has so long to end


async def run_sweeper(settings: Settings, *, stop: asyncio.Event | None = None) -> None:
    """Sweep until SIGINT, SIGTERM or `stop`; needs DATABASE_URL and REDIS_URL.

    Raises:
        MailsiftError: `port_in_use`, `otel_missing`.
    """
    stop = stop or asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    if settings.redis_url is None:
        raise AssertionError("the caller sets the addresses of the servers")
    app = make_app(settings.redis_url.get_secret_value())
    async with AsyncExitStack() as stack:
        stack.enter_context(metered_sweeper(settings))
        stack.enter_context(traced(settings, "sweeper"))
        database, blobs, waker = open_database(settings), open_blobs(settings), CeleryWaker(app)
        stack.push_async_callback(database.aclose)
        jobs = JobService(database=database, blobs=blobs, waker=waker, scratch=scratch_folder(settings))
        sender = await stack.enter_async_context(open_sender(settings))
        doing = errands(settings, Stores(database, blobs, waker, jobs), sender)
        stack.push_async_callback(doing.aclose, _GRACE_SECONDS)

        async def wake(count: int) -> None:
            await asyncio.to_thread(top_up, app, count)

        sweep_s = settings.sweep_seconds
        pulse = Pulse(owner=process_name(), slots=0, every=sweep_s)
        sweeper = Sweeper(database=database, errands=doing, top_up=wake, pulse=pulse, sweep_s=sweep_s)
        await sweeper.run(stop)
