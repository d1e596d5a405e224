"""A scripted mail server on loopback, and a prober with in-process ports, for tests over real sockets."""

from __future__ import annotations

import asyncio
import itertools
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from math import inf
from typing import Any

from typing_extensions import override

from mailsift.pipeline.facts import Answer, CacheEntry, DomainFact, DomainState, FactCache, FactKind, MxHost
from mailsift.pipeline.guard import AddressGuard
from mailsift.pipeline.probe.config import ProbeConfig
from mailsift.pipeline.probe.prober import Prober, ProbeRequest, ProbeResult
from mailsift.pipeline.probe.queue import ProbeTarget
from mailsift.pipeline.providers import Provider, Providers
from mailsift.pipeline.throttle import Ask, Grant, Report, SessionOutcome, Throttle
from tests.support.connections import talking

NOT_FOUND = "550 5.1.1 <{address}>: Recipient address rejected: User unknown in virtual mailbox table"
DROP = "drop"
SILENCE = ""

Script = Callable[[str], str]
"""Reply to RCPT by address; `{address}` is filled in, DROP hangs up, SILENCE says nothing."""


def knows(*locals_: str, otherwise: str = NOT_FOUND) -> Script:
    """A server that has these mailboxes and refuses the rest."""
    return lambda address: "250 2.1.5 Ok" if address.rpartition("@")[0] in locals_ else otherwise


def turning(after: int) -> Script:
    """Every fourth of user0, user1 … is missing; after so many recipients everybody new is."""
    commands = 0
    accepted: set[str] = set()

    def say(address: str) -> str:
        nonlocal commands
        commands += 1
        local = address.partition("@")[0]
        is_there = local.startswith("user") and int(local[4:]) % 4 != 0
        if address in accepted or (is_there and commands <= after):
            accepted.add(address)
            return "250 2.1.5 Ok"
        return NOT_FOUND

    return say


def harvest_defence(script: Script, most: int = 6) -> Script:
    """A server that knows nobody any more once it has refused so many."""
    refused = 0

    def say(address: str) -> str:
        nonlocal refused
        reply = NOT_FOUND if refused >= most else script(address)
        refused += reply == NOT_FOUND
        return reply

    return say


@dataclass(slots=True)
class Mailer:
    """What the server says and what it saw.

    Attributes:
        rcpt: replies to RCPT.
        offers: EHLO keywords; None: only HELO is known.
        banner, mail, rset, quit: replies at these steps; DROP and SILENCE work as for RCPT.
        mail_utf8: reply to MAIL with SMTPUTF8, "" for `mail`.
        latency: seconds between commands and their replies.
        most_recipients: RCPT commands of a session, then `too_many`.
        most_sessions: open sessions, then 421.
        loses: of the commands that come together the last ones are lost, half of them.
        tls: context for STARTTLS.
        seen: the lines of every session, in order.
        peak: most open sessions at a time.
    """

    rcpt: Script = field(default_factory=knows)
    offers: Sequence[str] | None = ("PIPELINING", "SMTPUTF8")
    banner: str = "220 stub ESMTP"
    mail: str = "250 2.1.0 Ok"
    mail_utf8: str = ""
    rset: str = "250 2.0.0 Ok"
    quit: str = "221 2.0.0 Bye"
    latency: float = 0.0
    most_recipients: int = 0
    too_many: str = "452 4.5.3 Error: too many recipients"
    most_sessions: int = 0
    loses: bool = False
    tls: ssl.SSLContext | None = None
    seen: list[list[str]] = field(default_factory=list)
    batches: int = 0
    open: int = 0
    peak: int = 0
    tls_sessions: int = 0

    @property
    def recipients(self) -> list[str]:
        """All addresses in RCPT commands, in order."""
        return [line[9:-1] for session in self.seen for line in session if line.startswith("RCPT TO:<")]

    @property
    def verbs(self) -> list[list[str]]:
        """The first words of every session's lines."""
        return [[line.split(" ")[0].upper() for line in session] for session in self.seen]


