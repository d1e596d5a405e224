"""The DNS of the mail servers' little world, for them and for the pipeline."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.reversename
import dns.rrset
from typing_extensions import override

ADDRESS = "127.0.5.53"
"""Stands in etc/resolv.conf of the servers' folder, which knows no other port than 53."""

Zone = Mapping[tuple[str, str], Sequence[str]]
"""Records by name and type; other types of a known name are empty, unknown names do not exist."""


class _Handler(socketserver.BaseRequestHandler):
    @override
    def handle(self) -> None:
        data, sock = self.request
        assert isinstance(self.server, _Server)
        sock.sendto(self.server.answer(data), self.client_address)


class _Server(socketserver.UDPServer):
    def __init__(self, zone: Zone, address: str) -> None:
        super().__init__((address, 53), _Handler)
        self._zone = zone
        self._names = {name for name, _ in zone}

    def answer(self, wire: bytes) -> bytes:
        query = dns.message.from_wire(wire)
        question = query.question[0]
        name = question.name.to_text(omit_final_dot=True).lower()
        kind = dns.rdatatype.to_text(question.rdtype)
        reply = dns.message.make_response(query, recursion_available=True)
        records = self._zone.get((name, kind), ())
        if records:
            reply.answer.append(dns.rrset.from_text(question.name, 60, "IN", kind, *records))
        elif name not in self._names:
            reply.set_rcode(dns.rcode.NXDOMAIN)
        return reply.to_wire()


@contextmanager
def name_server(zone: Zone, *, address: str = ADDRESS) -> Iterator[str]:
    """Answer from the zone until the block ends; gives "host:port"."""
    with _Server(zone, address) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"{address}:53"
        finally:
            server.shutdown()
            thread.join()


def reverse(address: str) -> str:
    """Return the name of an address's PTR record."""
    return dns.reversename.from_address(address).to_text(omit_final_dot=True)


def listed(address: str, block_list: str) -> str:
    """Return the name that an address has in a DNS block list."""
    return f"{reverse(address).removesuffix('.in-addr.arpa')}.{block_list}"
