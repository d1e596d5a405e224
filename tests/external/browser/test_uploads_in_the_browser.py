"""An upload whose connection breaks: it goes on by itself, and after a reload with what had arrived."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from playwright.async_api import Page, expect

from mailsift.accounts.people import Role
from tests.external.browser.chromium import sign_in
from tests.external.browser.conftest import Visits
from tests.support.installation import until
from tests.support.sessions import PASSWORD, person

ROWS = 20_000
WITHIN = 60_000
_ASKS_BEFORE_LEAVING = """() => {
  const event = new Event("beforeunload", { cancelable: true });
  window.dispatchEvent(event);
  return event.defaultPrevented;
}"""


class Cutter:
    """A way to the API that breaks off when so many bytes have gone up, and may stay away."""

    def __init__(self, upstream: str) -> None:
        self._host, self._port = urlsplit(upstream).hostname, urlsplit(upstream).port
        self.url, self.went_up = "", 0
        self._cut = 0
        self._open: set[asyncio.StreamWriter] = set()
        self.away = asyncio.Event()

    def cut_at(self, mark: int) -> None:
        """Break off when so many bytes more have gone up, and stay away."""
        self._cut = self.went_up + mark

    def come_back(self) -> None:
        """Be there again, for good."""
        self._cut = 0
        self.away.clear()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Cutter]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with server:
            yield self

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.away.is_set():
            writer.transport.abort()
            return
        self._open.add(writer)
        up_reader, up_writer = await asyncio.open_connection(self._host, self._port)
        down = asyncio.create_task(_pump(up_reader, writer))
        try:
            while data := await reader.read(1 << 16):
                up_writer.write(data)
                await up_writer.drain()
                self.went_up += len(data)
                if self._cut and self.went_up >= self._cut:
                    self.away.set()
                    for one in self._open:  # those a browser keeps for later, too
                        one.transport.abort()
                    break
        except OSError:
            pass
        finally:
            up_writer.close()
            down.cancel()
            with suppress(asyncio.CancelledError, OSError):
                await down
            writer.close()
            self._open.discard(writer)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()
    writer.close()


def _list(path: Path) -> Path:
    note = "x" * 1_000
    path.write_text("email,note\n" + "".join(f"p{n}@shop.example,{note}\n" for n in range(ROWS)))
    return path


async def test_an_upload_that_breaks_off_goes_on_where_it_was(visits: Visits, tmp_path: Path) -> None:
    source = _list(tmp_path / "people.csv")
    size = source.stat().st_size
    email = await person(visits.api, Role.MEMBER)
    async with Cutter(visits.api.url).running() as way:
        page = await visits.watch.open(visits.browser, way.url)
        await sign_in(page, email, PASSWORD)
        await page.goto("/")
        way.cut_at(size * 6 // 10)
        await page.set_input_files("#file", source)
        await expect(page.get_by_text("The connection broke off.").first).to_be_visible(timeout=WITHIN)
        await asyncio.wait_for(way.away.wait(), WITHIN / 1_000)
        assert await page.evaluate(_ASKS_BEFORE_LEAVING)
        context = page.context
        await page.close()
        way.come_back()
        page = await context.new_page()
        await until(partial(_has_kept, page, 45), within=60)
        before = way.went_up
        await page.set_input_files("#file", source)
        await page.wait_for_url("**/lists/*", timeout=WITHIN)
        assert way.went_up - before < size * 0.6
        await expect(page.get_by_text("20,000 rows ·")).to_be_visible(timeout=WITHIN)
        await page.close()
    _forgive_the_break(visits)


async def test_an_upload_goes_on_by_itself(visits: Visits, tmp_path: Path) -> None:
    source = _list(tmp_path / "people.csv")
    email = await person(visits.api, Role.MEMBER)
    async with Cutter(visits.api.url).running() as way:
        page = await visits.watch.open(visits.browser, way.url)
        await sign_in(page, email, PASSWORD)
        await page.goto("/")
        way.cut_at(10 * 2**20)
        await page.set_input_files("#file", source)
        await asyncio.wait_for(way.away.wait(), WITHIN / 1_000)
        way.come_back()
        await page.wait_for_url("**/lists/*", timeout=WITHIN)
        await expect(page.get_by_text("20,000 rows ·")).to_be_visible(timeout=WITHIN)
        await page.close()
    _forgive_the_break(visits)


async def test_an_upload_can_be_cancelled(visits: Visits, tmp_path: Path) -> None:
    source = _list(tmp_path / "people.csv")
    email = await person(visits.api, Role.MEMBER)
    async with Cutter(visits.api.url).running() as way:
        page = await visits.watch.open(visits.browser, way.url)
        await sign_in(page, email, PASSWORD)
        await page.goto("/")
        way.cut_at(10 * 2**20)
        await page.set_input_files("#file", source)
        await asyncio.wait_for(way.away.wait(), WITHIN / 1_000)
        await expect(page.get_by_text("The connection broke off.").first).to_be_visible(timeout=WITHIN)
        way.come_back()
        await page.get_by_role("button", name="Cancel the upload").click()
        await expect(page.get_by_text("The upload is cancelled")).to_be_visible(timeout=WITHIN)
        assert not await page.evaluate(_ASKS_BEFORE_LEAVING)
        await page.reload()
        await expect(page.get_by_text("Upload not finished")).to_have_count(0)
        await page.close()
    _forgive_the_break(visits)


async def _has_kept(page: Page, percent: int) -> bool:
    """Look at what the page says is there; the server notices the break in its own time."""
    await page.goto("/")
    notice = await page.locator("[data-unfinished]").inner_text()
    found = re.search(r"(\d+) % of", notice)
    assert found is not None, notice
    assert int(found[1]) <= 60
    return int(found[1]) >= percent


def _forgive_the_break(visits: Visits) -> None:
    """Chromium tells of every connection that broke, and of the request it then sent once more by itself."""
    visits.watch.seen[:] = [
        message
        for message in visits.watch.seen
        if "net::ERR_" not in message and "409 (Conflict)" not in message
    ]
