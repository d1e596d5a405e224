"""Whom limits count that know nobody yet."""

from __future__ import annotations

import ipaddress

from fastapi import Request


def client_of(request: Request) -> str:
    """Return what limits know a client by; a proxy's word counts where uvicorn is told to trust it."""
    return network_of(request.client.host) if request.client else ""


def network_of(address: str) -> str:
    """Return an IPv4 address, or the /64 of an IPv6 one: what one household has, and may change at will.

    What is no address is counted as it is written.
    """
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    return str(found.ipv4_mapped or ipaddress.IPv6Network((int(found) >> 64 << 64, 64)))
