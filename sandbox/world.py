"""The world: which domains exist, how they behave and who runs their mail; a pure function of its seed."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, replace
from enum import StrEnum

from mailsift.sandbox.behaviours import (
    BEHAVIOURS,
    BY_NAME,
    DISPOSABLE_VERDICT,
    TRUTH_OF_DISPOSABLE,
    UNVERIFIABLE,
    VERDICT_BY_DNS,
    Behaviour,
    DnsBehaviour,
    ExpectedVerdict,
    HostPolicy,
    MailHost,
    OnConnect,
    RecipientPolicy,
    Truth,
    truth_of_address,
)
from mailsift.sandbox.population import Mailbox, firms, mailbox, to_ascii

# Who runs mail, and slips of well-known domains.

BLACKHOLE = "127.15.0.1"
"""The address of every server whose connections are never established."""

_GOOGLE = HostPolicy(mta="google")
_ONLINE = HostPolicy(mta="exchange_online")
_POSTFIX = HostPolicy()


@dataclass(frozen=True, slots=True)
class SandboxProvider:
    """A mail provider.

    Attributes:
        label: the world's name for it.
        exchangers: (preference, host name); `{domain}` is the customer's domain with dashes, `{n}` one of
            `pool` numbers: names that share a number share an address.
        free: its free-mail domains with their share of all rows in 1/10,000.
        business: its share of the business domains in 1/10,000.
        rcpt: what RCPT is answered with.
        unverifiable: its answers to RCPT mean nothing, so no verifier can know.
    """

    label: str
    exchangers: tuple[tuple[int, str], ...]
    policy: HostPolicy = _POSTFIX
    free: tuple[tuple[str, int], ...] = ()
    business: int = 0
    pool: int = 1
    rcpt: RecipientPolicy = RecipientPolicy.MAILBOXES
    unverifiable: bool = False


PROVIDERS: tuple[SandboxProvider, ...] = (
    SandboxProvider(
        "google",
        (
            (5, "gmail-smtp-in.l.google.com"),
            (10, "alt1.gmail-smtp-in.l.google.com"),
            (20, "alt2.gmail-smtp-in.l.google.com"),
        ),
        _GOOGLE,
        free=(("gmail.com", 2200), ("googlemail.com", 30)),
    ),
    SandboxProvider(
        "google",
        ((1, "aspmx.l.google.com"), (5, "alt1.aspmx.l.google.com"), (5, "alt2.aspmx.l.google.com")),
        _GOOGLE,
        business=1800,
    ),
    SandboxProvider(
        "outlook",
        ((2, "{domain}.olc.protection.outlook.com"),),
        HostPolicy(mta="outlook"),
        free=(("outlook.com", 180), ("hotmail.com", 320), ("live.com", 60), ("msn.com", 30)),
        pool=4,
    ),
    SandboxProvider(
        "yahoo",
        ((1, "mta5.am0.yahoodns.net"), (1, "mta6.am0.yahoodns.net"), (1, "mta7.am0.yahoodns.net")),
        free=(("yahoo.com", 260), ("ymail.com", 20), ("aol.com", 70)),
        rcpt=RecipientPolicy.ACCEPT,
        unverifiable=True,
    ),
    SandboxProvider(
        "icloud",
        ((10, "mx01.mail.icloud.com"), (10, "mx02.mail.icloud.com")),
        free=(("icloud.com", 150), ("me.com", 30)),
    ),
    SandboxProvider(
        "gmx",
        ((10, "mx00.gmx.net"), (10, "mx01.gmx.net")),
        free=(("gmx.de", 60), ("gmx.net", 30), ("web.de", 60)),
    ),
    SandboxProvider(
        "microsoft365", ((0, "{domain}.mail.protection.outlook.com"),), _ONLINE, business=1900, pool=24
    ),
    SandboxProvider(  # tenants without directory-based edge blocking: the message bounces later
        "microsoft365",
        ((0, "{domain}.mail.protection.outlook.com"),),
        _ONLINE,
        business=300,
        pool=24,
        rcpt=RecipientPolicy.ACCEPT,
        unverifiable=True,
    ),
    SandboxProvider(
        "proofpoint",
        ((10, "mx0a-00{n:06x}.pphosted.com"), (10, "mx0b-00{n:06x}.pphosted.com")),
        HostPolicy(mta="sendmail"),
        business=200,
        pool=8,
    ),
    SandboxProvider(  # a gateway without a directory: the message bounces later
        "proofpoint",
        ((10, "mx0a-later.pphosted.com"), (10, "mx0b-later.pphosted.com")),
        HostPolicy(mta="sendmail"),
        free=(("gateway-later.sandbox.test", 0),),
        rcpt=RecipientPolicy.ACCEPT,
        unverifiable=True,
    ),
    SandboxProvider(  # with the defaults of its manual: 30 recipients a minute, blocks of three hours
        "forcepoint",
        ((10, "cust1-a.in.mailcontrol.com"),),
        HostPolicy(mta="exchange", per_minute=30),
        free=(("gateway.sandbox.test", 0),),
        rcpt=RecipientPolicy.GATEWAY,
    ),
    SandboxProvider(  # the same in a company of its own, whom no table knows
        "company-gateway.test",
        ((10, "mx.company-gateway.test"),),
        HostPolicy(mta="exchange", per_minute=30),
        free=(("own-gateway.sandbox.test", 0),),
        rcpt=RecipientPolicy.GATEWAY,
    ),
    SandboxProvider(
        "mimecast",
        ((10, "eu-smtp-inbound-1.mimecast.com"), (10, "eu-smtp-inbound-2.mimecast.com")),
        business=150,
    ),
    SandboxProvider("zoho", ((10, "mx.zoho.com"), (20, "mx2.zoho.com"), (50, "mx3.zoho.com")), business=150),
    SandboxProvider("ionos", ((10, "mx00.ionos.de"), (10, "mx01.ionos.de")), business=250),
)
"""Google stands twice: free mail and Workspace have exchangers of their own but one throttle key.
Microsoft 365 stands twice: tenants whose edge knows the directory, and tenants that accept everybody."""

_DISPOSABLE_TEXT = """
mailinator.com guerrillamail.com 10minutemail.com yopmail.com trashmail.com temp-mail.org sharklasers.com
getnada.com maildrop.cc dispostable.com mailnesia.com fakeinbox.com mintemail.com mohmal.com emailondeck.com
discard.email mytemp.email moakt.com tempinbox.com mailcatch.com grr.la spam4.me tempr.email mailsac.com
harakirimail.com
"""
DISPOSABLE_DOMAINS = tuple(_DISPOSABLE_TEXT.split())
"""Throw-away domains everybody's list knows; here their servers work and accept everything."""

