"""A list from the desk to the difference: dropped, looked at, started, watched, filtered, run again.

On the sandbox, with a worker that asks its mail servers.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.async_api import Page, Route, expect

from mailsift.accounts.people import Role
from mailsift.sandbox.client import SandboxProcess
from mailsift.sandbox.listing import write_list
from mailsift.sandbox.world import SandboxWorld, WorldMix
from mailsift.settings import Settings
from tests.external.browser.chromium import Browser, Watch, run_clock_until_seen, sign_in, stop_clock
from tests.external.browser.conftest import Visits
from tests.external.browser.walk import DROP
from tests.integration.api.conftest import Api
from tests.support.sessions import PASSWORD, person

HOSTILE = "<img src=x onerror=alert(1)>"
ROWS = 600
WITHIN = 90_000


@pytest.fixture(scope="module")
def world() -> SandboxWorld:
    return SandboxWorld(seed=3, domains=60, mix=WorldMix.PLAIN)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[SandboxProcess]:
    with SandboxProcess(seed=3, domains=60, greylist_seconds=1) as running:
        yield running


@pytest.fixture
def settings(make_settings: Callable[..., Settings], sandbox: SandboxProcess) -> Settings:
    # A domain whose DNS is silent is asked again each time; whoever watches the page waits for the last.
    return make_settings(sandbox=sandbox.env, api_port=0, greylist_delays=(1.0, 1.0, 1.0))


@pytest.fixture
def source(tmp_path: Path, world: SandboxWorld) -> bytes:
    """A list of the sandbox's people, with a column of a hostile name."""
    path = tmp_path / "list.csv"
    write_list(world, path, rows=ROWS)
    head, _, rest = path.read_text().partition("\n")
    return f"{head.replace('company', chr(34) + HOSTILE + chr(34))}\n{rest}".encode()


@pytest.mark.usefixtures("worker")
async def test_a_list_from_the_desk_to_the_difference(visits: Visits, source: bytes) -> None:
    page = await visits.as_role(Role.MEMBER)
    await _drop_and_look(page, source)
    await _start(page)
    await _watch(page)
    first = page.url
    await _filter(page)
    await _take_along(page, first)
    await _run_again_and_compare(page, first)


async def _drop_and_look(page: Page, source: bytes) -> None:
    await page.goto("/")
    await page.evaluate(DROP, [f"{HOSTILE}.csv", base64.b64encode(source).decode()])
    await page.wait_for_url("**/lists/*", timeout=WITHIN)
    await expect(page.get_by_role("heading", level=1)).to_have_text(f"{HOSTILE}.csv")
    await expect(page.get_by_role("columnheader", name=HOSTILE)).to_be_visible()
    await expect(page.get_by_role("columnheader", name="email Addresses")).to_be_visible()
    await expect(page.get_by_text(f"{ROWS} rows ·")).to_be_visible()
    assert await page.locator("img[src=x]").count() == 0


async def _start(page: Page) -> None:
    await expect(page.get_by_label("Addresses in the sample")).not_to_be_visible()
    await page.get_by_role("radio", name="A sample first").check()
    await expect(page.get_by_label("Addresses in the sample")).to_be_visible()
    await page.get_by_role("radio", name="The whole list 600").check()
    await page.get_by_text("More options").click()
    await page.get_by_label("Keep the evidence").check()
    await page.get_by_role("button", name="Start").click()
    await page.wait_for_url("**/jobs/*")


async def _watch(page: Page) -> None:
    """See the job end without the page being loaded again."""
    await page.evaluate("window.here = 'since the start'")
    done = page.locator("h1 .badge", has_text="Completed")
    await expect(done).to_be_visible(timeout=WITHIN)
    assert await page.evaluate("window.here") == "since the start"
    await expect(page.get_by_role("heading", name=f"of {ROWS} rows are safe to send")).to_be_visible()
    await expect(page.get_by_role("heading", name="Why rows are not safe")).to_be_visible()
    await expect(page.get_by_role("link", name="Google", exact=True).first).to_be_visible()
    await page.get_by_text("All reasons, providers and domains").click()
    await expect(page.get_by_role("link", name="Deliverable")).to_be_visible()


