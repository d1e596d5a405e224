"""A resolver that lies, or keeps silent, when a test says so."""

from __future__ import annotations

import itertools
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import dns.exception
import dns.message
import dns.query
import dns.rcode
import dns.rdatatype

from tests.support.ports import one_port
from tests.unit.pipeline.dns_lies import Lie, always
from tests.unit.pipeline.dns_stub import NXDOMAIN, Says

_SIDE_BY_SIDE = 64
"""Names whose servers are silent keep nobody else waiting."""


class Liar:
    """A resolver before the sandbox's, UDP and TCP.

    Args:
        server: the resolver behind it.
        lie: what it makes of the truth while it lies; else it denies every name properly.

    Attributes:
        lies: whether it does.
        silent: whether it answers nobody.
    """

    def __init__(self, server: str, lie: Lie | None = None) -> None:
        self._lie, self._questions = lie or always(NXDOMAIN), itertools.count()
        host, _, port = server.partition(":")
        self._behind = (host, int(port))
        self.lies, self.silent = True, False
        self._udp, self._tcp = one_port()
        self.server = f"127.0.0.1:{self._udp.getsockname()[1]}"
        self._over = False
        serves = (self._serve_udp, self._serve_tcp)
        self._threads = [threading.Thread(target=serve, daemon=True) for serve in serves]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        self._tcp.shutdown(socket.SHUT_RDWR)
        self._tcp.close()
        self._over = True
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
            last.sendto(b"", self._udp.getsockname())
        self._threads[0].join(5)
        self._udp.close()

    def _serve_udp(self) -> None:
        with ThreadPoolExecutor(_SIDE_BY_SIDE) as answering:
            while not self._over:
                query, peer = self._udp.recvfrom(4096)
                if query and not self.silent:
                    answering.submit(self._answer, query, peer)

    def _answer(self, query: bytes, peer: tuple[str, int]) -> None:
        with suppress(TimeoutError):
            self._udp.sendto(self._say(query, self._over_udp, tcp=False), peer)

    def _say(self, query: bytes, ask: Callable[[bytes], bytes], *, tcp: bool) -> bytes:
        truth = ask(query)
        if not self.lies:
            return truth
        reply = dns.message.from_wire(truth)
        (question,) = reply.question
        known, kind = _says(reply), dns.rdatatype.to_text(question.rdtype)
        answer = self._lie(
            question.name.to_text(omit_final_dot=True).lower(), kind, known, next(self._questions)
        )
        return truth if answer is known else answer.to_wire(dns.message.from_wire(query), kind, tcp=tcp)

    def _over_udp(self, query: bytes) -> bytes:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as onward:
            onward.settimeout(2)
            onward.connect(self._behind)
            onward.send(query)
            return onward.recv(4096)

    def _serve_tcp(self) -> None:
        while True:
            try:
                talk, _ = self._tcp.accept()
            except OSError:
                return
            threading.Thread(target=self._talk, args=(talk,), daemon=True).start()

    def _talk(self, talk: socket.socket) -> None:
        with talk, talk.makefile("rb") as stream, suppress(OSError, EOFError, dns.exception.DNSException):
            while len(head := stream.read(2)) == 2:
                query = stream.read(int.from_bytes(head, "big"))
                if self.silent:
                    return
                reply = self._say(query, self._over_tcp, tcp=True)
                talk.sendall(len(reply).to_bytes(2, "big") + reply)

    def _over_tcp(self, query: bytes) -> bytes:
        host, port = self._behind
        return dns.query.tcp(dns.message.from_wire(query), host, port=port, timeout=2).to_wire()


def _says(reply: dns.message.Message) -> Says:
    """Return what an honest resolver said."""
    records = [line for rrset in reply.answer for line in rrset.to_text().splitlines()]
    zones = [rrset.name.to_text() for rrset in reply.authority]
    return Says(records, rcode=dns.rcode.to_text(reply.rcode()), zone=zones[0] if zones else None)
