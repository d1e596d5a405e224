"""The DNS client of the hot path: questions to the resolvers that behave best, answers by callback.

Against forgers (RFC 5452) a question goes out on one of several sockets with ports of their own, which are
renewed now and then, with a random id and its letters in random case; a reply counts when all of that comes
back. What is truncated, malformed, spelt differently or still unanswered at the last try is asked over TCP,
and so are second questions: into a connection nobody outside can forge an answer (RFC 7766).
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import struct
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from ipaddress import ip_address
from itertools import chain, repeat
from operator import itemgetter
from typing import Final, cast

import aiodns
import pycares
from typing_extensions import override

from mailsift.pipeline.background import record_failure
from mailsift.pipeline.clock import FairClock
from mailsift.pipeline.dns import message
from mailsift.pipeline.dns.rules import DENIALS, FAILED, FOUND, MX, DnsAnswer, RecordType, is_null_mx
from mailsift.pipeline.errors import MailsiftError

_BURST: Final = 64  # replies read in one go, so that others get their turn
_HEADER: Final = message.HEADER
_UDP_TRIES: Final = 2  # at least so many before TCP

NO_TRUSTED_RESOLVER: Final = "no resolver can be trusted now"
_UNTRUSTED: Final = DnsAnswer(FAILED, detail=NO_TRUSTED_RESOLVER)
_CLOSED: Final = DnsAnswer(FAILED, detail="resolver closed")
_NOT_TAKEN: Final = DnsAnswer(FAILED, detail="the answer could not be read")
_NOT_ASKED: Final = (None, 0.0)
_IMPOSSIBLE: Final = DnsAnswer(FAILED, detail="not a possible name")


def setter_of(answer: asyncio.Future[DnsAnswer]) -> Callable[[DnsAnswer], None]:
    """Return a callback for DnsClient that sets a future, unless nobody waits for it any more."""
    return lambda found: None if answer.done() else answer.set_result(found)


class DnsClient:
    """Asks questions, at most `concurrency` at a time, and calls back with the answers.

    A question goes to the resolver that behaves best, in the order given; each new try goes to the next one.

    Args:
        servers: "host:port" or "[v6]:port", the preferred one first; () = those of the system.
        timeout: seconds to wait for a reply before asking again. The first wait is shorter: five times
            what the resolver usually takes, at least 0.25 s.
        tries: how often a question is sent; after timeout * tries seconds it fails for good. Seconds in which
            our own loop got no turn do not count.
        concurrency: questions in flight. Beyond some hundreds, socket buffers overflow and answers are lost.

    Raises:
        MailsiftError: dns_servers_invalid.
    """

    def __init__(
        self, *, servers: Sequence[str] = (), timeout: float = 1.0, tries: int = 5, concurrency: int = 200
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self.clock = FairClock(self._loop)
        self.nameservers: list[Nameserver] = []
        self._servers = tuple(servers)
        self._tcp: dict[str, TcpClient] = {}
        self._fallbacks: dict[str, AiodnsFallback] = {}
        self._timeout = timeout
        self._tries = tries
        self._patience = timeout * tries
        self.refresh()
        self._concurrency = concurrency
        self._entropy = _Entropy()
        self._waiting: deque[_Query] = deque()
        self._urgent: deque[_Query] = deque()  # is not held back by what is in flight
        self._in_flight: dict[_Query, None] = {}
        self._send_handle: asyncio.Handle | None = None
        self._tick_timer: asyncio.TimerHandle | None = None
        self._closed = False

    def ask(
        self, name: str, record_type: RecordType, done: Callable[[DnsAnswer], None], *, soon: bool = False
    ) -> None:
        """Ask for a name's records; `done` gets the answer later, in the event loop, exactly once.

        Args:
            name: an absolute ASCII name without the final dot, one that `is_host_name`.
            record_type: what to ask for.
            done: called from the event loop; when it raises, it is called once more, with a failure.
            soon: something that has been begun waits for it, as it does for every address.
        """
        query = _Query(name, record_type, done)
        if record_type is MX and not soon:
            self._waiting.append(query)
        else:  # finish what has been begun first
            self._waiting.appendleft(query)
        self._schedule_send()

    async def answer(self, name: str, record_type: RecordType, *, soon: bool = False) -> DnsAnswer:
        """Return what `ask` finds out, for who waits for a single answer."""
        answer: asyncio.Future[DnsAnswer] = asyncio.get_running_loop().create_future()
        self.ask(name, record_type, setter_of(answer), soon=soon)
        return await answer

    @property
    def is_backed_up(self) -> bool:
        """Whether questions wait here for their turn: nobody can have answered those yet."""
        return bool(self._waiting)

    def ask_server(
        self, server: Nameserver, name: str, record_type: RecordType, done: Callable[[DnsAnswer], None]
    ) -> None:
        """Examine one resolver, trusted or not, before all that waits; otherwise like `ask`."""
        self._urgent.append(_Query(name, record_type, done, only=server, examines=True))
        self._schedule_send()

    def ask_again(
        self, before: DnsAnswer, name: str, record_type: RecordType, done: Callable[[DnsAnswer], None]
    ) -> None:
        """Ask independently of an answer: another trusted resolver, or over TCP."""
        trusted = self._ranking()
        others = [one for one in trusted if before.server and one.label != before.server]
        chosen = next(iter(others or trusted), None)
        query = _Query(name, record_type, done, only=chosen, confirms=not others)
        self._urgent.append(query)
        self._schedule_send()

    def refresh(self) -> Sequence[Nameserver]:
        """Read the system's resolvers again, which change with the network; returns those that are new.

        Resolvers that were given stay.

        Raises:
            MailsiftError: dns_servers_invalid.
        """
        known = {server.label: server for server in self.nameservers}
        parsed = list(dict.fromkeys(map(_parse_nameserver, self._servers or system_servers())))
        fresh = [Nameserver(*one) for one in parsed if one[0] not in known]
        known.update((server.label, server) for server in fresh)
        self.nameservers = [known.pop(label) for label, *_ in parsed]
        for gone in known.values():  # what was asked there is asked again elsewhere
            for used in gone.pop_all_sockets():
                self._release(used)
        for server in fresh:
            self._tcp.setdefault(server.label, TcpClient(server.address, patience=self._patience))
            self._fallbacks.setdefault(server.label, AiodnsFallback(server.label, timeout=self._patience))
        return fresh

    def forget(self, server: Nameserver) -> None:
        """Drop what a resolver has said, as far as it is remembered here."""
        self._fallbacks[server.label].forget()

    async def aclose(self) -> None:
        """Answer what is open with a failure and release sockets and timers."""
        if self._closed:
            return
        self._closed = True
        for handle in (self._send_handle, self._tick_timer):
            if handle is not None:
                handle.cancel()
        self._send_handle = self._tick_timer = None
        self._fail_all()
        for server in self.nameservers:
            for used in server.pop_all_sockets():
                self._release(used)
        await asyncio.gather(*[tcp.aclose() for tcp in self._tcp.values()])
        await asyncio.gather(*[fallback.aclose() for fallback in self._fallbacks.values()])

    def _fail_all(self) -> None:
        """Let everything that is open fail, and what is asked meanwhile."""
        while self._in_flight or self._waiting or self._urgent:
            for queue in (self._waiting, self._urgent):
                self._in_flight.update(dict.fromkeys(queue))
                queue.clear()
            for query in tuple(self._in_flight):
                self._finish(query, _CLOSED)

    def _schedule_send(self) -> None:
        if self._send_handle is None:
            self._send_handle = self._loop.call_soon(self._send_waiting)

    def _send_waiting(self) -> None:
        """Send what may be sent."""
        self._send_handle = None
        if self._tick_timer is None and not self._closed:
            self._tick_timer = self._loop.call_later(self.clock.expect(), self._on_tick)
        now = self.clock.now()
        while self._urgent:
            self._begin(self._urgent.popleft(), now)
        waiting, in_flight = self._waiting, self._in_flight
        while waiting and len(in_flight) < self._concurrency:
            self._begin(waiting.popleft(), now)

    def _begin(self, query: _Query, now: float) -> None:
        self._in_flight[query] = None
        query.ends_at = now + self._patience
        try:
            question = message.encode_question(query.name.lower(), query.record_type)
        except ValueError:
            self._finish(query, _IMPOSSIBLE)
            return
        query.question = message.mix_case(question, self._entropy.read(len(question)))
        if self._closed:
            self._finish(query, _CLOSED)
        else:
            self._send(query, now)

    def _send(self, query: _Query, now: float) -> None:
        """Send a question, to the next resolver when it has been sent before."""
        server = query.only or self._pick(query)
        if server is None:
            self._finish(query, _UNTRUSTED)
            return
        query.tries += 1
        query.server = server
        if query.confirms or query.is_mismatched or _UDP_TRIES < query.tries == self._tries:
            self._ask_over_tcp(query, server)
            return
        question = query.question if server.keeps_case is not False else query.question.lower()
        entropy = self._entropy
        try:
            udp = server.pick_socket(entropy.draw_octet(), now, self._watch)
            udp.send(query, question, entropy, now, edns=server.takes_edns(query))
        except BlockingIOError:  # a full buffer loses datagrams as networks do
            pass
        except OSError:
            self._on_failure(query, server, "no resolver answers", now)
            return
        query.due_at = now + (server.first_wait(self._timeout) if query.tries == 1 else self._timeout)

    def _ask_over_tcp(self, query: _Query, server: Nameserver) -> None:
        """Ask over TCP: a second question on a connection of our own, what is odd through aiodns."""
        query.withdraw()
        query.due_at = self.clock.now() + self._timeout
        if query.confirms:
            self._ask_on_own_connection(query, server)
        else:
            done = partial(self._on_aiodns_answer, query, server)
            self._fallbacks[server.label].ask(query.name, query.record_type, done)

    def _ask_on_own_connection(self, query: _Query, server: Nameserver) -> None:
        done = partial(self._on_answer, query, server)
        self._tcp[server.label].ask(query.question, query.record_type, done, edns=bool(server.edns))

    def _on_aiodns_answer(self, query: _Query, server: Nameserver, answer: DnsAnswer) -> None:
        """Take an answer of aiodns'.

        What it did not hear is asked on our own connection, and what it denies: it keeps the SOA back,
        without which a denial counts for nothing.
        """
        unsure = answer.detail in _NO_ANSWER_DETAILS or (answer.outcome in DENIALS and answer.zone is None)
        if unsure and query in self._in_flight and not self._closed:
            self._ask_on_own_connection(query, server)
        else:
            self._on_answer(query, server, answer)

    def _pick(self, query: _Query) -> Nameserver | None:
        """Return the best resolver for a first try, the next one for each later try."""
        first = self.nameservers[0]
        if first.trusted and first.unanswered == 0 and not query.tries:
            return first
        ranking = self._ranking()
        last = ranking.index(query.server) if query.server in ranking else -1
        return ranking[(last + 1) % len(ranking)] if ranking else None

    def _ranking(self) -> list[Nameserver]:
        """Return the trusted resolvers, those that answer first."""
        trusted = [server for server in self.nameservers if server.trusted]
        if len(trusted) > 1:
            now = self.clock.now()
            trusted.sort(key=lambda server: server.is_down(now))
        return trusted

    def _watch(self, udp: _UdpSocket) -> None:
        self._loop.add_reader(udp.socket.fileno(), self._read, udp)

    def _release(self, udp: _UdpSocket) -> None:
        self._loop.remove_reader(udp.socket.fileno())
        udp.socket.close()

    def _read(self, udp: _UdpSocket) -> None:
        """Read replies: nearly all are usual ones of a resolver whose ways are known."""
        receive, read, now = udp.socket.recv, message.read_usual, self.clock.now()
        pending, server = udp.pending, udp.server
        for _ in range(_BURST):
            try:
                reply = receive(message.UDP_ROOM)
            except BlockingIOError:
                break
            except OSError:  # nobody listens there (ICMP)
                self._on_port_unreachable(udp, now)
                break
            query, sent_at = pending.get(reply[:2], _NOT_ASKED)
            if query is None:
                continue
            answer = read(reply, query.question, query.record_type) if server.is_settled else None
            if answer is None:
                self._match_reply(query, server, reply, now, now - sent_at)
            else:
                server.count_reply(now - sent_at)
                self._finish(query, answer, server)

    def _match_reply(
        self, query: _Query, server: Nameserver, reply: bytes, now: float, seconds: float
    ) -> None:
        """Take a reply whose id is right, if it is a reply and its question is right as well."""
        question = query.question
        is_reply = len(reply) > _HEADER and reply[2] & 0xF8 == 0x80 and reply[4:6] == b"\0\1"
        if is_reply and reply.startswith(question, _HEADER):
            if server.keeps_case is None:
                server.count_case(same=True)
            self._read_reply(query, server, reply, now, seconds)
            return
        is_respelt = is_reply and reply[_HEADER : _HEADER + len(question)].lower() == question.lower()
        if is_respelt and server.keeps_case is False:
            self._read_reply(query, server, reply, now, seconds)
        elif len(reply) == _HEADER and (refusal := message.edns_refusal(reply)):
            self._on_edns_refused(query, server, refusal, now)  # cannot even repeat the question
        else:  # forged, mangled, or spelt its own way: the true one comes now, or TCP knows
            query.is_mismatched = True
            query.case_changed = query.case_changed or is_respelt

    def _read_reply(
        self, query: _Query, server: Nameserver, reply: bytes, now: float, seconds: float
    ) -> None:
        """Read a reply to the very question, perhaps a late one of a resolver asked before."""
        server.count_reply(seconds)
        if server.edns is not False:
            has_edns = server.takes_edns(query)
            if has_edns and (refusal := message.edns_refusal(reply, _HEADER + len(query.question))):
                self._on_edns_refused(query, server, refusal, now)
                return
            # What comes behind an answer to a plain question is no EDNS.
            server.count_edns(understood=has_edns and reply[10:12] != b"\0\0", plain=not has_edns)
        if message.is_truncated(reply):
            self._send_over_tcp(query, server)
            return
        try:
            answer = message.read_reply(reply, query.question, query.record_type)
        except message.MALFORMED:
            self._send_over_tcp(query, server)
            return
        self._on_answer(query, server, answer)

    def _send_over_tcp(self, query: _Query, server: Nameserver) -> None:
        """Fetch over TCP what did not fit, or could not be read; it is a new try, so the old one ends."""
        query.server, query.tries = server, query.tries + 1
        self._ask_over_tcp(query, server)

    def _on_edns_refused(self, query: _Query, server: Nameserver, refusal: str, now: float) -> None:
        """Ask without EDNS (RFC 6891 section 7)."""
        query.edns_refused = True
        server.count_edns_refused()
        self._on_failure(query, server, refusal, now)

    def _on_answer(self, query: _Query, server: Nameserver, answer: DnsAnswer) -> None:
        """Hand over what was said of the name, by whichever way; what was said of nothing is tried again."""
        if answer.outcome is FAILED and not answer.name:
            self._on_failure(query, server, answer.detail, self.clock.now())
        else:
            self._finish(query, answer, server)

    def _on_port_unreachable(self, udp: _UdpSocket, now: float) -> None:
        """Let what was asked through a socket be asked elsewhere: nobody listens at its end."""
        for query, _ in list(udp.pending.values()):
            udp.server.count_unanswered(now)
            self._on_failure(query, udp.server, "no resolver answers", now)

    def _on_failure(self, query: _Query, server: Nameserver, detail: str, now: float) -> None:
        """Try again at once, as long as tries and time are left, unless another resolver is being asked."""
        query.failure = detail
        if query.server is not server or query not in self._in_flight:
            return
        query.withdraw()
        if query.tries >= self._tries or now >= query.ends_at:
            self._finish(query, DnsAnswer(FAILED, detail=detail))
        else:
            self._send(query, now)

    def _finish(self, query: _Query, answer: DnsAnswer, server: Nameserver | None = None) -> None:
        """Hand over an answer, and who gave it; what comes of other tries is not wanted any more."""
        if query not in self._in_flight:
            return
        del self._in_flight[query]
        query.withdraw()
        if server and not query.examines:
            server.answered = True
        # Who said so matters of what is asked again: of denials, and of records that lead nowhere, which is
        # not known here. With one resolver there is nobody else to ask.
        several = len(self.nameservers) > 1
        if server and (several or answer.outcome is not FOUND or is_null_mx(answer)):
            answer = answer._replace(server=server.label)
        _hand_over(query.done, answer)
        if self._waiting and self._send_handle is None:
            self._schedule_send()

    def _on_tick(self) -> None:
        """Repeat what is late, give up what is too late, and renew sockets."""
        self._tick_timer = None
        wait = self.clock.expect()
        try:
            self._look_at_time(self.clock.now())
        except Exception as error:  # noqa: BLE001 - without the next tick all that is open would wait for ever
            record_failure("dns", error)
        if self._in_flight or self._waiting:
            self._tick_timer = self._loop.call_later(wait, self._on_tick)
        else:
            self.clock.rest()

    def _look_at_time(self, now: float) -> None:
        # A look at all that is in flight is cheap; to queue all tries by their time costs a question 1 us.
        due = [query for query in self._in_flight if query.due_at <= now or query.ends_at <= now]
        for query in due:
            if query in self._in_flight:
                self._on_timeout(query, now)
        for server in self.nameservers:
            for idle in server.pop_idle_sockets():
                self._release(idle)

    def _on_timeout(self, query: _Query, now: float) -> None:
        if query.server is not None and not query.is_mismatched:
            query.server.count_unanswered(now)
        if query.server is not None and query.case_changed:
            query.server.count_case(same=False)
        if now >= query.ends_at:
            self._finish(query, DnsAnswer(FAILED, detail=query.failure or "timeout"))
        elif query.tries >= self._tries:  # nothing more is sent, but the last reply may still come
            query.due_at = now + self._timeout
        else:
            self._send(query, now)


def _hand_over(done: Callable[[DnsAnswer], None], answer: DnsAnswer) -> None:
    """Give an answer to who asked; one that cannot be taken is a failure, and no answer that never comes."""
    try:
        done(answer)
    except Exception as error:  # noqa: BLE001 - see above
        record_failure("dns", error)
        if answer is not _NOT_TAKEN:
            _hand_over(done, _NOT_TAKEN)


# A question, and the sockets on which it goes out.


class _Entropy:
    """Random octets, fetched from the system in pieces; none is used twice.

    Attributes:
        draw_octet, draw_number: return the next number below 256, and the next two octets.
    """

    def __init__(self) -> None:
        self.draw_octet = chain.from_iterable(map(os.urandom, repeat(_PIECE))).__next__
        numbers = map(struct.Struct("2s").iter_unpack, map(os.urandom, repeat(_PIECE)))
        self.draw_number = map(itemgetter(0), chain.from_iterable(numbers)).__next__
        self._pool = b""
        self._at = 0

    def read(self, count: int) -> bytes:
        """Return so many octets."""
        at, end = self._at, self._at + count
        if end > len(self._pool):
            self._pool, at, end = os.urandom(_PIECE), 0, count
        self._at = end
        return self._pool[at:end]


_PIECE: Final = 4096


class _Query:
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
    sent_on: tuple[tuple[_UdpSocket, bytes], ...] = ()
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


_SOCKETS: Final = 4
"""Sockets to one resolver; each has a source port of its own."""

QUESTIONS_A_SOCKET: Final = 5_000
_SECONDS_A_SOCKET: Final = 60.0
_RECEIVE_BUFFER: Final = 1 << 20  # octets; the usual 208 KiB drops replies when hundreds come at once


class _UdpSocket:
    """A connected socket: the kernel drops what comes from anybody else than the resolver.

    The kernel picks a random source port. Attributes:
        server: the resolver at its end.
        pending: what has been asked through it and when, by message id.
        asked: how many questions have gone out through it.
        expires_at: when its source port has been in use for long enough.
    """

    def __init__(self, server: Nameserver, now: float) -> None:
        """Open it.

        Raises:
            OSError: no descriptor is left, or there is no route.
        """
        self.server = server
        self.pending: dict[bytes, tuple[_Query, float]] = {}
        self.asked = 0
        self.expires_at = now + _SECONDS_A_SOCKET
        self.socket = socket.socket(server.family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
            self.socket.connect(server.address)
        except OSError:
            self.socket.close()
            raise

    def send(self, query: _Query, question: bytes, entropy: _Entropy, now: float, *, edns: bool) -> None:
        """Send a question with an id that is unpredictable and not in use here.

        Raises:
            OSError: it cannot be sent now.
        """
        pending = self.pending
        number = entropy.draw_number()
        while number in pending:
            number = entropy.draw_number()
        pending[number] = query, now
        self.asked += 1
        query.sent_on += ((self, number),)
        self.socket.send(message.pack_query(number, question, edns=edns))


# One resolver: what it can do and how it has behaved.

_FIRST_WAIT_S: Final = 0.25  # the least before a question is sent again
_SLOWER_THAN_USUAL: Final = 5.0
_SMOOTHING: Final = 0.1

_DOWN_AFTER: Final = 3  # questions in a row without a reply
_DOWN_S: Final = 1.0
_DOWN_MAX_S: Final = 30.0
_ONLY_PLAIN: Final = 3  # questions that were answered without EDNS only, before we do without it
_REPLACED: Final = 8  # questions in a row refused for EDNS, before one that took it does so no more
_OTHER_CASE: Final = 3  # replies that spell the name their own way before we stop to mix case


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
        is_settled: it keeps case and takes EDNS or not: a usual reply tells nothing of it.
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
    is_settled: bool = False
    _sockets: list[_UdpSocket] = field(default_factory=list)
    retired: list[_UdpSocket] = field(default_factory=list)
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

    def takes_edns(self, query: _Query) -> bool:
        """Tell whether a question goes to it with EDNS: while nothing is known, only the first try does."""
        return not query.edns_refused and (query.tries == 1 if self.edns is None else self.edns)

    def count_edns(self, *, understood: bool, plain: bool) -> None:
        """Take note of a reply that carries EDNS itself, or that came only when the question had none."""
        if understood:
            self.edns, self._refused = True, 0
        elif plain and self.edns is None:
            self._plain += 1
            self.edns = False if self._plain >= _ONLY_PLAIN else None
        self._settle()

    def count_edns_refused(self) -> None:
        """Take note that it refused a question for its EDNS.

        One that takes EDNS may refuse an odd name, and who does without it hears no extended errors any more,
        which say that an answer is the resolver's own; but it may also have been replaced.
        """
        self._refused += 1
        if not self.edns or self._refused >= _REPLACED:
            self.edns, self._refused = False, 0
        self._settle()

    def count_case(self, *, same: bool) -> None:
        """Take note of how it repeated a name: once right, always right; thrice otherwise, never."""
        if same:
            self.keeps_case = True
        else:
            self._other_case += 1
            if self._other_case >= _OTHER_CASE and self.keeps_case is None:
                self.keeps_case = False
        self._settle()

    def _settle(self) -> None:
        self.is_settled = bool(self.keeps_case) and self.edns is not None and not self._refused

    def pick_socket(self, draw: int, now: float, watch: Callable[[_UdpSocket], None]) -> _UdpSocket:
        """Return the socket that a random number hits; `watch` is told about new ones.

        Raises:
            OSError: there is none and none can be opened.
        """
        at = draw % _SOCKETS
        if at >= len(self._sockets):
            return self._open(now, watch)
        chosen = self._sockets[at]
        if chosen.asked < QUESTIONS_A_SOCKET and now < chosen.expires_at:
            return chosen
        self.retired.append(self._sockets.pop(at))
        return self._open(now, watch)

    def _open(self, now: float, watch: Callable[[_UdpSocket], None]) -> _UdpSocket:
        fresh = _UdpSocket(self, now)
        self._sockets.append(fresh)
        watch(fresh)
        return fresh

    def pop_idle_sockets(self) -> list[_UdpSocket]:
        """Return the worn sockets nothing is expected from any more; they are the caller's to close."""
        idle = [retired for retired in self.retired if not retired.pending]
        self.retired = [retired for retired in self.retired if retired.pending]
        return idle

    def pop_all_sockets(self) -> Iterator[_UdpSocket]:
        """Return every socket; they are the caller's to close."""
        yield from self._sockets
        yield from self.retired
        self._sockets, self.retired = [], []


