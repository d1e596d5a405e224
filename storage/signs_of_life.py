"""A statement may take as long as it takes, and is given up when its server gives no sign of life.

A server that stands still (stopped, or waiting for its disk) ends nothing, and its system goes on answering
for it: only another connection shows that nobody is there. A COMMIT that is given up may have happened, as
where a connection is lost: leases, tokens and idempotency keys fence that.
"""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import suppress
from typing import Any, Final, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.errors import ConnectionTimeout
from typing_extensions import override

T = TypeVar("T")

_LONG_SECONDS: Final = 10.0
"""Who has waited so long for an answer looks whether the server is there, and again after so long."""
_LOOK_SECONDS: Final = 5


class WatchedServer:
    """One server, and a look whether it answers anybody, which all who wait for it share."""

    def __init__(self) -> None:
        self._address: dict[str, Any] = {}
        self._looking: asyncio.Task[bool] | None = None

    async def connect(self, **address: Any) -> psycopg.AsyncConnection[Any]:
        """Make a connection that breaks while it waits for an answer and nobody is there."""
        self._address = {**address, "connect_timeout": _LOOK_SECONDS}
        connection = await WatchedConnection.connect(**address)
        connection.server = self
        return connection

    async def is_there(self) -> bool:
        """Say whether it says anything: that it has no room for us, or is starting, is an answer."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        return await asyncio.shield(self._looking)

    async def _look(self) -> bool:
        try:
            connection = await psycopg.AsyncConnection.connect(**self._address)
        except psycopg.Error as error:
            return not isinstance(error, ConnectionTimeout)
        ends = asyncio.get_running_loop().call_later(_LOOK_SECONDS, _hang_up, connection)
        try:
            await connection.execute("")  # a pooler that stands between lets us in by itself
        except psycopg.Error:
            return not connection.broken
        finally:
            ends.cancel()
            await connection.close()
        return True


class WatchedConnection(psycopg.AsyncConnection[Any]):
    """A connection that breaks, as one that is lost does, while it waits for a server that is not there."""

    server: WatchedServer

    @override
    async def wait(self, gen: PQGen[T], *args: Any, **kwargs: Any) -> T:
        """Wait for the server; psycopg waits here for everything once it is connected."""
        watch: list[asyncio.Task[None]] = []
        begin = asyncio.get_running_loop().call_later(
            _LONG_SECONDS, lambda: watch.append(asyncio.create_task(self._watch()))
        )
        try:
            return await super().wait(gen, *args, **kwargs)
        finally:
            begin.cancel()
            for task in watch:
                task.cancel()

    async def _watch(self) -> None:
        while True:
            if not await self.server.is_there():
                return _hang_up(self)
            await asyncio.sleep(_LONG_SECONDS)


def _hang_up(connection: psycopg.AsyncConnection[Any]) -> None:
    """End a connection under the library's hands: to cancel what waits there would ask the same server."""
    with suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as line:
        line.shutdown(socket.SHUT_RDWR)
