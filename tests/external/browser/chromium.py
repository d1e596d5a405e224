"""Debian's Chromium, driven by Playwright; every page is watched for what must not happen."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Literal

from playwright.async_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Dialog,
    Locator,
    Page,
    async_playwright,
)

WIDE, NARROW = 1280, 390
_SWITCHES = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
Scheme = Literal["light", "dark"]


def _browser() -> str:
    """Return Debian's Chromium: the one without windows, where there is one, costs half as much."""
    return shutil.which("chromium-headless-shell") or "/usr/bin/chromium"


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """Run a headless browser with a profile of its own."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=_browser(), args=_SWITCHES, headless=True)
        try:
            yield browser
        finally:
            await browser.close()


class Watch:
    """Writes down what no page may do: errors on the console, broken scripts, dialogs of hostile text."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def open(
        self,
        browser: Browser,
        base_url: str,
        *,
        width: int = WIDE,
        scheme: Scheme = "light",
        zone: str = "UTC",
    ) -> Page:
        """Return a page of a new profile that is watched, of a browser in this time zone."""
        context = await browser.new_context(
            base_url=base_url,
            viewport={"width": width, "height": 900},
            color_scheme=scheme,
            timezone_id=zone,
        )
        await context.grant_permissions(["clipboard-read", "clipboard-write"], origin=base_url)
        context.on("console", self._console)
        context.on("weberror", lambda error: self.seen.append(f"script: {error.error}"))
        context.on("dialog", self._dialog)
        return await context.new_page()

    def _console(self, message: ConsoleMessage) -> None:
        page = message.page
        # A page that is itself an error, by its status, is told as a resource that failed to load.
        itself = page is not None and message.location["url"] == page.url and "status of 4" in message.text
        if message.type in {"error", "warning"} and not itself:
            self.seen.append(f"console: {message.text} ({message.location['url']})")

    async def _dialog(self, dialog: Dialog) -> None:
        self.seen.append(f"dialog: {dialog.message}")
        await dialog.dismiss()


async def stop_clock(page: Page) -> None:
    """Stop the clock of this page and of what it opens next: its timers fire in `page.clock.run_for` alone.

    An installed clock that nobody stops runs on with the test's own time beside what it is told.
    """
    opened = datetime(2027, 1, 15, 8, tzinfo=UTC)
    await page.clock.install(time=opened)
    await page.clock.pause_at(opened + timedelta(seconds=1))


async def run_clock_until_seen(page: Page, what: Locator) -> None:
    """Let a clock that was stopped go on, as fast as it can, until this is to be seen."""
    async with asyncio.timeout(90):
        while not await what.is_visible():
            await page.clock.run_for(1_000)


async def sign_in(page: Page, email: str, password: str) -> None:
    """Sign in through the form."""
    await page.goto("/login?next=/account/you")
    await page.get_by_label("Email").fill(email)
    await page.get_by_label("Password").fill(password)
    await page.get_by_role("button", name="Sign in").click()
    await page.wait_for_url("**/account/you")


_OUT_OF_REACH = """() => {
  const parts = "main :is(th, td, li, dd, p, label, a, summary, button, input, select)", out = [];
  for (const part of document.querySelectorAll(parts)) {
    const box = part.getBoundingClientRect();
    for (let holder = part.parentElement; holder && part.checkVisibility(); holder = holder.parentElement) {
      const { clipPath, overflowX, textOverflow } = getComputedStyle(holder);
      if (clipPath !== "none" || textOverflow === "ellipsis") break; // hidden, or shortened, on purpose
      const last = holder === document.documentElement;
      const edge = last ? { left: 0, right: innerWidth } : holder.getBoundingClientRect();
      const cut = box.right > edge.right + 1 || box.left < edge.left - 1;
      if (overflowX === "visible" && !last || !cut) continue;
      const scrolls = ["auto", "scroll"].includes(overflowX);
      const reached = scrolls && (holder.tabIndex >= 0 || part.matches("a, button"));
      if (!reached) out.push(`${part.tagName}: ${part.textContent.trim().slice(0, 40)}`);
      break;
    }
  }
  return out;
}"""


async def out_of_reach(page: Page) -> list[str]:
    """Return what lies where nobody can see or scroll to: behind the edge of its card or of the window."""
    found: list[str] = await page.evaluate(_OUT_OF_REACH)
    return found


async def sideways(page: Page) -> int:
    """Return by how many pixels the page is wider than its window."""
    wide: int = await page.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    return wide


__all__ = [
    "Browser",
    "BrowserContext",
    "Page",
    "Scheme",
    "Watch",
    "chromium",
    "out_of_reach",
    "run_clock_until_seen",
    "sideways",
    "sign_in",
    "stop_clock",
]
