"""The resolver against a real server over sockets: answers, failures, deadlines, limits, clean-up."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Self

import dns.edns
import dns.message
import dns.rcode
import pycares
import pytest
import uvloop

from mailsift.pipeline.dns import client as dns_client
from mailsift.pipeline.dns import message
from mailsift.pipeline.dns.client import AiodnsFallback, DnsClient, TcpClient
from mailsift.pipeline.dns.domains import DnsConfig, DomainFacts
from mailsift.pipeline.dns.rules import DnsAnswer, DnsOutcome, RecordType
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.guard import AddressGuard
from mailsift.pipeline.providers import Providers
from tests.support.leaping_loop import hold_the_loop
from tests.unit.pipeline.dns_stub import NXDOMAIN, REFUSED, SERVFAIL, SILENCE, MemoryCache, Says, serving

_X_ZONE = {"x.test": {"MX": Says(["10 mx.x.test."])}}


@asynccontextmanager
async def client_of(*servers: str, timeout: float = 0.3, tries: int = 2) -> AsyncIterator[DnsClient]:  # noqa: ASYNC109 - the client's setting, not this generator's
    client = DnsClient(servers=servers, timeout=timeout, tries=tries)
    try:
        yield client
    finally:
        await client.aclose()


async def ask(client: DnsClient, name: str, question: RecordType = RecordType.MX) -> DnsAnswer:
    answered: asyncio.Future[DnsAnswer] = asyncio.get_running_loop().create_future()
    client.ask(name, question, answered.set_result)
    return await answered


async def test_records_come_with_the_shortest_ttl_of_the_answer() -> None:
    zone = {
        "a.test": {
            "MX": Says(["a.test. 900 IN CNAME b.test.", "b.test. 300 IN MX 10 mx.b.test."]),
            "A": Says(["192.0.2.1", "192.0.2.2"], ttl=77),
            "AAAA": Says(["2001:db8::1"]),
            "NS": Says(["ns1.a.test.", "ns2.a.test."], ttl=60),
        }
    }
    async with serving(zone) as stub, client_of(stub.server) as client:
        mx = await ask(client, "a.test")
        ns = await ask(client, "a.test", RecordType.NS)
        a = await ask(client, "a.test", RecordType.A)
        aaaa = await ask(client, "a.test", RecordType.AAAA)
    assert mx == DnsAnswer(DnsOutcome.FOUND, exchangers=((10, "mx.b.test"),), ttl=300)
    assert a == DnsAnswer(DnsOutcome.FOUND, addresses=("192.0.2.1", "192.0.2.2"), ttl=77)
    assert aaaa.addresses == ("2001:db8::1",)
    assert ns == DnsAnswer(DnsOutcome.FOUND, name_servers=("ns1.a.test", "ns2.a.test"), ttl=60)


async def test_a_ttl_with_its_top_bit_set_counts_as_none() -> None:
    """RFC 2181 section 8."""
    zone = {
        "a.test": {"A": Says(["192.0.2.1"], ttl=1 << 31)},
        "b.test": {"A": Says(["b.test. 4294967295 IN CNAME c.test.", "c.test. 300 IN A 192.0.2.1"])},
        "c.test": {"A": Says(["192.0.2.1"], ttl=(1 << 31) - 1)},
    }
    async with serving(zone) as stub, client_of(stub.server) as client:
        answers = [await ask(client, name, RecordType.A) for name in zone]
    assert [answer.ttl for answer in answers] == [0, 0, (1 << 31) - 1]


@pytest.mark.parametrize(
    ("says", "outcome", "detail"),
    [
        (Says(), DnsOutcome.NO_DATA, "NODATA"),
        (Says(["x.test. 60 IN CNAME dangling.test."]), DnsOutcome.NO_DATA, "NODATA"),
        (NXDOMAIN, DnsOutcome.NO_NAME, "NXDOMAIN"),
        (SERVFAIL, DnsOutcome.FAILED, "SERVFAIL"),
        (REFUSED, DnsOutcome.FAILED, "REFUSED"),
        (SILENCE, DnsOutcome.FAILED, "timeout"),
        (
            Says(["x.test. 60 IN CNAME y.test.", "y.test. 60 IN CNAME x.test."]),
            DnsOutcome.FAILED,
            "CNAME loop",
        ),
    ],
)
async def test_what_is_not_a_record_is_told_apart(says: Says, outcome: DnsOutcome, detail: str) -> None:
    async with serving({"x.test": {"MX": says}}) as stub, client_of(stub.server) as client:
        answer = await ask(client, "x.test")
    assert (answer.outcome, answer.detail) == (outcome, detail)
    assert not answer.exchangers


@pytest.mark.parametrize("garbage", [b"\x81\x80", b"\xff" * 40, b"\x81\x80\x00\x01\x7f\xff\x00\x00\x00\x00"])
async def test_rubbish_from_a_server_is_a_failure(garbage: bytes) -> None:
    zone = {"x.test": {"MX": Says(garbage=garbage)}}
    async with serving(zone) as stub, client_of(stub.server) as client:
        assert (await ask(client, "x.test")).outcome is DnsOutcome.FAILED


@pytest.mark.parametrize(
    "data",
    [b"\0\0\0junk", b"\0\x0a\2mx\1x\4test\0junk", b"\0\x0a\2mx", b"\0\x0a", b""],
    ids=["root and junk", "host and junk", "half a name", "no name", "nothing"],
)
def test_an_exchanger_that_is_longer_or_shorter_than_its_record_is_none(data: bytes) -> None:
    """It would pass for the null MX of a domain that takes mail."""
    question = message.encode_question("x.test", RecordType.MX)
    record = b"\xc0\x0c" + struct.pack("!HHIH", 15, 1, 60, len(data)) + data
    behind = b"\2mx\1x\4test\0"  # what half a name could run into
    reply = b"\0\1\x81\x80" + struct.pack("!HHHH", 1, 1, 0, 0) + question + record + behind
    with pytest.raises(message.MALFORMED):
        message.read_reply(reply, question, RecordType.MX)


_PLAIN_OPT = b"\0\0\x29\x04\xd0\0\0\0\0\0\0"


@pytest.mark.parametrize("flags", [b"\x81\x80", b"\x85\x80"], ids=["recursive", "authoritative"])
@pytest.mark.parametrize("opt", [b"", _PLAIN_OPT], ids=["plain", "EDNS"])
@pytest.mark.parametrize(
    ("kind", "data"),
    [(RecordType.MX, b"\0\x0a\2mx\xc0\x0c"), (RecordType.A, b"\1\2\3\4"), (RecordType.NS, b"\2ns\xc0\x0c")],
)
def test_the_short_way_to_read_a_reply_says_what_the_long_way_says(
    kind: RecordType, data: bytes, opt: bytes, flags: bytes
) -> None:
    """Whatever becomes of any octet of it."""
    question = message.encode_question("x.test", kind)
    record = b"\xc0\x0c" + question[-4:] + struct.pack("!IH", 300, len(data)) + data
    reply = b"\0\1" + flags + struct.pack("!HHHH", 1, 2, 0, bool(opt)) + question + record * 2 + opt
    assert message.read_usual(reply, question, kind)
    for at in range(2, len(reply)):
        for octet in {0, 1, 2, 3, 9, 0x0C, 0x3F, 0x40, 0x80, 0xC0, 0xFF, reply[at] ^ 0x20}:
            changed = reply[:at] + bytes([octet]) + reply[at + 1 :]
            for one in (changed, changed[:-1], changed[:at]):
                usual = message.read_usual(one, question, kind)
                is_reply = one.startswith(question, 12) and one[2] & 0xFA == 0x80 and one[4:6] == b"\0\1"
                assert usual is None or (is_reply and usual == message.read_reply(one, question, kind))


def _named_backwards(piece: bytes, count: int) -> bytes:
    """Return a message of pieces, each with a pointer to the one before it."""
    step = len(piece) + 2
    pointers = (piece + struct.pack("!H", 0xC000 | (at * step)) for at in range(count))
    return b"\0" * step + b"".join(pointers)


def test_a_name_is_read_that_is_as_long_as_names_are_and_has_a_pointer_in_every_label() -> None:
    name = _named_backwards(b"\1a", 127)
    assert message.read_name(name, 127 * 4)[0] == ".".join("a" * 127)


@pytest.mark.parametrize("piece", [b"", b"\1a"])
def test_a_name_without_end_is_given_up(piece: bytes) -> None:
    """A reply may hold thousands of names, each of which leads through most of it."""
    name = _named_backwards(piece, 1_000)
    with pytest.raises(message.MALFORMED):
        message.read_name(name, len(name) - len(piece) - 2)


async def test_rubbish_for_one_name_does_no_harm_to_the_names_asked_beside_it() -> None:
    def answer(name: str, _kind: str) -> Says:
        return Says(garbage=b"\x81\x80\xff") if name.startswith("bad") else Says(["10 mx.test."], delay=0.02)

    async with serving({}, answer) as stub, client_of(stub.server, timeout=0.4, tries=10) as client:
        names = [f"{'bad' if i % 10 == 5 else 'good'}{i}.test" for i in range(60)]
        answers = await asyncio.gather(*(ask(client, name) for name in names))
        assert {a.detail for a, n in zip(answers, names, strict=True) if n.startswith("bad")} == {
            "malformed answer"
        }
        assert {a.outcome for a, n in zip(answers, names, strict=True) if n.startswith("good")} == {
            DnsOutcome.FOUND
        }


async def test_closing_while_a_name_is_asked_over_tcp_ends_it() -> None:
    says = iter([Says(garbage=b"\x81\x80\xff")])  # then silence
    async with serving({}, lambda _n, _k: next(says, SILENCE)) as stub:
        client = DnsClient(servers=[stub.server], timeout=0.2, tries=20)
        answered = asyncio.ensure_future(ask(client, "x.test"))
        await stub.until_asked(2)
        await client.aclose()
        assert (await answered).detail == "resolver closed"


def test_a_question_on_a_connection_that_breaks_before_it_is_sent_is_asked_on_another_one() -> None:
    reset = threading.Event()

    def serve(listening: socket.socket) -> None:
        for linger in (struct.pack("ii", 1, 0), b""):
            connection, _ = listening.accept()
            with connection:
                query = dns.message.from_wire(connection.recv(512)[2:])
                reply = dns.message.make_response(query).to_wire()
                connection.sendall(len(reply).to_bytes(2, "big") + reply)
                if linger:  # closing it resets it
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            reset.set()

    async def ask_twice(address: tuple[str, int]) -> list[object]:
        loop, answers = asyncio.get_running_loop(), list[object]()
        loop.set_exception_handler(lambda _, context: answers.append(context))
        client, question = TcpClient(address, patience=5), message.encode_question("x.test", RecordType.MX)
        first, second = (loop.create_future() for _ in range(2))
        client.ask(question, RecordType.MX, first.set_result, edns=False)
        await first
        loop.call_later(0.001, lambda: client.ask(question, RecordType.MX, second.set_result, edns=False))
        due = time.monotonic() + 0.002
        reset.wait()
        while time.monotonic() < due:  # so that the loop learns of both at once: first sockets, then timers
            pass
        await second
        await client.aclose()
        return [*answers, first.result().outcome, second.result().outcome]

    with socket.create_server(("127.0.0.1", 0)) as listening:
        (server := threading.Thread(target=serve, args=[listening])).start()
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            answers = runner.run(ask_twice(listening.getsockname()))
        server.join()
    assert answers == [DnsOutcome.NO_DATA, DnsOutcome.NO_DATA]


async def test_what_is_open_at_the_library_fails_while_the_loop_still_runs() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host, port = silent.getsockname()
        fallback = AiodnsFallback(f"{host}:{port}", timeout=5)
        answers: list[DnsAnswer] = []
        fallback.ask("x.test", RecordType.MX, answers.append)
        await fallback.aclose()
        for _ in range(3):  # from the library to its future, and from there to us
            await asyncio.sleep(0)
        assert [answer.outcome for answer in answers] == [DnsOutcome.FAILED]


async def test_a_connection_that_has_gone_silent_is_left_for_a_new_one() -> None:
    connections = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        size = int.from_bytes(await reader.readexactly(2), "big")
        query = await reader.readexactly(size)
        if len(connections) > 1:  # the first one stands for one that a firewall forgot
            writer.write(size.to_bytes(2, "big") + query[:2] + b"\x81\x80" + query[4:])

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    client = TcpClient(server.sockets[0].getsockname(), patience=0.2)
    answer: asyncio.Future[DnsAnswer] = asyncio.get_running_loop().create_future()
    client.ask(message.encode_question("x.test", RecordType.MX), RecordType.MX, answer.set_result, edns=False)
    assert (await asyncio.wait_for(answer, 10)).outcome is DnsOutcome.NO_DATA
    await client.aclose()
    for writer in connections:
        writer.close()
    server.close()


async def test_temporary_failures_are_asked_again() -> None:
    async with serving({"x.test": {"MX": SERVFAIL}}) as stub, client_of(stub.server, tries=3) as client:
        await ask(client, "x.test")
    assert stub.asked["x.test", "MX"] == 3


async def test_a_server_that_recovers_within_the_tries_is_heard() -> None:
    answers = iter([SERVFAIL, SILENCE, Says(["10 mx.x.test."])])
    async with serving({}, lambda _n, _k: next(answers)) as stub, client_of(stub.server, tries=5) as client:
        assert (await ask(client, "x.test")).outcome is DnsOutcome.FOUND


async def test_a_silent_server_is_asked_as_often_as_there_are_tries_and_has_the_time_of_all() -> None:
    zone = {"x.test": {"MX": SILENCE}}
    async with serving(zone) as stub, client_of(stub.server, timeout=0.3, tries=2) as client:
        loop = asyncio.get_running_loop()
        started = loop.time()
        answer = await ask(client, "x.test")
        took = loop.time() - started
    assert answer.detail == "timeout"
    assert stub.asked["x.test", "MX"] == 2
    assert took > 0.55


async def test_the_deadline_holds_when_the_resolver_library_would_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []
    monkeypatch.setattr(AiodnsFallback, "ask", lambda _self, *question: asked.append(question))
    zone = {"x.test": {"MX": SILENCE}}
    async with serving(zone) as stub, client_of(stub.server, timeout=0.1, tries=4) as client:
        assert (await ask(client, "x.test")).detail == "timeout"
    assert len(asked) == 1  # and it has not answered to this day


async def test_a_truncated_answer_is_fetched_over_tcp() -> None:
    many = [f"{i} mx{i}.x.test." for i in range(1000)]
    zone = {"x.test": {"MX": Says(many, truncated=True)}}
    async with serving(zone) as stub, client_of(stub.server, timeout=2) as client:
        answer = await ask(client, "x.test")
    assert len(answer.exchangers) == 1000
    assert stub.over_tcp.total() == 1


async def test_name_servers_are_fetched_over_tcp_as_well() -> None:
    zone = {"x.test": {"NS": Says(["ns1.x.test.", "NS2.x.test."], truncated=True)}}
    async with serving(zone) as stub, client_of(stub.server, timeout=2) as client:
        answer = await ask(client, "x.test", RecordType.NS)
    assert set(answer.name_servers) == {"ns1.x.test", "ns2.x.test"}


@pytest.mark.parametrize(
    ("says", "outcome"), [(NXDOMAIN, DnsOutcome.NO_NAME), (Says(), DnsOutcome.NO_DATA)], ids=["name", "data"]
)
async def test_a_denial_that_comes_over_tcp_has_its_zone(says: Says, outcome: DnsOutcome) -> None:
    denies = replace(says, truncated=True)
    async with serving({}, lambda _n, _k: denies) as stub, client_of(stub.server, timeout=2) as client:
        answer = await ask(client, "x.test")
    assert (answer.outcome, answer.zone) == (outcome, "test")


async def test_a_denial_that_is_fetched_over_tcp_twice_has_its_zone() -> None:
    late = Says(truncated=True, delay=0.5)
    async with serving({}, lambda _n, _k: late) as stub, client_of(stub.server, tries=9) as client:
        answer = await ask(client, "x.test")
    assert stub.asked.total() - stub.over_tcp.total() > 1
    assert (answer.outcome, answer.zone) == (DnsOutcome.NO_DATA, "test")


async def test_while_tcp_has_time_to_answer_nothing_is_asked_again() -> None:
    usual, late = Says(["10 mx.x.test."]), Says(["10 mx.x.test."], truncated=True, delay=0.5)
    async with (
        serving({"late.test": {"MX": late}}, lambda _n, _k: usual) as stub,
        client_of(stub.server, timeout=9) as client,
    ):
        await ask(client, "x.test")  # now it is known to be quick
        assert (await ask(client, "late.test")).outcome is DnsOutcome.FOUND
    assert stub.asked["late.test", "MX"] == 2


async def test_what_came_late_came_from_whom_it_came() -> None:
    """Or the resolver that lied would be asked whether it is true."""
    late = Says(rcode="NXDOMAIN", delay=0.4)
    async with serving({}, lambda _n, _k: late) as first, serving({}, lambda _n, _k: SILENCE) as second:
        async with client_of(first.server, second.server, timeout=0.3, tries=9) as client:
            answer = await ask(client, "x.test")
        assert second.asked.total() == 1
        assert (answer.detail, answer.server) == ("NXDOMAIN", first.server)


@pytest.mark.parametrize("has_tcp", [True, False])
async def test_what_one_resolver_cannot_say_over_tcp_another_one_is_asked(has_tcp: bool) -> None:
    fails = replace(SERVFAIL, truncated=True)
    zone = {"x.test": {"MX": Says(["10 mx.x.test."])}}
    async with serving({}, lambda _n, _k: fails, has_tcp=has_tcp) as odd, serving(zone) as sound:
        async with client_of(odd.server, sound.server, timeout=9, tries=5) as client:
            assert (await ask(client, "x.test")).outcome is DnsOutcome.FOUND
        assert bool(odd.over_tcp) is has_tcp


@pytest.mark.parametrize("disowned", message.DISOWNED)
@pytest.mark.parametrize("says", [NXDOMAIN, Says(), Says(["10 block-page.test."])])
async def test_what_a_resolver_says_is_its_own_answer_is_none(says: Says, disowned: int) -> None:
    disowns = replace(says, extended_error=disowned)
    async with serving({}, lambda _n, _k: disowns) as stub, client_of(stub.server, timeout=9) as client:
        answer = await ask(client, "x.test")
    assert answer.outcome is DnsOutcome.FAILED
    assert message.DISOWNED[disowned] in answer.detail


def test_every_extended_error_of_an_answer_is_read() -> None:
    question = message.encode_question("x.test", RecordType.MX)
    query = dns.message.from_wire(message.pack_query(b"\1\2", question, edns=True))
    reply = dns.message.make_response(query)
    codes = (dns.edns.EDECode.DNSSEC_INDETERMINATE, dns.edns.EDECode.OTHER, dns.edns.EDECode.BLOCKED)
    reply.use_edns(options=[dns.edns.EDEOption(code, "as we were told") for code in codes])
    answer = message.read_reply(reply.to_wire(), question, RecordType.MX)
    assert answer.outcome is DnsOutcome.FAILED
    assert answer.detail.endswith("blocked")


async def test_a_resolver_that_ignores_edns_is_left_in_peace_though_more_comes_behind_its_answers() -> None:
    glued = Says(["10 mx.x.test."], glue="mx.x.test. 60 IN A 192.0.2.1")
    async with (
        serving({}, lambda _n, _k: glued, drops_edns=True) as stub,
        client_of(stub.server, tries=5) as client,
    ):
        for number in range(5):
            assert (await ask(client, f"x{number}.test")).outcome is DnsOutcome.FOUND
        assert client.nameservers[0].edns is False


async def test_names_are_never_completed_with_search_domains() -> None:
    async with serving({}) as stub, client_of(stub.server) as client:
        assert (await ask(client, "localhost")).outcome is DnsOutcome.NO_NAME
        assert (await ask(client, "single", RecordType.A)).outcome is DnsOutcome.NO_NAME
    assert set(stub.asked) == {("localhost", "MX"), ("single", "A")}


async def test_names_beyond_the_limits_of_dns_fail_without_a_question() -> None:
    async with serving({}) as stub, client_of(stub.server) as client:
        for name in ("a" * 64 + ".test", ".".join(["a" * 60] * 5), "a..test"):
            assert (await ask(client, name)).outcome is DnsOutcome.FAILED
    assert not stub.asked


async def test_questions_in_flight_are_bounded_and_none_is_lost() -> None:
    def slowly(_name: str, kind: str) -> Says:
        return Says(["10 mx.x.test."] if kind == "MX" else ["192.0.2.1"], delay=0.01)

    answers: list[DnsAnswer] = []
    async with serving({}, slowly) as stub:
        client = DnsClient(servers=[stub.server], timeout=3, tries=2, concurrency=7)
        for i in range(100):
            client.ask(f"d{i}.test", RecordType.MX, answers.append)
        await ask(client, "last.test")
        while len(answers) < 100:
            await ask(client, "later.test")
        await client.aclose()
    assert stub.peak == 7
    assert {answer.outcome for answer in answers} == {DnsOutcome.FOUND}


async def test_closing_answers_what_is_open_and_what_is_asked_afterwards() -> None:
    async with serving({"x.test": {"MX": SILENCE}}) as stub:
        client = DnsClient(servers=[stub.server], concurrency=2)
        answers: list[DnsAnswer] = []
        for _ in range(5):
            client.ask("x.test", RecordType.MX, answers.append)
        await asyncio.sleep(0)  # let the first two be sent
        await client.aclose()
        assert [answer.detail for answer in answers] == ["resolver closed"] * 5
        assert (await ask(client, "x.test")).detail == "resolver closed"


async def test_what_is_asked_after_closing_is_answered_though_something_was_about_to_be_sent() -> None:
    async with serving({}) as stub, asyncio.timeout(20):
        client = DnsClient(servers=[stub.server])
        before: list[DnsAnswer] = []
        client.ask("x.test", RecordType.MX, before.append)
        await client.aclose()
        after = await ask(client, "y.test")
    assert [answer.detail for answer in (*before, after)] == ["resolver closed"] * 2


async def test_closing_releases_sockets() -> None:
    def sockets() -> int:
        names = [str(fd.readlink()) for fd in Path("/proc/self/fd").iterdir() if fd.is_symlink()]
        return sum(name.startswith("socket:") for name in names)

    async with serving({"x.test": {"MX": SILENCE}}) as stub:
        before = sockets()
        client = DnsClient(servers=[stub.server])
        client.ask("x.test", RecordType.MX, lambda _answer: None)
        await asyncio.sleep(0)
        assert sockets() > before
        await client.aclose()
        assert sockets() == before


async def test_no_resolver_at_the_address_is_a_failure_at_once() -> None:
    async with serving({}) as stub:
        server = stub.server
    async with client_of(server, timeout=60) as client, asyncio.timeout(50):
        assert (await ask(client, "x.test")).outcome is DnsOutcome.FAILED


@pytest.mark.parametrize("server", ["not an address", "127.0.0.1:port", "dns.example:53", "ü:53"])
async def test_a_server_that_is_no_address_is_refused_with_a_code(server: str) -> None:
    with pytest.raises(MailsiftError) as caught:
        DnsClient(servers=[server])
    assert caught.value.code == "dns_servers_invalid"


async def test_source_ports_are_many_and_are_renewed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dns_client, "QUESTIONS_A_SOCKET", 5)
    async with serving({}, lambda _n, _k: Says(["10 mx.x.test."])) as stub, client_of(stub.server) as client:
        for i in range(100):
            await ask(client, f"d{i}.test")
        assert len(stub.peers) >= 15
        async with asyncio.timeout(5):
            while client.nameservers[0].retired:  # what is worn is closed, while there is something to do
                await ask(client, "last.test")


async def test_the_same_question_never_looks_the_same_twice() -> None:
    async with serving({}, lambda _n, _k: Says(["10 mx.x.test."])) as stub, client_of(stub.server) as client:
        for _ in range(30):
            await ask(client, "a-long-enough-name.test")
    assert len(stub.spellings) > 25
    assert {name.lower() for name in stub.spellings} == {"a-long-enough-name.test"}


async def test_a_server_without_edns_is_asked_plainly() -> None:
    async with (
        serving({}, lambda _n, _k: Says(["10 mx.x.test."]), refuses_edns=True) as stub,
        client_of(stub.server, tries=2) as client,
    ):
        for i in range(10):
            assert (await ask(client, f"d{i}.test")).outcome is DnsOutcome.FOUND
    assert stub.asked.total() == 11  # only the first was asked twice


@pytest.mark.parametrize("rcode", ["FORMERR", "NOTIMP", "BADVERS", "SERVFAIL"])
async def test_a_server_that_answers_edns_with_an_error_is_asked_plainly_and_remembered(rcode: str) -> None:
    async with serving(_X_ZONE) as stub, client_of(stub.server, tries=2) as client:
        stub.edns_rcode = rcode
        for _ in range(10):
            assert (await ask(client, "x.test")).outcome is DnsOutcome.FOUND
        assert client.nameservers[0].edns is False


@pytest.mark.parametrize("rcode", ["", "FORMERR", "NOTIMP", "BADVERS"])
async def test_a_server_that_takes_no_edns_any_more_is_asked_plainly(rcode: str) -> None:
    async with serving(_X_ZONE) as stub, client_of(stub.server, tries=2) as client:
        await ask(client, "x.test")
        assert client.nameservers[0].edns is True
        stub.edns_rcode, stub.refuses_edns = rcode, not rcode
        for _ in range(10):
            assert (await ask(client, "x.test")).outcome is DnsOutcome.FOUND
        assert client.nameservers[0].edns is False


async def test_a_server_that_refuses_an_odd_name_still_takes_edns() -> None:
    zone = _X_ZONE | {f"odd{n}.test": {"MX": Says(rcode="FORMERR")} for n in range(20)}
    async with serving(zone) as stub, client_of(stub.server, tries=3) as client:
        await ask(client, "x.test")
        for n in range(20):
            assert (await ask(client, f"odd{n}.test")).outcome is DnsOutcome.FAILED
            assert (await ask(client, "x.test")).outcome is DnsOutcome.FOUND
        assert client.nameservers[0].edns is True


def test_a_reply_that_ends_within_its_edns_is_no_refusal() -> None:
    question = message.encode_question("x.test", RecordType.MX)
    whole = message.pack_query(b"\0\0", question, edns=True)
    for size in range(len(whole) - 11, len(whole)):
        assert not message.edns_refusal(whole[:size], len(whole) - 11)


async def test_an_error_that_only_edns_can_say_is_no_denial() -> None:
    async with serving(_X_ZONE) as stub, client_of(stub.server, tries=1) as client:
        stub.edns_rcode = "BADVERS"
        answer = await ask(client, "x.test")
    assert (answer.outcome, answer.detail) == (DnsOutcome.FAILED, "BADVERS")


async def test_a_server_that_is_silent_about_edns_is_asked_plainly() -> None:
    async with (
        serving({}, lambda _n, _k: Says(["10 mx.x.test."]), drops_edns=True) as stub,
        client_of(stub.server, tries=2, timeout=0.3) as client,
    ):
        for i in range(10):
            assert (await ask(client, f"d{i}.test")).outcome is DnsOutcome.FOUND
    assert stub.asked.total() == 13  # it may have been a lost datagram, so it takes three


async def test_a_server_that_spells_names_its_own_way_is_believed_over_tcp_first() -> None:
    async with (
        serving({}, lambda _n, _k: Says(["10 mx.x.test."]), lowers=True) as stub,
        client_of(stub.server, timeout=0.4, tries=10) as client,
    ):
        for i in range(10):
            assert (await ask(client, f"long-enough-name{i}.test")).outcome is DnsOutcome.FOUND
    assert len(stub.over_tcp) == 3  # and then its way is known


async def test_an_ipv6_resolver_is_asked() -> None:
    zone = {"x.test": {"MX": Says(["10 mx.x.test."]), "A": Says(["192.0.2.1"], truncated=True)}}
    async with serving(zone, host="::1") as stub, client_of(stub.server) as client:
        assert stub.server.startswith("[::1]:")
        assert (await ask(client, "x.test")).outcome is DnsOutcome.FOUND
        assert (await ask(client, "x.test", RecordType.A)).outcome is DnsOutcome.FOUND


async def test_when_one_of_two_resolvers_is_dead_the_other_answers_and_is_soon_asked_first() -> None:
    zone = {f"d{i}.test": {"MX": Says(["10 mx.x.test."])} for i in range(40)}
    async with serving({}, lambda _n, _k: SILENCE) as dead, serving(zone) as alive:
        client = DnsClient(servers=[dead.server, alive.server], timeout=0.5)
        answers = [await ask(client, f"d{i}.test") for i in range(40)]
        await client.aclose()
    assert {answer.outcome for answer in answers} == {DnsOutcome.FOUND}
    assert dead.asked.total() < 10


async def test_a_resolver_that_dies_in_the_middle_is_left_and_asked_again_when_it_is_back() -> None:
    living = [True]

    def first(_name: str, _kind: str) -> Says:
        return Says(["10 first.test."]) if living[0] else SILENCE

    async with serving({}, first) as one, serving({}, lambda _n, _k: Says(["10 second.test."])) as two:
        client = DnsClient(servers=[one.server, two.server], timeout=0.5)
        assert (await ask(client, "a.test")).exchangers == ((10, "first.test"),)
        living[0] = False
        answers = await asyncio.gather(*(ask(client, f"d{i}.test") for i in range(50)))
        assert {answer.exchangers for answer in answers} == {((10, "second.test"),)}
        living[0] = True
        async with asyncio.timeout(20):
            while (await ask(client, "b.test")).exchangers != ((10, "first.test"),):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        await client.aclose()


async def test_a_loop_without_a_turn_does_not_make_a_resolver_silent() -> None:
    """The resolver answers at once, from a thread of its own; our loop is busy for five deadlines."""
    with ThreadedResolver() as resolver:
        client = DnsClient(servers=[resolver.server], timeout=0.1, tries=2)
        answers = [asyncio.ensure_future(ask(client, f"d{i}.test")) for i in range(50)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        while resolver.answered < 50:
            time.sleep(0.001)  # noqa: ASYNC251 - the loop is to have no turn
        hold_the_loop(0.5)
        assert {answer.detail for answer in await asyncio.gather(*answers)} == {"NXDOMAIN"}
        assert resolver.answered == 50  # and none was asked twice
        await client.aclose()


async def test_patience_with_domains_does_not_run_while_the_loop_has_no_turn() -> None:
    with ThreadedResolver() as resolver:
        facts = DomainFacts(
            config=DnsConfig(servers=(resolver.server,)),
            cache=MemoryCache(),
            providers=Providers.load(),
            guard=AddressGuard(),
            clock=lambda: 1000.0,
        )
        names = [f"d{i}.com" for i in range(50)]
        looking = asyncio.create_task(facts.lookup(names, patience_s=0.3))
        while not resolver.answered:  # noqa: ASYNC110 - the resolver is a thread
            await asyncio.sleep(0)
        time.sleep(0.5)  # noqa: ASYNC251 - the loop has no turn, and the thread the time it needs
        assert list(await looking) == names
        await facts.aclose()


async def test_a_resolver_on_the_link_keeps_its_interface(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pycares.Channel, "servers", ["[fe80::1]:53%lo", "192.0.2.1:53", "[2001:db8::1]:5353"])
    assert dns_client.system_servers() == ["[fe80::1%lo]:53", "192.0.2.1:53", "[2001:db8::1]:5353"]
    monkeypatch.undo()
    fallback = AiodnsFallback("[fe80::1%lo]:53", timeout=0.05)
    answer: asyncio.Future[DnsAnswer] = asyncio.get_running_loop().create_future()
    fallback.ask("x.test", RecordType.MX, answer.set_result)
    assert (await answer).outcome is DnsOutcome.FAILED
    await fallback.aclose()


async def test_the_resolvers_of_another_network_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    zone = {"x.test": {"MX": Says(["10 mx.x.test."])}}
    async with serving(zone) as stub:
        here = ["127.0.0.1:9"]
        monkeypatch.setattr(dns_client, "system_servers", lambda: here)
        client = DnsClient(timeout=0.3, tries=2)
        assert (await ask(client, "x.test")).outcome is DnsOutcome.FAILED
        here[:] = [stub.server]
        assert [server.label for server in client.refresh()] == [stub.server]
        assert (await ask(client, "x.test")).outcome is DnsOutcome.FOUND
        await client.aclose()


class ThreadedResolver:
    """Denies every name from a thread, so that it answers while the loop is busy."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self.answered = 0
        self.server = f"127.0.0.1:{self._socket.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
            last.sendto(b"", self._socket.getsockname())
        self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        while True:
            query, peer = self._socket.recvfrom(4096)
            if not query:
                return
            reply = dns.message.make_response(dns.message.from_wire(query))
            reply.set_rcode(dns.rcode.NXDOMAIN)
            self._socket.sendto(reply.to_wire(), peer)
            self.answered += 1


def test_it_runs_on_uvloop() -> None:
    async def main() -> set[DnsOutcome]:
        async with (
            serving({}, lambda _n, _k: Says(["10 mx.x.test."])) as stub,
            client_of(stub.server) as client,
        ):
            return {(await ask(client, f"d{i}.test")).outcome for i in range(20)}

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(main()) == {DnsOutcome.FOUND}
