"""The DNS client of the hot path: connected UDP sockets in the event loop, answers by callback.

Against forgers (RFC 5452) a question goes out on one of several sockets with ports of their own, which are
renewed now and then, with a random id and its letters in random case; a reply counts when all of that comes
back. What is truncated, malformed, spelt differently or still unanswered at the last try is asked over TCP.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from mailsift.pipeline.background import record_failure
from mailsift.pipeline.dns import message
from mailsift.pipeline.dns.nameserver import EntropyPool, Nameserver, Query, UdpSocket, parse_nameservers
from mailsift.pipeline.dns.rules import DENIALS, FAILED, FOUND, MX, DnsAnswer, RecordType, is_null_mx
from mailsift.pipeline.dns.tcp import NO_ANSWER_DETAILS, AiodnsFallback, TcpClient
from mailsift.pipeline.fair_clock import FairClock

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
        self.refresh()
        self._concurrency = concurrency
        self._entropy = EntropyPool()
        self._waiting: deque[Query] = deque()
        self._urgent: deque[Query] = deque()  # is not held back by what is in flight
        self._in_flight: dict[Query, None] = {}
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
        query = Query(name, record_type, done)
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
        self._urgent.append(Query(name, record_type, done, only=server, examines=True))
        self._schedule_send()

    def ask_again(
        self, before: DnsAnswer, name: str, record_type: RecordType, done: Callable[[DnsAnswer], None]
    ) -> None:
        """Ask independently of an answer: another trusted resolver, or over TCP."""
        trusted = self._ranking()
        others = [one for one in trusted if before.server and one.label != before.server]
        chosen = next(iter(others or trusted), None)
        query = Query(name, record_type, done, only=chosen, confirms=not others)
        self._urgent.append(query)
        self._schedule_send()

    def refresh(self) -> Sequence[Nameserver]:
        """Read the system's resolvers again, which change with the network; returns those that are new.

        Resolvers that were given stay.

        Raises:
            MailsiftError: dns_servers_invalid.
        """
        known = {server.label: server for server in self.nameservers}
        parsed = list(dict.fromkeys(parse_nameservers(self._servers)))
        fresh = [Nameserver(*one) for one in parsed if one[0] not in known]
        known.update((server.label, server) for server in fresh)
        self.nameservers = [known.pop(label) for label, *_ in parsed]
        for gone in known.values():  # what was asked there is asked again elsewhere
            for used in gone.pop_all_sockets():
                self._release(used)
        for server in fresh:
            patience = self._timeout * self._tries
            self._tcp.setdefault(server.label, TcpClient(server.address, patience=patience))
            self._fallbacks.setdefault(server.label, AiodnsFallback(server.label, timeout=patience))
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

    def _begin(self, query: Query, now: float) -> None:
        self._in_flight[query] = None
        query.ends_at = now + self._timeout * self._tries
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

    def _send(self, query: Query, now: float) -> None:
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
        try:
            self._send_udp(query, server, now)
        except BlockingIOError:  # a full buffer loses datagrams as networks do
            pass
        except OSError:
            self._on_failure(query, server, "no resolver answers", now)
            return
        query.due_at = now + (server.first_wait(self._timeout) if query.tries == 1 else self._timeout)

    def _send_udp(self, query: Query, server: Nameserver, now: float) -> None:
        udp = server.pick_socket(self._entropy, now, self._watch)
        number = udp.expect_reply(query, self._entropy, now)
        question = query.question if server.keeps_case is not False else query.question.lower()
        udp.socket.send(message.pack_query(number, question, edns=server.takes_edns(query)))

    def _ask_over_tcp(self, query: Query, server: Nameserver) -> None:
        """Ask over TCP: a second question on a connection of our own, what is odd through aiodns."""
        query.withdraw()
        query.due_at = self.clock.now() + self._timeout
        if query.confirms:
            self._ask_on_own_connection(query, server)
        else:
            done = partial(self._on_aiodns_answer, query, server)
            self._fallbacks[server.label].ask(query.name, query.record_type, done)

    def _ask_on_own_connection(self, query: Query, server: Nameserver) -> None:
        done = partial(self._on_answer, query, server)
        self._tcp[server.label].ask(query.question, query.record_type, done, edns=bool(server.edns))

    def _on_aiodns_answer(self, query: Query, server: Nameserver, answer: DnsAnswer) -> None:
        """Take an answer of aiodns'.

        What it did not hear is asked on our own connection, and what it denies: it keeps the SOA back,
        without which a denial counts for nothing.
        """
        unsure = answer.detail in NO_ANSWER_DETAILS or (answer.outcome in DENIALS and answer.zone is None)
        if unsure and query in self._in_flight and not self._closed:
            self._ask_on_own_connection(query, server)
        else:
            self._on_answer(query, server, answer)

    def _pick(self, query: Query) -> Nameserver | None:
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

    def _watch(self, udp: UdpSocket) -> None:
        self._loop.add_reader(udp.socket.fileno(), self._read, udp)

    def _release(self, udp: UdpSocket) -> None:
        self._loop.remove_reader(udp.socket.fileno())
        udp.socket.close()

    def _read(self, udp: UdpSocket) -> None:
        """Read replies, then send what may be sent now."""
        receive, now = udp.socket.recv, self.clock.now()
        for _ in range(_BURST):
            try:
                reply = receive(message.UDP_ROOM)
            except BlockingIOError:
                break
            except OSError:  # nobody listens there (ICMP)
                self._on_port_unreachable(udp, now)
                break
            query, sent_at = udp.pending.get(reply[:2], _NOT_ASKED)
            if query is not None:
                self._match_reply(query, udp.server, reply, now, now - sent_at)

    def _match_reply(
        self, query: Query, server: Nameserver, reply: bytes, now: float, seconds: float
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

    def _read_reply(self, query: Query, server: Nameserver, reply: bytes, now: float, seconds: float) -> None:
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

    def _send_over_tcp(self, query: Query, server: Nameserver) -> None:
        """Fetch over TCP what did not fit, or could not be read; it is a new try, so the old one ends."""
        query.server, query.tries = server, query.tries + 1
        self._ask_over_tcp(query, server)

    def _on_edns_refused(self, query: Query, server: Nameserver, refusal: str, now: float) -> None:
        """Ask without EDNS (RFC 6891 section 7)."""
        query.edns_refused = True
        server.count_edns_refused()
        self._on_failure(query, server, refusal, now)

    def _on_answer(self, query: Query, server: Nameserver, answer: DnsAnswer) -> None:
        """Hand over what was said of the name, by whichever way; what was said of nothing is tried again."""
        if answer.outcome is FAILED and not answer.name:
            self._on_failure(query, server, answer.detail, self.clock.now())
        else:
            self._finish(query, answer, server)

    def _on_port_unreachable(self, udp: UdpSocket, now: float) -> None:
        """Let what was asked through a socket be asked elsewhere: nobody listens at its end."""
        for query, _ in list(udp.pending.values()):
            udp.server.count_unanswered(now)
            self._on_failure(query, udp.server, "no resolver answers", now)

    def _on_failure(self, query: Query, server: Nameserver, detail: str, now: float) -> None:
        """Try again at once, as long as tries and time are left, unless another resolver is being asked."""
        query.failure = detail
        if query.server is not server or query not in self._in_flight:
            return
        query.withdraw()
        if query.tries >= self._tries or now >= query.ends_at:
            self._finish(query, DnsAnswer(FAILED, detail=detail))
        else:
            self._send(query, now)

    def _finish(self, query: Query, answer: DnsAnswer, server: Nameserver | None = None) -> None:
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
        if self._waiting:
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

    def _on_timeout(self, query: Query, now: float) -> None:
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