TYPOS = {
    "gmai.com": "nxdomain",
    "gnail.com": "nxdomain",
    "gmaill.com": "nxdomain",
    "gmail.con": "nxdomain",
    "gamil.com": "nxdomain",
    "hotmal.com": "nxdomain",
    "hotmail.con": "nxdomain",
    "yaho.com": "no-mail",
    "yahooo.com": "nxdomain",
    "yahoo.con": "nxdomain",
    "outlok.com": "no-mail",
    "outloook.com": "nxdomain",
    "iclod.com": "nxdomain",
    "gmail.co": "catch-all",
}
"""Slips of well-known domains and how they behave here."""


# A world.


class WorldMix(StrEnum):
    """What the business domains are like."""

    PLAIN = "plain"  # mostly ordinary, some of every DNS state
    CALM = "calm"  # the same, but DNS never makes anybody wait; so that a benchmark compares work
    HOSTILE = "hostile"  # every behaviour switched on


@dataclass(frozen=True, slots=True)
class SandboxConfig:
    """What a sandbox is like.

    Attributes:
        seed, domains, mix: make the world; `domains` counts the business domains.
        dns_port, smtp_port: 0 picks a free one.
        latency: seconds between an SMTP command and its reply, a round trip.
        greylist: seconds that greylisting servers put a first contact off.
        harvest: seconds that a defence against harvesting knows nobody.
        minute: seconds that a limit a minute counts over, and that a directory is away.
        tarpit: seconds that each reply of a tarpit takes.
        drip: seconds that each byte of a dripping server takes.
        slow_dns: seconds that slow DNS answers take.
    """

    seed: int = 1
    domains: int = 1_000
    mix: WorldMix = WorldMix.PLAIN
    dns_port: int = 0
    smtp_port: int = 0
    latency: float = 0.0
    greylist: float = 2.0
    harvest: float = 2.0
    minute: float = 2.0
    tarpit: float = 2.0
    drip: float = 1.0
    slow_dns: float = 1.0


