"""What people set for themselves and see of their account, in Chromium."""

from __future__ import annotations

import json

import pytest
from playwright.async_api import expect

from mailsift.accounts.people import Role
from tests.external.browser.axe import check_looks
from tests.external.browser.conftest import Visits
from tests.external.browser.test_pages_accessible import furnished
from tests.integration.api.pages.queries import sql


@pytest.mark.needs("npm")
async def test_the_browsers_time_zone_is_offered_once_and_then_shown_everywhere(
    visits: Visits, axe: str
) -> None:
    page = await visits.as_role(Role.VIEWER, zone="Asia/Tokyo")
    await page.goto("/account/log")
    await expect(page.get_by_text("Times are shown in UTC.")).to_be_visible()
    await check_looks(page, axe)
    await page.get_by_role("button", name="Use Asia/Tokyo").click()
    await expect(page.get_by_role("status")).to_contain_text("Times are shown in Asia/Tokyo.")
    await expect(page).to_have_url(f"{visits.api.url}/account/log")
    await expect(page.locator("[data-zone-offer]")).to_have_count(0)
    time = page.locator("time").first
    await expect(time).to_contain_text("JST")
    assert "UTC" in (await time.get_attribute("title") or "")


@pytest.mark.needs("npm")
async def test_an_owner_sees_what_is_kept_erases_it_and_takes_a_receipt(visits: Visits, axe: str) -> None:
    await furnished(visits)
    settings = visits.api.settings
    soon = "UPDATE job SET state = 'completed', finished_at = now(), expires_at = now() + interval '2 days'"
    await sql(settings, soon)
    page = await visits.as_role(Role.OWNER)
    await page.goto("/account/data")
    await expect(page.get_by_role("heading", name="Deleted in the next three days")).to_be_visible()
    await check_looks(page, axe)
    await page.get_by_label("Lists, with their results").check()
    await page.get_by_label("Type alice to confirm").fill("bob")
    await page.get_by_role("button", name="Erase").click()
    await expect(page.get_by_role("alert")).to_contain_text("Type the account name")
    await page.get_by_label("Type alice to confirm").fill("alice")
    await page.get_by_role("button", name="Erase").click()
    await expect(page.get_by_role("status")).to_contain_text("It is erased.")
    assert await sql(settings, "SELECT count(*) FROM job") == [(0,)]
    await check_looks(page, axe)
    async with page.expect_download() as download:
        await page.get_by_role("link", name="Download receipt").click()
    receipt = json.loads((await (await download.value).path()).read_text())
    assert receipt["erased"]["lists"] == 1


@pytest.mark.needs("npm")
async def test_the_log_is_narrowed_and_what_is_shown_is_downloaded(visits: Visits, axe: str) -> None:
    await furnished(visits)
    page = await visits.as_role(Role.OWNER)
    await page.goto("/account")
    await page.get_by_label("New jobs are kept").select_option("30 days")
    await page.get_by_role("region", name="How long jobs are kept").get_by_role("button", name="Save").click()
    await page.goto("/account/log")
    rows = page.locator("tbody tr")
    await expect(rows.filter(has_text="changed how long jobs are kept (kept: 30 days)")).to_have_count(1)
    await expect(rows.filter(has_text="signed in")).to_have_count(1)
    await page.get_by_label("What").select_option("The account")
    await page.get_by_role("button", name="Show").click()
    await expect(rows).to_have_count(1)
    await check_looks(page, axe)
    async with page.expect_download() as download:
        await page.get_by_role("link", name="Download these").click()
    (line,) = (await (await download.value).path()).read_text().splitlines()
    assert json.loads(line)["action"] == "account.retention"
    await page.get_by_role("link", name="Clear").click()
    await expect(rows.filter(has_text="signed in")).to_have_count(1)
