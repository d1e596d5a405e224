"""When jobs end, asked of a real database and Redis: chunks, edits, penalties and workers all count."""

from __future__ import annotations

from uuid import UUID

import pytest

from mailsift.container import open_container
from mailsift.jobs.admin.actions import Operations
from mailsift.jobs.service import JobService
from mailsift.jobs.views import AccountId, JobId, JobOptions, JobSnapshot
from mailsift.pipeline.facts import Mode
from mailsift.pipeline.throttle import Ask
from mailsift.settings import Settings
from tests.support.ready_jobs import Planter

DEEP = JobOptions(mode=Mode.DEEP)
ADDRESSES = [f"user{n}@example.com" for n in range(100)]


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """The installation with the rates of the provider table."""
    return settings.model_copy(update={"overrides": None})


async def worker(planter: Planter) -> None:
    """Let somebody be there to work."""
    await planter.sql(
        """INSERT INTO worker (owner, crew, host, pid, version, slots, in_hand, lag_s, rss_bytes, beat_s)
           VALUES ('w', 'w', 'here', 1, '', 4, 0, 0, 0, 10)"""
    )


async def at_google(
    planter: Planter, account: str = "tests", *, ready_in: float = 0.0
) -> tuple[AccountId, JobId]:
    """Insert a running job that waits for google with 100 addresses."""
    found = await planter.plant(ADDRESSES, options=DEEP, small=False, account=account)
    await planter.sql(
        """UPDATE chunk SET lane = 'google', ready_at = clock_timestamp() + make_interval(secs => :ready_in)
           WHERE job_id = :job""",
        job=found[1],
        ready_in=ready_in,
    )
    return found


async def seconds(settings: Settings, account: UUID, job: UUID) -> float | None:
    """Ask a service that remembers nothing."""
    async with open_container(settings) as container:
        view = await container.jobs.get(AccountId(account), JobId(job))
        return JobSnapshot(view, container.clock()).eta_seconds


async def test_a_provider_takes_what_its_rate_allows(settings: Settings, planter: Planter) -> None:
    await worker(planter)
    account, job = await at_google(planter)
    assert await seconds(settings, account, job) == 25.1  # 50 at once, 50 at 2/s, 0.1 s lost a turn of 50
    await planter.sql("UPDATE job SET state = 'paused' WHERE id = :job", job=job)
    assert await seconds(settings, account, job) is None


async def test_nobody_can_say_while_there_is_no_worker(settings: Settings, planter: Planter) -> None:
    account, job = await at_google(planter)
    assert await seconds(settings, account, job) is None


@pytest.mark.parametrize(("mode", "expected"), [(Mode.MEDIUM, 0.2), (Mode.DEEP, 8.3)])
async def test_a_list_that_nobody_has_read_has_a_time_too(
    settings: Settings, planter: Planter, ops: Operations, mode: Mode, expected: float
) -> None:
    await worker(planter)
    account, job = await planter.plant(ADDRESSES, options=JobOptions(mode=mode))
    await planter.sql("UPDATE job SET state = 'intake', source_bytes = 30000 WHERE id = :job", job=job)
    assert await seconds(settings, account, job) == expected  # 1,000 addresses by its size
    assert (await ops.console.overview()).left.seconds == pytest.approx(expected, abs=0.06)


async def test_a_reading_or_a_finish_that_was_given_back_is_waited_for(
    settings: Settings, planter: Planter
) -> None:
    await worker(planter)
    account, job = await planter.plant(ADDRESSES, options=JobOptions(mode=Mode.MEDIUM))
    for state, seconds_after in (("intake", 0.2), ("finalizing", 0.0)):
        await planter.sql(
            """UPDATE job SET state = :state, source_bytes = 30000, step_waits_for = 'memory',
                   step_token = NULL, step_until = clock_timestamp() + interval '900 s'""",
            state=state,
        )
        found = await seconds(settings, account, job)
        assert found is not None
        assert 880 < found - seconds_after <= 900.1
        await planter.sql("UPDATE job SET step_token = gen_random_uuid()")
        assert await seconds(settings, account, job) == seconds_after


async def test_another_account_s_job_is_in_line_too(settings: Settings, planter: Planter) -> None:
    await worker(planter)
    account, job = await at_google(planter)
    await at_google(planter, "others")
    assert await seconds(settings, account, job) == 75.3


async def test_a_job_that_has_to_wait_for_its_time_is_in_line_only_with_who_does_too(
    settings: Settings, planter: Planter
) -> None:
    """It has left the provider alone for an hour, say, as too many of its addresses did not exist."""
    await worker(planter)
    account, job = await at_google(planter)
    await at_google(planter, "others", ready_in=600.0)
    await at_google(planter, ready_in=600.0)
    assert await seconds(settings, account, job) == 25.1
    await planter.sql("UPDATE chunk SET ready_at = clock_timestamp() + interval '600 s'")
    found = await seconds(settings, account, job)
    assert found is not None
    assert 700 < found < 740


