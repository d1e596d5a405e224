"""What fails in the background is logged and counted, ends nothing, and leaves nobody without an answer."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import NoReturn

import pytest
from structlog.testing import capture_logs

from mailsift.pipeline.background import FailureLog, repeating
from mailsift.pipeline.dns import domains, trust
from mailsift.pipeline.dns.client import DnsClient
from mailsift.pipeline.dns.domains import DnsConfig, DomainFacts
from mailsift.pipeline.dns.rules import DnsAnswer, DnsOutcome, RecordType, interpret_exchangers
from mailsift.pipeline.dns.trust import Examiner, ResolverTrust
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.facts import DomainState
from mailsift.pipeline.metrics import UPKEEP_ERRORS
from tests.support.captured_metrics import Counted
from tests.support.installation import until
from tests.unit.pipeline.dns_lies import CANARIES, honest
from tests.unit.pipeline.dns_stub import SILENCE, Says, domain_facts, serving

CONFIG = DnsConfig(canaries=CANARIES, timeout=0.5, tries=3)
ZONE = {
    "mx.host.test": {"A": Says(["127.0.0.9"])},
    **{f"shop{n}.test": {"MX": Says(["10 mx.host.test."])} for n in range(3)},
}


def breaks(*_: object, **__: object) -> NoReturn:
    raise LookupError("nobody thought of this")


async def believed(facts: DomainFacts) -> bool:
    return facts.has_trusted_resolver


async def test_a_turn_that_fails_is_logged_and_counted_and_the_next_one_comes() -> None:
    turns, done = 0, asyncio.Event()

    async def turn() -> None:
        nonlocal turns
        turns += 1
        if turns == 3:
            done.set()
        raise LookupError

    counts = Counted(UPKEEP_ERRORS)
    with capture_logs() as logs:
        async with repeating(turn, every=0.001, task="throttle", at_once=True):
            await done.wait()
    assert {line["event"] for line in logs} == {"throttle.error"}
    assert counts["upkeep_errors_total", "throttle"] == len(logs) == turns


async def test_a_schema_that_is_too_old_is_told_once_a_minute_by_each_task_and_is_no_bug() -> None:
    now = [0.0]
    failures = FailureLog(steady=lambda: now[0])
    old = MailsiftError("database_not_migrated", "Run mailsift migrate.")
    counts = Counted(UPKEEP_ERRORS)
    with capture_logs() as logs:
        for now[0] in (100.0, 105.0, 159.0, 161.0):
            failures.record("sweep", old)
            failures.record("heartbeat", old)
            failures.record("heartbeat", LookupError())
    events = [(line["event"], line["error"]) for line in logs]
    for task in ("sweep.error", "heartbeat.error"):
        assert events.count((task, "database_not_migrated")) == 2
    assert events.count(("heartbeat.error", "builtins.LookupError")) == 4
    assert (counts["upkeep_errors_total", "heartbeat"], counts["upkeep_errors_total", "sweep"]) == (4, 0)


async def test_domains_whose_publication_breaks_off_are_unknown_and_the_next_ones_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with serving({}, honest) as stub, domain_facts(stub, config=CONFIG) as facts:
        with monkeypatch.context() as patched:
            patched.setattr(ResolverTrust, "confirm", breaks)
            found = await facts.lookup(["shop.com", "gone.com"])
        assert {fact.state for fact in found.values()} == {DomainState.UNAVAILABLE}
        assert facts.in_flight == 0
        found = await facts.lookup(["web.com", "lost.net"])
        assert [fact.state for fact in found.values()] == [DomainState.ROUTED, DomainState.NOT_FOUND]


async def test_a_resolver_whose_examination_breaks_off_is_not_believed_and_is_looked_at_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trust, "RECHECK_S", 0.01)
    with monkeypatch.context() as patched:
        patched.setattr(Examiner, "count_denied", breaks)
        patched.setattr(Examiner, "examine", breaks)
        async with serving({}, honest) as stub, domain_facts(stub, config=CONFIG) as facts:
            found = await facts.lookup(["shop.com", "gone.com"])
            assert {fact.state for fact in found.values()} == {DomainState.UNAVAILABLE}
            patched.setattr(DnsClient, "refresh", breaks)  # the system's resolvers cannot be read now
            await asyncio.sleep(0.1)
            patched.undo()
            await until(partial(believed, facts), within=60.0, every=0.01)
            assert (await facts.lookup(["shop.com"]))["shop.com"].state is DomainState.ROUTED


async def test_one_domain_whose_answer_cannot_be_read_is_unknown_and_takes_no_other_along(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = interpret_exchangers
    calls = 0

    def odd(*given: object) -> object:
        nonlocal calls
        calls += 1
        return breaks() if calls == 1 else real(*given)  # type: ignore[arg-type]  # handed on

    monkeypatch.setattr(domains, "interpret_exchangers", odd)
    counts = Counted(UPKEEP_ERRORS)
    async with serving(ZONE) as stub, domain_facts(stub) as facts:
        found = await facts.lookup([f"shop{n}.test" for n in range(3)])
    assert sorted(fact.state for fact in found.values()) == [
        DomainState.ROUTED,
        DomainState.ROUTED,
        DomainState.UNAVAILABLE,
    ]
    assert dict(counts) == {("upkeep_errors_total", "dns"): 1}


async def test_an_answer_that_cannot_be_taken_is_a_failure_and_time_goes_on_for_the_others() -> None:
    async with serving({"late.test": {"A": SILENCE}, "here.test": {"A": Says(["127.0.0.9"])}}) as stub:
        client = DnsClient(servers=[stub.server], timeout=0.2, tries=2)
        outcomes: list[DnsOutcome] = []
        over = asyncio.Event()

        def odd(answer: DnsAnswer) -> None:
            outcomes.append(answer.outcome)
            if answer.outcome is DnsOutcome.FOUND:
                breaks()

        def late(_: DnsAnswer) -> None:
            over.set()
            breaks()

        client.ask("here.test", RecordType.A, odd)
        client.ask("late.test", RecordType.A, late)
        await over.wait()
        over.clear()
        client.ask("late.test", RecordType.A, late)
        await over.wait()
        assert outcomes == [DnsOutcome.FOUND, DnsOutcome.FAILED]
        await client.aclose()
