"""The pipeline against a real mail server: raw addresses in; syntax, DNS, SMTP; verdicts out."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import polars as pl

from mailsift.pipeline.clock import system_clock
from mailsift.pipeline.dns.domains import DnsConfig, DomainFacts
from mailsift.pipeline.facts import CatchAllFact, DomainState, Known, MailboxFact, Mode, WaitReason
from mailsift.pipeline.guard import AddressGuard
from mailsift.pipeline.probe.config import ProbeConfig, StartTls
from mailsift.pipeline.probe.prober import Prober, ProbeRequest
from mailsift.pipeline.probe.queue import ProbeTarget
from mailsift.pipeline.providers import Provider, Providers
from mailsift.pipeline.syntax.column import parse_column
from mailsift.pipeline.verdict import Evidence, Result, judge
from tests.external.mta.domains import CLEAN, HELO
from tests.unit.pipeline.smtp_stub import DictCache, OpenDoors

_PATIENCE = 20.0
"""Seconds for a session."""

_PAUSE = 0.5
"""Seconds before a server that said "later" is asked again."""


@dataclass(frozen=True, slots=True)
class World:
    """Where the servers are: the port they listen at and their DNS."""

    port: int
    dns: str


@dataclass(frozen=True, slots=True)
class Us:
    """Who asks, and how.

    Attributes:
        source, helo, starttls: see ProbeConfig.
        recipients, sessions: what is asked of one server at most.
        tries: how often a server that says "later" is asked.
    """

    source: str = CLEAN
    helo: str = HELO
    starttls: StartTls = StartTls.OPPORTUNISTIC
    recipients: int = 50
    sessions: int = 5
    tries: int = 1


@dataclass(slots=True)
class Findings:
    """What came out.

    Attributes:
        results: by address.
        mailboxes: the facts behind them; none for an address that needed no asking.
        waited: why addresses had to come back.
    """

    results: dict[str, Result] = field(default_factory=dict)
    mailboxes: dict[str, MailboxFact] = field(default_factory=dict)
    waited: set[WaitReason] = field(default_factory=set)

    def by_local(self) -> dict[str, Result]:
        """Return the results by local part."""
        return {address.partition("@")[0]: result for address, result in self.results.items()}


@dataclass(slots=True)
class _Pipeline:
    domains: DomainFacts
    prober: Prober


async def inquire(world: World, raw: Sequence[str], us: Us | None = None) -> Findings:
    """Put addresses through the pipeline, and again as long as servers say "later" and tries are left."""
    us = us or Us()
    async with _pipeline(world, us) as pipeline:
        targets = await _targets(pipeline.domains, raw)
        mailboxes: dict[str, MailboxFact] = {}
        catch_alls: dict[str, CatchAllFact] = {}
        findings, left = Findings(mailboxes=mailboxes), targets
        for again in range(us.tries):
            if again:
                await asyncio.sleep(_PAUSE)  # the server counts real seconds
            probed = await pipeline.prober.probe(left, ProbeRequest(session_s=_PATIENCE))
            mailboxes |= probed.mailboxes
            catch_alls |= probed.catch_alls
            left = [target for target in left if target.address in probed.waits]
            if not left:
                break
            findings.waited |= {wait.reason for wait in probed.waits.values()}
        findings.results = {
            target.address: _result(target, mailboxes, catch_alls.get(target.domain)) for target in targets
        }
        return findings


async def _targets(domains: DomainFacts, raw: Sequence[str]) -> list[ProbeTarget]:
    parsed = parse_column(pl.Series(raw))
    assert set(parsed["rule"]) == {""}
    facts = await domains.lookup(parsed["domain"].unique().to_list())
    assert {fact.state for fact in facts.values()} == {DomainState.ROUTED}
    rows = parsed.select("address", "domain").iter_rows()
    return [ProbeTarget(address, facts[domain]) for address, domain in rows]


def _result(target: ProbeTarget, mailboxes: Mapping[str, MailboxFact], known: CatchAllFact | None) -> Result:
    fact = mailboxes[target.address]
    evidence = Evidence(
        Mode.DEEP,
        domain=target.fact.state,
        catch_all=known.catch_all if known else Known.UNKNOWN,
        answer=fact.answer,
        smtp_code=fact.smtp_code,
        blanket=fact.blanket,
    )
    return judge(evidence).result


@asynccontextmanager
async def _pipeline(world: World, us: Us) -> AsyncIterator[_Pipeline]:
    guard = AddressGuard(allow_non_public=True)
    row = Provider("default", recipients=us.recipients, sessions=us.sessions, rate=1000.0)
    providers, cache = Providers([], row), DictCache()
    domains = DomainFacts(
        config=DnsConfig(servers=(world.dns,)),
        cache=cache,
        providers=providers,
        guard=guard,
        clock=system_clock,
    )
    prober = Prober(
        config=ProbeConfig(
            helo_name=us.helo,
            sources=(us.source,),
            port=world.port,
            starttls=us.starttls,
            reply_timeout=10.0,
            session_seconds=_PATIENCE,
        ),
        throttle=OpenDoors(),
        providers=providers,
        guard=guard,
        cache=cache,
        clock=system_clock,
        token=lambda: secrets.token_hex(16),
    )
    try:
        yield _Pipeline(domains, prober)
    finally:
        await domains.aclose()