# Which resolvers there are.


def _parse_nameserver(server: str) -> tuple[str, int, tuple[str, int]]:
    """Return label, address family and address of "host:port" or "[v6]:port"; without a port it is 53."""
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


def system_servers() -> Sequence[str]:
    """Return the addresses of the resolvers that this machine is told to ask, as of now."""
    channel = pycares.Channel()
    try:
        return [_SCOPE_BEHIND.sub(r"[\1%\3]\2", server) for server in channel.servers]
    finally:
        channel.close()


_SCOPE_BEHIND: Final = re.compile(r"\[(.+)\](:\d+)%(.+)")
_SCOPE_INSIDE: Final = re.compile(r"\[(.+)%(.+)\](:\d+)")


def in_words_of_cares(label: str) -> str:
    """Return the label of a server as c-ares writes it: the zone of a link-local address (RFC 4007) last."""
    return _SCOPE_INSIDE.sub(r"[\1]\3%\2", label)


# Over TCP: many questions on one connection, by hand.

_QUESTIONS_A_CONNECTION: Final = 10_000
"""After so many questions a connection is left for a new one."""

_CONNECTION_LOST: Final = DnsAnswer(FAILED, detail="no resolver answers over TCP")
_MALFORMED_ANSWER: Final = DnsAnswer(FAILED, detail="malformed answer")


