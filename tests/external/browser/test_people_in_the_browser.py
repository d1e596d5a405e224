"""What people set for themselves and see of their account, in Chromium."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from mailsift.accounts.people import Role
from tests.external.browser.axe import check_looks
from tests.external.browser.conftest import Visits


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
