"""What operators do to jobs, facts and deliveries: to one or to all that match, and always written down."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest

from mailsift.jobs.admin.actions import MOST_AT_ONCE, JobAction, Operations
from mailsift.jobs.service import JobService
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.facts import (
    CacheEntry,
    CatchAllFact,
    DomainFact,
    DomainState,
    FactKind,
    Known,
    MxHost,
    encode_domain,
)
from mailsift.pipeline.probe.cache import RememberedCatchAll, pack_catch_all
from mailsift.settings import Settings
from mailsift.storage.redis.facts import RedisFactCache
from mailsift.storage.sql.jobs import JobFilter
from mailsift.storage.states import JobState
from tests.support.busy_installation import fill, sql
from tests.support.parts import open_redis
from tests.support.ready_jobs import Planter, engine_on, work_until_ended

ADDRESSES = [f"user{n}@example.com" for n in range(6)] + ["no address"]


async def test_an_order_reaches_all_that_match_and_only_those(settings: Settings, ops: Operations) -> None:
    await fill(settings)
    acme = JobFilter(account="acme", states=("running", "queued"))
    before = (await ops.console.jobs(acme)).matching
    assert before > 1
    paused = await ops.jobs.all_matching("olga", JobAction.PAUSE, acme)
    assert (paused.done, dict(paused.refused)) == (before, {})
    states = await sql(
        settings,
        "SELECT a.name, j.state, count(*) FROM job j JOIN account a ON a.id = j.account_id"
        " WHERE j.state IN ('running', 'queued', 'paused') GROUP BY 1, 2",
    )
    assert {row["state"] for row in states if row["name"] == "acme"} == {"paused"}
    assert {row["state"] for row in states if row["name"] != "acme"} == {"running", "queued"}
    resumed = await ops.jobs.all_matching("olga", JobAction.RESUME, JobFilter(account="acme"))
    assert resumed.done >= before
    assert set(resumed.refused) == {"job_state_conflict"}
    lines = await ops.console.audit(limit=500)
    assert sum(line.action == "job.pause" for line in lines) == before
    (whole,) = [line for line in lines if line.action == "jobs.pause"]
    assert (whole.detail["jobs"], whole.detail["account"], whole.account_id) == (before, "acme", None)
    assert all(line.account_id is not None for line in lines if line.action == "job.pause")


async def test_cancelled_by_an_operator_a_job_keeps_its_verdicts_and_tells_its_owner(
    ops: Operations, planter: Planter, service: JobService
) -> None:
    account, job = await planter.plant(ADDRESSES, chunk=2)
    await ops.jobs.one("olga", JobAction.CANCEL, job)
    view = await service.get(account, job)
    assert (view.state, view.error_code) == (JobState.CANCELLED, "cancelled")
    (event,) = await planter.events(job)
    assert event["data"]["error"].startswith("cancelled: The job was cancelled by an operator")
    assert {row["state"] for row in await planter.sql("SELECT state FROM chunk")} == {"cancelled"}
    with pytest.raises(MailsiftError) as refused:
        await ops.jobs.one("olga", JobAction.CANCEL, job)
    assert refused.value.code == "job_state_conflict"


async def test_a_change_and_its_line_in_the_log_happen_together_or_not_at_all(
    ops: Operations, planter: Planter, service: JobService
) -> None:
    account, job = await planter.plant(ADDRESSES)
    await planter.sql("ALTER TABLE audit ADD CONSTRAINT nothing_today CHECK (action <> 'job.pause')")
    with pytest.raises(Exception, match="nothing_today"):
        await ops.jobs.one("olga", JobAction.PAUSE, job)
    assert (await service.get(account, job)).state is JobState.QUEUED


async def test_a_priority_counts_from_the_next_claim_on_and_is_set_once(
    ops: Operations, planter: Planter
) -> None:
    _, job = await planter.plant(ADDRESSES)
    await ops.jobs.one("olga", JobAction.LOWER, job)
    (row,) = await planter.sql("SELECT options->>'priority' AS priority, options->>'mode' AS mode FROM job")
    assert (row["priority"], row["mode"]) == ("low", "fast")
    with pytest.raises(MailsiftError) as refused:
        await ops.jobs.one("olga", JobAction.LOWER, job)
    assert refused.value.code == "job_state_conflict"


async def test_an_order_that_would_reach_too_many_does_nothing(settings: Settings, ops: Operations) -> None:
    await fill(settings)
    with pytest.raises(MailsiftError) as refused:
        await ops.jobs.all_matching("olga", JobAction.RETRY, JobFilter())
    assert refused.value.code == "too_many_jobs"
    assert MOST_AT_ONCE[JobAction.RETRY] == 50
    assert await ops.console.audit() == []


async def test_a_retry_starts_a_new_job_for_the_same_account(
    settings: Settings, ops: Operations, planter: Planter, service: JobService
) -> None:
    account, job = await planter.plant(ADDRESSES)
    async with engine_on(settings) as engine:
        await work_until_ended(engine, service, account, job)
    done = await ops.jobs.all_matching("olga", JobAction.RETRY, JobFilter())
    assert (done.done, dict(done.refused)) == (0, {"nothing_to_retry": 1})


async def test_a_domain_is_looked_up_and_forgotten(settings: Settings, ops: Operations) -> None:
    redis = open_redis(settings)
    cache = RedisFactCache(redis)
    dns = DomainFact("example.com", DomainState.ROUTED, (MxHost("mx.example.com", 10, ("192.0.2.1",)),), "mx")
    catch_all = CatchAllFact("example.com", Known.NO, 550, "no such user")
    await cache.put(FactKind.DOMAIN, [CacheEntry("example.com", encode_domain(dns), 100)])
    packed = pack_catch_all(RememberedCatchAll(catch_all, "", "", ()))
    await cache.put(FactKind.CATCH_ALL, [CacheEntry("example.com", packed, 500)])
    await redis.aclose()
    found = await ops.console.facts("anna@Example.COM")
    assert found is not None
    assert (found.domain, found.dns, found.catch_all) == ("example.com", dns, catch_all)
    assert 90 < found.dns_left_s <= 100 < found.catch_all_left_s <= 500
    assert await ops.throttles.forget("olga", "example.com") == 2
    again = await ops.console.facts("example.com")
    assert again is not None
    assert again.empty
    (line,) = await ops.console.audit()
    assert (line.action, line.subject) == ("facts.forget", "example.com")


async def test_what_was_given_up_is_sent_again(settings: Settings, ops: Operations) -> None:
    await fill(settings)
    _, endpoints = await ops.console.deliveries()
    failing = next(one for one in endpoints if one.failures)
    disabled = next(one for one in endpoints if not one.enabled)
    assert failing.given_up > 0
    assert await ops.actions.replay("olga", failing.id, hours=24) == failing.given_up
    _, after = await ops.console.deliveries()
    again = next(one for one in after if one.id == failing.id)
    assert (again.given_up, again.pending) == (0, failing.pending + failing.given_up)
    for endpoint_id, code in ((disabled.id, "webhook_disabled"), (uuid4(), "webhook_not_found")):
        with pytest.raises(MailsiftError) as refused:
            await ops.actions.replay("olga", UUID(str(endpoint_id)), hours=24)
        assert refused.value.code == code
    (line,) = await ops.console.audit()
    assert (line.action, line.detail["deliveries"]) == ("delivery.replay", failing.given_up)
    assert line.account_id is not None
