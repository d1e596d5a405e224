"""The resolver against a real server over sockets: answers, failures, deadlines, limits, clean-up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvloop

from pipeline.dns.client import DnsClient
from pipeline.dns.rules import DnsAnswer, Outcome, Question
from pipeline.errors import MailsiftError
from tests.unit.pipeline.dns_stub import NXDOMAIN, REFUSED, SERVFAIL, SILENCE, Says, serving


@asynccontextmanager
async def client_of(server: str, *, timeout: float = 0.3, tries: int = 2) -> AsyncIterator[DnsClient]:  # noqa: ASYNC109 - the client's setting, not this generator's
    client = DnsClient(servers=[server], timeout=timeout, tries=tries)
    try:
        yield client
    finally:
        await client.aclose()


async def ask(client: DnsClient, name: str, question: Question = Question.MX) -> DnsAnswer:
    answered: asyncio.Future[DnsAnswer] = asyncio.get_running_loop().create_future()
    client.ask(name, question, answered.set_result)
    return await answered


async def test_records_come_with_the_shortest_ttl_of_the_answer() -> None:
    zone = {
        "a.test": {
            "MX": Says(["a.test. 900 IN CNAME b.test.", "b.test. 300 IN MX 10 mx.b.test."]),
            "A": Says(["192.0.2.1", "192.0.2.2"], ttl=77),
            "AAAA": Says(["2001:db8::1"]),
        }
    }
    async with serving(zone) as stub, client_of(stub.server) as client:
        mx = await ask(client, "a.test")
        a = await ask(client, "a.test", Question.A)
        aaaa = await ask(client, "a.test", Question.AAAA)
    assert mx == DnsAnswer(Outcome.FOUND, exchangers=((10, "mx.b.test"),), ttl=300)
    assert a == DnsAnswer(Outcome.FOUND, addresses=("192.0.2.1", "192.0.2.2"), ttl=77)
    assert aaaa.addresses == ("2001:db8::1",)


@pytest.mark.parametrize(
    ("says", "outcome", "detail"),
    [
        (Says(), Outcome.NO_DATA, "NODATA"),
        (Says(["x.test. 60 IN CNAME dangling.test."]), Outcome.NO_DATA, "NODATA"),
        (NXDOMAIN, Outcome.NO_NAME, "NXDOMAIN"),
        (SERVFAIL, Outcome.FAILED, "SERVFAIL"),
        (REFUSED, Outcome.FAILED, "REFUSED"),
        (SILENCE, Outcome.FAILED, "timeout"),
        (
            Says(["x.test. 60 IN CNAME y.test.", "y.test. 60 IN CNAME x.test."]),
            Outcome.FAILED,
            "CNAME loop",
        ),
    ],
)
async def test_what_is_not_a_record_is_told_apart(says: Says, outcome: Outcome, detail: str) -> None:
    async with serving({"x.test": {"MX": says}}) as stub, client_of(stub.server) as client:
        answer = await ask(client, "x.test")
    assert (answer.outcome, answer.detail) == (outcome, detail)
    assert not answer.exchangers


@pytest.mark.parametrize("garbage", [b"\x81\x80", b"\xff" * 40, b"\x81\x80\x00\x01\x7f\xff\x00\x00\x00\x00"])
async def test_rubbish_from_a_server_is_a_failure(garbage: bytes) -> None:
    zone = {"x.test": {"MX": Says(garbage=garbage)}}
    async with serving(zone) as stub, client_of(stub.server) as client:
        assert (await ask(client, "x.test")).outcome is Outcome.FAILED


async def test_rubbish_for_one_name_does_no_harm_to_the_names_asked_beside_it() -> None:
    def answer(name: str, _kind: str) -> Says:
        return Says(garbage=b"\x81\x80\xff") if name.startswith("bad") else Says(["10 mx.test."], delay=0.02)

    async with serving({}, answer) as stub, client_of(stub.server, timeout=2) as client:
        names = [f"{'bad' if i % 10 == 5 else 'good'}{i}.test" for i in range(60)]
        answers = await asyncio.gather(*(ask(client, name) for name in names))
        assert {a.detail for a, n in zip(answers, names, strict=True) if n.startswith("bad")} == {
            "malformed answer"
        }
        assert {a.outcome for a, n in zip(answers, names, strict=True) if n.startswith("good")} == {
            Outcome.FOUND
        }
        await asyncio.sleep(0)
        assert not client._own_wires


async def test_closing_while_a_name_is_asked_alone_ends_it() -> None:
    says = iter([Says(garbage=b"\x81\x80\xff")] * 2)  # as often as the client tries, then silence
    async with serving({}, lambda _n, _k: next(says, SILENCE)) as stub:
        client = DnsClient(servers=[stub.server], timeout=5, tries=2)
        answered = asyncio.ensure_future(ask(client, "x.test"))
        await stub.until_asked(3)
        await client.aclose()
        assert (await answered).detail == "resolver closed"


async def test_temporary_failures_are_asked_again() -> None:
    async with serving({"x.test": {"MX": SERVFAIL}}) as stub, client_of(stub.server, tries=3) as client:
        await ask(client, "x.test")
    assert stub.asked["x.test", "MX"] == 3


async def test_a_server_that_recovers_within_the_tries_is_heard() -> None:
    answers = iter([SERVFAIL, SILENCE, Says(["10 mx.x.test."])])
    async with serving({}, lambda _n, _k: next(answers)) as stub, client_of(stub.server, tries=5) as client:
        assert (await ask(client, "x.test")).outcome is Outcome.FOUND


async def test_a_silent_server_costs_no_more_than_timeout_times_tries() -> None:
    zone = {"x.test": {"MX": SILENCE}}
    async with serving(zone) as stub, client_of(stub.server, timeout=0.3, tries=2) as client:
        started = time.monotonic()
        answer = await ask(client, "x.test")
        took = time.monotonic() - started
    assert answer.detail == "timeout"
    assert took < 0.6 + 0.5  # the deadline, one tick and a slow machine


async def test_the_deadline_holds_when_the_resolver_library_would_go_on() -> None:
    zone = {"x.test": {"MX": SILENCE}}
    async with (
        serving(zone) as stub,
        client_of(stub.server, timeout=0.25, tries=4) as client,
    ):  # c-ares alone: 0.25+0.5+1+2 s
        started = time.monotonic()
        await ask(client, "x.test")
        took = time.monotonic() - started
    assert 0.9 < took < 1.8


async def test_a_truncated_answer_is_fetched_over_tcp() -> None:
    many = [f"{i} mx{i}.x.test." for i in range(1000)]
    zone = {"x.test": {"MX": Says(many, truncated=True)}}
    async with serving(zone) as stub, client_of(stub.server, timeout=2) as client:
        answer = await ask(client, "x.test")
    assert len(answer.exchangers) == 1000
    assert stub.over_tcp == 1


async def test_names_are_never_completed_with_search_domains() -> None:
    async with serving({}) as stub, client_of(stub.server) as client:
        assert (await ask(client, "localhost")).outcome is Outcome.NO_NAME
        assert (await ask(client, "single", Question.A)).outcome is Outcome.NO_NAME
    assert set(stub.asked) == {("localhost", "MX"), ("single", "A")}


async def test_names_beyond_the_limits_of_dns_fail_without_a_question() -> None:
    async with serving({}) as stub, client_of(stub.server) as client:
        for name in ("a" * 64 + ".test", ".".join(["a" * 60] * 5), "a..test"):
            assert (await ask(client, name)).outcome is Outcome.FAILED
    assert not stub.asked


async def test_questions_in_flight_are_bounded_and_none_is_lost() -> None:
    def slowly(_name: str, kind: str) -> Says:
        return Says(["10 mx.x.test."] if kind == "MX" else ["192.0.2.1"], delay=0.01)

    answers: list[DnsAnswer] = []
    async with serving({}, slowly) as stub:
        client = DnsClient(servers=[stub.server], timeout=3, tries=2, concurrency=7)
        for i in range(100):
            client.ask(f"d{i}.test", Question.MX, answers.append)
        await ask(client, "last.test")
        while len(answers) < 100:
            await ask(client, "later.test")
        await client.aclose()
    assert stub.peak == 7
    assert {answer.outcome for answer in answers} == {Outcome.FOUND}


async def test_closing_answers_what_is_open_and_what_is_asked_afterwards() -> None:
    async with serving({"x.test": {"MX": SILENCE}}) as stub:
        client = DnsClient(servers=[stub.server], concurrency=2)
        heard: list[DnsAnswer] = []
        for _ in range(5):
            client.ask("x.test", Question.MX, heard.append)
        await asyncio.sleep(0)  # let the first two be sent
        await client.aclose()
        assert [answer.detail for answer in heard] == ["resolver closed"] * 5
        assert (await ask(client, "x.test")).detail == "resolver closed"


async def test_closing_releases_sockets() -> None:
    def sockets() -> int:
        names = [str(fd.readlink()) for fd in Path("/proc/self/fd").iterdir() if fd.is_symlink()]
        return sum(name.startswith("socket:") for name in names)

    async with serving({"x.test": {"MX": SILENCE}}) as stub:
        before = sockets()
        client = DnsClient(servers=[stub.server])
        client.ask("x.test", Question.MX, lambda _answer: None)
        await asyncio.sleep(0)
        assert sockets() > before
        await client.aclose()
        assert sockets() == before


async def test_no_resolver_at_the_address_is_a_failure_at_once() -> None:
    async with serving({}) as stub:
        server = stub.server
    async with client_of(server, timeout=5) as client, asyncio.timeout(4):
        assert (await ask(client, "x.test")).outcome is Outcome.FAILED


@pytest.mark.parametrize("server", ["not an address", "127.0.0.1:port", "dns.example:53", "ü:53"])
async def test_a_server_that_is_no_address_is_refused_with_a_code(server: str) -> None:
    with pytest.raises(MailsiftError) as caught:
        DnsClient(servers=[server])
    assert caught.value.code == "dns_servers_invalid"


async def test_the_librarys_own_memory_is_dropped_now_and_then() -> None:
    async with serving({}, lambda _n, _k: Says(["10 mx.x.test."])) as stub, client_of(stub.server) as client:
        await ask(client, "x.test")
        await ask(client, "x.test")
        assert stub.asked["x.test", "MX"] == 1  # it does remember
        client._wire._sent = 9_999
        async with asyncio.timeout(5):  # a thread of the library does it
            while stub.asked["x.test", "MX"] == 1:
                assert (await ask(client, "x.test")).outcome is Outcome.FOUND


def test_it_runs_on_uvloop() -> None:
    async def main() -> set[Outcome]:
        async with (
            serving({}, lambda _n, _k: Says(["10 mx.x.test."])) as stub,
            client_of(stub.server) as client,
        ):
            return {(await ask(client, f"d{i}.test")).outcome for i in range(20)}

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(main()) == {Outcome.FOUND}
