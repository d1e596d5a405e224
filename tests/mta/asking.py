"""The whole pipeline against a real mail server: raw addresses in, verdicts with their evidence out."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import polars as pl

from pipeline.clock import system_clock
from pipeline.domains import DnsConfig, DomainFacts
from pipeline.facts import Answer, Mode
from pipeline.frames import ADDRESSES
from pipeline.guard import AddressGuard
from pipeline.lists import Lists
from pipeline.probe_config import StartTls
from pipeline.prober import ProbeConfig, Prober
from pipeline.providers import Provider, Providers
from pipeline.sift import Request, Sifter
from pipeline.syntax import parse
from pipeline.verdict import Result
from tests.mta.world import CLEAN, HELO
from tests.unit.pipeline.smtp_stub import DictCache, OpenDoors

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
        mailboxes: the evidence about the mailbox, by address; without those that needed no asking.
        waited: why addresses had to come back.
    """

    results: dict[str, Result] = field(default_factory=dict)
    mailboxes: dict[str, dict[str, str | int | float]] = field(default_factory=dict)
    waited: set[str] = field(default_factory=set)

    def answers(self) -> dict[str, Answer]:
        """Return what the servers said, by local part."""
        return {
            address.partition("@")[0]: Answer(str(fact["answer"])) for address, fact in self.mailboxes.items()
        }

    def by_local(self) -> dict[str, Result]:
        """Return the results by local part."""
        return {address.partition("@")[0]: result for address, result in self.results.items()}

    def take(self, addresses: pl.DataFrame, finished: pl.DataFrame) -> None:
        """Add the verdicts of one try."""
        told = finished.join(addresses.select("n", "address"), on="n", how="left")
        for address, result, evidence in told.select("address", "result", "evidence").iter_rows():
            assert address not in self.results
            self.results[address] = Result(result)
            mailbox = json.loads(evidence)["mailbox"]
            if mailbox is not None:
                self.mailboxes[address] = mailbox


async def inquire(world: World, raw: Sequence[str], us: Us | None = None) -> Findings:
    """Put addresses through the pipeline, and again as long as servers say "later" and tries are left."""
    us = us or Us()
    parsed = parse(pl.Series(raw)).with_row_index("n")
    addresses = parsed.with_columns(rows=pl.lit(1)).select(
        pl.col(name).cast(kind) for name, kind in ADDRESSES.items()
    )
    findings, frame = Findings(), addresses
    async with _sifter(world, us) as sifter:
        for left in reversed(range(us.tries)):
            request = Request(
                mode=Mode.DEEP, evidence=True, final=left == 0, delays=(_PAUSE,) * us.tries, session_s=20
            )
            sifted = await sifter.sift(frame, request)
            findings.take(addresses, sifted.finished)
            findings.waited |= set(sifted.waiting["reason"])
            if sifted.waiting.is_empty():
                break
            frame = sifted.waiting.select(*ADDRESSES, "tries")
            await asyncio.sleep(_PAUSE)  # the server counts real seconds
    assert set(findings.results) == set(addresses["address"])
    return findings


@asynccontextmanager
async def _sifter(world: World, us: Us) -> AsyncIterator[Sifter]:
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
            session_seconds=20.0,
        ),
        throttle=OpenDoors(),
        providers=providers,
        guard=guard,
        cache=cache,
        clock=system_clock,
        token=lambda: secrets.token_hex(16),
    )
    try:
        yield Sifter(lists=Lists.load(), providers=providers, domains=domains, prober=prober)
    finally:
        await domains.aclose()