@dataclass(slots=True)
class _PendingQuestion:
    """A question on a connection; `is_retry` when the connection before it was lost."""

    question: bytes
    record_type: RecordType
    done: Callable[[DnsAnswer], None]
    edns: bool
    is_retry: bool = False


class TcpClient:
    """Asks one resolver over a connection that is opened when it is needed; a lost one is replaced once.

    A question has no deadline here: whoever asks has one, and ignores what comes later.

    Args:
        address: host and port.
        patience: seconds without a word from it after which a connection that owes answers counts as lost.
    """

    def __init__(self, address: tuple[str, int], *, patience: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._address = address
        self._patience = patience
        self._connection: _TcpConnection | None = None
        self._opening: set[asyncio.Task[None]] = set()
        self._closed = False

    def ask(
        self, question: bytes, record_type: RecordType, done: Callable[[DnsAnswer], None], *, edns: bool
    ) -> None:
        """Ask a question (`message.encode_question`); `done` gets the answer, or a failure."""
        self._send(_PendingQuestion(question, record_type, done, edns))

    async def aclose(self) -> None:
        """Close the connection; what is open fails."""
        self._closed = True
        for task in self._opening:
            task.cancel()
        await asyncio.gather(*self._opening, return_exceptions=True)
        if self._connection is not None:
            self._connection.close()

    def _send(self, pending: _PendingQuestion) -> None:
        if self._closed:
            self._loop.call_soon(pending.done, _CONNECTION_LOST)
            return
        connection = self._connection
        if connection is None or connection.is_over or connection.sent >= _QUESTIONS_A_CONNECTION:
            connection = self._connection = _TcpConnection(self._retry_lost, self._patience)
            task = self._loop.create_task(self._open(connection))
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)
        connection.send(pending)

    async def _open(self, connection: _TcpConnection) -> None:
        try:
            await self._loop.create_connection(lambda: connection, *self._address)
        except OSError:
            connection.connection_lost(None)

    def _retry_lost(self, unanswered: list[_PendingQuestion]) -> None:
        """Ask on a new connection what a lost one has not answered: a server may close one that was idle."""
        for pending in unanswered:
            if pending.is_retry or self._closed:
                pending.done(_CONNECTION_LOST)
            else:
                pending.is_retry = True
                self._send(pending)


