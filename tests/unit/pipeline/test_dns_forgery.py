"""An adversary who knows the question floods the client with forged answers over real sockets (RFC 5452)."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from threading import Thread
from typing import Self

import dns.flags
import dns.message
import dns.rrset
import pytest

from mailsift.pipeline.dns.client import DnsClient
from mailsift.pipeline.dns.rules import DnsAnswer, DnsOutcome, RecordType
from tests.support.ports import one_port

FORGED, TRUE = "6.6.6.6", "192.0.2.1"

Forge = Callable[[socket.socket, bytes, tuple[str, int]], None]
"""Sends what an adversary would, before the true answer, to the asker's socket."""


def answer(query: bytes, address: str, *, name: str = "", owner: str = "") -> dns.message.Message:
    """An answer to a query: with another question, or a record of another owner, where these are given."""
    asked = dns.message.from_wire(query)
    if name:
        asked.question[0].name = dns.name.from_text(name)
    reply = dns.message.make_response(asked, recursion_available=True)
    owner = owner or asked.question[0].name.to_text()
    reply.answer.append(dns.rrset.from_text(owner, 60, "IN", "A", address))
    return reply


def all_but_the_id(query: bytes) -> Iterator[bytes]:
    """Two thousand answers whose ids were guessed wrong."""
    forged = answer(query, FORGED).to_wire()
    number = int.from_bytes(query[:2], "big")
    for guess in range(1, 2001):
        yield ((number + guess) % 65536).to_bytes(2, "big") + forged[2:]


def wrong_ids(_resolver: socket.socket, query: bytes, peer: tuple[str, int]) -> None:
    """Any source, every id but the right one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        for forged in all_but_the_id(query):
            stranger.sendto(forged, peer)


def wrong_ids_from_the_resolver(resolver: socket.socket, query: bytes, peer: tuple[str, int]) -> None:
    """Somebody who can forge the source address, but does not see the id."""
    for forged in all_but_the_id(query):
        resolver.sendto(forged, peer)


def wrong_source(_resolver: socket.socket, query: bytes, peer: tuple[str, int]) -> None:
    """Everything is right but the port it comes from."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        forged = answer(query, FORGED).to_wire()
        for _ in range(500):
            stranger.sendto(forged, peer)


def wrong_name(resolver: socket.socket, query: bytes, peer: tuple[str, int]) -> None:
    """Source and id are right, the question is another one."""
    forged = answer(query, FORGED, name="other.test.").to_wire()
    for _ in range(500):
        resolver.sendto(forged, peer)


def wrong_case(resolver: socket.socket, query: bytes, peer: tuple[str, int]) -> None:
    """Source, id and name are right, but the case of the letters had to be guessed."""
    spelt = dns.message.from_wire(query).question[0].name.to_text()
    forged = answer(query, FORGED, name=spelt.swapcase()).to_wire()
    for _ in range(500):
        resolver.sendto(forged, peer)


def wrong_type(resolver: socket.socket, query: bytes, peer: tuple[str, int]) -> None:
    """The same name, another type."""
    forged = answer(query, FORGED)
    forged.question[0].rdtype = dns.rdatatype.AAAA
    resolver.sendto(forged.to_wire(), peer)


def no_reply_bit(resolver: socket.socket, query: bytes, peer: tuple[str, int]) -> None:
    """A query, not a reply, although it carries an answer."""
    forged = answer(query, FORGED)
    forged.flags &= ~dns.flags.QR
    resolver.sendto(forged.to_wire(), peer)


FORGERIES = [
    wrong_ids,
    wrong_ids_from_the_resolver,
    wrong_source,
    wrong_name,
    wrong_case,
    wrong_type,
    no_reply_bit,
]


class Resolver:
    """Two threads that answer truly over UDP and TCP, with an adversary who is always quicker over UDP.

    Args:
        forge: the adversary.
        owner: owner of the true record, the asked name unless given.
    """

    def __init__(self, forge: Forge, *, owner: str = "") -> None:
        self._forge, self._owner = forge, owner
        self._udp, self._tcp = one_port()
        self._threads = [Thread(target=serve, daemon=True) for serve in (self._serve_udp, self._serve_tcp)]
        self.server = f"127.0.0.1:{self._udp.getsockname()[1]}"

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
            last.sendto(b"", self._udp.getsockname())
        self._tcp.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(5)
        self._tcp.close()
        self._udp.close()

    def _serve_udp(self) -> None:
        while True:
            query, peer = self._udp.recvfrom(4096)
            if not query:
                return
            self._forge(self._udp, query, peer)
            self._udp.sendto(self._true(query), peer)

    def _serve_tcp(self) -> None:
        with suppress(OSError):
            while True:
                talk, _ = self._tcp.accept()
                with talk:
                    while head := talk.recv(2):
                        reply = self._true(talk.recv(int.from_bytes(head, "big")))
                        talk.sendall(len(reply).to_bytes(2, "big") + reply)

    def _true(self, query: bytes) -> bytes:
        return answer(query, TRUE, owner=self._owner).to_wire()


async def ask(client: DnsClient, name: str) -> DnsAnswer:
    answered: asyncio.Future[DnsAnswer] = asyncio.get_running_loop().create_future()
    client.ask(name, RecordType.A, answered.set_result)
    return await answered


@pytest.mark.parametrize("forge", FORGERIES)
async def test_no_forged_answer_is_taken(forge: Forge) -> None:
    with Resolver(forge) as resolver:
        client = DnsClient(servers=[resolver.server], timeout=5.0, tries=2)
        answers = [await ask(client, f"some-{n}-long-name.test") for n in range(5)]
        await client.aclose()
    assert {one.addresses for one in answers} == {(TRUE,)}


async def test_a_record_of_another_owner_is_not_believed() -> None:
    with Resolver(lambda *_: None, owner="other.test.") as resolver:
        client = DnsClient(servers=[resolver.server])
        found = await ask(client, "asked.test")
        await client.aclose()
    assert (found.outcome, found.addresses, found.zone) == (DnsOutcome.NO_DATA, (), None)
