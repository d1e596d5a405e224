"""What is done again and again beside other work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress


@asynccontextmanager
async def repeating(do: Callable[[], Awaitable[None]], *, every: float) -> AsyncIterator[None]:
    """Do it every so many seconds, first after these, until the block ends. It must not raise."""
    task = asyncio.create_task(_repeat(do, every))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _repeat(do: Callable[[], Awaitable[None]], every: float) -> None:
    while True:
        await asyncio.sleep(every)
        await do()