async def _filter(page: Page) -> None:
    await page.get_by_role("link", name="Results", exact=True).click()
    await page.evaluate("window.here = 'since the results'")
    announced = page.locator("[data-said]")
    await expect(announced).to_contain_text(f"1 – 50 of {ROWS}")
    await page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
    await page.get_by_role("link", name="Next").click()
    await expect(announced).to_contain_text(f"51 – 100 of {ROWS}")
    assert await page.evaluate("document.activeElement.id") == "rows"  # read on from the top of the table
    await expect(page.get_by_role("link", name="Safe to send")).to_be_in_viewport()
    await page.go_back()
    await expect(announced).to_contain_text(f"1 – 50 of {ROWS}")
    await page.get_by_role("link", name="Score").click()
    await expect(page.locator("[aria-sort=ascending]")).to_have_text(re.compile("Score"))
    assert await page.evaluate("document.activeElement.id") == "sort-score"
    await page.get_by_role("link", name="To remove").click()
    await expect(page.locator("#tab-remove[aria-current]")).to_be_visible()
    await page.get_by_label("Address", exact=True).fill("@")
    await page.get_by_role("button", name="Search").click()
    await expect(announced).to_contain_text("matching rows")
    await expect(page).to_have_url(re.compile(r"tier=remove"))
    await expect(page.get_by_role("link", name="Contains: @")).to_be_visible()
    assert set(await page.locator(".results-table .badge").all_inner_texts()) == {"Remove"}
    assert await page.evaluate("window.here") == "since the results"
    await page.locator(".results-table tbody a").first.click()
    await page.get_by_text("Evidence", exact=True).click()
    await page.get_by_role("button", name="Copy as JSON").click()
    copied = json.loads(await page.evaluate("navigator.clipboard.readText()"))
    assert copied["status"] in {"invalid", "risky"}
    assert copied["evidence"]["mode"] == "deep"
    await expect(page.get_by_role("heading", name="How the score adds up")).to_be_visible()
    await expect(page.locator("dt", has_text=HOSTILE)).to_be_visible()


async def _take_along(page: Page, job: str) -> None:
    await page.goto(job)
    removed = await page.locator("[data-field=remove]").inner_text()
    assert await page.locator(".btn.primary").count() == 1  # to download what is safe to send
    await page.get_by_label("File format").select_option("csv")
    async with page.expect_download() as coming:
        await page.get_by_role("button", name="Download what is to remove").click()
    file = await (await coming.value).path()
    header, *rows = file.read_text().splitlines()
    assert f'"{HOSTILE}"' in header or HOSTILE in header
    assert len(rows) == int(removed)
    assert all(",remove," in row for row in rows)


async def _run_again_and_compare(page: Page, job: str) -> None:
    await page.goto(job)
    await page.get_by_text("More", exact=False).first.click()
    await page.get_by_role("button", name="Run again").click()
    await expect(page.get_by_role("status").first).to_contain_text("A new run of this list has started")
    await expect(page.locator("h1 .badge", has_text="Completed")).to_be_visible(timeout=WITHIN)
    assert page.url != job
    await expect(page.get_by_text("Every address has the verdict it had")).to_be_visible(timeout=WITHIN)
    await page.get_by_role("link", name="Runs and changes").click()
    await page.get_by_role("button", name="Compare").click()
    await expect(page.locator(".stat", has_text="Addresses in both")).to_be_visible()
    await expect(page.get_by_role("heading", name="Nothing changed")).to_be_visible()
    assert await page.locator("img[src=x]").count() == 0


async def test_an_upload_that_is_refused_says_why_and_can_be_tried_again(visits: Visits) -> None:
    page = await visits.as_role(Role.MEMBER)
    await page.goto("/")
    await page.evaluate(DROP, ["empty.csv", ""])
    await expect(page.get_by_role("alert")).to_have_text("The list is empty.")
    visits.watch.seen.clear()  # the browser tells its console of the refusal
    await page.set_input_files("#file", {"name": "a.csv", "mimeType": "text/csv", "buffer": b"a@b.example\n"})
    await page.wait_for_url("**/lists/*", timeout=WITHIN)
    await page.get_by_role("button", name="Discard").click()
    await expect(page.get_by_role("status").first).to_have_text("The list is discarded.")


async def test_a_column_with_much_else_is_confirmed_before_it_starts(visits: Visits) -> None:
    page = await visits.as_role(Role.MEMBER)
    await page.goto("/")
    odd = b"who,mail\nJane,Jane <jane@example.com>\nBo,bo@example.com\nCy,cy@example.com\n"
    await page.set_input_files("#file", {"name": "odd.csv", "mimeType": "text/csv", "buffer": odd})
    await page.wait_for_url("**/lists/*", timeout=WITHIN)
    sure = page.get_by_label("Validate this column although")
    await expect(sure).to_be_visible()
    await expect(page.locator(".repairs")).to_have_text(["Jane <jane@example.com> → jane@example.com"])
    start = page.get_by_role("button", name="Start")
    await expect(start).to_be_in_viewport()
    await start.click()  # the browser asks for the tick
    assert "/lists/" in page.url
    await sure.check()
    await start.click()
    await page.wait_for_url("**/jobs/*")


