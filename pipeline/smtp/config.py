"""How the prober introduces itself, how long it waits and from which of our addresses it asks."""

from __future__ import annotations

import resource
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import blake2b
from ipaddress import ip_address

from mailsift.pipeline.smtp.identity import Identities, source_label, subnet_of


class StartTls(StrEnum):
    """Whether to encrypt where the server offers it (RFC 3207)."""

    OPPORTUNISTIC = "opportunistic"
    NEVER = "never"


PATIENT_SECONDS = 45.0
"""What the most patient session of a list is given."""
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
    label = source_label(endpoint)
    bind, proxy = ("", endpoint) if "://" in endpoint else (label, "")
    return Source(label, bind, proxy, name, (identities or Identities()).of(label))


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


def open_sources(sources: Sequence[Source], closed: Collection[str]) -> Sequence[Source]:
    """Return the sources whose identities are not closed, all of them when none is left."""
    return [source for source in sources if source.identity not in closed] or sources


def _weight(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=8).digest()
