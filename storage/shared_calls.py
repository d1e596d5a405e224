"""Many small questions at a time: those that come while one is under way share the next one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context
from typing import Generic, TypeVar

Q = TypeVar("Q")
A = TypeVar("A")


class SharedCalls(Generic[Q, A]):
    """Puts questions together, one call at a time: under load each costs a fraction of a round trip.

    No answer is older than its question: a call under way is not waited for, but the next one. That begins
    once a turn of the loop has brought nobody else: to begin at once made calls of half as many questions,
    and a single validation cost 7 % more (benchmarks.single_validate).

    Args:
        call: answers some questions, in their order.
        most: as many as one call takes.
    """

    def __init__(self, call: Callable[[Sequence[Q]], Awaitable[Sequence[A]]], *, most: int) -> None:
        self._call = call
        self._most = most
        self._waiting: list[tuple[Q, asyncio.Future[A]]] = []
        self._calling: asyncio.Task[None] | None = None

    async def ask(self, question: Q) -> A:
        """Return the answer.

        Raises:
            Exception: what the call raises, for everybody who shares it.
        """
        answer: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        self._waiting.append((question, answer))
        if self._calling is None:
            # in nobody's context: a call is no part of the request, or the trace, of who asked first
            self._calling = asyncio.create_task(self._call_until_nobody_waits(), context=Context())
        return await answer

    async def _call_until_nobody_waits(self) -> None:
        try:
            while self._waiting:
                await self._until_nobody_comes()
                batch = self._waiting[: self._most]
                del self._waiting[: len(batch)]
                await self._answer(batch)
        finally:
            self._calling = None

    async def _until_nobody_comes(self) -> None:
        seen = 0
        while seen < len(self._waiting) < self._most:
            seen = len(self._waiting)
            await asyncio.sleep(0)

    async def _answer(self, batch: Sequence[tuple[Q, asyncio.Future[A]]]) -> None:
        try:
            found = await self._call([question for question, _ in batch])
            for (_, answer), one in zip(batch, found, strict=True):
                if not answer.done():  # who asked may have gone
                    answer.set_result(one)
        except Exception as error:  # noqa: BLE001 - whoever waits is told, or waits for ever
            for _, answer in batch:
                if not answer.done():
                    answer.set_exception(error)
