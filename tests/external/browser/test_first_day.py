"""A newcomer's first day with `mailsift serve` and a browser: from the printed link to a schedule."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from mailsift.settings import Settings
from tests.external.browser import walk
from tests.external.browser.chromium import Browser, Watch
from tests.support.receiver import Receiver, receiving, status

PASSWORD = "correct horse battery staple"
WITHIN = 60_000


@pytest.fixture
def served(settings: Settings) -> Iterator[str]:
    """`mailsift serve` as a newcomer starts it; gives the link it prints."""
    with walk.served(settings) as link:
        yield link


@pytest_asyncio.fixture(loop_scope="session")
async def page(served: str, browser: Browser) -> AsyncIterator[Page]:
    watch = Watch()
    yield await watch.open(browser, served.partition("/welcome")[0])
    assert watch.seen == []


@pytest_asyncio.fixture(loop_scope="session")
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving(status(200, body=b"thank you")) as found:
        yield found


async def test_from_the_printed_link_to_a_schedule(
    served: str, page: Page, receiver: Receiver, tmp_path: Path
) -> None:
    await _become_the_first_owner(page, served)
    key = await _make_a_key(page)
    job = await _validate_a_list(served.partition("/welcome")[0], key, tmp_path)
    await _register_and_test_a_webhook(page, receiver)
    await _schedule_the_list(page, job)
    await _leave(page, served)


async def _become_the_first_owner(page: Page, link: str) -> None:
    await page.goto(link)
    await expect(page.get_by_role("heading", name="Welcome to Mailsift")).to_be_visible()
    await page.get_by_label("Account").fill("Analytical Engines")
    await page.get_by_label("Email").fill("ada@example.com")
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Start").click()
    await page.wait_for_url(re.compile(r"/$"))
    cookies = {cookie["name"]: cookie for cookie in await page.context.cookies()}
    session = cookies["__Host-mailsift"]
    assert session["secure"]
    assert session["httpOnly"]
    assert session["sameSite"] == "Lax"


async def _make_a_key(page: Page) -> str:
    await page.goto("/keys")
    await page.get_by_role("link", name="Create a key").click()
    await page.get_by_label("Name").fill("First day")
    await page.get_by_role("button", name="Create key").click()
    await page.get_by_role("button", name="Copy").click()
    await expect(page.get_by_role("button", name="Copied")).to_be_visible()
    key: str = await page.evaluate("navigator.clipboard.readText()")
    assert re.fullmatch(r"svc_key_[0-9A-Za-z]{38}", key)
    await page.get_by_role("link", name="Done").click()
    await expect(page.get_by_role("row", name=re.compile("First day"))).to_contain_text("Active")
    assert key not in await page.content()
    return key


async def _validate_a_list(url: str, key: str, folder: Path) -> str:
    """Start a job with the key and wait for its end; returns its id."""
    source = folder / "customers.csv"
    source.write_text("email\nada@example.com\nnot an address\n")
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=90) as client:
        made = await client.post(
            "/v1/bulk/jobs", data={"mode": "fast"}, files={"file": ("customers.csv", source.read_bytes())}
        )
        job: str = made.json()["data"]["job_id"]
        done = await client.get(f"/v1/bulk/jobs/{job}", params={"wait": 60})
    assert done.json()["data"]["status"] == "completed", done.text
    return job


async def _register_and_test_a_webhook(page: Page, receiver: Receiver) -> None:
    await page.goto("/webhooks")
    await page.get_by_role("link", name="Register a webhook").click()
    await page.get_by_label("Address").fill(receiver.url)
    await page.get_by_role("button", name="Register").click()
    await expect(page.get_by_label("Secret")).to_have_value(re.compile("^whsec_"))
    await page.get_by_role("link", name="Done").click()
    for name in ("Send a plain test", "Send a completed job", "Send a failed job"):
        await page.get_by_role("button", name=name).click()
        await expect(page.get_by_role("status", name="The test")).to_contain_text("The test arrived.")
    assert len(receiver.requests) == 3
    await expect(page.get_by_role("table", name="Deliveries").get_by_role("row")).to_have_count(4)


async def _schedule_the_list(page: Page, job: str) -> None:
    await page.goto(f"/schedules/new?job={job}")
    await expect(page.locator("#preview")).to_contain_text("Every Monday at 06:00")
    await page.get_by_label("Runs", exact=True).select_option(label="Custom (cron line)")
    await page.get_by_label("Cron line").fill("30 5 * * 2")
    await expect(page.locator("#preview")).to_contain_text("Every Tuesday at 05:30")
    await page.get_by_role("button", name="Create schedule").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("customers.csv")
    await expect(page.get_by_text("Every Tuesday at 05:30")).to_be_visible()
    await page.get_by_role("button", name="Run now").click()
    await expect(page.get_by_role("status")).to_have_text("A run has started.")
    run = page.get_by_role("row", name=re.compile("started by hand"))
    async with asyncio.timeout(WITHIN / 1000):
        while "Completed" not in await run.inner_text():
            await page.reload()


async def _leave(page: Page, link: str) -> None:
    await page.goto("/account/log")
    for words in ("created the key", "registered the webhook", "tested the webhook", "created the schedule"):
        await expect(page.get_by_text(words).first).to_be_visible()
    await page.get_by_role("button", name="Sign out").click()
    await expect(page.get_by_role("status")).to_have_text("You are signed out.")
    await page.goto("/keys")
    await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    await page.goto(link)
    await expect(page.get_by_role("heading", name="There is nothing here")).to_be_visible()
