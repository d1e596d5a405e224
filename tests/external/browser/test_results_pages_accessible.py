"""Validate, lists, jobs and results: nothing for axe, nothing wider than its window."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from mailsift.accounts.people import Role
from mailsift.jobs.views import AccountId, JobId, JobOptions
from mailsift.pipeline.facts import Mode
from mailsift.storage.states import ENDED
from tests.external.browser.axe import check_looks
from tests.external.browser.chromium import NARROW
from tests.external.browser.conftest import Visits
from tests.support.installation import open_parts, until

LONG = "a-very-long-name-without-any-place-to-break-it-" * 3
ROWS = "".join(f'{n},user{n}@{"x" * 40}{n % 7}.example,"{LONG}"\n' for n in range(80))
CSV = f"id,email,{LONG}\n{ROWS}9,broken,x\n".encode()


async def pieces() -> AsyncIterator[bytes]:
    yield CSV


async def furnished(visits: Visits) -> list[str]:
    """Upload one list, run another one twice and a sample; returns the paths of all their pages."""
    async with open_parts(visits.api.settings) as parts:
        account = AccountId(await parts.jobs.account("alice"))

        async def run(options: JobOptions) -> JobId:
            draft = await parts.drafts.receive(account, pieces(), f"{LONG}.csv")
            return await parts.drafts.start(account, draft.id, options)

        fast = JobOptions(mode=Mode.FAST, name=LONG, metadata={LONG: LONG}, evidence=True)
        jobs = [await run(fast), await run(fast), await run(JobOptions(mode=Mode.FAST, preview=20))]

        async def over() -> bool:
            views = await asyncio.gather(*(parts.jobs.get(account, job) for job in jobs))
            return all(view.state in ENDED for view in views)

        await until(over, within=60)
        waiting = await parts.drafts.receive(account, pieces(), f"{LONG}.csv")
    first, second, sample = jobs
    return [
        "/",
        f"/lists/{waiting.id}",
        "/jobs",
        "/jobs?q=nothing",
        f"/jobs/{first}",
        f"/jobs/{sample}",
        f"/jobs/{first}/results",
        f"/jobs/{first}/results?q=nothing",
        f"/jobs/{first}/what-if?unprobed=review",
        f"/jobs/{first}/rows/81",
        f"/jobs/{second}/runs?against={first}",
    ]


@pytest.mark.needs("npm")
@pytest.mark.usefixtures("worker")
async def test_axe_finds_nothing_and_no_page_is_wider_than_its_window(visits: Visits, axe: str) -> None:
    paths = await furnished(visits)
    page = await visits.as_role(Role.MEMBER)
    for path in paths:
        await page.goto(path)
        await check_looks(page, axe)
    await page.goto(next(path for path in paths if path.endswith("/results")))
    for width in (320, 360, NARROW):  # what to do stands beside the address, without scrolling
        await page.set_viewport_size({"width": width, "height": 900})
        assert await page.locator("#rows").evaluate("rows => rows.scrollWidth - rows.clientWidth") == 0
    await page.goto("/")
    await page.get_by_label("Email address").fill("info@gmial.com")
    await page.get_by_label("Fast").check()
    await page.get_by_role("button", name="Validate").click()
    await page.get_by_text("Evidence", exact=True).click()
    await page.get_by_role("heading", name="How the score adds up").wait_for()
    await check_looks(page, axe)
