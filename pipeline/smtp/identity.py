"""Who a source is to the world: what it shares a budget with, and which neighbours pass for it."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from ipaddress import ip_address, ip_network
from typing import Final
from urllib.parse import urlsplit

from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.guard import read_address

SHARED_IDENTITY: Final = ""
"""Of a default route behind an address that is not public: who leaves there nobody knows, so all of these
share one budget until a setting names them."""
_WHOLE_MACHINE: Final = ""
_DEFAULT_ROUTE: Final = "default"
ROUTES: Final = (("192.0.2.1", socket.AF_INET), ("2001:db8::1", socket.AF_INET6))
"""Addresses for documentation (RFC 5737, RFC 3849): whatever leads to them is the default route."""
_LONGEST: Final = 253


class Identities:
    """What our own addresses are called by the world.

    Args:
        entries: `address=identity` for one address (`default`: the default route), or an identity alone for
            every address of this machine.
        default: the identity of the default route where no entry names it.

    Raises:
        MailsiftError: `bad_source` for an entry that nobody can read.
    """

    def __init__(self, entries: Sequence[str] = (), *, default: str = SHARED_IDENTITY) -> None:
        self._by_label = dict(_parse_entry(entry) for entry in entries)
        self._default = default

    def of(self, label: str) -> str:
        """Return the identity of a source by its label, "" for the default route."""
        by_label: Mapping[str, str] = self._by_label
        named = by_label.get(label or _DEFAULT_ROUTE) or by_label.get(_WHOLE_MACHINE)
        return named or label or self._default


def _parse_entry(text: str) -> tuple[str, str]:
    label, separator, identity = text.rpartition("=")
    name = _canonical(identity.strip())
    if not name or len(name) > _LONGEST or not name.isprintable() or " " in name or (separator and not label):
        raise MailsiftError(
            "bad_source", "a source's identity is written address=identity, default=identity or identity"
        )
    label = label.strip()
    return label if label in {_WHOLE_MACHINE, _DEFAULT_ROUTE} else source_label(label), name


def source_label(endpoint: str) -> str:
    """Return what a source is called, however it is written: its address, or its proxy without credentials.

    Args:
        endpoint: an IP address or `socks5://[user:password@]host:port`, "" for the default route.

    Raises:
        MailsiftError: `bad_source`.
    """
    if "://" not in endpoint:
        return _ip_label(endpoint) if endpoint else ""
    with suppress(ValueError):  # a port that is none, a bracket too few
        parts = urlsplit(endpoint)
        if parts.scheme == "socks5" and parts.hostname and parts.port:
            return f"socks5://{parts.hostname}:{parts.port}"
    raise MailsiftError("bad_source", "a proxy is written socks5://[user:password@]host:port")


def _ip_label(text: str) -> str:
    if address := read_address(text):
        return str(address)
    raise MailsiftError("bad_source", "a source is an IP address or a socks5:// URL")


def _canonical(text: str) -> str:
    return str(read_address(text) or text)


def default_identity() -> str:
    """Return the local address of the default route if it is public, else SHARED_IDENTITY. Sends nothing."""
    return next((own for own in default_addresses() if ip_address(own).is_global), SHARED_IDENTITY)


def default_addresses() -> list[str]:
    """Return our local addresses on the default routes, IPv4 before IPv6; sends nothing."""
    found = []
    for destination, family in ROUTES:
        with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe_socket:
            probe_socket.connect((destination, 9))  # of a datagram socket: only chooses the route
            found.append(str(ip_address(probe_socket.getsockname()[0])))
    return found


@lru_cache(maxsize=1024)
def subnet_of(identity: str) -> str:
    """Return whom a greylisting server takes for us, too: the /24, the /64 of IPv6, else the name itself."""
    address = read_address(identity)
    if address is None:
        return identity
    return str(ip_network(f"{identity}/{24 if address.version == 4 else 64}", strict=False))
