"""What people with each role see, and what hostile text becomes: text."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from uuid import UUID

import pytest_asyncio
from playwright.async_api import Page, expect

from mailsift.accounts.people import Role
from mailsift.container import open_service
from mailsift.jobs.views import JobOptions
from tests.external.browser.conftest import Visits
from tests.support.receiver import Receiver, receiving, status

HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>"
PATHS = ("/keys", "/webhooks", "/schedules", "/account", "/account/log", "/outcomes", "/outcomes/policy")


@pytest_asyncio.fixture(loop_scope="session")
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving(status(500, body=HOSTILE.encode())) as found:
        yield found


async def _buttons(page: Page) -> set[str]:
    """Return what the buttons of the page's own part say."""
    return set(await page.locator("main").get_by_role("button").all_inner_texts())


async def test_a_viewer_looks_and_a_member_changes_but_only_an_owner_has_people(visits: Visits) -> None:
    owner, member, viewer = [await visits.as_role(role) for role in (Role.OWNER, Role.MEMBER, Role.VIEWER)]
    for path in PATHS:
        await viewer.goto(path)
        assert await _buttons(viewer) <= {"Show"}, path  # a filter changes nothing
        assert await viewer.get_by_role("link", name=re.compile("^(New|Create|Register)")).count() == 0
    for path in ("/keys", "/webhooks"):
        await member.goto(path)
        await expect(member.get_by_role("link", name=re.compile("^(Create|Register)"))).to_be_visible()
    await member.goto("/account")
    assert await _buttons(member) == set()
    await owner.goto("/account")
    assert "Make a link" in await _buttons(owner)
    await viewer.goto("/keys/new")
    await expect(viewer.get_by_role("heading", name="You do not have permission")).to_be_visible()
    await expect(viewer.get_by_text("This needs the role member, and yours is viewer.")).to_be_visible()


async def test_a_role_is_changed_with_a_choice_and_a_member_removed_after_a_question(visits: Visits) -> None:
    owner = await visits.as_role(Role.OWNER)
    member = await visits.as_role(Role.MEMBER)
    await owner.goto("/account")
    row = owner.get_by_role("row", name=re.compile("^member"))
    await row.get_by_role("combobox").select_option("viewer")
    await expect(owner.get_by_role("status")).to_have_text("The role is now viewer.")
    await row.get_by_role("button", name="Remove").click()
    question = owner.get_by_role("dialog")
    await expect(question).to_contain_text("Remove member")
    await question.get_by_role("button", name="Go back").click()
    await expect(row).to_be_visible()
    await row.get_by_role("button", name="Remove").click()
    await question.get_by_role("button", name="Remove").click()
    await expect(owner.get_by_role("status")).to_have_text("The member is removed and signed out.")
    await expect(row).to_have_count(0)
    await member.goto("/keys")
    await expect(member.get_by_role("heading", name="Sign in")).to_be_visible()


async def test_hostile_text_is_text(visits: Visits, receiver: Receiver) -> None:
    """An account's name, a key's, a file's, a schedule's, and a receiver's answer."""
    source = visits.api.settings.home / "list.csv"
    source.write_text("email\na@example.com\n")
    async with open_service(visits.api.settings) as service:
        account = await service.account(HOSTILE)
        job: UUID = await service.submit(account, source, JobOptions(name=HOSTILE))
    page = await visits.as_role(Role.OWNER, account=HOSTILE)
    await page.goto("/keys/new")
    await page.get_by_label("Name").fill(HOSTILE)
    await page.get_by_role("button", name="Create key").click()
    await page.get_by_role("link", name="Done").click()
    await page.goto("/webhooks/new")
    await page.get_by_label("Address").fill(receiver.url)
    await page.get_by_role("button", name="Register").click()
    await page.get_by_role("link", name="Done").click()
    await page.get_by_role("button", name="Send a plain test").click()
    await expect(page.get_by_label("What the receiver said")).to_have_text(HOSTILE)
    await page.goto(f"/schedules/new?job={job}")
    await page.get_by_role("button", name="Create schedule").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text(HOSTILE)
    for path in PATHS:
        await page.goto(path)
        await expect(page.locator(".side-inner > .who .who-account")).to_have_text(HOSTILE)
        assert await page.locator("img[src=x]").count() == 0
        assert await page.locator("main script").count() == 0


async def test_everything_works_without_javascript(visits: Visits) -> None:
    page = await visits.as_role(Role.OWNER)
    state = await page.context.storage_state()
    context = await visits.browser.new_context(
        base_url=visits.api.url, storage_state=state, java_script_enabled=False
    )
    plain = await context.new_page()
    await plain.goto("/keys/new")
    await plain.get_by_label("Name").fill("plain")
    await plain.get_by_role("button", name="Create key").click()
    await expect(plain.get_by_label("plain")).to_have_value(re.compile("^svc_key_"))
    await expect(plain.get_by_role("button", name="Copy")).to_have_count(0)
    await plain.goto("/account")
    await plain.get_by_role("combobox", name=re.compile("^Role of")).select_option("owner")
    await plain.get_by_role("button", name="Set").click()
    await expect(plain.get_by_role("status")).to_have_text("The role is now owner.")
    await plain.set_viewport_size({"width": 390, "height": 800})
    await plain.get_by_text("Menu").click()
    await plain.locator("#menu-nav").get_by_role("link", name="Keys").click()
    await plain.get_by_role("button", name="Revoke").click()
    await expect(plain.get_by_role("status")).to_contain_text("The key is revoked")
