"""STARTTLS: taken where it works, proof against smuggled plaintext, done without where it does not."""

from __future__ import annotations

import asyncio
import ssl

import pytest
import trustme

from mailsift.pipeline.probe.session import DomainRecipients, Ending
from tests.support.connections import talking
from tests.unit.pipeline.smtp_stub import Mailer, knows, mailing
from tests.unit.pipeline.smtp_talk import codes, talk

ANN = "ann@a.test"


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


async def test_starttls_is_taken_where_it_is_offered(
    client_tls: ssl.SSLContext, server_tls: ssl.SSLContext
) -> None:
    mailer = Mailer(rcpt=knows("ann"), offers=("PIPELINING", "STARTTLS"), tls=server_tls)
    async with mailing(mailer) as port:
        log = await talk(port, DomainRecipients("a.test", "", (ANN,)), tls=client_tls)
    assert codes(log) == {ANN: 250}
    assert mailer.tls_sessions == 1
    assert mailer.verbs == [["EHLO", "STARTTLS", "EHLO", "MAIL", "RCPT", "QUIT"]]


async def test_what_is_smuggled_in_before_the_handshake_ends_the_connection(
    client_tls: ssl.SSLContext, server_tls: ssl.SSLContext
) -> None:
    connections, gone = [], asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        writer.write(b"220 stub\r\n")
        await reader.readline()
        if len(connections) > 1:
            writer.write(b"250-stub\r\n250 PIPELINING\r\n")
            await reader.readuntil(b"QUIT\r\n")
            writer.write(b"250 Ok\r\n550 5.1.1 no such user\r\n221 bye\r\n")
            return
        writer.write(b"250-stub\r\n250-PIPELINING\r\n250 STARTTLS\r\n")
        await reader.readline()
        writer.write(b"220 go ahead\r\n" + b"250 2.1.5 forged\r\n" * 5)
        await writer.drain()
        try:
            await writer.start_tls(server_tls)
            await reader.read()
        finally:
            gone.set()

    async with talking(serve) as port:
        log = await talk(port, DomainRecipients("a.test", "", (ANN,)), tls=client_tls)
        async with asyncio.timeout(30):
            await gone.wait()
    assert codes(log) == {ANN: 550}
    assert log.ending is Ending.DONE
    assert len(connections) == 2


@pytest.mark.parametrize(
    "after",
    [b"220 go ahead\r\nnot a handshake at all\r\n", b"454 4.7.0 not now\r\n", b"421 4.7.0 no TLS\r\n", b""],
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
            replies = {"EHLO": b"250-stub\r\n250 STARTTLS\r\n", "STAR": after, "QUIT": b"221 Bye\r\n"}
            writer.write(replies.get(verb, b"250 Ok\r\n"))
            if verb == "QUIT" or (verb == "STAR" and not after.startswith(b"454")):
                await writer.drain()
                return

    async with talking(serve) as port:
        log = await talk(port, DomainRecipients("a.test", "", (ANN,)), tls=client_tls)
    assert codes(log) == {ANN: 250}
    assert verbs.count("STAR") == 1
    assert verbs.count("EHLO") == (1 if after.startswith(b"454") else 2)  # who only declines is kept
    assert verbs[-3:] == ["MAIL", "RCPT", "QUIT"]


async def test_a_server_that_falls_silent_at_starttls_is_not_asked_in_the_clear(
    client_tls: ssl.SSLContext,
) -> None:
    verbs: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 stub\r\n")
        while line := await reader.readline():
            verbs.append(line[:4].decode(errors="replace"))
            replies = {"EHLO": b"250-stub\r\n250 STARTTLS\r\n", "STAR": b"", "QUIT": b"221 Bye\r\n"}
            writer.write(replies.get(verbs[-1], b"250 Ok\r\n"))

    async with talking(serve) as port:
        log = await talk(port, DomainRecipients("a.test", "", (ANN,)), tls=client_tls, reply_timeout=0.3)
    assert log.ending is Ending.SLOW
    assert not log.answers
    assert "MAIL" not in verbs
