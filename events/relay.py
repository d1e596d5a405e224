"""Where our own mail goes: an SMTP relay, written as a URL."""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final
from urllib.parse import unquote, urlsplit

_PORTS: Final = {"smtp": 25, "smtps": 465}


@dataclass(frozen=True, slots=True)
class Relay:
    """An SMTP relay.

    Attributes:
        tls: encrypted from the first byte; else by STARTTLS where it is offered.
        user, password: "" = it asks for none.
    """

    host: str
    port: int
    tls: bool
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)

    @property
    def is_this_machine(self) -> bool:
        """Whether nobody can listen on the way."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


def parse_relay(url: str) -> Relay:
    """Read smtp://[user:password@]host[:port] or smtps://...; signs of the user and password may be escaped.

    Raises:
        ValueError: it is something else; the words do not repeat it.
    """
    wrong = ValueError("expected smtp://[user:password@]host:port or smtps://...")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise wrong from None
    known = parts.scheme in _PORTS and bool(parts.hostname) and port != 0
    if not known or parts.path.strip("/") or parts.query or parts.fragment:
        raise wrong
    if bool(parts.username) != bool(parts.password):
        raise wrong
    return Relay(
        host=parts.hostname or "",
        port=port or _PORTS[parts.scheme],
        tls=parts.scheme == "smtps",
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
    )
