"""Pictures of every page, light, dark, wide, narrow: `python -m tests.external.browser.screenshots [folder]`.

The few that the documentation shows are in docs/images; by default all of them go where git does not look.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import product
from pathlib import Path

from playwright.async_api import FloatRect

from mailsift.runtime.api_server import serve
from mailsift.runtime.embedded import installation
from mailsift.sandbox.client import SandboxProcess
from mailsift.settings import Settings
from tests.external.browser import sample_installation
from tests.external.browser.chromium import NARROW, WIDE, Browser, Page, Scheme, Watch, chromium, sign_in
from tests.external.browser.sample_installation import Things
from tests.support.installation import settings_for
from tests.support.workers import ROOT, workers

FOLDER = ROOT / "build" / "pictures"
_SCHEMES: tuple[Scheme, ...] = ("light", "dark")
_TALLEST = 1_600  # what lies further down looks the same
_LOOKS = tuple(product(_SCHEMES, (WIDE, NARROW)))


def pages(things: Things) -> dict[str, str]:
    """Return the path of every page by the name of its picture."""
    job, key, webhook = things.completed, things.key, things.webhook
    return {
        "validate": "/",
        "list": f"/lists/{things.draft}",
        "jobs": "/jobs",
        "job": f"/jobs/{job}",
        "job-running": f"/jobs/{things.running}",
        "job-failed": f"/jobs/{things.failed}",
        "results": f"/jobs/{job}/results",
        "row": f"/jobs/{job}/rows/2",
        "what-if": f"/jobs/{job}/what-if?unknown=remove&role=review",
        "outcomes": "/outcomes",
        "suppressions": "/suppressions",
        "policy": "/outcomes/policy",
        "receiver": f"/outcomes/receivers/{things.receiver}",
        "receiver-new": "/outcomes/receivers/new",
        "runs": f"/jobs/{things.rerun}/runs?against={job}",
        "accuracy": "/accuracy",
        "keys": "/keys",
        "key-new": "/keys/new",
        "key-roll": f"/keys/{key}/roll",
        "webhooks": "/webhooks",
        "webhook-new": "/webhooks/new",
        "webhook": f"/webhooks/{webhook}",
        "deliveries": f"/webhooks/{webhook}/deliveries",
        "delivery": f"/webhooks/deliveries/{things.delivery}",
        "schedules": "/schedules",
        "schedule": f"/schedules/{things.schedule}",
        "schedule-new": f"/schedules/new?job={job}",
        "account": "/account",
        "you": "/account/you",
        "audit": "/account/log",
        "ops": "/ops",
        "ops-jobs": "/ops/jobs",
        "ops-job": f"/ops/jobs/{things.running}",
        "ops-workers": "/ops/workers",
        "ops-leases": "/ops/leases",
        "ops-throttles": "/ops/throttles",
        "ops-ledger": "/ops/ledger",
        "ops-opt-outs": "/ops/opt-outs",
        "ops-accuracy": "/ops/accuracy",
        "ops-facts": "/ops/facts",
        "ops-deliveries": "/ops/deliveries",
        "ops-broker": "/ops/broker",
        "ops-failing-chunks": "/ops/failing-chunks",
        "ops-schedules": "/ops/schedules",
        "ops-audit": "/ops/audit",
        "help": "/help#jobs",
        "error": "/nothing-here",
    }


async def take(folder: Path, settings: Settings, only: set[str]) -> list[str]:
    """Take the pictures; returns what was wrong with a page."""
    watch = Watch()
    async with (
        _api(settings) as url,
        sample_installation.furnished(settings) as things,
        chromium() as browser,
    ):
        for scheme, width in _LOOKS:
            suffix = f"{scheme}-{width}"
            door = await watch.open(browser, url, width=width, scheme=scheme)
            await _shoot(door, "/login", folder / f"login-{suffix}.png", watch)
            page = await _inside(browser, watch, url, width=width, scheme=scheme)
            for name, path in pages(things).items():
                if not only or name in only:
                    await _shoot(page, path, folder / f"{name}-{suffix}.png", watch)
            await page.context.close()
            await door.context.close()
    return watch.seen


async def _inside(browser: Browser, watch: Watch, url: str, *, width: int, scheme: Scheme) -> Page:
    page = await watch.open(browser, url, width=width, scheme=scheme)
    await sign_in(page, sample_installation.OWNER, sample_installation.PASSWORD)
    return page


async def _shoot(page: Page, path: str, file: Path, watch: Watch) -> None:
    answer = await page.goto(path)
    if answer is None or answer.status not in {200, 404}:
        watch.seen.append(f"{path}: {answer and answer.status}")
    await page.wait_for_timeout(400)  # a live page is never idle; what it swaps in has come by then
    wide = await page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    if wide:
        watch.seen.append(f"{path}: {wide} pixels too wide")
    tall = await page.evaluate("document.documentElement.scrollHeight")
    size = page.viewport_size or {"width": WIDE, "height": _TALLEST}
    clip: FloatRect = {"x": 0, "y": 0, "width": size["width"], "height": min(tall, _TALLEST)}
    await page.set_viewport_size({"width": size["width"], "height": max(size["height"], tall)})
    await page.screenshot(path=file, full_page=True, clip=clip)
    await page.set_viewport_size(size)


@asynccontextmanager
async def _api(settings: Settings) -> AsyncIterator[str]:
    url: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    stop = asyncio.Event()
    serving = asyncio.create_task(serve(settings, started=url.set_result, stop=stop))
    try:
        yield await url
    finally:
        stop.set()
        await serving


def main(folder: str = str(FOLDER), *only: str) -> int:
    """Take every picture, or those named; the exit status tells whether a page was wrong."""
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="ms-", dir="/tmp") as home,  # a short path for sockets
        SandboxProcess(seed=sample_installation.SEED, domains=sample_installation.DOMAINS) as sandbox,
    ):
        wanted = settings_for(
            Path(home),
            sandbox=sandbox.env,
            overrides=sample_installation.OVERRIDES,
            api_port=0,
            webhook_allow_http=True,
        )
        with installation(wanted) as settings, workers(settings, 1, Path(home) / "worker.log"):
            wrong = asyncio.run(take(place, settings, set(only)))
    print("\n".join(wrong) or f"pictures: {place}")  # noqa: T201 - a script
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