@dataclass(frozen=True, slots=True)
class SandboxDomain:
    """A domain that somebody may have an address at.

    Attributes:
        name: ASCII name; unicode: the same for people.
        exchangers: (preference, host name), best first; empty when it takes no mail.
        label: the world's name for who runs the exchangers, "" when there are none.
    """

    name: str
    unicode: str
    behaviour: Behaviour
    exchangers: tuple[tuple[int, str], ...]
    label: str

    @property
    def rcpt(self) -> RecipientPolicy:
        """What RCPT is answered with."""
        return self.behaviour.rcpt

    @property
    def deep(self) -> ExpectedVerdict | None:
        """The verdict on every address in mode deep; None: the mailboxes decide."""
        return self.behaviour.deep

    @property
    def disposable(self) -> bool:
        """Whether this is a throw-away domain."""
        return self.behaviour is _DISPOSABLE


_FIRST_ADDRESS = 127 << 24 | 16 << 16  # servers live from 127.16.0.1 upwards
_ORDINARY = BY_NAME["ordinary"]
_DISPOSABLE = Behaviour("disposable", DISPOSABLE_VERDICT, rcpt=RecipientPolicy.ACCEPT)
_COMPANY_SIZE = 300  # domains a hosting company looks after

# Names that exist without being listed, and the scenario domain they behave like.
_PATTERNS = (
    ("flood.sandbox.test", re.compile(r"[^@]+\.flood\.sandbox\.test")),
    ("victim.sandbox.test", re.compile(r"victim-\d+\.test")),
)