async def test_greylisting_is_waited_for(settings: Settings, planter: Planter) -> None:
    await worker(planter)
    account, job = await at_google(planter, ready_in=600.0)
    found = await seconds(settings, account, job)
    assert found is not None
    assert 620 < found <= 630


async def test_a_server_that_has_put_us_off_twice_is_expected_to_go_on_so(
    settings: Settings, planter: Planter
) -> None:
    """The chunk that waits was left over by one that had waited, too, as the names of their blobs tell."""
    settings = settings.model_copy(update={"greylist_delays": (300.0, 900.0, 3_600.0)})
    await worker(planter)
    account, job = await at_google(planter, ready_in=600.0)
    await planter.sql(
        """INSERT INTO chunk (job_id, n, state, lane, waits_for, addresses, source_key)
           VALUES (:job, 1, 'done', 'google', 'greylisted', 100, 'jobs/x/residual/7-x.parquet')""",
        job=job,
    )
    left_over = "UPDATE chunk SET waits_for = :reason, source_key = :key WHERE job_id = :job AND n = 0"
    key = "jobs/x/residual/1-x.parquet"
    for reason, more in (("throttled", 0), ("deferred", 3_600)):
        await planter.sql(left_over, job=job, reason=reason, key=key)
        found = await seconds(settings, account, job)
        assert found is not None
        assert 620 < found - more <= 630
    await planter.sql("UPDATE chunk SET waits_for = 'throttled' WHERE job_id = :job AND n = 1", job=job)
    assert (await seconds(settings, account, job) or 0) <= 630


async def test_what_was_asked_just_now_is_still_to_be_paid_for(settings: Settings, planter: Planter) -> None:
    await worker(planter)
    account, job = await at_google(planter)
    async with open_container(settings) as container:
        await (await container.throttle(edited=False)).grant([Ask("google", "", "192.0.2.1", 50)])
    found = await seconds(settings, account, job)
    assert found is not None
    assert 35 < found <= 50.2


@pytest.mark.parametrize("is_gone", [False, True])
async def test_what_a_worker_holds_that_is_gone_waits_for_the_end_of_its_lease(
    settings: Settings, planter: Planter, service: JobService, *, is_gone: bool
) -> None:
    await worker(planter)
    account, job = await at_google(planter)
    await planter.sql(
        """UPDATE chunk SET state = 'leased', lease_token = gen_random_uuid(), lease_owner = :owner,
               lease_until = clock_timestamp() + interval '600 s' WHERE job_id = :job""",
        job=job,
        owner="gone" if is_gone else "w",
    )
    found, view = await seconds(settings, account, job), await service.get(account, job)
    assert found is not None
    if is_gone:
        assert 580 < found <= 625.1
        (wait,) = view.waiting
        assert (wait.throttle_key, wait.reason, wait.addresses) == ("google", "worker_gone", 100)
    else:
        assert (found, view.waiting) == (25.1, ())


async def test_nothing_is_waited_for_beyond_the_deadline(
    settings: Settings, planter: Planter, ops: Operations
) -> None:
    await worker(planter)
    account, job = await at_google(planter, ready_in=600.0)
    await planter.sql(
        "UPDATE job SET deadline_at = clock_timestamp() + interval '300 s' WHERE id = :job", job=job
    )
    found, of_all = await seconds(settings, account, job), (await ops.console.overview()).left.seconds
    assert found is not None
    assert of_all is not None
    assert 270 < found <= 302
    assert 270 < of_all <= 302


async def test_an_edit_and_a_hold_count_at_once(
    settings: Settings, planter: Planter, ops: Operations
) -> None:
    await worker(planter)
    account, job = await at_google(planter)
    await planter.sql(
        "INSERT INTO throttle_edit (provider, source, rate, edited_by) VALUES ('google', '*', 1.0, 'olga')"
    )
    assert await seconds(settings, account, job) == 50.1
    assert (await ops.console.overview()).left.seconds == 50.1
    await ops.throttles.hold("olga", "google", "*", seconds=0)
    assert await seconds(settings, account, job) is None
    left = (await ops.console.overview()).left
    assert (left.seconds, left.reason) == (None, "google: 100 addresses, held by an operator")


