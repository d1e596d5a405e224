"""How the prober introduces itself, how long it waits and from which of our addresses it asks."""

from __future__ import annotations

import resource
import socket
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache, lru_cache
from hashlib import blake2b
from ipaddress import ip_address, ip_network
from threading import Thread
from typing import Final
from urllib.parse import urlsplit

from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.guard import read_address
from mailsift.pipeline.probe.wire import hello

# Our addresses as the world sees them: what shares a budget, and which neighbours pass for us.

SHARED_IDENTITY: Final = ""
"""Of a default route behind an address that is not public: who leaves there nobody knows, so all of these
share one budget until a setting names them."""
_WHOLE_MACHINE: Final = ""
_DEFAULT_ROUTE: Final = "default"

_LONGEST_IDENTITY: Final = 253


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
        self._by_label = dict(_parse_identity(entry) for entry in entries)
        self._default = default

    def of(self, label: str) -> str:
        """Return the identity of a source by its label, "" for the default route."""
        by_label: Mapping[str, str] = self._by_label
        named = by_label.get(label or _DEFAULT_ROUTE) or by_label.get(_WHOLE_MACHINE)
        return named or label or self._default


def _parse_identity(text: str) -> tuple[str, str]:
    label, separator, identity = text.rpartition("=")
    identity = identity.strip()
    is_proxy = identity.lower().startswith("socks5://")
    name = _source_label(identity) if is_proxy else _one_spelling(identity)
    if (
        not name
        or len(name) > _LONGEST_IDENTITY
        or not name.isprintable()
        or " " in name
        or (separator and not label)
    ):
        raise MailsiftError(
            "bad_source", "a source's identity is written address=identity, default=identity or identity"
        )
    label = label.strip()
    return label if label in {_WHOLE_MACHINE, _DEFAULT_ROUTE} else _source_label(label), name


@lru_cache(maxsize=1024)
def subnet_of(identity: str) -> str:
    """Return whom a greylisting server takes for us, too: the /24, the /64 of IPv6, else the name itself."""
    address = read_address(identity)
    if address is None:
        return identity
    return str(ip_network(f"{identity}/{24 if address.version == 4 else 64}", strict=False))


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


ROUTES: Final = (("192.0.2.1", socket.AF_INET), ("2001:db8::1", socket.AF_INET6))
"""Addresses for documentation (RFC 5737, RFC 3849): whatever leads to them is the default route."""


# How to ask.

PATIENT_SECONDS = 45.0
"""What the most patient session of a list is given."""


class StartTls(StrEnum):
    """Whether to encrypt where the server offers it (RFC 3207)."""

    OPPORTUNISTIC = "opportunistic"
    NEVER = "never"


_SESSIONS = 500


