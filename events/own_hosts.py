"""What this installation is itself: no webhook may point there, or events would come home as requests."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable
from ipaddress import ip_address, ip_network
from typing import Final
from urllib.parse import urlsplit

import idna

_NAME: Final = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*")


def split_hosts(hosts: Iterable[str]) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return the names, in the spelling of a Target, and the addresses and networks among the hosts.

    Raises:
        ValueError: one of them is none of these.
    """
    names, networks = set[str](), list[str]()
    for host in hosts:
        try:
            networks.append(str(ip_network(host, strict=False)))
        except ValueError:
            name = host.lower() if host.isascii() else idna.encode(host, uts46=True).decode()
            if not _NAME.fullmatch(name):
                raise ValueError("expected names and addresses") from None
            names.add(name)
    return frozenset(names), tuple(networks)


def name_in(url: str) -> frozenset[str]:
    """Return the name in a URL; nothing when there is none, or an address."""
    try:
        return split_hosts([urlsplit(url).hostname or ""])[0]
    except ValueError:
        return frozenset()


def is_this_machine(host: str) -> bool:
    """Tell whether an address belongs to an interface of this machine; loopback is left to the guard.

    The kernel's route to it begins at the address itself then. It is only asked for; nothing is sent.

    Raises:
        OSError: it could not be asked.
    """
    try:
        address = ip_address(host)
    except ValueError:
        return False
    if address.is_loopback:
        return False
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host, 9))
        except OSError:  # no route: not ours
            return False
        return ip_address(probe.getsockname()[0]) == address
