"""A list with too many unknown recipients leaves their provider alone; a made-up one is not asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from string import ascii_lowercase

import pytest

from mailsift.container import OtherParts, open_container, open_engine, open_service
from mailsift.jobs.engine.chunk import ChunkSizes
from mailsift.jobs.results.breakdown import rows_by_result
from mailsift.jobs.views import AccountId, JobId, JobOptions
from mailsift.pipeline.facts import Mode
from mailsift.pipeline.providers import DEFAULT
from mailsift.pipeline.throttle import StopPolicy, StopRule
from mailsift.sandbox.client import SandboxProcess
from mailsift.settings import Settings
from mailsift.storage.sql import throttles
from mailsift.storage.states import JobState
from tests.support.ready_jobs import work_until_ended

AT = "ordinary.sandbox.test"
BAD = [f"{who}{n}@{AT}" for n in range(60) for who in ("known", "nobody")]
GOOD = [f"known{n}@exim.sandbox.test" for n in range(5)]


@pytest.fixture(scope="module")
def sandbox() -> Iterator[SandboxProcess]:
    with SandboxProcess(domains=20) as running:
        yield running


def parts(policy: StopPolicy) -> OtherParts:
    """Cut a provider's addresses into chunks of 20, and stop at 30 % of 40."""
    cut = ChunkSizes(own_chunk=10, provider_chunk=20)
    return OtherParts(work_plan={"cut": cut, "stop": StopRule(least=40, policy=policy, again=0.2)})


async def submit(
    settings: Settings, folder: Path, rows: list[str], mode: Mode = Mode.DEEP
) -> tuple[AccountId, JobId]:
    source = folder / "list.csv"
    source.write_text("\n".join(["email", *rows]))
    async with open_service(settings) as service:
        account = await service.account("tests")
        return account, await service.submit(account, source, JobOptions(mode=mode))


async def test_a_bad_list_waits_at_its_provider_and_other_lists_do_not(
    settings: Settings, tmp_path: Path
) -> None:
    account, job_id = await submit(settings, tmp_path, [*BAD, *GOOD])
    _, other = await submit(settings, tmp_path, [f"known{n}@{AT}" for n in range(100, 115)])
    async with (
        open_service(settings) as service,
        open_engine(settings, other=parts(StopPolicy.LATER)) as engine,
        open_engine(settings, other=parts(StopPolicy.LATER)) as another,
    ):
        while any(await asyncio.gather(engine.drain(), another.drain())):
            pass
        view, good = await service.get(account, job_id), await service.get(account, other)
    (wait,) = view.waiting
    assert wait.reason == "too_many_missing"
    assert 40 <= view.processed - len(GOOD) < 40 + DEFAULT.recipients
    assert wait.addresses == view.total - view.processed
    assert (good.state, good.valid) == (JobState.COMPLETED, 15)


async def test_what_is_left_ends_as_not_asked_where_operators_say_so(
    settings: Settings, tmp_path: Path
) -> None:
    account, job_id = await submit(settings, tmp_path, [*BAD, *GOOD])
    other = parts(StopPolicy.NOT_ASKED)
    async with open_service(settings) as service, open_engine(settings, other=other) as engine:
        view = await work_until_ended(engine, service, account, job_id)
        async with service.browser.results(account, job_id) as results:
            found = rows_by_result(results)
    assert view.state is JobState.COMPLETED
    assert sum(found.values()) == view.total
    assert 80 - DEFAULT.recipients < found["not_asked"] <= 80
    assert found["deliverable"] - len(GOOD) == found["mailbox_not_found"] == (120 - found["not_asked"]) / 2


@pytest.mark.parametrize(("mode", "state"), [(Mode.DEEP, JobState.FAILED), (Mode.MEDIUM, JobState.COMPLETED)])
async def test_a_list_that_looks_made_up_is_refused_a_deep_run(
    settings: Settings, tmp_path: Path, mode: Mode, state: JobState
) -> None:
    made_up = [f"{a}{b}@{AT}" for a, b in product(ascii_lowercase, repeat=2)]
    account, job_id = await submit(settings, tmp_path, made_up, mode)
    async with open_service(settings) as service, open_engine(settings) as engine:
        view = await work_until_ended(engine, service, account, job_id)
    assert view.state is state
    assert (view.error_code == "looks_harvested") is (state is JobState.FAILED)


async def test_domains_that_opted_out_are_not_asked(
    settings: Settings, tmp_path: Path, sandbox: SandboxProcess
) -> None:
    file = tmp_path / "opt-outs.txt"
    file.write_text(f"# asked by mail\n{AT.upper()}.  # their postmaster\n")
    settings = settings.model_copy(update={"opt_outs": file})
    async with open_container(settings) as container, container.database.begin() as connection:
        await throttles.add_opt_out(connection, "exim.sandbox.test", note="", added_by="tests")
    sandbox.reset()
    account, job_id = await submit(settings, tmp_path, [BAD[0], *GOOD, "known1@postfix-utf8.sandbox.test"])
    async with open_service(settings) as service, open_engine(settings) as engine:
        await work_until_ended(engine, service, account, job_id)
        async with service.browser.results(account, job_id) as results:
            found = rows_by_result(results)
    assert found["not_asked"] == len(GOOD) + 1
    assert not {"ordinary-host.test", "exim-host.test"} & set(sandbox.counters()["rcpts_by_provider"])
