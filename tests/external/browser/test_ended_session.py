"""A session that ends under somebody's hands: the form they had filled in comes back, without its secrets."""

from __future__ import annotations

from playwright.async_api import Page, expect

from mailsift.accounts.people import Role
from tests.external.browser.conftest import Visits
from tests.support.sessions import PASSWORD, person

SESSION = "__Host-mailsift"


async def _sign_in_again(page: Page, email: str) -> None:
    await expect(page.get_by_text("Your session ended")).to_be_visible()
    await page.get_by_label("Email").fill(email)
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Sign in").click()


async def _signed_in(visits: Visits, email: str) -> Page:
    page = await visits.anybody()
    await page.goto("/login")
    await page.get_by_label("Email").fill(email)
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Sign in").click()
    await page.wait_for_url("**/")
    return page


async def test_what_was_typed_survives_signing_in_again(visits: Visits) -> None:
    page = await _signed_in(visits, email := await person(visits.api, Role.OWNER))
    await page.goto("/keys/new")
    await page.get_by_label("Name").fill("the nightly import")
    await page.context.clear_cookies(name=SESSION)
    await page.get_by_label("Name").press("Enter")
    await page.wait_for_url("**/login?**")
    await _sign_in_again(page, email)
    await page.wait_for_url("**/keys/new")
    await expect(page.get_by_label("Name")).to_have_value("the nightly import")
    await expect(page.get_by_text("look it over and send it again")).to_be_visible()
    await page.reload()
    await expect(page.get_by_label("Name")).to_have_value("")
    assert await page.evaluate("sessionStorage.length") == 0


async def test_no_password_is_kept_and_nobody_else_gets_the_form(visits: Visits) -> None:
    page = await _signed_in(visits, await person(visits.api, Role.OWNER))
    await page.goto("/account/you")
    form = page.locator("form", has=page.get_by_label("Current password"))
    await form.get_by_label("Current password").fill(PASSWORD)
    await form.get_by_label("New password").fill(f"{PASSWORD} again")
    await page.context.clear_cookies(name=SESSION)
    await form.get_by_role("button").click()
    await page.wait_for_url("**/login?**")
    assert PASSWORD not in await page.evaluate("JSON.stringify(sessionStorage)")
    await _sign_in_again(page, await person(visits.api, Role.OWNER))
    await page.wait_for_url("**/account/you")
    await expect(page.get_by_text("Nothing was sent")).to_have_count(0)
    assert await page.evaluate("sessionStorage.length") == 0


async def test_an_address_that_is_asked_by_a_script_comes_back_too(visits: Visits) -> None:
    page = await _signed_in(visits, email := await person(visits.api, Role.MEMBER))
    await page.get_by_label("Email address").fill("jane@shop.example")
    await page.get_by_role("radio", name="Fast").check()
    await page.context.clear_cookies(name=SESSION)
    visits.watch.seen.clear()
    await page.get_by_role("button", name="Validate").click()
    await page.wait_for_url("**/login?**")
    visits.watch.seen.clear()  # the script's own request was refused: Chromium tells of every 401
    await _sign_in_again(page, email)
    await expect(page.get_by_label("Email address")).to_have_value("jane@shop.example")
    await expect(page.locator("input[name=mode]:checked")).to_have_value("fast")
