"""With which SQLSTATE a database refuses a connection: the driver tells only its words, in any language."""

from __future__ import annotations

import os
import re
import select
import time
from collections.abc import Mapping
from typing import Final

import psycopg
from psycopg import pq
from psycopg.pq import PollingStatus

_ANSWER: Final = ":  "
"""What stands between the severity and the words of a server in the driver's text, and nowhere else."""
_EVENTS: Final[Mapping[int, int]] = {
    PollingStatus.READING: select.POLLIN,
    PollingStatus.WRITING: select.POLLOUT,
}
_STATE: Final = re.compile(rb'\tErrorResponse\t.*? C "([0-9A-Z]{5})"')


def is_answer(error: psycopg.Error) -> bool:
    """Say whether a connection that did not come about was refused by the server."""
    return _ANSWER in str(error)


def state_of_refusal(info: str, seconds: float) -> str:
    """Connect once more, with a trace of what is said, and return the SQLSTATE in it; "" when there is none.

    It blocks its thread for so many seconds at most. The trace, which may hold a password, stays in memory.
    """
    if not hasattr(os, "memfd_create"):  # nor is there a trace outside Linux
        return ""
    trace = os.memfd_create("trace")
    try:
        connection = pq.PGconn.connect_start(info.encode())
        connection.trace(trace)
        _wait(connection, time.monotonic() + seconds)
        connection.untrace()  # writes what it has
        connection.finish()
        os.lseek(trace, 0, os.SEEK_SET)
        found = _STATE.search(os.read(trace, os.fstat(trace).st_size))
    finally:
        os.close(trace)
    return found[1].decode() if found else ""


def _wait(connection: pq.abc.PGconn, until: float) -> None:
    """Go on until there is a connection, or none."""
    while (left := until - time.monotonic()) > 0:
        event = _EVENTS.get(connection.connect_poll())
        if event is None:
            return
        ready = select.poll()
        ready.register(connection.socket, event)
        ready.poll(left * 1_000)
