"""The prober against every behaviour of the sandbox: the truth comes out, and politely."""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from mailsift.pipeline.dns.domains import DnsConfig, DomainFacts
from mailsift.pipeline.facts import CatchAllFact, DomainFact, Known, MailboxFact, Mode, WaitReason
from mailsift.pipeline.guard import AddressGuard
from mailsift.pipeline.probe.config import ProbeConfig
from mailsift.pipeline.probe.prober import Prober, ProbeRequest
from mailsift.pipeline.probe.queue import ProbeTarget
from mailsift.pipeline.providers import Providers
from mailsift.pipeline.verdict import Evidence, judge
from mailsift.sandbox.behaviours import BEHAVIOURS, VERDICT_BY_DNS, Behaviour
from mailsift.sandbox.server import Sandbox
from mailsift.sandbox.world import SandboxConfig
from tests.unit.pipeline.smtp_stub import DictCache, OpenDoors

ROUTED = [behaviour for behaviour in BEHAVIOURS if behaviour.dns not in VERDICT_BY_DNS]
LOCALS = ("known", "nobody", "full", "disabled", "known1", "known2", "known3", "nobody1", "jürgen")
GREYLIST = 0.4
FEW = ("known", "nobody")  # where an address costs seconds


@asynccontextmanager
async def asking(
    canaries: tuple[str, ...] = (), *, dns_timeout: float = 1.0, port: int = 0
) -> AsyncIterator[tuple[Sandbox, DomainFacts, Prober]]:
    """A sandbox, and DNS and SMTP clients that know nothing yet."""
    config = SandboxConfig(
        domains=20, greylist=GREYLIST, harvest=0.5, minute=0.5, tarpit=0.25, drip=0.1, slow_dns=0.1
    )
    async with Sandbox(config) as sandbox:
        guard, providers = AddressGuard(allow_non_public=True), Providers.load()
        facts = DomainFacts(
            config=DnsConfig(
                servers=(f"127.0.0.1:{sandbox.dns_port}",), timeout=dns_timeout, tries=4, canaries=canaries
            ),
            cache=DictCache(),
            providers=providers,
            guard=guard,
            clock=time.monotonic,
        )
        prober = Prober(
            config=ProbeConfig(
                helo_name="probe.test",
                port=port or sandbox.smtp_port,
                connect_timeout=0.5,
                reply_timeout=3.0,
                session_seconds=4.0,
            ),
            throttle=OpenDoors(),
            providers=providers,
            guard=guard,
            cache=DictCache(),
            clock=time.monotonic,
            token=secrets.token_hex,
        )
        yield sandbox, facts, prober
        await facts.aclose()


@dataclass(slots=True)
class Inquiry:
    """What a patient caller has found out about some addresses."""

    sandbox: Sandbox
    prober: Prober
    facts: dict[str, DomainFact] = field(default_factory=dict)
    mailboxes: dict[str, MailboxFact] = field(default_factory=dict)
    catch_alls: dict[str, CatchAllFact] = field(default_factory=dict)

    async def ask(self, targets: list[ProbeTarget], *, tries: int = 6) -> None:
        """Ask, and come back as the engine would: at once with more patience, or later."""
        for attempt in range(tries):
            session_s = 1.5 if attempt == 0 else 4.0
            probed = await self.prober.probe(targets, ProbeRequest(session_s=session_s))
            self.mailboxes |= probed.mailboxes
            self.catch_alls |= probed.catch_alls
            targets = [target for target in targets if target.address in probed.waits]
            if not targets:
                return
            if any(wait.reason is not WaitReason.SLOW for wait in probed.waits.values()):
                await asyncio.sleep(max(GREYLIST, 1.1))

    def disagreements(self) -> dict[str, tuple[str, str, MailboxFact]]:
        """Return what the sandbox knows better: address -> (expected, found, fact)."""
        wrong = {}
        for address, fact in self.mailboxes.items():
            domain = address.rpartition("@")[2]
            known = self.catch_alls.get(domain)
            verdict = judge(
                Evidence(
                    Mode.DEEP,
                    domain=self.facts[domain].state,
                    catch_all=known.catch_all if known else Known.UNKNOWN,
                    answer=fact.answer,
                    smtp_code=fact.smtp_code,
                    blanket=fact.blanket,
                )
            )
            truth = self.sandbox.world.truth(address).deep
            expected = f"{truth.status} {truth.result or verdict.result}"
            found = f"{verdict.status} {verdict.result}"
            if found != expected:
                wrong[address] = expected, found, fact
        return wrong


