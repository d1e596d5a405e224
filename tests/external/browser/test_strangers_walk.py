"""From nothing to the file that is safe to send: how many clicks it takes, whatever the seconds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.async_api import expect

from mailsift.sandbox.client import SandboxProcess
from mailsift.settings import Settings
from tests.external.browser.chromium import Browser, Watch
from tests.external.browser.walk import DOMAINS, SEED, Walk, list_of, served
from tests.support.installation import settings_for


@pytest.fixture
def settings(tmp_path: Path, database_url: str, redis_url: str) -> Iterator[Settings]:
    with SandboxProcess(seed=SEED, domains=DOMAINS, greylist_seconds=1) as sandbox:
        yield settings_for(
            tmp_path / "home",
            database_url=database_url,
            redis_url=redis_url,
            sandbox=sandbox.env,
            log_level="warning",
        )


@pytest.fixture
def link(settings: Settings) -> Iterator[str]:
    with served(settings) as found:
        yield found


async def test_two_clicks_after_the_file_is_dropped(link: str, browser: Browser, tmp_path: Path) -> None:
    watch = Watch()
    walk = Walk(await watch.open(browser, link.partition("/welcome")[0]))
    await walk.become_the_first_owner(link)
    await walk.drop("customers.csv", list_of(tmp_path, 60))
    await walk.start()
    safe = await walk.page.locator("[data-field=send]").inner_text()
    file = await walk.download()
    assert len(file.read_text().splitlines()) - 1 == int(safe) > 0
    await walk.page.goto("/")
    await expect(walk.page.locator(".step h3")).to_have_text(["See it on a sample", "Connect your system"])
    await walk.run_the_sample()
    await expect(walk.page.locator(".callout .badge")).to_have_text("Test")
    assert [(step.done, step.clicks) for step in walk.steps] == [
        ("Sign up by the printed link", 1),
        ("Drop the file; see what is in it", 0),
        ("Start", 1),
        ("Wait until it has ended", 0),
        ("Download what is safe to send", 1),
        ("Run the sample, until its results are there", 1),
    ]
    assert watch.seen == []
    await walk.page.context.close()
