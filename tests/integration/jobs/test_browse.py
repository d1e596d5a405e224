"""Results looked at while a job runs and after, over real blobs and a real engine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mailsift.jobs.results import breakdown
from mailsift.jobs.results.breakdown import Breakdown
from mailsift.jobs.results.browse import Browser, PageRequest, RowFilter
from mailsift.jobs.service import JobService
from mailsift.jobs.views import AccountId, JobId, JobOptions
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.facts import Mode
from mailsift.pipeline.verdict import Status
from mailsift.settings import Settings
from mailsift.storage.blobs import Blobs, JobBlobs
from mailsift.storage.states import JobState
from tests.support.parts import open_blobs, open_database
from tests.support.ready_jobs import FAST, Planter, engine_on, work_until_ended

ADDRESSES = [
    *(f"user{n}@example.com" for n in range(6)),
    "broken",
    "info@mailinator.com",
    "ann@gmial.com",
    "JOE@example.org",
]


LATER = "UPDATE chunk SET ready_at = 'infinity' WHERE n >= 1"
NOW = "UPDATE chunk SET ready_at = now()"
ALL = RowFilter()


class Ticks:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def ticks() -> Ticks:
    return Ticks()


@pytest.fixture
def blobs(settings: Settings) -> Blobs:
    return open_blobs(settings)


@pytest.fixture
async def browser(settings: Settings, blobs: Blobs, ticks: Ticks, tmp_path: Path) -> AsyncIterator[Browser]:
    database = open_database(settings)
    yield Browser(database=database, blobs=blobs, scratch=tmp_path, monotonic=ticks)
    await database.aclose()


async def seen(
    browser: Browser, account: AccountId, job_id: JobId, wanted: RowFilter = ALL, **how: Any
) -> list[str]:
    page = await browser.page(account, job_id, wanted, PageRequest(**how))
    return [row.address for row in page.rows]


async def test_a_job_that_runs_shows_the_rows_it_has_and_then_all(
    settings: Settings, planter: Planter, service: JobService, browser: Browser
) -> None:
    account, job_id = await planter.plant(ADDRESSES, chunk=4)
    for look in (
        browser.page(account, job_id, RowFilter(), PageRequest()),
        browser.breakdown(account, job_id),
    ):
        with pytest.raises(MailsiftError, match="no verdicts yet"):
            await look
    await planter.sql(LATER)
    async with engine_on(settings) as engine:
        await engine.drain()
        assert await seen(browser, account, job_id) == ADDRESSES[:4]
        part = await browser.breakdown(account, job_id)
        assert (part.rows, part.domain_count) == (4, 1)
        await planter.sql(NOW)
        view = await work_until_ended(engine, service, account, job_id)
    assert view.state is JobState.COMPLETED
    assert await seen(browser, account, job_id) == ADDRESSES
    assert await seen(browser, account, job_id, after=7, limit=1) == ADDRESSES[8:9]
    assert await seen(browser, account, job_id, RowFilter(statuses=frozenset({Status.INVALID}))) == ["broken"]
    assert await seen(browser, account, job_id, RowFilter(domain="example.org")) == ["JOE@example.org"]
    breakdown = await browser.breakdown(account, job_id)
    assert (breakdown.rows, breakdown.domain_count, breakdown.providers) == (10, 4, ())
    row = await browser.row(account, job_id, 6)
    assert (row.address, row.verdict["result"], row.evidence) == ("broken", "syntax_error", {})
    with pytest.raises(MailsiftError, match="no such row"):
        await browser.row(account, job_id, 10)


@pytest.mark.parametrize("look", ["page", "breakdown", "row"])
async def test_a_job_that_completes_while_somebody_reads_is_read_again(
    *,
    look: str,
    settings: Settings,
    planter: Planter,
    service: JobService,
    browser: Browser,
    blobs: Blobs,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    account, job_id = await planter.plant(ADDRESSES, chunk=4)
    await planter.sql(LATER)
    async with engine_on(settings) as engine:
        await engine.drain()
        fetch = blobs.fetch

        async def slow(key: str) -> Path:
            path = await fetch(key)
            monkeypatch.undo()
            await planter.sql(NOW)
            await work_until_ended(engine, service, account, job_id)
            assert not path.exists(), "the segments go when the job is complete"
            return path

        monkeypatch.setattr(blobs, "fetch", slow)
        if look == "page":
            assert await seen(browser, account, job_id) == ADDRESSES
        elif look == "row":
            assert (await browser.row(account, job_id, 9)).address == ADDRESSES[9]
        else:
            assert (await browser.breakdown(account, job_id)).rows == len(ADDRESSES)


async def test_the_breakdown_of_a_job_that_runs_is_counted_again_after_a_while(
    settings: Settings, planter: Planter, service: JobService, browser: Browser, ticks: Ticks
) -> None:
    account, job_id = await planter.plant(ADDRESSES, chunk=4)
    await planter.sql(LATER)
    async with engine_on(settings) as engine:
        await engine.drain()
        first = await browser.breakdown(account, job_id)
        await planter.sql("UPDATE chunk SET ready_at = now() WHERE n = 1")
        await engine.drain()
        assert await browser.breakdown(account, job_id) is first
        ticks.now += 6
        assert (await browser.breakdown(account, job_id)).rows == 8
        await service.cancel(account, job_id)
    ticks.now += 6
    assert (await browser.breakdown(account, job_id)).rows == 8  # what a cancelled job found is kept
    assert await seen(browser, account, job_id) == ADDRESSES[:8]


async def test_a_complete_job_keeps_its_breakdown_with_the_providers(
    settings: Settings, planter: Planter, service: JobService, browser: Browser
) -> None:
    people = [f"someone{n}@gmail.com" for n in range(3)] + ["x@nowhere.invalid"]
    account, job_id = await planter.plant(people, chunk=2, options=JobOptions(mode=Mode.MEDIUM))
    async with engine_on(settings) as engine:
        await work_until_ended(engine, service, account, job_id)
    file = settings.home / "blobs" / JobBlobs(job_id).breakdown
    assert Breakdown.read(file.read_bytes()) == await browser.breakdown(account, job_id)
    breakdown = await browser.breakdown(account, job_id)
    assert [(mix.name, mix.rows, mix.valid) for mix in breakdown.providers] == [("google", 3, 3)]
    assert await seen(browser, account, job_id, RowFilter(provider="google")) == people[:3]
    # a job of an older release has none; it is counted up at first sight, without the providers
    file.unlink()
    (settings.home / "blobs" / JobBlobs(job_id).domains).unlink()
    again = await browser.breakdown(account, job_id)
    assert (again.reasons, again.domains, again.providers) == (breakdown.reasons, breakdown.domains, ())
    assert file.exists()


@pytest.mark.parametrize("lost", [False, True])
async def test_a_small_list_is_counted_up_when_somebody_asks_with_the_providers_unless_they_are_lost(
    settings: Settings, service: JobService, browser: Browser, tmp_path: Path, *, lost: bool
) -> None:
    source = tmp_path / "list.csv"
    source.write_text("email\nann@gmail.com\nbob@gmail.com\nx@nowhere.invalid\nann@gmail.com\n")
    account = await service.account("tests")
    job_id = await service.submit(account, source, JobOptions(mode=Mode.MEDIUM))
    async with engine_on(settings) as engine:
        await work_until_ended(engine, service, account, job_id)
    keys, store = JobBlobs(job_id), settings.home / "blobs"
    (segment,) = (store / keys.segments).iterdir()
    assert not (store / keys.breakdown).exists()
    if lost:
        segment.write_bytes(segment.read_bytes()[:-9])
    google = ["ann@gmail.com", "bob@gmail.com", "ann@gmail.com"]
    assert await seen(browser, account, job_id, RowFilter(provider="google")) == ([] if lost else google)
    assert (store / keys.breakdown).exists()
    breakdown = await browser.breakdown(account, job_id)
    assert [(mix.name, mix.rows, mix.valid) for mix in breakdown.domains[:1]] == [("gmail.com", 3, 3)]
    assert [(mix.name, mix.rows) for mix in breakdown.providers] == ([] if lost else [("google", 3)])


async def test_a_breakdown_that_cannot_be_counted_costs_nobody_the_results_and_is_counted_later(
    settings: Settings,
    planter: Planter,
    service: JobService,
    browser: Browser,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    people = [f"someone{n}@gmail.com" for n in range(3)]
    account, job_id = await planter.plant(people, options=JobOptions(mode=Mode.MEDIUM))

    def broken(*_: object) -> None:
        raise ValueError("a defect")

    async with engine_on(settings) as engine:
        with monkeypatch.context() as patched:
            patched.setattr(breakdown, "count_up", broken)
            view = await work_until_ended(engine, service, account, job_id)
    assert (view.state, view.processed) == (JobState.COMPLETED, 3)
    found = await browser.breakdown(account, job_id)
    assert [(mix.name, mix.rows) for mix in found.providers] == [("google", 3)]


async def test_another_account_sees_nothing(
    settings: Settings, planter: Planter, service: JobService, browser: Browser
) -> None:
    account, job_id = await planter.plant(ADDRESSES)
    async with engine_on(settings) as engine:
        await work_until_ended(engine, service, account, job_id)
    other = await service.account("other")
    looks = (
        browser.page(other, job_id, RowFilter(), PageRequest()),
        browser.row(other, job_id, 0),
        browser.breakdown(other, job_id),
        service.history(other, job_id),
    )
    for look in looks:
        with pytest.raises(MailsiftError, match="no such job"):
            await look


async def test_history_names_the_runs_of_a_list_and_what_was_told(
    settings: Settings, service: JobService, tmp_path: Path
) -> None:
    account, other = await service.account("tests"), await service.account("other")
    source, elsewhere = tmp_path / "list.csv", tmp_path / "elsewhere.csv"
    source.write_text("email\na@example.com\n")
    elsewhere.write_text("email\nb@example.com\n")
    first = await service.submit(account, source, FAST)
    await service.submit(account, elsewhere, FAST)
    await service.submit(other, source, FAST)
    same = await service.submit(account, source, FAST)
    async with engine_on(settings) as engine:
        await work_until_ended(engine, service, account, first)
    again = await service.rerun(account, first, FAST)
    about = await service.history(account, first)
    assert [run.id for run in about.runs] == [again, same]
    assert [run.id for run in (await service.history(account, again)).runs] == [same, first]
    assert (await service.history(account, again)).source_name == "list.csv"
    assert [event.type for event in about.events] == ["bulk.validation.completed"]
    assert (about.events[0].deliveries, about.source_name, about.column) == ({}, "list.csv", "email")