async def inquire(behaviours: list[Behaviour], locals_: tuple[str, ...]) -> tuple[Inquiry, float]:
    """Ask about these people at the scenario domains; return what came out and the seconds it took."""
    async with asking() as (sandbox, facts, prober):
        inquiry = Inquiry(sandbox, prober)
        inquiry.facts = await facts.lookup([behaviour.domain for behaviour in behaviours])
        targets = [
            ProbeTarget(f"{local}@{fact.domain}", fact)
            for fact in inquiry.facts.values()
            for local in locals_
        ]
        started = time.monotonic()
        await inquiry.ask(targets)
        return inquiry, time.monotonic() - started


async def test_every_prompt_behaviour_gets_its_true_verdict() -> None:
    behaviours = [behaviour for behaviour in ROUTED if not behaviour.slow]
    inquiry, _ = await inquire(behaviours, LOCALS)
    assert inquiry.disagreements() == {}
    assert len(inquiry.mailboxes) == len(behaviours) * len(LOCALS)
    seen = inquiry.sandbox.counters.snapshot()
    assert max(seen["peak_sessions_by_host"].values()) <= 5
    assert seen["open_sessions"] == 0
    assert seen["data"] == seen["control_bytes"] == 0
    assert seen["starttls"] > 0


async def test_slow_and_hostile_servers_end_in_bounded_time_with_their_true_verdict() -> None:
    behaviours = [behaviour for behaviour in ROUTED if behaviour.slow]
    inquiry, seconds = await inquire(behaviours, FEW)
    assert inquiry.disagreements() == {}
    assert len(inquiry.mailboxes) == len(behaviours) * len(FEW)
    assert seconds < 25


@pytest.mark.parametrize("name", ["recipients-421", "recipients-452", "connections", "no-pipelining"])
async def test_limits_of_a_server_cost_sessions_not_verdicts(name: str) -> None:
    behaviours = [behaviour for behaviour in ROUTED if behaviour.name == name]
    people = tuple(f"{kind}{n}" for n in range(30) for kind in FEW)
    inquiry, _ = await inquire(behaviours, people)
    assert inquiry.disagreements() == {}
    assert len(inquiry.mailboxes) == 60
    randoms = [address for address in inquiry.mailboxes if not re.match("known|nobody", address)]
    assert randoms == []
    (rcpts,) = inquiry.sandbox.counters.snapshot()["rcpts_by_provider"].values()
    assert rcpts < 60 * 2.5


async def test_a_defence_against_harvesting_costs_time_and_no_mailbox() -> None:
    (harvest,) = [behaviour for behaviour in ROUTED if behaviour.name == "harvest-defence"]
    names = tuple(f"{kind}{n}" for n in range(10) for kind in ("nobody", "known"))
    inquiry, _ = await inquire([harvest], names)
    assert inquiry.disagreements() == {}
    assert len(inquiry.mailboxes) == len(names)


@pytest.mark.parametrize("name", ["rate-minute", "directory-away"])
async def test_a_server_that_says_later_in_the_middle_costs_time_and_no_mailbox(name: str) -> None:
    people = tuple(f"{kind}{n}" for n in range(12) for kind in FEW)
    inquiry, _ = await inquire([behaviour for behaviour in ROUTED if behaviour.name == name], people)
    assert inquiry.disagreements() == {}
    assert len(inquiry.mailboxes) == len(people)


async def test_a_domain_that_changes_gets_the_verdict_of_today_both_ways() -> None:
    name = "ordinary.sandbox.test"
    async with asking() as (sandbox, facts, prober):
        fact = (await facts.lookup([name]))[name]
        for number, behaviour in enumerate(("ordinary", "catch-all", "ordinary")):
            sandbox.world.change(name, behaviour)
            # Who is known to accept everybody is not asked, so only a young fact may say so.
            max_age = 86_400.0 if number < 2 else 0.0
            target = ProbeTarget(f"known{number}@{name}", fact)
            probed = await prober.probe([target], ProbeRequest(session_s=4, max_age=max_age))
            expected = Known.YES if behaviour == "catch-all" else Known.NO
            assert probed.catch_alls[name].catch_all is expected
