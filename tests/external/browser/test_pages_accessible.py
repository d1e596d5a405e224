"""Keyboard, screen reader, phone: nothing for axe, nothing cut, everything reached by keys."""

from __future__ import annotations

import re
from uuid import UUID

import pyotp
import pytest
from playwright.async_api import expect

from mailsift.accounts.keys import Scope
from mailsift.accounts.people import Role
from mailsift.events.payloads import SimulatedEvent
from mailsift.jobs.schedules import ScheduleSpec
from mailsift.jobs.views import JobOptions
from mailsift.pipeline.clock import system_clock
from tests.external.browser.axe import check_looks
from tests.external.browser.chromium import NARROW, sign_in
from tests.external.browser.conftest import Visits
from tests.support.installation import open_parts
from tests.support.sessions import PASSWORD, person

LONG = "averylongnamewithoutanyplacetobreakit" * 4


async def furnished(visits: Visits) -> list[str]:
    """Fill the account with one of everything, named at length; returns the paths of its pages."""
    source = visits.api.settings.home / f"{LONG[:60]}.csv"
    source.write_text("email\na@example.com\n")
    async with open_parts(visits.api.settings) as parts:
        account = await parts.jobs.account("alice")
        key = await parts.keys.create(account, name=LONG[:80], scopes=tuple(Scope))
        over = await parts.keys.create(account, name="over")
        await parts.keys.revoke(account, over.row.id)
        webhook, _ = await parts.webhooks.create(account, f"http://127.0.0.1:9/{LONG}")
        job = await parts.jobs.submit(account, source, JobOptions(name=LONG))
        schedule = await parts.schedules.create(account, job, ScheduleSpec("0 6 * * 1", name=LONG))
        outcome = await parts.webhooks.test(account, webhook.id, SimulatedEvent.WEBHOOK)
        return _paths(key.row.id, webhook.id, outcome.delivery_id, schedule.id)


def _paths(key: UUID, webhook: UUID, delivery: UUID, schedule: UUID) -> list[str]:
    return [
        "/keys",
        "/keys/new",
        f"/keys/{key}/roll",
        "/webhooks",
        "/webhooks/new",
        f"/webhooks/{webhook}",
        f"/webhooks/{webhook}/edit",
        f"/webhooks/{webhook}/deliveries",
        f"/webhooks/deliveries/{delivery}",
        "/accuracy",
        "/outcomes",
        "/outcomes/policy",
        "/outcomes/receivers/new",
        "/schedules",
        "/schedules/new",
        f"/schedules/{schedule}",
        f"/schedules/{schedule}/edit",
        "/account",
        "/account/you",
        "/account/log",
        "/account/data",
        "/",
        "/help",
        "/nothing-here",
    ]


@pytest.mark.needs("npm")
async def test_axe_finds_nothing_and_no_page_is_wider_than_its_window(visits: Visits, axe: str) -> None:
    paths = await furnished(visits)
    page = await visits.as_role(Role.OWNER, operator=True)
    stranger = await visits.anybody()
    for visitor, path in [(page, path) for path in paths] + [(stranger, "/login")]:
        await visitor.goto(path)
        await check_looks(visitor, axe)
    await page.goto("/keys")
    await page.get_by_text("Menu").click()  # it is there on a narrow page
    await check_looks(page, axe)


