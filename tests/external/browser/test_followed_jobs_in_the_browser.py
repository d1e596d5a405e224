"""The page of a job that goes on: what somebody does there stays when the page follows the job on."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from playwright.async_api import Page, Route, expect

from mailsift.accounts.people import Role
from mailsift.jobs.views import JobId
from tests.external.browser.chromium import Browser, Watch, run_clock_until_seen, sign_in, stop_clock
from tests.external.browser.conftest import Visits
from tests.integration.api.conftest import Api
from tests.support.ready_jobs import Planter
from tests.support.sessions import PASSWORD, person


async def _queued(api: Api, folder: Path) -> JobId:
    """Return a job that nobody works on."""
    _, job = await Planter(api.settings, folder).plant(["a@example.com"], account="alice")
    return job


async def _open(visits: Visits, job: JobId) -> Page:
    """Return the job's page of a member, once it follows the job."""
    page = await visits.as_role(Role.MEMBER)
    async with page.expect_response("**/live"):
        await page.goto(f"/jobs/{job}")
    return page


async def _order(api: Api, job: JobId, action: str) -> None:
    async with api.client(await api.key("alice")) as program:
        (await program.post(f"/v1/bulk/jobs/{job}/{action}")).raise_for_status()


async def test_what_is_unfolded_chosen_and_focused_stays_so_when_the_job_goes_on(
    visits: Visits, tmp_path: Path
) -> None:
    job = await _queued(visits.api, tmp_path)
    planter = Planter(visits.api.settings, tmp_path)
    await planter.sql("UPDATE job SET processed = 1, valid = 1, send = 1 WHERE id = :job", job=job)
    page = await _open(visits, job)
    await page.get_by_label("File format").select_option("xlsx")
    await page.get_by_text("About this job").click()
    await page.get_by_text("More", exact=False).first.click()
    cancel = page.get_by_role("button", name="Cancel the job")
    await cancel.focus()
    await _order(visits.api, job, "pause")
    await expect(page.locator("h1 .badge")).to_have_text("Paused")
    await expect(page.get_by_text("Address column")).to_be_visible()
    await expect(cancel).to_be_focused()
    await expect(page.get_by_label("File format")).to_have_value("xlsx")


async def test_who_was_at_a_button_that_is_gone_reads_on_in_the_page(visits: Visits, tmp_path: Path) -> None:
    job = await _queued(visits.api, tmp_path)
    page = await _open(visits, job)
    await page.get_by_role("button", name="Pause").focus()
    await _order(visits.api, job, "pause")
    await expect(page.locator("h1 .badge")).to_have_text("Paused")
    await expect(page.locator("main")).to_be_focused()


async def test_the_title_of_a_tab_says_how_its_job_stands(visits: Visits, tmp_path: Path) -> None:
    job = await _queued(visits.api, tmp_path)
    page = await _open(visits, job)
    await expect(page).to_have_title(re.compile("^Queued: "))
    await _order(visits.api, job, "cancel")
    await expect(page).to_have_title(re.compile("^Cancelled: "))


async def test_a_page_that_cannot_be_had_when_the_job_goes_on_is_asked_for_again(
    api: Api, browser: Browser, tmp_path: Path
) -> None:
    job = await _queued(api, tmp_path)
    page = await Watch().open(browser, api.url)  # what it says of the failed request is wanted here
    await stop_clock(page)
    await sign_in(page, await person(api), PASSWORD)
    failed: list[str] = []
    failed_twice = asyncio.Event()

    async def fail(route: Route) -> None:
        failed.append(route.request.url)
        if len(failed) == 2:
            failed_twice.set()
        await route.fulfill(status=503, body="<h1>503</h1>", content_type="text/html")

    async with page.expect_response("**/live"):
        await page.goto(f"/jobs/{job}")
    await page.route(f"**/jobs/{job}", fail)
    await _order(api, job, "pause")
    async with asyncio.timeout(30):
        while not failed_twice.is_set():
            await page.clock.run_for(1_000)
    await page.unroute(f"**/jobs/{job}")
    await run_clock_until_seen(page, page.locator("h1 .badge", has_text="Paused"))
    await page.context.close()


async def test_a_job_that_was_deleted_meanwhile_is_said_to_be_gone(
    api: Api, browser: Browser, tmp_path: Path
) -> None:
    planter = Planter(api.settings, tmp_path)
    job = await _queued(api, tmp_path)
    page = await Watch().open(browser, api.url)  # what it says of the failed request is wanted here
    await stop_clock(page)
    await sign_in(page, await person(api), PASSWORD)
    async with page.expect_response("**/live"):
        await page.goto(f"/jobs/{job}")
    await planter.sql("DELETE FROM job WHERE id = :job", job=job)  # ended and deleted while it slept
    await run_clock_until_seen(page, page.get_by_role("heading", name="There is nothing here"))
    await page.context.close()
