"""Ports that nobody else has."""

from __future__ import annotations

import random
import socket
from contextlib import suppress


def free_port(host: str = "127.0.0.1") -> int:
    """Return a port that is free, and that no kernel gives to somebody who asks for any."""
    while True:
        port = random.randrange(10_000, 32_000)
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
