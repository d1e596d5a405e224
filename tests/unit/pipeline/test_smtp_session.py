"""One conversation with a scripted server: what is said, in which order, and how it ends."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trustme

from pipeline.probe_config import ProbeConfig, parse_source
from pipeline.replies import Reply, Stage
from pipeline.smtp_link import Ending
from pipeline.smtp_session import Group, Peer, Session, SessionLog
from tests.unit.pipeline.smtp_stub import DROP, NOT_FOUND, SILENCE, Mailer, knows, mailing

ANN, BOB = "ann@a.test", "bob@a.test"
PROBE = "random@a.test"


def refused(_probe: str, reply: Reply) -> bool:
    return reply.code >= 500


async def talk(
    port: int,
    *groups: Group,
    within: float = 5.0,
    tls: ssl.SSLContext | None = None,
    separate: bool = False,
    **settings: Any,
) -> SessionLog:
    config = ProbeConfig(helo_name="probe.test", port=port, **settings)
    source = parse_source("", helo_name="probe.test")
    session = Session(config, Peer("mx.test", "127.0.0.1"), source, tls=tls, goes_on=refused)
    return await session.run([[group] for group in groups] if separate else [groups], within=within)


def codes(log: SessionLog) -> dict[str, int]:
    return {address: heard.reply.code for address, heard in log.answers.items()}


@asynccontextmanager
async def raw_server(
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]],
) -> AsyncIterator[int]:
    tasks = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.current_task())
        try:
            await serve(reader, writer)
        except (OSError, asyncio.CancelledError):  # the client has hung up, or the test is over
            return
        finally:
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            if task is not None:
                task.cancel()
        await asyncio.gather(*filter(None, tasks), return_exceptions=True)


@pytest.fixture
def client_tls() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


@pytest.fixture
def server_tls() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("mx.test").configure_cert(context)
    return context


async def test_with_pipelining_three_flights_hold_the_whole_session() -> None:
    mailer = Mailer(rcpt=knows("ann"))
    async with mailing(mailer) as port:
        log = await talk(port, Group("a.test", PROBE, (ANN, BOB)))
    assert log.ending is Ending.DONE
    assert codes(log) == {PROBE: 550, ANN: 250, BOB: 550}
    assert mailer.verbs == [["EHLO", "MAIL", "RCPT", "RCPT", "RCPT", "QUIT"]]
    assert mailer.batches == 2
    assert log.sent == 3


async def test_without_pipelining_every_command_waits_for_its_reply() -> None:
    mailer = Mailer(rcpt=knows("ann"), offers=())
    async with mailing(mailer) as port:
        log = await talk(port, Group("a.test", PROBE, (ANN, BOB)))
    assert codes(log) == {PROBE: 550, ANN: 250, BOB: 550}
    assert mailer.batches == len(mailer.seen[0]) == 6


async def test_a_large_group_waits_for_its_random_recipient() -> None:
    mailer = Mailer(rcpt=knows("random"))
    many = tuple(f"user{n}@a.test" for n in range(10))
    async with mailing(mailer) as port:
        log = await talk(port, Group("a.test", PROBE, many))
    assert codes(log) == {PROBE: 250}
    assert mailer.recipients == [PROBE]
    assert log.ending is Ending.DONE


async def test_without_ehlo_helo_will_do() -> None:
    mailer = Mailer(rcpt=knows("ann"), offers=None)
    async with mailing(mailer) as port:
        log = await talk(port, Group("a.test", "", (ANN,)))
    assert codes(log) == {ANN: 250}
    assert mailer.verbs == [["EHLO", "HELO", "MAIL", "RCPT", "QUIT"]]


async def test_domains_that_need_it_get_transactions_of_their_own() -> None:
    mailer = Mailer(rcpt=knows("ann"))
    async with mailing(mailer) as port:
        log = await talk(
            port, Group("a.test", "", (ANN,)), Group("b.test", "", ("ann@b.test",)), separate=True
        )
    assert codes(log) == {ANN: 250, "ann@b.test": 250}
    assert mailer.verbs == [["EHLO", "MAIL", "RCPT", "RSET", "MAIL", "RCPT", "QUIT"]]


@pytest.mark.parametrize(
    ("mailer", "stage", "code"),
    [
        (Mailer(banner="554 no, go away"), Stage.BANNER, 554),
        (Mailer(banner="421 busy"), Stage.BANNER, 421),
        (Mailer(mail="550 5.7.1 not you"), Stage.MAIL, 550),
    ],
)
async def test_a_refusal_before_rcpt_ends_the_session(mailer: Mailer, stage: Stage, code: int) -> None:
    async with mailing(mailer) as port:
        log = await talk(port, Group("a.test", "", (ANN,)))
    assert log.ending is Ending.REFUSED
    assert log.refusal is not None
    assert (log.refusal.stage, log.refusal.code) == (stage, code)
    assert not log.answers


async def test_smtputf8_is_used_only_where_it_is_offered() -> None:
    group = Group("a.test", PROBE, (ANN, "jürgen@a.test"))
    with_it, without = Mailer(rcpt=knows("jürgen")), Mailer(rcpt=knows("jürgen"), offers=("PIPELINING",))
    async with mailing(with_it) as port:
        log = await talk(port, group)
    assert codes(log) == {PROBE: 550, ANN: 550, "jürgen@a.test": 250}
    assert "MAIL FROM:<> SMTPUTF8" in with_it.seen[0]
    async with mailing(without) as port:
        log = await talk(port, group)
    assert codes(log) == {PROBE: 550, ANN: 550}
    assert log.not_askable == ["jürgen@a.test"]
    assert without.recipients == [PROBE, ANN]
    assert "MAIL FROM:<>" in without.seen[0]


async def test_ascii_addresses_do_not_ask_for_smtputf8() -> None:
    mailer = Mailer()
    async with mailing(mailer) as port:
        await talk(port, Group("a.test", "", (ANN,)))
    assert "MAIL FROM:<>" in mailer.seen[0]


async def test_where_only_unaskable_addresses_stand_nobody_is_asked() -> None:
    mailer = Mailer(offers=("PIPELINING",))
    async with mailing(mailer) as port:
        log = await talk(port, Group("a.test", PROBE, ("jürgen@a.test",)))
    assert log.ending is Ending.DONE
    assert mailer.recipients == []


async def test_starttls_is_taken_where_it_is_offered(
    client_tls: ssl.SSLContext, server_tls: ssl.SSLContext
) -> None:
    mailer = Mailer(rcpt=knows("ann"), offers=("PIPELINING", "STARTTLS"), tls=server_tls)
    async with mailing(mailer) as port:
        log = await talk(port, Group("a.test", "", (ANN,)), tls=client_tls)
    assert codes(log) == {ANN: 250}
    assert mailer.tls_sessions == 1
    assert mailer.verbs == [["EHLO", "STARTTLS", "EHLO", "MAIL", "RCPT", "QUIT"]]


async def test_what_is_smuggled_in_before_the_handshake_counts_for_nothing(
    client_tls: ssl.SSLContext, server_tls: ssl.SSLContext
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 stub\r\n")
        await reader.readline()
        writer.write(b"250-stub\r\n250-PIPELINING\r\n250 STARTTLS\r\n")
        await reader.readline()
        writer.write(b"220 go ahead\r\n" + b"250 2.1.5 forged\r\n" * 5)
        await writer.drain()
        await writer.start_tls(server_tls)
        await reader.readline()
        writer.write(b"250-stub\r\n250 PIPELINING\r\n")
        await reader.readuntil(b"QUIT\r\n")
        writer.write(b"250 Ok\r\n550 5.1.1 no such user\r\n221 bye\r\n")

    async with raw_server(serve) as port:
        log = await talk(port, Group("a.test", "", (ANN,)), tls=client_tls)
    assert codes(log) == {ANN: 550}
    assert log.ending is Ending.DONE


@pytest.mark.parametrize(
    "after", [b"220 go ahead\r\nnot a handshake at all\r\n", b"454 4.7.0 not now\r\n", b""]
)
async def test_a_server_that_cannot_do_tls_is_asked_in_the_clear(
    client_tls: ssl.SSLContext, after: bytes
) -> None:
    verbs: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 stub\r\n")
        while line := await reader.readline():
            verb = line[:4].decode(errors="replace")
            verbs.append(verb)
            writer.write({"EHLO": b"250-stub\r\n250 STARTTLS\r\n", "STAR": after}.get(verb, b"250 Ok\r\n"))
            if verb == "QUIT" or (verb == "STAR" and not after.startswith(b"454")):
                await writer.drain()
                return

    async with raw_server(serve) as port:
        log = await talk(port, Group("a.test", "", (ANN,)), tls=client_tls)
    assert codes(log) == {ANN: 250}
    assert verbs.count("STAR") == 1
    assert verbs[-3:] == ["MAIL", "RCPT", "QUIT"]


async def test_a_drop_keeps_what_was_said_before() -> None:
    replies = {ANN: "250 Ok", BOB: DROP}
    mailer = Mailer(rcpt=lambda address: replies.get(address, NOT_FOUND))
    async with mailing(mailer) as port:
        log = await talk(port, Group("a.test", PROBE, (ANN, BOB, "eve@a.test")))
    assert codes(log) == {PROBE: 550, ANN: 250}
    assert log.ending is Ending.DROPPED
    assert log.stage is Stage.RCPT


async def test_a_421_about_the_session_is_no_answer_about_the_recipient() -> None:
    mailer = Mailer(rcpt=knows("ann"), most_recipients=2, too_many="421 4.7.0 too many recipients")
    async with mailing(mailer) as port:
        log = await talk(port, Group("a.test", PROBE, (ANN, BOB)))
    assert codes(log) == {PROBE: 550, ANN: 250}
    assert log.ending is Ending.LIMIT


async def test_another_421_answers_its_recipient_and_ends_the_session() -> None:
    mailer = Mailer(rcpt=lambda address: "421 4.3.2 shutting down" if address == ANN else NOT_FOUND)
    async with mailing(mailer) as port:
        log = await talk(port, Group("a.test", PROBE, (ANN, BOB)))
    assert codes(log) == {PROBE: 550, ANN: 421}
    assert log.ending is Ending.DROPPED


async def test_a_silent_server_ends_with_the_reply_deadline() -> None:
    mailer = Mailer(rcpt=lambda _: SILENCE, offers=())
    async with mailing(mailer) as port:
        started = time.monotonic()
        log = await talk(port, Group("a.test", "", (ANN,)), reply_timeout=0.2)
    assert log.ending is Ending.SLOW
    assert time.monotonic() - started < 2


async def test_when_a_reply_is_missing_nobody_gets_the_answer_of_somebody_else() -> None:
    mailer = Mailer(rcpt=lambda address: SILENCE if address == ANN else "250 Ok")
    async with mailing(mailer) as port:
        log = await talk(port, Group("a.test", "", (BOB, ANN, "eve@a.test")))
    assert log.ending is Ending.DROPPED
    assert not log.answers


async def test_one_byte_at_a_time_does_not_hold_a_session_beyond_its_deadline() -> None:
    async def drip(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for byte in b"220 " + b"a" * 400:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0.02)

    async with raw_server(drip) as port:
        started = time.monotonic()
        log = await talk(port, Group("a.test", "", (ANN,)), within=0.3)
        assert 0.25 < time.monotonic() - started < 2
    assert log.ending is Ending.SLOW
    assert log.stage is Stage.BANNER


@pytest.mark.parametrize("line", [b"220-and another thing\r\n" * 64, b"A" * 4096, b"250 unasked\r\n" * 200])
async def test_an_endless_reply_ends_the_session(line: bytes) -> None:
    sent = 0

    async def flood(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"220-hello\r\n")
        while True:
            writer.write(line)
            sent += len(line)
            await writer.drain()

    async with raw_server(flood) as port:
        started = time.monotonic()
        log = await talk(port, Group("a.test", "", (ANN,)), within=10)
        assert time.monotonic() - started < 5
    assert log.ending is not Ending.DONE
    assert not log.answers
    assert sent < 50_000_000


async def test_goodbye_takes_a_second_at_most_and_changes_nothing() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 stub\r\n")
        while line := await reader.readline():
            if not line.startswith(b"QUIT"):
                writer.write(b"250 Ok\r\n")

    async with raw_server(serve) as port:
        started = time.monotonic()
        log = await talk(port, Group("a.test", "", (ANN,)))
        assert time.monotonic() - started < 3
    assert log.ending is Ending.DONE
    assert codes(log) == {ANN: 250}


async def test_nobody_listens() -> None:
    async with mailing(Mailer()) as port:
        pass
    log = await talk(port, Group("a.test", "", (ANN,)))
    assert log.ending is Ending.UNREACHED
    assert log.stage is Stage.CONNECT


async def test_a_source_address_is_bound_and_a_wrong_one_fails_cleanly() -> None:
    peers = []

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peers.append(writer.get_extra_info("peername")[0])
        writer.write(b"554 no\r\n")

    async with raw_server(serve) as port:
        for own in ("127.0.0.9", "192.0.2.77"):
            config = ProbeConfig(helo_name="probe.test", port=port)
            source = parse_source(own, helo_name="probe.test")
            session = Session(config, Peer("mx", "127.0.0.1"), source, tls=None, goes_on=refused)
            log = await session.run([[Group("a.test", "", (ANN,))]], within=5)
            assert log.ending is (Ending.REFUSED if own == "127.0.0.9" else Ending.UNREACHED)
    assert peers == ["127.0.0.9"]