class _Connection:
    def __init__(self, mailer: Mailer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.mailer, self.reader, self.writer = mailer, reader, writer
        self.lines: list[str] = []
        self.count = 0
        self.offers = list(mailer.offers or [])

    async def serve(self) -> None:
        mailer = self.mailer
        mailer.seen.append(self.lines)
        crowded = mailer.most_sessions and mailer.open > mailer.most_sessions
        if not await self.say(["421 4.7.0 Too many connections" if crowded else mailer.banner]) or crowded:
            return
        rest = b""
        while data := await self.reader.read(65536):
            *lines, rest = (rest + data).split(b"\n")
            mailer.batches += 1
            lines = lines[: (len(lines) + 1) // 2] if mailer.loses else lines
            replies = []
            for line in lines:
                text = line.rstrip(b"\r").decode()
                self.lines.append(text)
                replies.append(self.answer(text))
                if text == "STARTTLS" and mailer.tls:
                    break
            if not await self.say(replies):
                return
            if replies[-1] == "220 2.0.0 Go ahead" and mailer.tls:
                await self.encrypt(mailer.tls)

    async def say(self, replies: Sequence[str]) -> bool:
        """Send the replies; False when the connection is to be closed."""
        if self.mailer.latency:
            await asyncio.sleep(self.mailer.latency)
        for reply in replies:
            if reply == DROP:
                return False
            if reply:
                self.writer.write(reply.encode() + b"\r\n")
            if reply.startswith(("221", "421", "554 no")):
                await self.writer.drain()
                return False
        await self.writer.drain()
        return True

    async def encrypt(self, context: ssl.SSLContext) -> None:
        await self.writer.start_tls(context)
        self.mailer.tls_sessions += 1
        self.offers.remove("STARTTLS")

    def answer(self, line: str) -> str:
        verb, mailer = line.split(" ", 1)[0].upper(), self.mailer
        if verb == "RCPT":
            return self.answer_rcpt(line[9:-1])
        return {
            "EHLO": "\r\n".join(f"250-{word}" for word in ("stub", *self.offers)) + "\r\n250 HELP"
            if mailer.offers is not None
            else "502 5.5.1 Command not implemented",
            "HELO": "250 stub",
            "MAIL": (line.endswith("SMTPUTF8") and mailer.mail_utf8) or mailer.mail,
            "RSET": mailer.rset,
            "QUIT": mailer.quit,
            "STARTTLS": "220 2.0.0 Go ahead",
        }.get(verb, "500 5.5.2 What?")

    def answer_rcpt(self, address: str) -> str:
        self.count += 1
        if 0 < self.mailer.most_recipients < self.count:
            return self.mailer.too_many
        return self.mailer.rcpt(address).replace("{address}", address)


@asynccontextmanager
async def mailing(mailer: Mailer, *, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[int]:
    """Run the server and give its port."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        mailer.open += 1
        mailer.peak = max(mailer.peak, mailer.open)
        try:
            await _Connection(mailer, reader, writer).serve()
        finally:
            mailer.open -= 1

    async with talking(talk, host, port) as found:
        yield found


class OpenDoors(Throttle):
    """Grants all that is asked for, up to `each` recipients a session; `denials` first says no so often.

    A session may ask for `seconds`.
    """

    def __init__(
        self,
        *,
        each: int = 10_000,
        denials: int = 0,
        retry_after: float = 0.0,
        refill_s: float = 0.005,
        seconds: float = inf,
    ) -> None:
        self.seconds = seconds
        self.each, self.denials, self.retry_after, self.refill_s = each, denials, retry_after, refill_s
        self.grants: list[Sequence[Ask]] = []
        self.reports: list[Sequence[Report]] = []
        self.open: set[str] = set()
        self._numbers = itertools.count()

    @override
    def is_held(self, provider: str, source: str) -> bool:
        return False

    @override
    async def grant(self, asks: Sequence[Ask]) -> Sequence[Grant]:
        self.grants.append(asks)
        return [self._grant(ask) for ask in asks]

    @override
    async def report(self, reports: Sequence[Report]) -> None:
        self.reports.append(reports)
        self.open -= {report.lease for report in reports}

    def _grant(self, ask: Ask) -> Grant:
        if self.denials > 0:
            self.denials -= 1
            return Grant(0, retry_after=self.retry_after)
        lease = str(next(self._numbers))
        self.open.add(lease)
        return Grant(min(ask.recipients, self.each), lease, refill_s=self.refill_s, seconds=self.seconds)


class DictCache(FactCache):
    """Remembers for ever."""

    def __init__(self) -> None:
        self.values: dict[FactKind, dict[str, bytes]] = {kind: {} for kind in FactKind}

    @override
    async def get(self, kind: FactKind, keys: Sequence[str]) -> Mapping[str, bytes]:
        return {key: self.values[kind][key] for key in keys if key in self.values[kind]}

    @override
    async def put(self, kind: FactKind, entries: Sequence[CacheEntry]) -> None:
        self.values[kind].update((entry.key, entry.value) for entry in entries)


@cache
def providers(recipients: int = 50, sessions: int = 5, rate: float = 10_000.0) -> Providers:
    """A provider table without names: everybody takes so much; "silent" has nothing to say."""
    silent = Provider("silent", ("silent.test",), informative=False)
    return Providers([silent], Provider("default", recipients=recipients, sessions=sessions, rate=rate))


def routed(domain: str, *hosts: tuple[str, tuple[str, ...]], provider: str = "stub") -> DomainFact:
    """A domain fact with these exchangers; by default one at 127.0.0.1."""
    mx = hosts or (("mx.stub.test", ("127.0.0.1",)),)
    exchangers = tuple(MxHost(name, 10 + n, addresses) for n, (name, addresses) in enumerate(mx))
    return DomainFact(domain, DomainState.ROUTED, exchangers, provider)


def targets(fact: DomainFact, *locals_: str) -> list[ProbeTarget]:
    """Targets at the fact's domain."""
    return [ProbeTarget(f"{local}@{fact.domain}", fact) for local in locals_]


@dataclass(slots=True)
class Bench:
    """A prober and what it is wired to."""

    port: int
    throttle: OpenDoors = field(default_factory=OpenDoors)
    cache: DictCache = field(default_factory=DictCache)
    guard: AddressGuard = field(default_factory=lambda: AddressGuard(allow_non_public=True))
    providers: Providers = field(default_factory=providers)
    settings: dict[str, Any] = field(default_factory=dict)
    now: float = 1_000_000.0
    _prober: Prober | None = None

    @property
    def prober(self) -> Prober:
        """One prober for the whole test."""
        if self._prober is None:
            numbers = itertools.count()
            settings: dict[str, Any] = {"helo_name": "probe.test", "port": self.port} | self.settings
            self._prober = Prober(
                config=ProbeConfig(**settings),
                throttle=self.throttle,
                providers=self.providers,
                guard=self.guard,
                cache=self.cache,
                clock=lambda: self.now,
                token=lambda: f"token {next(numbers)}",
            )
        return self._prober

    async def probe(
        self,
        asked: Sequence[ProbeTarget],
        *,
        budget_s: float = 20.0,
        session_s: float = 60.0,
        max_age: float = 0.0,
    ) -> ProbeResult:
        """Probe, and check what holds for every call: nobody is lost and every lease is given back."""
        probed = await self.prober.probe(
            asked, ProbeRequest(budget_s=budget_s, session_s=session_s, max_age=max_age)
        )
        assert {target.address for target in asked} >= set(probed.mailboxes) | set(probed.waits)
        assert not self.throttle.open
        return probed


USERS = tuple(f"user{n}" for n in range(100))


def answers(probed: ProbeResult) -> dict[str, Answer]:
    return {address.partition("@")[0]: fact.answer for address, fact in probed.mailboxes.items()}


def outcomes(bench: Bench) -> list[SessionOutcome]:
    return [report.outcome for reports in bench.throttle.reports for report in reports]
