"""What the sandbox's DNS says about every name of a world."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from dns.rcode import Rcode
from dns.rdatatype import RdataType

from mailsift.sandbox.truth import DnsBehaviour
from mailsift.sandbox.world import SandboxDomain, SandboxWorld

TTL = 300
"""Seconds that answers may be kept."""

NEGATIVE_TTL = 60
"""Seconds that negative answers may be kept (RFC 2308)."""

ASKED = "@"
"""As an owner: the name in the question, whatever its case."""


@dataclass(frozen=True, slots=True)
class ZoneRecord:
    """A resource record of class IN; `data` is in presentation form, its names end in a dot (RFC 1035)."""

    owner: str
    rtype: RdataType
    data: str
    ttl: int = TTL


@dataclass(frozen=True, slots=True)
class AnswerManner:
    """How an answer is given.

    Attributes:
        delay: seconds to wait before answering.
        silent: never answer.
        tcp_only: over UDP only the truncated form is sent.
        once_lost: the first query over UDP is dropped.
    """

    delay: float = 0.0
    silent: bool = False
    tcp_only: bool = False
    once_lost: bool = False


PROMPT = AnswerManner()


@dataclass(frozen=True, slots=True)
class ZoneAnswer:
    """What the zone says to a question; PROMPT (by identity) is the plain manner."""

    rcode: Rcode = Rcode.NOERROR
    records: tuple[ZoneRecord, ...] = ()
    authority: tuple[ZoneRecord, ...] = ()
    manner: AnswerManner = PROMPT


# The minimum, its last number, is how long "there is none" may be kept (RFC 2308).
_SOA = f"ns.sandbox.example. hostmaster.sandbox.example. 1 3600 600 86400 {NEGATIVE_TTL}"
_TOP_LEVEL = frozenset({"com", "net", "org", "de"})  # exist, whatever a world has below them

# Servers that are names and addresses only; nobody listens there.
_STAGE: dict[str, tuple[str, ...]] = {
    "private.mx-stage.test": ("10.11.12.13",),
    "special.mx-stage.test": (
        "169.254.169.254",
        "224.0.0.1",
        "0.0.0.0",  # noqa: S104 - an answer, not something to bind to
        "::ffff:10.11.12.13",
        "64:ff9b::a0b:c0d",
        "2002:a0b:c0d::1",
        "fe80::1",
        "ff02::1",
    ),
    "probe.sandbox.test": ("127.0.0.1",),
    # A block list with its test entry and one source that is in it, and one that lists nobody.
    "2.0.0.127.dnsbl.sandbox.test": ("127.0.0.2",),
    "99.113.0.203.dnsbl.sandbox.test": ("127.0.0.4",),
    "2.0.0.127.dnsbl-empty.sandbox.test": ("127.0.0.2",),
}
_IPV6 = {"gmail-smtp-in.l.google.com": ("::1",)}  # so that a resolver can be seen to know IPv6
_POINTERS = {"1.0.0.127.in-addr.arpa": "probe.sandbox.test"}  # so that the prober's own name is confirmed

# Exchangers of domains that have none of their own.
_STAGED: dict[DnsBehaviour, tuple[tuple[int, str], ...]] = {
    DnsBehaviour.NULL_MX: ((0, ""),),
    DnsBehaviour.PRIVATE: ((10, "private.mx-stage.test"),),
    DnsBehaviour.SPECIAL: ((10, "special.mx-stage.test"),),
    DnsBehaviour.LITERAL: ((10, "192.0.2.25"),),
    DnsBehaviour.DANGLING: ((10, "gone.mx-stage.test"),),
    DnsBehaviour.MIXED: ((5, "private.mx-stage.test"),),
    DnsBehaviour.MANY_MX: tuple((100 + n, f"mx{n}.mx-stage.test") for n in range(999)),
}
_COLON: dict[int, bool] = {RdataType.A: False, RdataType.AAAA: True}  # which addresses answer a question
_RCODES = {
    DnsBehaviour.NXDOMAIN: Rcode.NXDOMAIN,
    DnsBehaviour.SERVFAIL: Rcode.SERVFAIL,
    DnsBehaviour.REFUSED: Rcode.REFUSED,
}


class SandboxZone:
    """Answers questions about a world.

    Args:
        slow: seconds that DnsBehaviour.SLOW takes.
    """

    def __init__(self, world: SandboxWorld, *, slow: float = 1.0) -> None:
        self._world = world
        self._manners = {
            DnsBehaviour.SLOW: AnswerManner(delay=slow),
            DnsBehaviour.SILENT: AnswerManner(silent=True),
            DnsBehaviour.TRUNCATED: AnswerManner(tcp_only=True),
            DnsBehaviour.FLAKY: AnswerManner(once_lost=True),
        }
        self._parents: frozenset[str] = frozenset()

    def usual_questions(self) -> Iterator[tuple[str, RdataType]]:
        """Yield what will be asked: the exchangers of every domain, the address of every host."""
        yield from ((name, RdataType.MX) for name in self._world.domains)
        yield from ((name, RdataType.A) for name in self._world.hosts)

    def is_listed(self, name: str) -> bool:
        """Whether the world knows a name by itself and not by a pattern."""
        return name in self._world.domains or name in self._world.hosts

    def answer(self, name: str, qtype: int) -> ZoneAnswer:
        """Return the answer about a name in lower case without the final dot."""
        world = self._world
        chain, owner = [], ASKED
        while name in world.aliases:
            chain.append(ZoneRecord(owner, RdataType.CNAME, f"{world.aliases[name]}."))
            name = owner = world.aliases[name]
        nothing = ZoneAnswer(records=tuple(chain), authority=(self._soa(name),))
        if name in world.hosts:
            addresses = (world.hosts[name].address, *_IPV6.get(name, ()))
            return _addresses(owner, addresses, qtype, chain) or nothing
        domain = world.find(name)
        if domain is not None:
            return self._domain(owner, domain, qtype, nothing)
        if name in _STAGE:
            return _addresses(owner, _STAGE[name], qtype, chain) or nothing
        if name in _POINTERS and qtype == RdataType.PTR:
            return ZoneAnswer(records=(ZoneRecord(owner, RdataType.PTR, f"{_POINTERS[name]}."),))
        return replace(nothing, rcode=Rcode.NOERROR if self._is_parent(name) else Rcode.NXDOMAIN, records=())

    def _domain(self, owner: str, domain: SandboxDomain, qtype: int, nothing: ZoneAnswer) -> ZoneAnswer:
        """Return what a domain of the world answers; `nothing` is its NODATA, with the aliases before it."""
        dns = domain.behaviour.dns
        if dns in _RCODES:
            authority = nothing.authority if dns is DnsBehaviour.NXDOMAIN else ()
            return ZoneAnswer(_RCODES[dns], authority=authority)
        manner = self._manners.get(dns, PROMPT)
        exchangers = (*_STAGED.get(dns, ()), *domain.exchangers)
        if qtype != RdataType.MX or not exchangers:
            return replace(nothing, manner=manner)
        records = [
            ZoneRecord(owner, RdataType.MX, f"{preference} {host}.") for preference, host in exchangers
        ]
        return ZoneAnswer(records=(*nothing.records, *records), manner=manner)

    def _soa(self, name: str) -> ZoneRecord:
        """Return the SOA of the zone above a name: its top-level domain where there is one, else the root."""
        label = name.rpartition(".")[2]
        zone = label if label in _TOP_LEVEL or self._is_parent(label) else ""
        return ZoneRecord(zone, RdataType.SOA, _SOA, NEGATIVE_TTL)

    def _is_parent(self, name: str) -> bool:
        """Whether names exist below this one, so that it exists too (RFC 8020)."""
        if not self._parents:
            self._parents = frozenset(
                _parents((*self._world.domains, *self._world.hosts, *_STAGE, *_POINTERS))
            )
        return name in self._parents


def _addresses(
    owner: str, addresses: Iterable[str], qtype: int, chain: list[ZoneRecord]
) -> ZoneAnswer | None:
    """Return the answer with those of the addresses that are of the type asked for; None when none is."""
    wanted = _COLON.get(qtype)
    found = [text for text in addresses if (":" in text) is wanted]
    records = [ZoneRecord(owner, RdataType(qtype), text) for text in found]
    return ZoneAnswer(records=(*chain, *records)) if records else None


def _parents(names: Iterable[str]) -> Iterable[str]:
    for name in names:
        parent = name.partition(".")[2]
        while parent:
            yield parent
            parent = parent.partition(".")[2]
