"""The operator console in a real browser: it lives, it asks before it acts, and everybody can use it."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import expect

from mailsift.accounts.people import Role
from mailsift.pipeline.throttle import SessionOutcome
from mailsift.settings import Settings
from tests.external.browser.axe import check_looks
from tests.external.browser.chromium import Browser, Watch, sign_in, stop_clock
from tests.external.browser.conftest import Visits
from tests.integration.api.conftest import running
from tests.support.busy_installation import fill, report_sessions, sql
from tests.support.installation import until
from tests.support.ports import free_port
from tests.support.sessions import PASSWORD, person

LONG = "averylongnamewithoutanyplacetobreakit" * 4


async def paths(visits: Visits) -> list[str]:
    """Fill the installation and return the paths of the console's pages."""
    settings = visits.api.settings
    await fill(settings)
    await report_sessions(
        settings,
        {"google": [SessionOutcome.CLEAN, SessionOutcome.RATE], f"{LONG}.example": [SessionOutcome.CLEAN]},
    )
    await sql(settings, "UPDATE job SET name = :name WHERE name = 'newsletter 1'", name=LONG)
    await sql(settings, "UPDATE endpoint SET url = 'https\\://' || :name", name=LONG)
    (job,) = await sql(settings, "SELECT id FROM job WHERE name = :name", name=LONG)
    names = (
        "jobs",
        "workers",
        "leases",
        "throttles",
        "ledger",
        "opt-outs",
        "accuracy",
        "deliveries",
        "broker",
        "failing-chunks",
        "schedules",
        "audit",
    )
    return [
        "/ops",
        *(f"/ops/{name}" for name in names),
        f"/ops/jobs/{job['id']}",
        "/ops/throttles/edit?provider=google",
        "/ops/facts?domain=example.com",
    ]


@pytest.mark.needs("npm")
async def test_axe_finds_nothing_in_the_console_and_no_page_is_wider_than_its_window(
    visits: Visits, axe: str
) -> None:
    found = await paths(visits)
    page = await visits.as_role(Role.VIEWER, operator=True)
    for path in found:
        await page.goto(path)
        await expect(
            page.locator(".ops-tabs [aria-current]")
        ).to_be_in_viewport()  # narrow, too, but for the first
        await check_looks(page, axe)


async def test_the_overview_follows_what_happens(visits: Visits) -> None:
    await paths(visits)
    page = await visits.as_role(Role.VIEWER, operator=True)
    await page.goto("/ops")
    alarm = page.locator(".alarm", has_text="1 schedule is late")
    await alarm.get_by_role(
        "link", name="Show the cause"
    ).click()  # one click, and what is late is the only row
    await expect(page.get_by_role("region", name="The alarm you came from")).to_contain_text("Runbook")
    await expect(page.locator("main tbody tr")).to_have_count(1)
    await page.go_back()
    await expect(alarm).to_be_visible()
    await sql(visits.api.settings, "UPDATE schedule SET enabled = false")
    await expect(page.get_by_text("1 schedule is late")).to_have_count(0, timeout=20_000)
    await sql(visits.api.settings, "DELETE FROM worker")
    await expect(page.get_by_text("No worker may claim work")).to_be_visible(timeout=20_000)


async def test_an_order_for_all_that_match_is_asked_about_first(visits: Visits) -> None:
    await paths(visits)
    page = await visits.as_role(Role.VIEWER, operator=True)
    await page.goto("/ops/jobs?state=running")
    await page.get_by_label("With all that match").select_option("pause")
    await page.get_by_role("button", name="Apply").click()
    question = page.get_by_role("dialog")
    await expect(question).to_contain_text("8 jobs that match")
    await question.get_by_role("button", name="Go back").click()
    assert len(await sql(visits.api.settings, "SELECT id FROM job WHERE state = 'running'")) == 8
    await page.get_by_role("button", name="Apply").click()
    await page.get_by_role("dialog").get_by_role("button", name="Apply").click()
    await expect(page.get_by_role("status").first).to_contain_text("8 jobs were paused.")
    await expect(page).to_have_url(re.compile(r"/ops/jobs\?state=running"))


async def test_a_lease_is_taken_back_and_a_worker_drained_by_a_click(visits: Visits) -> None:
    await paths(visits)
    page = await visits.as_role(Role.VIEWER, operator=True)
    await page.goto("/ops/leases")
    rows = page.locator("main tbody tr")
    before = await rows.count()
    await rows.first.get_by_role("button", name="Take back").click()
    await page.get_by_role("dialog").get_by_role("button", name="Take back").click()
    await expect(page.get_by_role("status").first).to_contain_text("1 lease was taken back")
    await expect(rows).to_have_count(before - 1)
    await page.goto("/ops/workers")
    await page.get_by_role("row", name=re.compile("worker-0:40")).get_by_role("button", name="Drain").click()
    await expect(page.get_by_role("status").first).to_contain_text("3 processes will claim nothing more")


async def test_a_provider_is_held_without_a_mouse(visits: Visits) -> None:
    page = await visits.as_role(Role.VIEWER, operator=True)
    await page.goto("/ops/throttles")
    await page.get_by_label("Change or hold a provider").focus()
    await page.keyboard.type("google")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", level=1)).to_have_text("google")
    await page.get_by_role("button", name="Hold", exact=True).focus()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("button", name="Let go")).to_be_visible()
    (row,) = await sql(visits.api.settings, "SELECT provider, held FROM throttle_edit")
    assert list(row.values()) == ["google", True]


async def test_a_page_whose_api_is_gone_says_since_when_and_goes_on_by_itself(
    settings: Settings, browser: Browser
) -> None:
    fixed = settings.model_copy(update={"api_port": free_port()})
    async with running(fixed) as api:
        email = await person(api, operator=True)
        page = await Watch().open(browser, api.url)  # what it says of failed requests is wanted here
        await stop_clock(page)
        await sign_in(page, email, PASSWORD)
        await page.goto("/ops")
        await page.clock.run_for(9_000)
        notice = page.get_by_text("No answer since")
        await expect(notice).to_have_count(0)
    await page.clock.run_for(14_000)
    await expect(notice).to_be_visible()
    await expect(page.locator("body.stale")).to_have_count(1)
    async with running(fixed):

        async def is_back() -> bool:
            await page.clock.run_for(1_000)
            return await notice.count() == 0

        await until(is_back, within=30)
        await expect(page.locator("body.stale")).to_have_count(0)
        await page.context.close()
