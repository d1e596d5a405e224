"""A small authoritative DNS server for tests: says what a test tells it to, over UDP and TCP, and counts."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final, cast

import dns.edns
import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rdata
import dns.rdatatype
import dns.rrset
from typing_extensions import override

from mailsift.pipeline.clock import Clock
from mailsift.pipeline.dns.domains import DnsConfig, DomainFacts
from mailsift.pipeline.facts import CacheEntry, FactCache, FactKind
from mailsift.pipeline.guard import AddressGuard
from mailsift.pipeline.providers import Providers
from tests.support.ports import one_port

_HEADER: Final = 12  # bytes of a message before the name that is asked for
_SOA: Final = dns.rdata.from_text("IN", "SOA", "ns.stub.test. hostmaster.stub.test. 1 3600 600 86400 60")


@dataclass(frozen=True)
class Says:
    """The answer to one question.

    Attributes:
        records: data of the asked type, e.g. "10 mx.example.com."; or whole records "name ttl IN type data".
        rcode: e.g. "SERVFAIL".
        ttl: of the records, in seconds.
        silent: never answer.
        truncated: over UDP, only say that TCP has more.
        delay: seconds before the answer, which a truncated one is not.
        garbage: answer with these bytes behind the id instead.
        zone: owner of the SOA that comes with a denial; "" = the top-level domain of the name, None = none.
        authoritative: claim to be the authority.
        glue: a whole record behind the answer, "" = none.
        extended_error: code of RFC 8914 that comes with the answer over EDNS; None = none.
    """

    records: Sequence[str] = ()
    rcode: str = "NOERROR"
    ttl: int = 3600
    silent: bool = False
    truncated: bool = False
    delay: float = 0.0
    garbage: bytes = b""
    zone: str | None = ""
    authoritative: bool = False
    glue: str = ""
    extended_error: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "records", tuple(self.records))  # what was answered is looked up by it

    def to_wire(self, query: dns.message.Message, kind: str, *, tcp: bool = False) -> bytes:
        """Return it as the answer to a question."""
        reply = dns.message.make_response(query, recursion_available=True)
        reply.set_rcode(dns.rcode.from_text(self.rcode))
        if self.truncated and not tcp:
            reply.flags |= dns.flags.TC
            return reply.to_wire()
        own = f"{query.question[0].name} {self.ttl} IN {kind} "
        for record in self.records:
            fields = (record if " IN " in record else own + record).split(" ", 4)
            name, ttl, dns_class, rdtype, data = fields
            rrset = reply.find_rrset(
                reply.answer,
                dns.name.from_text(name),
                dns.rdataclass.from_text(dns_class),
                dns.rdatatype.from_text(rdtype),
                create=True,
                force_unique=True,  # dnspython shuffles the records of a set
            )
            rrset.add(dns.rdata.from_text(rrset.rdclass, rrset.rdtype, data), int(ttl))
        if self.authoritative:
            reply.flags |= dns.flags.AA
        denied = self.rcode in {"NOERROR", "NXDOMAIN"} and all(" CNAME " in record for record in self.records)
        if denied and self.zone is not None:
            zone = self.zone or query.question[0].name.to_text(omit_final_dot=True).rpartition(".")[2]
            reply.authority.append(dns.rrset.from_rdata(zone.rstrip(".") + ".", 60, _SOA))
        if self.glue:
            name, ttl, dns_class, rdtype, data = self.glue.split(" ", 4)
            reply.additional.append(dns.rrset.from_text(name, int(ttl), dns_class, rdtype, data))
        if self.extended_error is not None and query.edns >= 0:
            reply.use_edns(
                options=[dns.edns.EDEOption(dns.edns.EDECode.make(self.extended_error), "as we were told")]
            )
        return reply.to_wire(max_size=65_535)


NXDOMAIN = Says(rcode="NXDOMAIN")
SERVFAIL = Says(rcode="SERVFAIL")
REFUSED = Says(rcode="REFUSED")
SILENCE = Says(silent=True)

Zone = Mapping[str, Mapping[str, Says]]


@dataclass
class DnsStub:
    """Answers from a zone {name: {type: Says}}; a name without the type is NODATA, an unknown name NXDOMAIN.

    Attributes:
        asked: how often each (name, type) came, repetitions included.
        open, peak: answers being delayed now, and the most there ever were.
        fallback: answers for names outside the zone.
        peers: the ports and addresses questions came from.
        spellings: the names as they were spelt.
        lowers: repeat names in lower case, whatever the question said.
        refuses_edns, drops_edns: say FORMERR without the question, or nothing, when a question has EDNS.
        edns_rcode: answer a question that has EDNS with this rcode, e.g. "BADVERS"; "" = do not.
    """

    zone: Zone
    fallback: Callable[[str, str], Says] = lambda _name, _kind: NXDOMAIN
    host: str = "127.0.0.1"
    port: int = 0
    lowers: bool = False
    refuses_edns: bool = False
    drops_edns: bool = False
    edns_rcode: str = ""
    peers: set[object] = field(default_factory=set)
    spellings: set[str] = field(default_factory=set)
    asked: Counter[tuple[str, str]] = field(default_factory=Counter)
    over_tcp: Counter[str] = field(default_factory=Counter)
    open: int = 0
    peak: int = 0
    news: asyncio.Event = field(default_factory=asyncio.Event)

    async def until_asked(self, times: int) -> None:
        """Wait until so many questions have come, repetitions included."""
        while self.asked.total() < times:
            self.news.clear()
            await self.news.wait()

    @property
    def server(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    async def answer(self, wire: bytes, *, tcp: bool) -> bytes | None:
        spelt, size = dns.name.from_wire(wire, _HEADER)
        end = _HEADER + size
        asked = bytes(2) + wire[2:_HEADER] + wire[_HEADER:end].lower() + wire[end:]
        query = _read(asked)
        spelling = spelt.to_text(omit_final_dot=True)
        self.spellings.add(spelling)
        name = spelling.lower()
        kind = dns.rdatatype.to_text(query.question[0].rdtype)
        self.asked[name, kind] += 1
        self.news.set()
        if tcp:
            self.over_tcp[name] += 1
        self.open += 1
        self.peak = max(self.peak, self.open)
        says = self._find(name, kind)
        if says.delay and (tcp or not says.truncated):
            await asyncio.sleep(says.delay)
        self.open -= 1
        if says.silent or (self.drops_edns and query.edns >= 0):
            return None
        if self.refuses_edns and query.edns >= 0:
            return wire[:2] + b"\x81\x81" + bytes(8)
        refused = self.edns_rcode if query.edns >= 0 else ""
        if says.garbage and not refused:
            return wire[:2] + says.garbage
        reply = _refusal(query, refused) if refused else _written(says, asked, kind, tcp=tcp)
        repeated = reply[_HEADER:end] if self.lowers else wire[_HEADER:end]
        return wire[:2] + reply[2:_HEADER] + repeated + reply[end:]

    def _find(self, name: str, kind: str) -> Says:
        types = self.zone.get(name.lower())
        return self.fallback(name, kind) if types is None else types.get(kind, Says())


@lru_cache(maxsize=16_384)
def _read(asked: bytes) -> dns.message.Message:
    """Read a question, whose id is 0 and whose name is in lower case.

    To read questions and write answers was two thirds of what some tests took; most have been there before.
    """
    return dns.message.from_wire(asked)


@lru_cache(maxsize=16_384)
def _written(says: Says, asked: bytes, kind: str, *, tcp: bool) -> bytes:
    return says.to_wire(_read(asked), kind, tcp=tcp)


def _refusal(query: dns.message.Message, rcode: str) -> bytes:
    """Return the whole reply of a server that wants no EDNS: itself it uses it to say BADVERS only."""
    reply = dns.message.make_response(query, recursion_available=True)
    if rcode != "BADVERS":
        reply.use_edns(edns=False)
    reply.set_rcode(dns.rcode.from_text(rcode))
    return reply.to_wire()


class _Udp(asyncio.DatagramProtocol):
    def __init__(self, stub: DnsStub) -> None:
        self._stub = stub
        self._tasks: set[asyncio.Task[None]] = set()
        self._transport: asyncio.DatagramTransport | None = None

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)  # UDP gives nothing else

    @override
    def datagram_received(self, data: bytes, addr: tuple[str | int, int]) -> None:
        task = asyncio.get_running_loop().create_task(self._reply(data, addr))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @override
    def connection_lost(self, _exc: Exception | None) -> None:
        for task in self._tasks:
            task.cancel()

    async def _reply(self, data: bytes, addr: tuple[str | int, int]) -> None:
        self._stub.peers.add(addr)
        wire = await self._stub.answer(data, tcp=False)
        if wire is not None and self._transport is not None:
            self._transport.sendto(wire, addr)


@asynccontextmanager
async def serving(
    zone: Zone,
    fallback: Callable[[str, str], Says] = lambda _name, _kind: NXDOMAIN,
    *,
    host: str = "127.0.0.1",
    lowers: bool = False,
    refuses_edns: bool = False,
    drops_edns: bool = False,
    has_tcp: bool = True,
) -> AsyncIterator[DnsStub]:
    """Serve a zone on a free loopback port; without TCP, connections are refused."""
    stub = DnsStub(zone, fallback, host=host, lowers=lowers, refuses_edns=refuses_edns, drops_edns=drops_edns)

    talks: dict[asyncio.StreamWriter, asyncio.Task[None]] = {}

    def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talks[writer] = asyncio.create_task(talk(reader, writer))  # known, and closed, before its first turn

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(2), "big")
                wire = await stub.answer(await reader.readexactly(size), tcp=True)
                if wire is not None:
                    writer.write(len(wire).to_bytes(2, "big") + wire)
                    await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            talks.pop(writer, None)
            writer.close()

    loop = asyncio.get_running_loop()
    datagrams, listener = one_port(host)
    stub.port = listener.getsockname()[1]
    tcp = await asyncio.start_server(meet, sock=listener)
    if not has_tcp:
        tcp.close()
    udp, _ = await loop.create_datagram_endpoint(lambda: _Udp(stub), sock=datagrams)
    try:
        yield stub
    finally:
        udp.close()
        tcp.close()
        ends = list(talks.values())
        for writer in tuple(talks):
            writer.close()  # its reader ends with it
        await asyncio.gather(*ends, return_exceptions=True)
        await tcp.wait_closed()
        await asyncio.sleep(0)


class MemoryCache(FactCache):
    """A fact cache in a dictionary that also counts its round trips."""

    def __init__(self) -> None:
        self.entries: dict[tuple[FactKind, str], CacheEntry] = {}
        self.gets: list[Sequence[str]] = []
        self.puts: list[Sequence[CacheEntry]] = []

    @override
    async def get(self, kind: FactKind, keys: Sequence[str]) -> Mapping[str, bytes]:
        self.gets.append(keys)
        return {key: self.entries[kind, key].value for key in keys if (kind, key) in self.entries}

    @override
    async def put(self, kind: FactKind, entries: Sequence[CacheEntry]) -> None:
        self.puts.append(entries)
        self.entries.update({(kind, entry.key): entry for entry in entries})


@asynccontextmanager
async def domain_facts(
    stub: DnsStub,
    *,
    cache: FactCache | None = None,
    clock: Clock = lambda: 1000.0,
    config: DnsConfig | None = None,
    beside: Sequence[DnsStub] = (),
) -> AsyncIterator[DomainFacts]:
    """Domain facts from the stub, and from others beside it; loopback addresses count as public."""
    servers = tuple(one.server for one in (stub, *beside))
    facts = DomainFacts(
        config=replace(config or DnsConfig(), servers=servers),
        cache=cache or MemoryCache(),
        providers=Providers.load(),
        guard=AddressGuard(allow_non_public=True),
        clock=clock,
    )
    try:
        yield facts
    finally:
        await facts.aclose()
