"""Pages that keep themselves up to date: they go on beside whoever looks, and wait for whoever is at work."""

from __future__ import annotations

from playwright.async_api import Page, expect

from mailsift.accounts.people import Role
from tests.external.browser.chromium import stop_clock
from tests.external.browser.conftest import Visits
from tests.support.busy_installation import fill, sql
from tests.support.installation import until
from tests.support.sessions import PASSWORD, person

LATE = "1 schedule is late"


async def _overview(visits: Visits) -> Page:
    """Return the console of a busy installation, in which an alarm is on that can be ended."""
    await fill(visits.api.settings)
    page = await visits.as_role(Role.VIEWER, operator=True)
    await page.goto("/ops")
    await expect(page.get_by_text(LATE)).to_be_visible()
    return page


async def test_figures_go_on_after_a_click_on_them(visits: Visits) -> None:
    page = await _overview(visits)
    table = page.get_by_role("region", name="What waits, kind by kind")
    await table.click(position={"x": 5, "y": 5})
    await expect(table).to_be_focused()
    await sql(visits.api.settings, "UPDATE schedule SET enabled = false")
    await expect(page.get_by_text(LATE)).to_have_count(0, timeout=20_000)
    await expect(table).to_be_focused()


async def test_what_is_selected_stays_so_and_the_page_says_that_it_waits(visits: Visits) -> None:
    email = await person(visits.api, Role.VIEWER, operator=True)
    await fill(visits.api.settings)
    page = await visits.anybody()
    await stop_clock(page)
    await _sign_in_to_the_console(page, email)
    name = page.locator(".alarm", has_text=LATE).locator(".alarm-text")
    await name.select_text()
    paused = page.get_by_text("Paused since")

    async def is_said() -> bool:
        await page.clock.run_for(1_000)
        return await paused.count() == 1

    await until(is_said, within=30)
    assert LATE in await page.evaluate("getSelection().toString()")
    await expect(page.locator("body.stale")).to_have_count(0)  # it is still to be read
    await page.evaluate("getSelection().removeAllRanges()")

    async def goes_on() -> bool:
        await page.clock.run_for(1_000)
        return await paused.count() == 0

    await until(goes_on, within=30)


async def test_a_question_that_is_thought_about_is_answered(visits: Visits) -> None:
    await fill(visits.api.settings)
    page = await visits.as_role(Role.VIEWER, operator=True)
    await page.goto("/ops/leases")
    rows = page.locator("main tbody tr")
    before = await rows.count()
    await rows.first.get_by_role("button", name="Take back").click()
    for _ in range(2):  # the second is asked for when the first has been dealt with
        async with page.expect_response("**/ops/leases/live*"):
            pass
    await page.get_by_role("dialog").get_by_role("button", name="Take back").click()
    await expect(page.get_by_role("status").first).to_contain_text("1 lease was taken back")
    await expect(rows).to_have_count(before - 1)


async def _sign_in_to_the_console(page: Page, email: str) -> None:
    await page.goto("/login?next=/ops")
    await page.get_by_label("Email").fill(email)
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Sign in").click()
    await page.wait_for_url("**/ops")
