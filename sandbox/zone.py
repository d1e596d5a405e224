"""What the sandbox's DNS says about every name of a world."""

from __future__ import annotations

from collections.abc import Iterable

from sandbox import wire
from sandbox.truth import Dns
from sandbox.wire import Manner, Rcode, Reply, Type
from sandbox.world import Domain, World

TTL = 300
"""Seconds that answers may be kept."""

NEGATIVE_TTL = 60
"""Seconds that negative answers may be kept (RFC 2308)."""

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
}
_POINTERS = {"1.0.0.127.in-addr.arpa": "probe.sandbox.test"}  # so that the prober's own name is confirmed

# Exchangers of domains that have none of their own.
_STAGED: dict[Dns, tuple[tuple[int, str], ...]] = {
    Dns.NULL_MX: ((0, ""),),
    Dns.PRIVATE: ((10, "private.mx-stage.test"),),
    Dns.SPECIAL: ((10, "special.mx-stage.test"),),
    Dns.LITERAL: ((10, "192.0.2.25"),),
    Dns.DANGLING: ((10, "gone.mx-stage.test"),),
    Dns.MIXED: ((5, "private.mx-stage.test"),),
    Dns.MANY_MX: tuple((100 + n, f"mx{n}.mx-stage.test") for n in range(999)),
}
_COLON = {int(Type.A): False, int(Type.AAAA): True}  # which addresses in text form answer a question
_RCODES = {Dns.NXDOMAIN: Rcode.NXDOMAIN, Dns.SERVFAIL: Rcode.SERVFAIL, Dns.REFUSED: Rcode.REFUSED}


class Zone:
    """Answers questions about a world; every answer is built once.

    Args:
        slow: seconds that Dns.SLOW takes.
    """

    def __init__(self, world: World, *, slow: float = 1.0) -> None:
        self._world = world
        self._replies: dict[tuple[bytes, int], Reply] = {}
        self._nodata = wire.build(Rcode.NOERROR, authority=[wire.soa(NEGATIVE_TTL)])
        self._nxdomain = wire.build(Rcode.NXDOMAIN, authority=[wire.soa(NEGATIVE_TTL)])
        self._manners = {
            Dns.SLOW: Manner(delay=slow),
            Dns.SILENT: Manner(silent=True),
            Dns.TRUNCATED: Manner(tcp_only=True),
            Dns.FLAKY: Manner(once_lost=True),
        }
        self._parents: frozenset[str] = frozenset()
        for name in world.domains:
            self._prepare(name, Type.MX)
        for name in world.hosts:
            self._prepare(name, Type.A)

    def _prepare(self, name: str, qtype: Type) -> None:
        """Build an answer that will be asked for."""
        self._replies[wire.encode_name(name)[:-1], qtype] = self.answer(name, qtype)

    def reply(self, name: bytes, qtype: int) -> Reply:
        """Return the prebuilt reply about a name in wire form and lower case.

        Raises:
            ValueError: the name is malformed.
        """
        found = self._replies.get((name, qtype))
        if found is None:
            text = wire.decode_name(name)
            found = self.answer(text, qtype)
            if text in self._world.domains or text in self._world.hosts:  # random names must not fill memory
                self._replies[name, qtype] = found
        return found

    def answer(self, name: str, qtype: int) -> Reply:
        """Build the reply about a name in lower case without the final dot."""
        world = self._world
        chain, owner = [], wire.ASKED
        while name in world.aliases:
            chain.append(wire.alias(owner, TTL, world.aliases[name]))
            name = owner = world.aliases[name]
        if name in world.hosts:
            return self._addresses(owner, (world.hosts[name].address,), qtype, chain)
        domain = world.find(name)
        if domain is not None:
            return self._domain(owner, domain, qtype, chain)
        if name in _STAGE:
            return self._addresses(owner, _STAGE[name], qtype, chain)
        if name in _POINTERS and qtype == Type.PTR:
            return wire.build(Rcode.NOERROR, [wire.alias(owner, TTL, _POINTERS[name], Type.PTR)])
        return self._nodata if self._is_parent(name) else self._nxdomain

    def _domain(self, owner: str, domain: Domain, qtype: int, chain: list[bytes]) -> Reply:
        dns = domain.behaviour.dns
        if dns in _RCODES:
            return self._nxdomain if dns is Dns.NXDOMAIN else wire.build(_RCODES[dns])
        manner = self._manners.get(dns, wire.PROMPT)
        exchangers = (*_STAGED.get(dns, ()), *domain.exchangers)
        if qtype != Type.MX or not exchangers:
            return self._empty(chain, manner)
        records = [wire.mx(owner, TTL, preference, host) for preference, host in exchangers]
        return wire.build(Rcode.NOERROR, [*chain, *records], manner=manner)

    def _addresses(self, owner: str, addresses: Iterable[str], qtype: int, chain: list[bytes]) -> Reply:
        wanted = _COLON.get(qtype)
        records = [wire.address(owner, TTL, text) for text in addresses if (":" in text) is wanted]
        return wire.build(Rcode.NOERROR, [*chain, *records]) if records else self._empty(chain, wire.PROMPT)

    def _empty(self, chain: list[bytes], manner: Manner) -> Reply:
        if not chain and manner is wire.PROMPT:
            return self._nodata
        return wire.build(Rcode.NOERROR, chain, [wire.soa(NEGATIVE_TTL)], manner)

    def _is_parent(self, name: str) -> bool:
        """Whether names exist below this one, so that it exists too (RFC 8020)."""
        if not self._parents:
            self._parents = frozenset(
                _parents((*self._world.domains, *self._world.hosts, *_STAGE, *_POINTERS))
            )
        return name in self._parents


def _parents(names: Iterable[str]) -> Iterable[str]:
    for name in names:
        parent = name.partition(".")[2]
        while parent:
            yield parent
            parent = parent.partition(".")[2]
