"""This host's full name, where nobody has set what it greets mail servers with."""

from __future__ import annotations

import socket
from contextlib import suppress
from functools import cache
from threading import Thread
from typing import Final

from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.smtp.wire import hello

_PATIENCE_SECONDS: Final = 2.0
"""A resolver that knows the name has said so by then; a silent one holds the C library for ten seconds."""


@cache
def host_name() -> str:
    """Return this host's full name as its resolver knows it, else the short one; asked for once in a process.

    Blocks for two seconds at most. What no greeting can hold (RFC 5321 section 4.1.2) is passed over.
    """
    found = [socket.gethostname(), "localhost"]
    asking = Thread(target=_ask_resolver, args=(found,), name="host-name", daemon=True)
    asking.start()
    asking.join(_PATIENCE_SECONDS)
    return next(name for name in tuple(found) if _can_greet(name))


def _ask_resolver(found: list[str]) -> None:
    with suppress(UnicodeError):  # a host's name may be one octet longer than a label of the DNS
        found.insert(0, socket.getfqdn())


def _can_greet(name: str) -> bool:
    try:
        hello("EHLO", name)
    except MailsiftError:
        return False
    return True