def _most_sessions() -> int:
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _SESSIONS if files == resource.RLIM_INFINITY else max(1, min(_SESSIONS, files // 2))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeConfig:
    """How to ask mail servers; durations in seconds.

    Attributes:
        helo_name: our name in EHLO: the forward-confirmed reverse name of the source address; "" for this
            host's full name.
        mail_from: the sender in MAIL FROM, "" for the null sender.
        sources: our own addresses to ask from, each "" (the default route), an IP address or
            `socks5://[user:password@]host:port`; any but "" may be followed by ` as helo.name`.
        identities: what the world calls these addresses.
        port: where mail servers listen.
        starttls: whether to encrypt where it is offered.
        connect_timeout: for a TCP connection, a proxy's part included.
        reply_timeout: for one whole reply.
        session_seconds: a session that was given this long and did not finish counts as unreachable;
            with less it is worth a second, patient try.
        max_sessions: open sessions of this process; with few descriptors (`ulimit -n`) half of them at most,
            for a connection that this machine refuses looks like a server that nobody reaches.
        local_wait: a throttle's "not now" is waited for up to this long, again and again for at most five
            times as long without progress; beyond that the addresses are handed back.
        settle_seconds: where a server's replies could not be tied to their commands: the silence before every
            further command, in which a reply too many would show.
        batch_pause: how long finished sessions are collected before the throttle is asked again.
        catch_all_seconds, mailbox_seconds: how long these facts are remembered.
    """

    helo_name: str
    mail_from: str = ""
    sources: tuple[str, ...] = ("",)
    identities: Identities = field(default_factory=Identities)
    port: int = 25
    starttls: StartTls = StartTls.OPPORTUNISTIC
    connect_timeout: float = 5.0
    reply_timeout: float = 30.0
    session_seconds: float = 60.0
    max_sessions: int = field(default_factory=_most_sessions)
    local_wait: float = 1.0
    settle_seconds: float = 0.05
    batch_pause: float = 0.005
    catch_all_seconds: float = 7 * 86_400.0
    mailbox_seconds: float = 86_400.0


# Which of our addresses to ask from.


@dataclass(frozen=True, slots=True)
class Source:
    """One of our own addresses.

    Attributes:
        label: names it to people; holds no credentials.
        bind: IP address to bind to, "" for the default route.
        proxy: SOCKS5 URL, "" for a direct connection.
        helo_name: our name there, "" for this host's.
        identity: the address as the world sees it, for which limits count; sources that share it share them.
    """

    label: str
    bind: str
    proxy: str
    helo_name: str
    identity: str = ""

    def reaches(self, address: str) -> bool:
        """Tell whether the destination is of the family we are bound to."""
        return not self.bind or ip_address(self.bind).version == ip_address(address).version


def parse_source(text: str, *, helo_name: str, identities: Identities | None = None) -> Source:
    """Read one entry of ProbeConfig.sources; helo_name counts where the entry names none.

    Raises:
        MailsiftError: `bad_source`.
    """
    endpoint, _, own_name = text.strip().partition(" as ")
    name = own_name.strip() or helo_name
    label = _source_label(endpoint)
    bind, proxy = ("", endpoint) if "://" in endpoint else (label, "")
    return Source(label, bind, proxy, name, (identities or Identities()).of(label))


def _source_label(endpoint: str) -> str:
    """Return what a source is called, however it is written: its address, or its proxy without credentials.

    Args:
        endpoint: an IP address or `socks5://[user:password@]host:port`, "" for the default route.
    """
    if "://" not in endpoint:
        return _ip_label(endpoint) if endpoint else ""
    with suppress(ValueError):  # a port that is none, a bracket too few
        parts = urlsplit(endpoint)
        if parts.scheme == "socks5" and parts.hostname and parts.port:
            return f"socks5://{_one_spelling(parts.hostname.removesuffix('.'))}:{parts.port}"
    raise MailsiftError("bad_source", "a proxy is written socks5://[user:password@]host:port")


def _ip_label(text: str) -> str:
    if read_address(text):
        return _one_spelling(text)
    raise MailsiftError("bad_source", "a source is an IP address or a socks5:// URL")


def _one_spelling(host: str) -> str:
    """Return an address in one form, an IPv4-mapped one (RFC 4291 section 2.5.5.2) as the IPv4 address.

    Written in two ways, one source would have two budgets. A name is returned as it is.
    """
    address = read_address(host)
    return str(getattr(address, "ipv4_mapped", None) or address or host)


def pick_source(sources: Sequence[Source], provider: str, address: str, *, known_by: str = "") -> Source:
    """Return the source for an address: always the same one, so that greylisting knows us again.

    Rendezvous hashing: a source that comes or goes moves only its own share of the addresses.

    Args:
        sources: to choose from.
        provider: throttle key.
        address: the mailbox.
        known_by: the identity a greylisting server knows us by: it, else a neighbour of it, goes first.
    """
    if len(sources) == 1:
        return sources[0]
    if known_by:
        subnet = subnet_of(known_by)
        sources = (
            [source for source in sources if source.identity == known_by]
            or [source for source in sources if subnet_of(source.identity) == subnet]
            or sources
        )
    return max(sources, key=lambda source: _weight(f"{source.label}\n{provider}\n{address}"))


def _weight(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=8).digest()


def open_sources(sources: Sequence[Source], closed: Collection[str]) -> Sequence[Source]:
    """Return the sources whose identities are not closed, all of them when none is left."""
    return [source for source in sources if source.identity not in closed] or sources


# This host's full name, where nobody has set what it greets mail servers with.

_HOST_NAME_SECONDS: Final = 2.0
"""A resolver that knows the name has said so by then; a silent one holds the C library for ten seconds."""


@cache
def host_name() -> str:
    """Return this host's full name as its resolver knows it, else the short one; asked for once in a process.

    Blocks for two seconds at most. What no greeting can hold (RFC 5321 section 4.1.2) is passed over.
    """
    found = [socket.gethostname(), "localhost"]
    asking = Thread(target=_ask_resolver, args=(found,), name="host-name", daemon=True)
    asking.start()
    asking.join(_HOST_NAME_SECONDS)
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
