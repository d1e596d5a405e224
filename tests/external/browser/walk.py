"""A stranger's walk, from nothing to the file that is safe to send: `python -m tests.external.browser.walk`.

Prints what each step takes, in clicks and seconds, on a fresh installation with its own servers. Clicks are
those the pages receive; typing and dropping are none.
"""

from __future__ import annotations

import asyncio
import base64
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from playwright.async_api import Page, expect

from mailsift.sandbox.client import SandboxProcess
from mailsift.sandbox.listing import write_list
from mailsift.sandbox.world import SandboxWorld, WorldMix
from mailsift.settings import Settings
from tests.external.browser.chromium import Watch, chromium
from tests.support.commands import CommandLine
from tests.support.installation import settings_for

SEED, DOMAINS, ROWS = 3, 60, 400
PASSWORD: Final = "correct horse battery staple"
WITHIN: Final = 90_000
DROP: Final = """async ([name, content]) => {
  const bytes = Uint8Array.from(atob(content), letter => letter.charCodeAt(0));
  const held = new DataTransfer();
  held.items.add(new File([bytes], name, {type: "text/csv"}));
  const zone = document.querySelector("[data-drop]");
  for (const type of ["dragenter", "dragover", "drop"]) {
    zone.dispatchEvent(new DragEvent(type, {dataTransfer: held, bubbles: true, cancelable: true}));
  }
}"""
_COUNT: Final = """addEventListener("click", event => {
  if (event.isTrusted) sessionStorage.clicks = Number(sessionStorage.clicks || 0) + 1;
}, true)"""


@dataclass(frozen=True, slots=True)
class WalkStep:
    """What somebody did, in how many clicks, and the seconds until they could go on."""

    done: str
    clicks: int
    seconds: float


class Walk:
    """Takes one stranger along, on a page that nobody has used."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.steps: list[WalkStep] = []
        self._clicks = 0
        self._at = time.monotonic()

    async def become_the_first_owner(self, link: str) -> None:
        """Open the printed link and sign up."""
        page = self.page
        await page.add_init_script(_COUNT)
        await page.goto(link)
        await page.get_by_label("Account").fill("Analytical Engines")
        await page.get_by_label("Email").fill("ada@example.com")
        await page.get_by_label("Password").fill(PASSWORD)
        await page.get_by_role("button", name="Start").click()
        await expect(page.get_by_role("heading", name="Get started")).to_be_visible()
        await self._note("Sign up by the printed link")

    async def drop(self, name: str, content: bytes) -> None:
        """Drop a list, when the page's scripts are there to take it."""
        await self.page.wait_for_load_state()
        await self.page.evaluate(DROP, [name, base64.b64encode(content).decode()])
        await self.page.wait_for_url("**/lists/*", timeout=WITHIN)
        await expect(self.page.get_by_role("button", name="Start")).to_be_in_viewport()
        await self._note("Drop the file; see what is in it")

    async def start(self) -> None:
        """Start it as it is offered, and wait for its end."""
        await self.page.get_by_role("button", name="Start").click()
        await self.page.wait_for_url("**/jobs/*")
        await self._note("Start")
        await self._until_it_has_ended()
        await self._note("Wait until it has ended")

    async def download(self) -> Path:
        """Get the file that is safe to send."""
        async with self.page.expect_download() as coming:
            await self.page.get_by_role("button", name="Download what is safe to send").click()
        file = await (await coming.value).path()
        await self._note("Download what is safe to send")
        return file

    async def run_the_sample(self) -> None:
        """From the page one arrives at, see a sample's results."""
        await self.page.get_by_role("button", name="Run the sample").click()
        await self.page.wait_for_url("**/jobs/*")
        await self._until_it_has_ended()
        await self._note("Run the sample, until its results are there")

    async def _until_it_has_ended(self) -> None:
        await expect(self.page.locator("h1 .badge", has_text="Completed")).to_be_visible(timeout=WITHIN)

    async def _note(self, done: str) -> None:
        clicks = int(await self.page.evaluate("Number(sessionStorage.clicks || 0)"))
        now = time.monotonic()
        self.steps.append(WalkStep(done, clicks - self._clicks, now - self._at))
        self._clicks, self._at = clicks, now


@contextmanager
def served(settings: Settings) -> Iterator[str]:
    """Run `mailsift serve` as a newcomer does; gives the link it prints."""
    process = CommandLine(settings).start("serve", "--port", "0")
    try:
        assert process.stderr is not None
        link = ""
        while not link:
            line = process.stderr.readline()
            assert line, "it ended"
            link = line.strip() if "/welcome?token=" in line else ""
        yield link
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def list_of(folder: Path, rows: int) -> bytes:
    """Return a list of people who live in the sandbox."""
    path = folder / "customers.csv"
    write_list(SandboxWorld(seed=SEED, domains=DOMAINS, mix=WorldMix.PLAIN), path, rows=rows)
    return path.read_bytes()


async def _walked(link: str, content: bytes) -> list[WalkStep]:
    async with chromium() as browser:
        walk = Walk(await Watch().open(browser, link.partition("/welcome")[0]))
        await walk.become_the_first_owner(link)
        await walk.drop("customers.csv", content)
        await walk.start()
        await walk.download()
        await walk.page.goto("/")
        await walk.run_the_sample()
        return walk.steps


def main() -> None:
    """Walk once and print each step."""
    with (
        tempfile.TemporaryDirectory(prefix="ms-", dir="/tmp") as home,  # a short path for sockets
        SandboxProcess(seed=SEED, domains=DOMAINS, greylist_seconds=1) as sandbox,
    ):
        settings = settings_for(Path(home), sandbox=sandbox.env, log_level="warning")
        began = time.monotonic()
        with served(settings) as link:
            steps = [WalkStep("mailsift serve, until it prints a link", 0, time.monotonic() - began)]
            steps += asyncio.run(_walked(link, list_of(Path(home), ROWS)))
    for step in steps:
        sys.stdout.write(f"{step.clicks} clicks {step.seconds:6.1f} s  {step.done}\n")


if __name__ == "__main__":
    main()