class _TcpConnection(asyncio.Protocol):
    """One connection: questions out in one write a turn, replies in any order."""

    def __init__(self, on_lost: Callable[[list[_PendingQuestion]], None], patience: float) -> None:
        self.sent = 0
        self.is_over = False
        self._loop = asyncio.get_running_loop()
        self._on_lost = on_lost
        self._patience = patience
        self._silence_timer: asyncio.TimerHandle | None = None
        self._pending: dict[int, _PendingQuestion] = {}
        self._outbox: list[bytes] = []
        self._buffer = b""
        self._transport: asyncio.Transport | None = None
        self._flush_handle: asyncio.Handle | None = None

    def send(self, pending: _PendingQuestion) -> None:
        """Send a question now, or when the connection is there."""
        number = self.sent  # fewer than there are ids
        self.sent += 1
        self._pending[number] = pending
        packet = message.pack_query(number.to_bytes(2, "big"), pending.question, edns=pending.edns)
        self._outbox.append(len(packet).to_bytes(2, "big") + packet)
        if self._transport is not None and self._flush_handle is None:
            self._flush_handle = self._loop.call_soon(self._flush)
        if self._silence_timer is None:
            self._await_word()

    def close(self) -> None:
        """Give it up; what is open on it is lost."""
        if self._transport is not None:
            self._transport.abort()
        self.connection_lost(None)

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # TCP gives nothing else
        if self.is_over:  # closed meanwhile
            self._transport.abort()
        self._flush()

    @override
    def data_received(self, data: bytes) -> None:
        received, start = self._buffer + data, 0
        while len(received) >= start + 2:
            end = start + 2 + int.from_bytes(received[start : start + 2])
            if len(received) < end:
                break
            self._match_reply(received[start + 2 : end])
            start = end
        self._buffer = received[start:]
        self._await_word()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self.is_over = True
        self._stop_waiting()
        unanswered = list(self._pending.values())
        self._pending.clear()
        self._on_lost(unanswered)

    def _await_word(self) -> None:
        """Give it up when it stays silent and owes answers: whoever stands between forgets idle ones."""
        self._stop_waiting()
        if self._pending:
            self._silence_timer = self._loop.call_later(self._patience, self.close)

    def _stop_waiting(self) -> None:
        if self._silence_timer is not None:
            self._silence_timer.cancel()
            self._silence_timer = None

    def _flush(self) -> None:
        self._flush_handle = None
        if self._transport is not None and not self._transport.is_closing():  # else connection_lost follows
            self._transport.write(b"".join(self._outbox))
            self._outbox.clear()

    def _match_reply(self, reply: bytes) -> None:
        pending = self._pending.pop(int.from_bytes(reply[:2], "big"), None)
        if pending is None:
            return
        end = _HEADER + len(pending.question)
        if reply[_HEADER:end].lower() != pending.question.lower():
            pending.done(_MALFORMED_ANSWER)
            return
        try:
            answer = message.read_reply(reply, pending.question, pending.record_type)
        except message.MALFORMED:
            answer = _MALFORMED_ANSWER
        pending.done(answer)


