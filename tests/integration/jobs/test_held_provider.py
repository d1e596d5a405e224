"""A job whose provider refuses us shows what it waits for, and ends `probe_blocked` when nobody can wait."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mailsift.container import open_engine, open_service
from mailsift.jobs.results.breakdown import rows_by_result
from mailsift.jobs.views import AccountId, JobId, JobOptions
from mailsift.pipeline.providers import Providers
from mailsift.pipeline.throttle import Ask, Report, SessionOutcome
from mailsift.sandbox.client import SandboxProcess
from mailsift.settings import Settings
from mailsift.storage.redis.throttle import RedisThrottle
from mailsift.storage.states import JobState
from tests.support.parts import open_redis
from tests.support.ready_jobs import work_until_ended

HELD = "ordinary-host.test"  # the provider of ordinary.sandbox.test
LIST = "email\nknown1@ordinary.sandbox.test\nnobody1@ordinary.sandbox.test\nknown1@exim.sandbox.test\n"


@pytest.fixture(scope="module")
def sandbox() -> Iterator[SandboxProcess]:
    with SandboxProcess(domains=20) as running:
        yield running


async def refuse_five_times(settings: Settings) -> None:
    redis = open_redis(settings)
    throttle = RedisThrottle(redis, row=Providers.load(settings.overrides).row)
    await throttle.report([Report(Ask(HELD, "", "127.0.0.1", 1), "", SessionOutcome.BLOCKED)] * 5)
    await redis.aclose()


async def submit(settings: Settings, folder: Path, options: JobOptions) -> tuple[AccountId, JobId]:
    source = folder / "list.csv"
    source.write_text(LIST)
    async with open_service(settings) as service:
        account = await service.account("tests")
        return account, await service.submit(account, source, options)


async def test_the_job_shows_that_it_waits_for_a_provider_that_refuses_us(
    settings: Settings, tmp_path: Path
) -> None:
    await refuse_five_times(settings)
    account, job_id = await submit(settings, tmp_path, JobOptions())
    async with open_service(settings) as service, open_engine(settings) as engine:
        await engine.drain()
        view = await service.get(account, job_id)
    (wait,) = view.waiting
    assert (wait.reason, wait.addresses) == ("blocked", 2)
    assert timedelta(minutes=14) < wait.until - datetime.now(UTC) < timedelta(minutes=16)  # noqa: TID251 - real time
    assert (view.state, view.processed, view.valid, view.warning) == (JobState.RUNNING, 1, 1, "")


async def test_a_deadline_ends_the_waiting_with_probe_blocked(
    settings: Settings, tmp_path: Path, sandbox: SandboxProcess
) -> None:
    await refuse_five_times(settings)
    sandbox.reset()
    account, job_id = await submit(settings, tmp_path, JobOptions(deadline_s=0.001))
    async with open_service(settings) as service, open_engine(settings) as engine:
        view = await work_until_ended(engine, service, account, job_id)
        async with service.browser.results(account, job_id) as results:
            found = rows_by_result(results)
    assert view.state is JobState.COMPLETED
    assert found == {"probe_blocked": 2, "deliverable": 1}
    assert HELD not in sandbox.counters()["rcpts_by_provider"]
