"""One resolver that is asked: its address, our sockets to it, what it can do and how it has behaved."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final

import pycares

from mailsift.pipeline.dns.rules import DnsAnswer, RecordType
from mailsift.pipeline.errors import MailsiftError

_SOCKETS: Final = 4
"""Sockets to one resolver; each has a source port of its own."""

QUESTIONS_A_SOCKET: Final = 5_000
_SECONDS_A_SOCKET: Final = 60.0
_RECEIVE_BUFFER: Final = 1 << 20  # octets; the usual 208 KiB drops replies when hundreds come at once

_FIRST_WAIT_S: Final = 0.25  # the least before a question is sent again
_SLOWER_THAN_USUAL: Final = 5.0
_SMOOTHING: Final = 0.1

_DOWN_AFTER: Final = 3  # questions in a row without a reply
_DOWN_S: Final = 1.0
_DOWN_MAX_S: Final = 30.0
_ONLY_PLAIN: Final = 3  # questions that were answered without EDNS only, before we do without it
_REPLACED: Final = 8  # questions in a row refused for EDNS, before one that took it does so no more
_OTHER_CASE: Final = 3  # replies that spell the name their own way before we stop to mix case


class EntropyPool:
    """Random octets, fetched in pieces that are worth a system call."""

    def __init__(self) -> None:
        self._pool = b""
        self._at = 0

    def read(self, count: int) -> bytes:
        """Return so many octets; none is used twice."""
        at, end = self._at, self._at + count
        if end > len(self._pool):
            self._pool, at, end = os.urandom(4096), 0, count
        self._at = end
        return self._pool[at:end]


class Query:
    """A question on its way.

    Attributes:
        name, record_type: what is asked.
        done: takes the answer, once.
        only: the one resolver to ask; None = whichever behaves best.
        confirms: it is a second question, to be asked over our own TCP connection.
        examines: it is about the resolver, not about the name.
        question: the question section as it is sent, its letters in mixed case.
        server: the resolver it was sent to last.
        tries: how often it has been sent.
        due_at: when its last try has been waited for long enough.
        ends_at: when it fails for good.
        sent_on: sockets and message ids it may be answered on.
        failure: the last refusal it met, "" when there was only silence.
        is_mismatched: something came back with its id that is no reply to it.
        case_changed: ... but would be one if the case of letters did not matter.
        edns_refused: one of its tries came back for its EDNS.
    """

    # Most never change; as attributes of the class they cost a question nothing.
    question: bytes = b""
    server: Nameserver | None = None
    tries: int = 0
    due_at: float = 0.0
    ends_at: float = 0.0
    sent_on: tuple[tuple[UdpSocket, bytes], ...] = ()
    failure: str = ""
    is_mismatched: bool = False
    case_changed: bool = False
    edns_refused: bool = False

    def __init__(
        self,
        name: str,
        record_type: RecordType,
        done: Callable[[DnsAnswer], None],
        only: Nameserver | None = None,
        *,
        confirms: bool = False,
        examines: bool = False,
    ) -> None:
        self.name = name
        self.record_type = record_type
        self.done = done
        self.only = only
        self.confirms = confirms
        self.examines = examines

    def withdraw(self) -> None:
        """Forget where it may be answered."""
        for udp, number in self.sent_on:
            udp.pending.pop(number, None)
        self.sent_on = ()


class UdpSocket:
    """A connected socket: the kernel drops what comes from anybody else than the resolver.

    The kernel picks a random source port. Attributes:
        server: the resolver at its end.
        pending: what has been asked through it and when, by message id.
    """

    def __init__(self, server: Nameserver, opened_at: float) -> None:
        """Open it.

        Raises:
            OSError: no descriptor is left, or there is no route.
        """
        self.server = server
        self.pending: dict[bytes, tuple[Query, float]] = {}
        self.asked = 0
        self.opened_at = opened_at
        self.socket = socket.socket(server.family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
            self.socket.connect(server.address)
        except OSError:
            self.socket.close()
            raise

    def is_expired(self, now: float) -> bool:
        """Tell whether its source port has been in use for long enough."""
        return self.asked >= QUESTIONS_A_SOCKET or now - self.opened_at >= _SECONDS_A_SOCKET

    def expect_reply(self, query: Query, entropy: EntropyPool, now: float) -> bytes:
        """Note that a question goes out through it; return its id, unpredictable and not in use here."""
        number = entropy.read(2)
        while number in self.pending:
            number = entropy.read(2)
        self.pending[number] = query, now
        self.asked += 1
        query.sent_on += ((self, number),)
        return number


@dataclass(slots=True, eq=False)
class Nameserver:
    """A resolver.

    Attributes:
        label: "host:port" or "[v6]:port".
        address: what sockets connect to.
        trusted: its canaries hold, or it has none; otherwise only checks ask it.
        denials_believed: what it denies may make something invalid, as far as we know.
        answered: something that it said may be believed once its canaries have been looked at again.
        unanswered: questions in a row without a reply.
        has_ipv6: it gives IPv6 addresses to those who have them, as far as we know.
        claims_all: it claims to be the authority for well-known domains, too, as forwarders do that say so of
            all they have kept; None = no canary has told yet.
        edns: it has answered a question with EDNS; None = not known, False = it wants none.
        keeps_case: it repeats the question as it was spelt; None = not known yet.
    """

    label: str
    family: int
    address: tuple[str, int]
    trusted: bool = True
    denials_believed: bool = True
    answered: bool = False
    has_ipv6: bool = True
    claims_all: bool | None = None
    edns: bool | None = None
    keeps_case: bool | None = None
    _sockets: list[UdpSocket] = field(default_factory=list)
    retired: list[UdpSocket] = field(default_factory=list)
    _round_trip: float = 0.0
    unanswered: int = 0
    _down_s: float = _DOWN_S
    _down_until: float = 0.0
    _other_case: int = 0
    _plain: int = 0
    _refused: int = 0

    def first_wait(self, timeout: float) -> float:
        """Return the seconds to wait for its first reply, by what its replies usually take."""
        if not self._round_trip:
            return timeout
        return min(timeout, max(_FIRST_WAIT_S, _SLOWER_THAN_USUAL * self._round_trip))

    def is_down(self, now: float) -> bool:
        """Tell whether it has been silent so often that others are better asked first."""
        return self.unanswered >= _DOWN_AFTER and now < self._down_until

    def count_reply(self, seconds: float) -> None:
        """Take note of a reply, and of how long it took."""
        known = self._round_trip or seconds
        self._round_trip = known + (seconds - known) * _SMOOTHING
        if self.unanswered:
            self.unanswered, self._down_s = 0, _DOWN_S

    def count_unanswered(self, now: float) -> None:
        """Take note that a question got no reply in time. After a rest one more is enough to rest again."""
        self.unanswered += 1
        if self.unanswered >= _DOWN_AFTER and now >= self._down_until:
            self._down_until = now + self._down_s
            self._down_s = min(2 * self._down_s, _DOWN_MAX_S)

    def takes_edns(self, query: Query) -> bool:
        """Tell whether a question goes to it with EDNS: while nothing is known, only the first try does."""
        return not query.edns_refused and (query.tries == 1 if self.edns is None else self.edns)

    def count_edns(self, *, understood: bool, plain: bool) -> None:
        """Take note of a reply that carries EDNS itself, or that came only when the question had none."""
        if understood:
            self.edns, self._refused = True, 0
        elif plain and self.edns is None:
            self._plain += 1
            self.edns = False if self._plain >= _ONLY_PLAIN else None

    def count_edns_refused(self) -> None:
        """Take note that it refused a question for its EDNS.

        One that takes EDNS may refuse an odd name, and who does without it hears no extended errors any more,
        which say that an answer is the resolver's own; but it may also have been replaced.
        """
        self._refused += 1
        if not self.edns or self._refused >= _REPLACED:
            self.edns = False

    def count_case(self, *, same: bool) -> None:
        """Take note of how it repeated a name: once right, always right; thrice otherwise, never."""
        if same:
            self.keeps_case = True
            return
        self._other_case += 1
        if self._other_case >= _OTHER_CASE and self.keeps_case is None:
            self.keeps_case = False

    def pick_socket(self, entropy: EntropyPool, now: float, watch: Callable[[UdpSocket], None]) -> UdpSocket:
        """Return one of its sockets at random; `watch` is told about new ones.

        Raises:
            OSError: there is none and none can be opened.
        """
        at = entropy.read(1)[0] % _SOCKETS
        if at >= len(self._sockets):
            return self._open(now, watch)
        chosen = self._sockets[at]
        if not chosen.is_expired(now):
            return chosen
        self.retired.append(self._sockets.pop(at))
        return self._open(now, watch)

    def _open(self, now: float, watch: Callable[[UdpSocket], None]) -> UdpSocket:
        fresh: UdpSocket = UdpSocket(self, now)
        self._sockets.append(fresh)
        watch(fresh)
        return fresh

    def pop_idle_sockets(self) -> list[UdpSocket]:
        """Return the worn sockets nothing is expected from any more; they are the caller's to close."""
        idle = [retired for retired in self.retired if not retired.pending]
        self.retired = [retired for retired in self.retired if retired.pending]
        return idle

    def pop_all_sockets(self) -> Iterator[UdpSocket]:
        """Return every socket; they are the caller's to close."""
        yield from self._sockets
        yield from self.retired
        self._sockets, self.retired = [], []