@pytest.mark.needs("npm")
async def test_axe_finds_nothing_on_pages_that_are_shown_once(visits: Visits, axe: str) -> None:
    stranger, page = await visits.anybody(), await visits.anybody()
    async with open_parts(visits.api.settings) as parts:
        links = parts.people.links
        await stranger.goto(f"/welcome?token={await links.first_owner()}")
        await check_looks(stranger, axe)
        email = await person(visits.api)
        await stranger.goto(f"/password?token={await links.new_password(email)}")
        await check_looks(stranger, axe)

    await sign_in(page, email, PASSWORD)
    await page.goto("/keys/new")
    await page.locator("main input[name=name]").fill("Shop")
    await page.locator("main form button[type=submit]").click()
    await expect(page.locator("main input[value^='svc_']")).to_be_visible()
    await check_looks(page, axe)
    await page.goto("/webhooks/new")
    await page.locator("main input[name=url]").fill("http://127.0.0.1:9/hook")
    await page.locator("main form button[type=submit]").click()
    await expect(page.locator("main input[value^='whsec_']")).to_be_visible()
    await check_looks(page, axe)
    await page.goto("/account")
    await page.locator("form[action='/account/invite'] input[name=email]").fill("grace@example.com")
    await page.locator("form[action='/account/invite'] button").click()
    invitation = await page.locator("input[value*='/invite?token=']").input_value()
    await check_looks(page, axe)
    await stranger.goto(invitation)
    await check_looks(stranger, axe)

    await page.goto("/account/you")
    await page.locator("form[action='/account/you/code'] input[type=password]").fill(PASSWORD)
    await page.locator("form[action='/account/you/code'] button").click()
    code = page.locator("input[name=code]")
    await expect(code).to_be_visible()
    await check_looks(page, axe)
    (secret,) = re.findall(r"\b((?:[A-Z2-7]{4} ){7}[A-Z2-7]{4})\b", await page.content())[:1]
    await code.fill(pyotp.TOTP(secret.replace(" ", "")).at(int(system_clock())))
    await page.locator("form[action='/account/you/code/confirm'] button").click()
    await expect(page.locator("main li")).to_have_count(10)
    await check_looks(page, axe)

    await stranger.goto("/login")
    await stranger.locator("input[name=email]").fill(email)
    await stranger.locator("input[name=password]").fill("not this one")
    await stranger.locator("main form button[type=submit]").click()
    await expect(stranger.get_by_role("alert")).to_be_visible()
    await expect(stranger.locator("input[name=password]")).to_be_focused()  # the address stands there already
    await check_looks(stranger, axe)
    await stranger.locator("input[name=password]").fill(PASSWORD)
    await stranger.locator("main form button[type=submit]").click()
    await expect(stranger.locator("input[name=code]")).to_be_visible()
    await check_looks(stranger, axe)


async def test_the_keyboard_reaches_the_content_first_and_then_everything(visits: Visits) -> None:
    page = await visits.as_role(Role.OWNER)
    await page.goto("/keys")
    await page.keyboard.press("Tab")
    await expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    await expect(page.get_by_role("link", name="Skip to the content")).to_be_in_viewport()
    await page.keyboard.press("Enter")
    await expect(page.locator("main")).to_be_focused()
    await page.keyboard.press("Tab")
    await expect(page.get_by_role("link", name="Help with this page")).to_be_focused()
    async with page.expect_popup() as opening:
        await page.keyboard.press("Enter")
    opened = await opening.value
    await expect(opened.locator(":target h3")).to_have_text("Keys")
    await expect(opened.locator(":target h3")).to_be_in_viewport()
    await opened.close()
    await page.keyboard.press("Tab")
    link = page.get_by_role("link", name="Create a key")
    await expect(link).to_be_focused()
    outline = await link.evaluate("element => getComputedStyle(element).outlineStyle")
    assert outline == "solid", "focus can be seen"
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(re.compile("/keys/new$"))


async def test_a_question_holds_the_keyboard_and_escape_says_no(visits: Visits) -> None:
    await furnished(visits)
    page = await visits.as_role(Role.OWNER)
    await page.goto("/keys")
    revoke = page.get_by_role("button", name="Revoke")
    await revoke.focus()
    await page.keyboard.press("Enter")
    question = page.get_by_role("dialog")
    await expect(question.get_by_role("button", name="Go back")).to_be_focused()
    await page.keyboard.press("Escape")
    await expect(question).to_have_count(0)
    await expect(revoke).to_be_focused()
    await page.keyboard.press("Enter")
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("status").first).to_contain_text("The key is revoked")


async def test_the_menu_of_a_phone_opens_and_closes_by_keys(visits: Visits) -> None:
    page = await visits.as_role(Role.OWNER, width=NARROW)
    await page.goto("/keys")
    menu = page.locator("details.menu")
    await menu.locator("summary").focus()
    await page.keyboard.press("Enter")
    here = menu.get_by_role("link", name="Keys")
    await expect(here).to_have_attribute("aria-current", "page")
    await expect(here).to_be_in_viewport()
    await page.keyboard.press("Escape")
    await expect(here).not_to_be_visible()
    await expect(menu.locator("summary")).to_be_focused()
