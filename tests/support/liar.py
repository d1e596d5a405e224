"""A resolver that lies, or keeps silent, when a test says so."""

from __future__ import annotations

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import dns.exception
import dns.message
import dns.query
import dns.rcode
import dns.rrset

from tests.support.ports import one_port

_SIDE_BY_SIDE = 64
"""Names whose servers are silent keep nobody else waiting."""


class Liar:
    """A resolver before the sandbox's, UDP and TCP: denies every name properly while it lies.

    Attributes:
        lies: whether it does.
        silent: whether it answers nobody.
    """

    def __init__(self, server: str) -> None:
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
            self._udp.sendto(denial(query) if self.lies else self._over_udp(query), peer)

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
                reply = denial(query) if self.lies else self._over_tcp(query)
                talk.sendall(len(reply).to_bytes(2, "big") + reply)

    def _over_tcp(self, query: bytes) -> bytes:
        host, port = self._behind
        return dns.query.tcp(dns.message.from_wire(query), host, port=port, timeout=2).to_wire()


def denial(query: bytes) -> bytes:
    """NXDOMAIN with the SOA of the top-level domain, as it should be."""
    reply = dns.message.make_response(dns.message.from_wire(query), recursion_available=True)
    reply.set_rcode(dns.rcode.NXDOMAIN)
    zone = reply.question[0].name.to_text().rstrip(".").rpartition(".")[2]
    reply.authority.append(dns.rrset.from_text(f"{zone}.", 60, "IN", "SOA", "ns. host. 1 1 1 1 60"))
    return reply.to_wire()