# Over TCP by aiodns: where the answer did not fit a datagram, was odd or late.

_QUESTIONS_OF_CARES: Final = 2_000
_SECONDS_OF_CARES: Final = 30.0
"""How long one aiodns resolver is used: it remembers answers, and what it remembers is no second opinion."""

_FLAGS_OF_CARES: Final = pycares.ARES_FLAG_USEVC | pycares.ARES_FLAG_STAYOPEN | pycares.ARES_FLAG_NOSEARCH

_ERRORS_OF_CARES: Final = {
    aiodns.error.ARES_ENODATA: message.NO_DATA,
    aiodns.error.ARES_ENOTFOUND: message.NO_NAME,
    aiodns.error.ARES_ESERVFAIL: DnsAnswer(FAILED, detail="SERVFAIL"),
    aiodns.error.ARES_EREFUSED: DnsAnswer(FAILED, detail="REFUSED"),
    aiodns.error.ARES_ETIMEOUT: DnsAnswer(FAILED, detail="timeout"),
    aiodns.error.ARES_ECONNREFUSED: DnsAnswer(FAILED, detail="no resolver answers"),
    aiodns.error.ARES_EBADRESP: _MALFORMED_ANSWER,
}
_NO_ANSWER_DETAILS: Final = frozenset(
    {"timeout", "no resolver answers", "malformed answer", "resolver error"}
)
"""Details of failures that are no answer of the resolver's."""

