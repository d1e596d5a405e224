"""A sender's address is made, renewed and removed, and the policy set, as people do it."""

from __future__ import annotations

from playwright.async_api import expect

from mailsift.accounts.people import Role
from tests.external.browser.conftest import Visits


async def test_an_address_for_a_sender_is_pasted_renewed_and_removed(visits: Visits) -> None:
    page = await visits.as_role(Role.MEMBER)
    await page.goto("/outcomes")
    await page.get_by_role("link", name="Create an address").click()
    await page.get_by_label("Mail sender").select_option(label="Brevo")
    await page.get_by_label("Name").fill("Newsletters")
    await page.get_by_role("button", name="Create the address").click()
    await expect(page.get_by_text("Copy the address now.")).to_be_visible()
    address = await page.get_by_role("textbox", name="Address").input_value()
    await page.goto("/outcomes")
    await page.get_by_role("link", name="Brevo").click()
    await expect(page.get_by_role("heading", name="Brevo Newsletters")).to_be_visible()
    assert "mailsift:" not in await page.get_by_role("textbox", name="Address").input_value()
    await page.get_by_role("button", name="Create a new password").click()
    await page.get_by_role("dialog").get_by_role("button").last.click()
    await expect(page.get_by_text("Copy the address now.")).to_be_visible()
    assert await page.get_by_role("textbox", name="Address").input_value() != address
    await page.get_by_role("button", name="Remove").click()
    await page.get_by_role("dialog").get_by_role("button").last.click()
    await expect(page.get_by_role("status")).to_have_text(
        "The receiver is removed; the outcomes it brought stay."
    )


async def test_the_policy_is_set_and_says_what_it_means(visits: Visits) -> None:
    page = await visits.as_role(Role.MEMBER)
    await page.goto("/outcomes/policy")
    await page.get_by_label("A function, not a person").select_option("remove")
    await page.get_by_label("Trust a bounce for (days)").fill("30")
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("status")).to_contain_text("Policy saved")
    await expect(page.get_by_text("For 30 days after a bounce that says so")).to_be_visible()
    await page.get_by_role("button", name="Reset to the default").click()
    await expect(page.get_by_text("For 365 days after a bounce that says so")).to_be_visible()
