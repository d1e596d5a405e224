"""Forms under a hand that is quick, or not sure: sent once, and asked about where it cannot be undone."""

from __future__ import annotations

from pathlib import Path

from playwright.async_api import expect

from mailsift.accounts.people import Role
from tests.external.browser.chromium import stop_clock
from tests.external.browser.conftest import Visits
from tests.support.ready_jobs import Planter

COUNT = """window.sent = 0; addEventListener("submit", (event) => {
  if (!event.defaultPrevented) window.sent += 1;
  event.preventDefault();
})"""


async def test_who_clicks_again_while_a_slow_answer_is_awaited_orders_once(visits: Visits) -> None:
    page = await visits.as_role(Role.MEMBER)
    await stop_clock(page)
    await page.goto("/keys/new")
    await page.evaluate(COUNT)  # in place of an answer that does not come
    await page.get_by_label("Name").focus()
    for _ in range(2):
        await page.keyboard.press("Enter")
        await page.clock.run_for(10_000)
    assert await page.evaluate("sent") == 1


async def test_an_order_for_ticked_jobs_says_what_it_does_before_what_cannot_be_undone(
    visits: Visits, tmp_path: Path
) -> None:
    planter = Planter(visits.api.settings, tmp_path)
    jobs = [(await planter.plant(["a@example.com"], account="alice"))[1] for _ in range(2)]
    page = await visits.as_role(Role.MEMBER)
    await page.goto("/jobs?state=active")
    for job in jobs:
        await page.locator(f"#tick-{job}").check()
    apply = page.get_by_role("button", name="Apply")
    await apply.click()
    await expect(page.get_by_role("status").first).to_have_text("2 jobs paused.")
    await expect(page.get_by_role("link", name="Active")).to_have_attribute("aria-current", "page")
    await page.locator(f"#tick-{jobs[0]}").check()
    await page.get_by_label("With the ticked jobs").select_option("cancel")
    await apply.click()
    question = page.get_by_role("dialog")
    await expect(question).to_contain_text("Cancel every ticked job?")
    await question.get_by_role("button").first.click()
    await expect(page.get_by_role("checkbox")).to_have_count(2)
    await page.get_by_label("With the ticked jobs").select_option("delete")
    await apply.click()
    await expect(question).to_contain_text("cannot be undone")
    await question.get_by_role("button", name="Delete").click()
    await expect(page.get_by_role("status").first).to_contain_text("0 jobs deleted.")
