"""Pages on paper, and in the few colours that a reader has chosen."""

from __future__ import annotations

from pathlib import Path

from playwright.async_api import Page, expect

from mailsift.accounts.people import Role
from tests.external.browser.conftest import Visits
from tests.support.busy_installation import fill
from tests.support.ready_jobs import Planter

_SEEN = "(element, property) => getComputedStyle(element)[property]"


async def _job(visits: Visits, folder: Path) -> Page:
    """Return the page of a job that has one verdict."""
    planter = Planter(visits.api.settings, folder)
    _, job = await planter.plant(["a@example.com", "b@example.com"], account="alice")
    await planter.sql("UPDATE job SET processed = 1, valid = 1, send = 1 WHERE id = :job", job=job)
    page = await visits.as_role(Role.MEMBER)
    await page.goto(f"/jobs/{job}")
    return page


async def test_a_printed_job_has_its_figures_and_no_buttons(visits: Visits, tmp_path: Path) -> None:
    page = await _job(visits, tmp_path)
    await page.emulate_media(media="print")
    await expect(page.get_by_role("heading", name="Safe to send", exact=True)).to_be_visible()
    await expect(page.locator(".tier-rows").first).to_contain_text("1")
    assert await page.locator(".btn:visible").count() == 0
    await expect(page.get_by_label("File format")).to_be_hidden()


async def test_paper_is_light_for_who_reads_in_the_dark(visits: Visits, tmp_path: Path) -> None:
    page = await _job(visits, tmp_path)
    light = await page.locator("body").evaluate(_SEEN, "color")
    await page.emulate_media(media="print", color_scheme="dark")
    assert await page.locator("body").evaluate(_SEEN, "color") == light


async def test_where_one_is_and_how_far_it_is_can_be_seen_in_few_colours(
    visits: Visits, tmp_path: Path
) -> None:
    page = await _job(visits, tmp_path)
    await page.emulate_media(forced_colors="active")
    here, there = page.locator(".tabs a[aria-current]"), page.locator(".tabs a:not([aria-current])").first
    line = "borderBottomColor"
    assert await here.evaluate(_SEEN, line) != await there.evaluate(_SEEN, line)
    nav = page.locator("#side-nav a")
    grounds = [await one.evaluate(_SEEN, "backgroundColor") for one in await nav.all()]
    assert len(set(grounds)) == 2
    current = page.locator("#side-nav a[aria-current]")  # else its words have a ground of their own
    assert await current.evaluate(_SEEN, "forcedColorAdjust") == "none"
    assert await page.locator("progress").first.evaluate(_SEEN, "borderTopWidth") == "1px"
    await page.goto("/")
    modes = page.locator(".segment span")
    assert len({await one.evaluate(_SEEN, "backgroundColor") for one in await modes.all()}) == 2


async def test_what_sorts_a_list_is_seen_where_the_keyboard_reaches_it(visits: Visits) -> None:
    await fill(visits.api.settings)
    page = await visits.as_role(Role.VIEWER, operator=True, width=320)
    await page.goto("/ops/jobs")
    sort = page.locator("thead a").first
    await sort.focus()
    assert await page.locator("thead").first.evaluate(_SEEN, "clipPath") == "none"
    await expect(sort).to_be_in_viewport()
