"""Which addresses this machine may dial: one rule for mail servers, webhooks and all that opens sockets."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from functools import lru_cache
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    collapse_addresses,
    ip_address,
    ip_network,
)

# Spelled out: ipaddress.is_global changes between Python versions and calls multicast and NAT64 global.
DENIED_V4 = tuple(
    IPv4Network(network)
    for network in (
        "0.0.0.0/8",  # this network, RFC 791
        "10.0.0.0/8",  # private, RFC 1918
        "100.64.0.0/10",  # carrier-grade NAT, RFC 6598
        "127.0.0.0/8",  # loopback
        "168.63.129.16/32",  # a cloud's own services (Azure) behind a public address
        "169.254.0.0/16",  # link-local and cloud metadata, RFC 3927
        "172.16.0.0/12",  # private, RFC 1918
        "192.0.0.0/24",  # protocol assignments, RFC 6890
        "192.0.2.0/24",  # documentation, RFC 5737
        "192.31.196.0/24",  # AS112, RFC 7535
        "192.52.193.0/24",  # AMT, RFC 7450
        "192.88.99.0/24",  # 6to4 relays, RFC 7526
        "192.168.0.0/16",  # private, RFC 1918
        "192.175.48.0/24",  # AS112, RFC 7534
        "198.18.0.0/15",  # benchmarks, RFC 2544
        "198.51.100.0/24",  # documentation, RFC 5737
        "203.0.113.0/24",  # documentation, RFC 5737
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved and broadcast
    )
)
LOOPBACK_V4 = IPv4Network("127.0.0.0/8")
_LOOPBACK_V6 = IPv6Address("::1")

# What lies outside is loopback, private, link-local, multicast, NAT64, IPv4-compatible, SRv6 or not assigned.
UNICAST_V6 = IPv6Network("2000::/3")
DENIED_V6 = tuple(
    IPv6Network(network)
    for network in (
        "2001::/23",  # Teredo, ORCHID and other protocol assignments, RFC 2928
        "2001:db8::/32",  # documentation, RFC 3849
        "2002::/16",  # 6to4: carries any IPv4 address inside, RFC 3056
        "2620:4f:8000::/48",  # AS112, RFC 7534
        "3fff::/20",  # documentation, RFC 9637
    )
)


def read_address(text: str) -> IPv4Address | IPv6Address | None:
    """Return the IP address that a text is, None where it is none."""
    try:
        return ip_address(text)
    except ValueError:
        return None


class _Ranges:
    """Disjoint networks of one IP version, searched by bisection."""

    def __init__(self, networks: Iterable[IPv4Network] | Iterable[IPv6Network]) -> None:
        spans = sorted((int(n.network_address), int(n.broadcast_address)) for n in networks)
        self._first = [first for first, _ in spans]
        self._last = [last for _, last in spans]

    def __contains__(self, number: int) -> bool:
        at = bisect_right(self._first, number) - 1
        return at >= 0 and number <= self._last[at]


class AddressGuard:
    """Says which addresses may be dialled.

    Args:
        allow_non_public: for the sandbox and tests: loopback (127.0.0.0/8 and ::1) may be dialled as well.
            Other non-public ranges stay refused, so that a route into a private network can be tested.
        denied: addresses and networks that may not be dialled either, for example our own.

    Raises:
        ValueError: one of `denied` is neither.
    """

    def __init__(self, allow_non_public: bool = False, *, denied: Iterable[str] = ()) -> None:
        more = [ip_network(text, strict=False) for text in denied]
        more_v4 = [n for n in more if isinstance(n, IPv4Network)]
        more_v6 = [n for n in more if isinstance(n, IPv6Network)]
        base_v4 = [n for n in DENIED_V4 if not (allow_non_public and n == LOOPBACK_V4)]
        self._allow_loopback = allow_non_public and not any(_LOOPBACK_V6 in n for n in more_v6)
        self._denied_v4 = _Ranges(collapse_addresses([*base_v4, *more_v4]))
        self._denied_v6 = _Ranges(collapse_addresses([*DENIED_V6, *more_v6]))
        self._remembered = lru_cache(maxsize=8192)(self._judge)  # many domains share a server

    def allows(self, address: str) -> bool:
        """Tell whether an address is public unicast; anything that is not exactly one IP address is refused.

        An IPv4-mapped address (::ffff:a.b.c.d) is judged as the IPv4 address it stands for.
        """
        return self._remembered(address)

    def _judge(self, address: str) -> bool:
        parsed = read_address(address)
        if parsed is None:
            return False
        if isinstance(parsed, IPv4Address):
            return int(parsed) not in self._denied_v4
        if parsed.scope_id is not None:
            return False
        if parsed.ipv4_mapped is not None:
            return int(parsed.ipv4_mapped) not in self._denied_v4
        if parsed == _LOOPBACK_V6:
            return self._allow_loopback
        return parsed in UNICAST_V6 and int(parsed) not in self._denied_v6