def parse_nameservers(servers: Sequence[str]) -> list[tuple[str, int, tuple[str, int]]]:
    """Return label, address family and address of each server; () stands for those of the system.

    Args:
        servers: "host:port" or "[v6]:port"; without a port it is 53.

    Raises:
        MailsiftError: dns_servers_invalid.
    """
    return [_parse(server) for server in servers or system_servers()]


def system_servers() -> Sequence[str]:
    """Return the addresses of the resolvers that this machine is told to ask, as of now."""
    channel = pycares.Channel()
    try:
        return [_SCOPE_BEHIND.sub(r"[\1%\3]\2", server) for server in channel.servers]
    finally:
        channel.close()


def in_words_of_cares(label: str) -> str:
    """Return the label of a server as c-ares writes it: the zone of a link-local address (RFC 4007) last."""
    return _SCOPE_INSIDE.sub(r"[\1]\3%\2", label)


_SCOPE_BEHIND: Final = re.compile(r"\[(.+)\](:\d+)%(.+)")
_SCOPE_INSIDE: Final = re.compile(r"\[(.+)%(.+)\](:\d+)")


def _parse(server: str) -> tuple[str, int, tuple[str, int]]:
    host, port = server, "53"
    if "]:" in server or server.count(":") == 1:
        host, _, port = server.rpartition(":")
    host = host.strip("[]")
    try:
        family = socket.AF_INET6 if ip_address(host).version == 6 else socket.AF_INET
        address = (host, int(port))
    except ValueError as error:
        raise MailsiftError("dns_servers_invalid", "Write DNS servers as host:port.") from error
    label = f"[{host}]:{port}" if family == socket.AF_INET6 else f"{host}:{port}"
    return label, family, address