_OTHER_ERROR_OF_CARES: Final = DnsAnswer(FAILED, detail="resolver error")


class AiodnsFallback:
    """Asks one resolver over TCP, on a connection that many questions share.

    Args:
        server: "host:port" or "[v6]:port".
        timeout: seconds until a question is given up.
    """

    def __init__(self, server: str, *, timeout: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._server = in_words_of_cares(server)
        self._timeout = timeout
        self._resolver: aiodns.DNSResolver | None = None
        self._asked = 0
        self._born = 0.0
        self._closing: set[asyncio.Task[None]] = set()
        self._closed = asyncio.Event()

    def ask(self, name: str, record_type: RecordType, done: Callable[[DnsAnswer], None]) -> None:
        """Ask for the records of an absolute name; `done` gets the answer later, exactly once."""
        future = self._current().query_dns(name, record_type.value)
        future.add_done_callback(lambda answered: done(_read_cares(name, record_type, answered)))

    def forget(self) -> None:
        """Drop what is remembered, and with it the connection once its open questions have had their time."""
        old, self._resolver = self._resolver, None
        if old is not None:
            closing = self._loop.create_task(self._close_later(old))
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    async def aclose(self) -> None:
        """Release sockets and timers; open questions fail."""
        self.forget()
        self._closed.set()
        await asyncio.gather(*self._closing)

    async def _close_later(self, resolver: aiodns.DNSResolver) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(2 * self._timeout):
                await self._closed.wait()
        await resolver.close()

    def _current(self) -> aiodns.DNSResolver:
        now = self._loop.time()
        if self._asked >= _QUESTIONS_OF_CARES or now - self._born >= _SECONDS_OF_CARES:
            self.forget()
        if self._resolver is None:
            self._asked, self._born = 0, now
            self._resolver = aiodns.DNSResolver(
                nameservers=[self._server],
                loop=self._loop,
                timeout=self._timeout,
                tries=1,
                flags=_FLAGS_OF_CARES,
            )
        self._asked += 1
        return self._resolver


def _read_cares(name: str, record_type: RecordType, answered: asyncio.Future[pycares.DNSResult]) -> DnsAnswer:
    if answered.cancelled():
        return DnsAnswer(FAILED, detail="resolver closed")
    error = answered.exception()
    if error is not None:
        return (
            _ERRORS_OF_CARES.get(error.args[0], _OTHER_ERROR_OF_CARES)
            if error.args
            else _OTHER_ERROR_OF_CARES
        )
    result = answered.result()
    records = [record for one in result.answer if (record := _record_of_cares(one)) is not None]
    return message.answer_from(name.lower(), record_type, records, exists=True, zone=_zone_of_cares(result))


def _record_of_cares(one: pycares.DNSRecord) -> message.ResourceRecord | None:
    """Take what is asked for from what c-ares has read; it escapes what is not printable."""
    match one.data:
        case pycares.MXRecordData(priority=rank, exchange=exchange):
            value: message.Value = rank, _lower(exchange)
        case pycares.ARecordData(addr=address) | pycares.AAAARecordData(addr=address):
            value = address
        case pycares.CNAMERecordData(cname=name) | pycares.NSRecordData(nsdname=name):
            value = _lower(name)
        case _:
            return None
    return message.ResourceRecord(_lower(one.name), one.type, one.ttl, value)


def _lower(name: object) -> str:
    return str(name).rstrip(".").lower()


def _zone_of_cares(result: pycares.DNSResult) -> str | None:
    owners = (one.name for one in result.authority if isinstance(one.data, pycares.SOARecordData))
    return next(map(_lower, owners), None)
