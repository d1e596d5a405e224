"""While a big list is read its domains are looked up, where DNS is asked about all of it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from mailsift.jobs.engine import step
from mailsift.jobs.intake.models import Intake
from mailsift.jobs.intake.process import take_in
from mailsift.jobs.service import JobService
from mailsift.jobs.views import JobOptions
from mailsift.pipeline.facts import Mode
from mailsift.settings import Settings
from mailsift.storage.redis.facts import FactInspector
from mailsift.storage.sql.jobs import SMALL_BYTES
from mailsift.storage.states import JobState
from tests.support.installation import until
from tests.support.ready_jobs import Planter, engine_on, work_until_ended

DOMAIN = "ordinary.sandbox.test"
LINE = "somebody{}@" + DOMAIN + "\n"
MANY = 2 * SMALL_BYTES // len(LINE)
MEDIUM, FAST = JobOptions(mode=Mode.MEDIUM), JobOptions(mode=Mode.FAST)


def written(folder: Path, rows: int) -> Path:
    path = folder / "list.csv"
    path.write_text("email\n" + "".join(LINE.format(n) for n in range(rows)))
    return path


async def test_a_domain_is_known_before_its_list_has_been_read(
    settings: Settings,
    service: JobService,
    redis_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with Redis.from_url(redis_url) as redis:
        facts = FactInspector(redis)

        async def known() -> bool:
            return (await facts.read(DOMAIN)).dns is not None

        async def held(*args: Any, **rest: Any) -> Intake:
            """Read the list, and give it when its domain is known."""
            found = await take_in(*args, **rest)
            await until(known, within=20)
            return found

        monkeypatch.setattr(step, "take_in", held)
        account = await service.account("tests")
        job = await service.submit(account, written(tmp_path, MANY), MEDIUM)
        async with engine_on(settings) as engine:
            view = await work_until_ended(engine, service, account, job)
    assert (view.state, view.valid) == (JobState.COMPLETED, MANY)


@pytest.mark.parametrize(
    ("options", "rows", "test"),
    [
        (MEDIUM, 10, False),
        (MEDIUM, MANY, True),
        (JobOptions(mode=Mode.MEDIUM, preview=10), MANY, False),
        (FAST, MANY, False),
    ],
    ids=["small", "test-account", "preview", "fast"],
)
async def test_a_list_of_which_dns_is_asked_little_or_nothing_is_read_alone(  # noqa: PLR0917 - fixtures
    settings: Settings,
    planter: Planter,
    service: JobService,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: JobOptions,
    rows: int,
    test: bool,
) -> None:
    left: list[list[Path]] = []

    async def seen(source: Path, workdir: Path, **rest: Any) -> Intake:
        found = await take_in(source, workdir, **rest)
        left.append(await asyncio.to_thread(lambda: list(workdir.glob("domains*"))))
        return found

    monkeypatch.setattr(step, "take_in", seen)
    account = await service.account("tests")
    job = await service.submit(account, written(tmp_path, rows), options)
    await planter.sql("UPDATE job SET test = :test", test=test)
    async with engine_on(settings) as engine:
        view = await work_until_ended(engine, service, account, job)
    assert view.state is JobState.COMPLETED
    assert left == [[]]
