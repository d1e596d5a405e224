"""Lists of one domain only, and of nothing but different domains: they end, exactly, and nothing piles up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from mailsift.jobs.service import JobService
from mailsift.jobs.views import JobOptions
from mailsift.pipeline.dns.domains import DomainFacts
from mailsift.pipeline.facts import DomainFact, Mode
from mailsift.sandbox.client import SandboxProcess
from mailsift.settings import Settings
from mailsift.storage.states import JobState
from tests.support.ready_jobs import Planter, engine_on, work_until_ended


async def test_a_list_of_one_domain_only(
    settings: Settings, planter: Planter, service: JobService, sandbox: SandboxProcess
) -> None:
    given = [f"{who}{n}@ordinary.sandbox.test" for n in range(600) for who in ("known", "nobody")]
    options = JobOptions(mode=Mode.DEEP, max_age=0)
    account, job = await planter.plant(given, chunk=2_000, small=False, options=options)
    sandbox.reset()
    half_unknown = settings.model_copy(update={"stop_share": 0.0})
    async with engine_on(half_unknown) as engine:
        view = await work_until_ended(engine, service, account, job)
    assert (view.state, view.valid, view.invalid, view.risky) == (JobState.COMPLETED, 600, 600, 0)
    seen = sandbox.counters()
    assert seen["dns"]["MX"] < 100  # the domain is looked up once, and canaries
    assert len(given) <= seen["rcpts"] < 2 * len(given)


async def test_a_list_of_nothing_but_different_domains(
    settings: Settings, planter: Planter, service: JobService, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: set[DomainFacts] = set()
    lookup = DomainFacts.lookup

    async def watched(facts: DomainFacts, domains: Sequence[str], **how: Any) -> dict[str, DomainFact]:
        asked.add(facts)
        return await lookup(facts, domains, **how)

    monkeypatch.setattr(DomainFacts, "lookup", watched)
    given = [f"known@apart{n}.flood.sandbox.test" for n in range(6_000)]
    options = JobOptions(mode=Mode.MEDIUM)
    account, job = await planter.plant(given, chunk=1_500, small=False, options=options)
    async with engine_on(settings) as engine:
        view = await work_until_ended(engine, service, account, job)
        assert [facts.in_flight for facts in asked] == [0]
    assert (view.state, view.valid, view.processed) == (JobState.COMPLETED, 6_000, 6_000)


async def test_what_waits_for_a_provider_says_at_how_many_domains_it_is(
    settings: Settings, planter: Planter, service: JobService
) -> None:
    """Each of them is asked for a random recipient, too: a forecast has to know."""
    given = [f"known{n}@apart{n // 2}.flood.sandbox.test" for n in range(1_200)]
    account, job = await planter.plant(given, chunk=2_000, small=False, options=JobOptions(mode=Mode.DEEP))
    async with engine_on(settings) as engine:
        await work_until_ended(engine, service, account, job)
    rows = await planter.sql(
        "SELECT lane, addresses, domains FROM chunk WHERE job_id = :job ORDER BY n", job=job
    )
    triage, *later = [(row["lane"], row["addresses"], row["domains"]) for row in rows]
    assert triage == ("", 1_200, 0)
    assert later[:2] == [("flood-host.test", 1_000, 500), ("flood-host.test", 200, 100)]
