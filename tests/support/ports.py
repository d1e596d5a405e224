"""Ports that nobody else has."""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Iterator
from contextlib import suppress


def _ports_of_this_process() -> Iterator[int]:
    """Return ports that no kernel gives to somebody who asks for any, nor another process of this run.

    Each comes once, for whoever has one binds it later; the next higher one never, which a worker beside an
    API takes for its metrics.
    """
    count = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))  # noqa: TID251 - pytest-xdist says it here
    name = os.environ.get("PYTEST_XDIST_WORKER", "gw0")  # noqa: TID251 - same
    room, place = 22_000 // count, int(name.removeprefix("gw")) % count
    first = 10_000 + place * room
    return iter(random.sample(range(first, first + room - 1, 2), room // 2))


_ports = _ports_of_this_process()


def free_port(host: str = "127.0.0.1") -> int:
    """Return a port that is free and that nobody else of this run is given."""
    while True:
        port = next(_ports)
        with suppress(OSError), socket.create_server((host, port)):
            return port


def one_port(host: str = "127.0.0.1") -> tuple[socket.socket, socket.socket]:
    """Return a UDP socket and a listening TCP socket at one port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    while True:
        listener = socket.create_server((host, 0), family=family)
        datagrams = socket.socket(family, socket.SOCK_DGRAM)
        try:
            datagrams.bind(listener.getsockname())
        except OSError:  # somebody's UDP socket has that number
            datagrams.close()
            listener.close()
        else:
            return datagrams, listener