class SandboxWorld:
    """All domains, hosts and mailboxes.

    Attributes:
        domains: by ASCII name.
        hosts: by name; names may share a host.
        by_address: the host at each address.
        aliases: CNAME owner -> target.
        ranked: the business domains, the most frequent in lists first.
    """

    def __init__(self, *, seed: int = 1, domains: int = 1_000, mix: WorldMix = WorldMix.PLAIN) -> None:
        self.seed, self.mix = seed, mix
        self.domains: dict[str, SandboxDomain] = {}
        self.hosts: dict[str, MailHost] = {}
        self.by_address: dict[str, MailHost] = {}
        self.aliases: dict[str, str] = {}
        self._key = seed.to_bytes(8, "big", signed=True)
        self._addresses = 0
        self._pools: dict[tuple[str, int, int], str] = {}
        for behaviour in BEHAVIOURS:
            label = f"{behaviour.name}-host.test"
            self._self_hosted(behaviour.domain, behaviour, label)
        for provider in PROVIDERS:
            for name, _ in provider.free:
                self._customer(name, provider)
        for name in DISPOSABLE_DOMAINS:
            self._hosted(name, _DISPOSABLE, "throwaway-hosting.net")
        for name, kind in TYPOS.items():
            self._self_hosted(name, BY_NAME[kind], "parking-lot.net")
        self.ranked = self._business(domains, mix)

    def find(self, name: str) -> SandboxDomain | None:
        """Return the domain of this ASCII name in lower case; None when there is none."""
        found = self.domains.get(name)
        if found is None:
            found = next((self.domains[like] for like, pattern in _PATTERNS if pattern.fullmatch(name)), None)
        return found

    def change(self, name: str, behaviour: str) -> None:
        """Let a domain answer RCPT as another behaviour does from now on; the truth changes with it."""
        like, domain = BY_NAME[behaviour], self.domains[name]
        changed = replace(domain.behaviour, rcpt=like.rcpt, deep=like.deep)
        self.domains[name] = replace(domain, behaviour=changed)

    def mailbox(self, local: str, domain: str) -> Mailbox:
        """Say what there is behind an address, both parts in lower case."""
        return mailbox(self._key, local, domain)

    def truth(self, address: str) -> Truth:
        """Return the right verdicts on an address in canonical form (lower case, ASCII domain)."""
        local, _, name = address.rpartition("@")
        domain = self.find(name)
        if domain is None:
            return truth_of_address(DnsBehaviour.NXDOMAIN, None, Mailbox.MISSING, askable=True)
        if domain.disposable:
            return TRUTH_OF_DISPOSABLE
        askable = domain.behaviour.policy.smtputf8 or local.isascii()
        return truth_of_address(domain.behaviour.dns, domain.deep, self.mailbox(local, name), askable=askable)

    def _business(self, count: int, mix: WorldMix) -> tuple[SandboxDomain, ...]:
        rng = random.Random(f"{self.seed}/world")
        kinds: list[Behaviour | SandboxProvider] = []
        for behaviour in BEHAVIOURS:
            kinds += [behaviour] * _share(count, _tenths_of_permille(behaviour, mix))
        for provider in PROVIDERS:
            kinds += [provider] * _share(count, provider.business)
        kinds += [_ORDINARY] * (count - len(kinds))
        rng.shuffle(kinds)
        names = firms(rng)
        companies = [next(names) for _ in range(1 + count // _COMPANY_SIZE)]
        return tuple(self._new_domain(next(names), kind, rng, companies) for kind in kinds[:count])

    def _new_domain(
        self, unicode: str, kind: Behaviour | SandboxProvider, rng: random.Random, firms: list[str]
    ) -> SandboxDomain:
        if isinstance(kind, SandboxProvider):
            return self._customer(unicode, kind)
        if kind is _ORDINARY:
            return self._hosted(unicode, kind, to_ascii(rng.choice(firms)))
        return self._self_hosted(unicode, kind, to_ascii(unicode))

    def _customer(self, unicode: str, provider: SandboxProvider) -> SandboxDomain:
        """Let a provider run a domain's mail."""
        name = to_ascii(unicode)
        number = sum(name.encode()) % provider.pool
        exchangers = []
        for place, (preference, pattern) in enumerate(provider.exchangers):
            host = pattern.format(domain=name.replace(".", "-"), n=number)
            self._serve(host, provider.label, provider.policy, pool=(pattern, place, number))
            exchangers.append((preference, host))
        deep = UNVERIFIABLE if provider.unverifiable else None
        like = replace(_ORDINARY, rcpt=provider.rcpt, policy=provider.policy, deep=deep)
        return self._add(unicode, like, tuple(exchangers), provider.label)

    def _hosted(self, unicode: str, behaviour: Behaviour, company: str) -> SandboxDomain:
        """Let a hosting company run a domain's mail on its two servers."""
        exchangers = ((10, f"mx1.{company}"), (20, f"mx2.{company}"))
        for place, (_, host) in enumerate(exchangers):
            self._serve(host, company, behaviour.policy, pool=(company, place, 0))
        return self._add(unicode, behaviour, exchangers, company)

    def _self_hosted(self, unicode: str, behaviour: Behaviour, label: str) -> SandboxDomain:
        """Give a domain servers of its own, as its behaviour wants."""
        name = to_ascii(unicode)
        if behaviour.dns in VERDICT_BY_DNS:
            return self._add(unicode, behaviour, (), "")
        if behaviour.dns is DnsBehaviour.IMPLICIT:
            self._serve(name, name, behaviour.policy)
            return self._add(unicode, behaviour, ((0, name),), name)
        host = f"mx.{label}"
        self._serve(host, label, behaviour.policy, pool=(host, 0, 0))
        exchangers = [(10, host)]
        if behaviour.first:
            self._serve(f"mx0.{label}", label, behaviour.first)
            exchangers.insert(0, (5, f"mx0.{label}"))
        if behaviour.dns is DnsBehaviour.MX_CNAME:
            self.aliases[f"alias.{label}"] = host
            exchangers = [(10, f"alias.{label}")]
        domain = self._add(unicode, behaviour, tuple(exchangers), label)
        if behaviour.dns is DnsBehaviour.CNAME:
            self.aliases[name] = f"route.{name}"
            self.domains[f"route.{name}"] = domain
        return domain

    def _add(
        self, unicode: str, behaviour: Behaviour, exchangers: tuple[tuple[int, str], ...], label: str
    ) -> SandboxDomain:
        domain = SandboxDomain(to_ascii(unicode), unicode, behaviour, exchangers, label)
        self.domains[domain.name] = domain
        return domain

    def _serve(
        self, name: str, label: str, policy: HostPolicy, *, pool: tuple[str, int, int] | None = None
    ) -> None:
        """Put a server behind a name; names with the same pool share its address."""
        if name in self.hosts:
            return
        address = self._pools.get(pool) if pool else None
        if address is None:
            address = self._address(policy)
            if pool:
                self._pools[pool] = address
        host = MailHost(name, address, label, policy)
        self.hosts[name] = host
        self.by_address.setdefault(address, host)

    def _address(self, policy: HostPolicy) -> str:
        if policy.on_connect is OnConnect.REFUSED:
            return "::1"
        if policy.on_connect is OnConnect.BLACKHOLE:
            return BLACKHOLE
        self._addresses += 1
        number = _FIRST_ADDRESS + self._addresses
        return f"127.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"


_WAITING = frozenset({DnsBehaviour.SILENT, DnsBehaviour.SLOW, DnsBehaviour.FLAKY})


def _tenths_of_permille(behaviour: Behaviour, mix: WorldMix) -> int:
    if mix is WorldMix.HOSTILE:
        return behaviour.hostile
    return 0 if mix is WorldMix.CALM and behaviour.dns in _WAITING else behaviour.plain


def _share(count: int, share: int) -> int:
    return max(1, round(count * share / 10_000)) if share else 0
