"""Many short transactions at a time: those that come while one of them runs share the next one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from mailsift.storage.database import Connection, Database, commits_alone

T = TypeVar("T")

_MOST: Final = 32
"""So many share one transaction, and wait for each other."""


@dataclass(slots=True, eq=False)
class _PendingCall:
    """What somebody wants to be done, in his context, and what came of it."""

    transaction: Callable[[Connection], Awaitable[Any]]
    context: Context
    is_over: bool = False
    found: Any = None
    error: Exception | None = None

    async def on(self, connection: Connection) -> Any:
        async def do() -> Any:
            return await self.transaction(connection)

        return await asyncio.create_task(do(), context=self.context)

    def end(self, found: Any, error: Exception | None = None) -> None:
        self.is_over, self.found, self.error = True, found, error


@dataclass(slots=True, eq=False)
class _CommitQueue:
    """Those who wait, and whoever works for them."""

    waiting: list[_PendingCall] = field(default_factory=list)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class GroupCommits:
    """Runs transactions as `Database.run` does, one commit for all that are wanted at the same time.

    Each is all or nothing, by itself: where one fails, all of them are run again, each alone. So they are
    short, and like all transactions can be run again.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lines: dict[Hashable, _CommitQueue] = {}

    async def run(self, key: Hashable, transaction: Callable[[Connection], Awaitable[T]]) -> T:
        """Run a transaction, together with others of its key if there are any.

        Args:
            key: what only those share that lock the same rows, in whatever order.
            transaction: what is done; it sees what others of its group have done.

        Raises:
            Exception: what the transaction raises, and `Database.run`.
        """
        if commits_alone():
            return await self._database.run(transaction)
        line = self._lines.setdefault(key, _CommitQueue())
        call = _PendingCall(transaction, copy_context())
        line.waiting.append(call)
        try:
            async with line.turn:
                while not call.is_over:
                    await self._run_some(line)
        finally:
            if call in line.waiting:  # cancelled
                line.waiting.remove(call)
            if not line.waiting:
                self._lines.pop(key, None)
        if call.error is not None:
            raise call.error
        found: T = call.found
        return found

    async def _run_some(self, line: _CommitQueue) -> None:
        group, line.waiting = line.waiting[:_MOST], line.waiting[_MOST:]
        try:
            if len(group) == 1 or not await self._run_together(group):
                await asyncio.gather(*map(self._run_alone, group))
        finally:  # who works for the others may be cancelled; then another of them goes on
            line.waiting = [call for call in group if not call.is_over] + line.waiting

    async def _run_together(self, group: list[_PendingCall]) -> bool:
        """Run them all in one transaction; False when that fails, with nothing done."""

        async def one_by_one(connection: Connection) -> list[Any]:
            return [await call.on(connection) for call in group]

        try:
            found = await self._database.run(one_by_one)
        except Exception:  # noqa: BLE001 - whosever it is: alone, it will come again
            return False
        for call, outcome in zip(group, found, strict=True):
            call.end(outcome)
        return True

    async def _run_alone(self, call: _PendingCall) -> None:
        try:
            call.end(await self._database.run(call.on))
        except Exception as error:  # noqa: BLE001 - it is for who called
            call.end(None, error)