async def test_a_job_is_followed_on_after_an_answer_that_was_an_error(api: Api, browser: Browser) -> None:
    email = await person(api)
    page = await Watch().open(browser, api.url)  # what it says of the failed request is wanted here
    await stop_clock(page)
    await sign_in(page, email, PASSWORD)
    asked: list[str] = []

    async def fail_once(route: Route) -> None:
        asked.append(route.request.url)
        await (route.fulfill(status=503) if len(asked) == 1 else route.continue_())

    await page.route("**/live", fail_once)
    async with api.client(await api.key("alice")) as program:
        job = (await program.post("/v1/bulk/jobs", json={"emails": ["a@example.com"]})).json()["data"]
        await page.goto(f"/jobs/{job['job_id']}")
        await program.post(f"/v1/bulk/jobs/{job['job_id']}/cancel")  # nobody works here: it waits for that
    await run_clock_until_seen(page, page.locator("h1 .badge", has_text="Cancelled"))
    await page.context.close()


@pytest.mark.usefixtures("worker")
async def test_what_a_page_asks_for_once_is_not_asked_for_ten_times_a_second_while_it_fails(
    api: Api, browser: Browser
) -> None:
    email = await person(api)
    page = await Watch().open(browser, api.url)  # what it says of failed requests is wanted here
    await stop_clock(page)
    await sign_in(page, email, PASSWORD)
    asked: list[str] = []

    async def fail(route: Route) -> None:
        asked.append(route.request.url)
        await route.fulfill(status=503)

    await page.route("**/bounces", fail)
    async with api.client(await api.key("alice")) as program:
        sent = {"emails": ["a@example.com"], "mode": "fast"}
        job = (await program.post("/v1/bulk/jobs", json=sent)).json()["data"]["job_id"]
        await program.get(f"/v1/bulk/jobs/{job}?wait=60")
    await page.goto(f"/jobs/{job}")
    async with page.expect_response("**/bounces"):
        await page.clock.run_for(500)
    for _ in range(3):
        await page.clock.run_for(500)
        await page.evaluate("fetch('/healthz').then((answer) => answer.text())")
    assert len(asked) == 1
    async with page.expect_response("**/bounces"):
        await page.clock.run_for(2_000)
    await page.context.close()


@pytest.mark.usefixtures("worker")
async def test_of_two_filters_the_one_asked_for_last_is_shown_whichever_answer_comes_first(
    visits: Visits,
) -> None:
    page = await visits.as_role(Role.MEMBER)
    async with visits.api.client(await visits.api.key("alice")) as program:
        sent = {"emails": ["a@example.com", "none"], "mode": "fast"}
        job = (await program.post("/v1/bulk/jobs", json=sent)).json()["data"]["job_id"]
        await program.get(f"/v1/bulk/jobs/{job}?wait=60")
    held = asyncio.Event()

    async def hold(route: Route) -> None:
        await held.wait()
        await route.continue_()

    await page.goto(f"/jobs/{job}/results")
    await page.route("**/results?tier=send", hold)
    await page.locator("#tab-send").click()
    await page.locator("#tab-remove").click()
    await expect(page.locator("#tab-remove[aria-current]")).to_be_visible()
    async with page.expect_response("**/results?tier=send") as late:
        held.set()
    await (await late.value).finished()
    await page.evaluate("fetch('/healthz').then((answer) => answer.text())")
    await expect(page).to_have_url(re.compile(r"tier=remove$"))
    await expect(page.locator(".results-table .badge")).to_have_text(["Remove"])
    await page.go_back()
    await expect(page.locator("#tab-all[aria-current]")).to_be_visible()


@pytest.mark.usefixtures("worker")
async def test_everything_works_without_scripts(visits: Visits) -> None:
    page = await visits.as_role(Role.MEMBER)
    state = await page.context.storage_state()
    context = await visits.browser.new_context(
        base_url=visits.api.url, storage_state=state, java_script_enabled=False
    )
    plain = await context.new_page()
    await plain.goto("/")
    await plain.get_by_label("Email address").fill("nobody@@example.com")
    await plain.get_by_label("Fast").check()
    await plain.get_by_role("button", name="Validate").click()
    await expect(plain.get_by_text("Syntax error", exact=True)).to_be_visible()
    file = {"name": "plain.csv", "mimeType": "text/csv", "buffer": b"email\nann@example.com\nbroken\n"}
    await plain.set_input_files("#file", file)  # type: ignore[arg-type]  # a dict as good as the typed one
    await plain.get_by_role("button", name="Upload").click()
    await plain.get_by_label("Fast").check()
    await plain.get_by_role("button", name="Start").click()
    await plain.get_by_label("Validate this column although").check()  # half of it is no address
    await plain.get_by_label("Fast").check()
    await plain.get_by_role("button", name="Start").click()
    badge = plain.locator("h1 .badge")
    for _ in range(200):
        if await badge.inner_text() == "Completed":
            break
        await plain.wait_for_timeout(200)
        await plain.reload()
    await plain.get_by_role("link", name="Results", exact=True).click()
    await plain.get_by_role("link", name="To remove").click()
    await expect(plain.locator("[data-said]")).to_contain_text("1 – 1 of 1")