async def test_while_every_source_is_held_small_providers_are_not_asked_either(
    settings: Settings, planter: Planter, ops: Operations
) -> None:
    await worker(planter)
    await planter.sql("UPDATE worker SET sources = ARRAY['192.0.2.1', '192.0.2.2']")
    account, job = await planter.plant(ADDRESSES, options=DEEP, small=False)
    await planter.sql("UPDATE chunk SET lane = '*'")
    unread = await planter.plant(ADDRESSES, options=DEEP)
    await planter.sql("UPDATE job SET state = 'intake', source_bytes = 3000 WHERE id = :job", job=unread[1])
    await ops.throttles.hold("olga", "*", "192.0.2.1", seconds=0)
    assert (await seconds(settings, account, job) or 99) < 10, "the other source asks"
    await ops.throttles.hold("olga", "*", "192.0.2.2", seconds=600)
    for found in [await seconds(settings, *one) for one in ((account, job), unread)]:
        assert found is not None
        assert 590 < found < 610
    await ops.throttles.hold("olga", "*", "192.0.2.2", seconds=0)
    assert await seconds(settings, account, job) is None
    assert await seconds(settings, *unread) is None
    left = (await ops.console.overview()).left
    assert left.reason == "many small providers: 100 addresses, held by an operator"
    await planter.sql("UPDATE job SET deadline_at = clock_timestamp() + interval '300 s'")
    found = await seconds(settings, account, job)
    assert found is not None
    assert 270 < found <= 302


async def test_what_is_not_looked_at_falls_to_providers_as_the_rest_did(
    settings: Settings, planter: Planter
) -> None:
    """Of 200 addresses that were looked at half are google's: 100 more make 150 there."""
    await worker(planter)
    account, job = await planter.plant(ADDRESSES * 3, chunk=200, options=DEEP, small=False)
    await planter.sql(
        """UPDATE chunk SET state = 'done', leased_at = clock_timestamp() - interval '10 seconds'
           WHERE job_id = :job AND n = 0""",
        job=job,
    )
    await planter.sql(
        """INSERT INTO chunk (job_id, n, lane, addresses, source_key)
           VALUES (:job, 2, 'google', 100, 'jobs/x/residual/0-abc.parquet')""",
        job=job,
    )
    await planter.sql(
        "UPDATE job SET state = 'running', started_at = clock_timestamp() WHERE id = :job", job=job
    )
    assert await seconds(settings, account, job) == 50.2


async def test_the_list_of_jobs_says_the_same(planter: Planter, service: JobService) -> None:
    await worker(planter)
    account, job = await at_google(planter)
    (view,) = (await service.page(account, limit=10)).jobs
    assert view.id == job
    assert view.time_left is not None
    assert view.time_left.seconds == pytest.approx(25.1)
    assert view.time_left.reason == "google: 100 addresses at 2/s"


async def test_what_triage_puts_in_line_counts_once_however_old_the_picture_of_the_others_is(
    settings: Settings, planter: Planter
) -> None:
    await worker(planter)
    account, job = await planter.plant(ADDRESSES, options=DEEP, small=False)
    await planter.sql("""UPDATE chunk SET free_mail = '{"google": 100}' WHERE job_id = :job""", job=job)
    async with open_container(settings) as container:

        async def seconds_left() -> float | None:
            return JobSnapshot(await container.jobs.get(account, job), container.clock()).eta_seconds

        before = await seconds_left()
        await planter.sql("UPDATE chunk SET state = 'done' WHERE job_id = :job", job=job)
        await planter.sql(
            """INSERT INTO chunk (job_id, n, lane, addresses, source_key)
               VALUES (:job, 1, 'google', 100, 'jobs/x/residual/0-abc.parquet')""",
            job=job,
        )
        assert before == await seconds_left() == 25.1


async def test_a_plan_counts_the_addresses_to_go_however_many_rows_they_carry(
    settings: Settings, planter: Planter
) -> None:
    account, job = await planter.plant(ADDRESSES[:3], options=DEEP, small=False, chunk=1)
    await planter.sql("UPDATE chunk SET state = 'done' WHERE n = 0")  # which stands in most rows of the list
    await planter.sql("UPDATE chunk SET lane = 'google' WHERE n > 0")
    await planter.sql("UPDATE job SET state = 'running', total = 100, processed = 98, valid = 98, send = 98")
    async with open_container(settings) as container:
        plan = await container.plans.plan(account, job)
        assert (plan.addresses, plan.probes) == (2, {"google": 2})
        await container.jobs.cancel(account, job)
        plan = await container.plans.plan(account, job)
        assert (plan.addresses, plan.probes, plan.left.seconds) == (2, {}, 0.0)


async def test_a_plan_asks_for_no_more_mailboxes_than_it_has_addresses(
    settings: Settings, planter: Planter
) -> None:
    """Of seven four are looked at, half of them at each provider, and so one and a half of the rest are."""
    account, job = await planter.plant(ADDRESSES[:7], options=DEEP, small=False, chunk=4)
    await planter.sql("UPDATE chunk SET state = 'done' WHERE n = 0")
    await planter.sql(
        """INSERT INTO chunk (job_id, n, lane, addresses, source_key, state)
           VALUES (:job, 2, 'google', 2, 'jobs/x/residual/0-abc.parquet', 'done'),
                  (:job, 3, 'microsoft365', 2, 'jobs/x/residual/0-abc.parquet', 'done')""",
        job=job,
    )
    async with open_container(settings) as container:
        plan = await container.plans.plan(account, job)
    assert plan.addresses == 3
    assert sorted(plan.probes) == ["google", "microsoft365"]
    assert sum(plan.probes.values()) == 3
