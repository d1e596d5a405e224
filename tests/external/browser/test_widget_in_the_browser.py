"""The widget in a form of somebody else's page: what it offers, whom it serves, and that it is in no way."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest_asyncio
from playwright.async_api import Page, expect
from typing_extensions import override

from mailsift.accounts.keys import KeyKind
from mailsift.container import open_container
from tests.external.browser.axe import check_looks
from tests.external.browser.chromium import Browser
from tests.integration.api.conftest import Api

FORM = """<!doctype html><html lang="en"><title>Shop</title>
<meta name="viewport" content="width=device-width">
<main><h1>Newsletter</h1><form action="/done" method="post"><label for="mail">Email</label>
<input id="mail" name="mail" type="email" data-mailsift aria-describedby="why"><p id="why">Once a month.</p>
<button>Sign up</button></form></main>
<script src="{service}/widget.js" data-key="{key}" defer></script></html>"""


class _Shop(BaseHTTPRequestHandler):
    """A site of its own; its policy lets scripts and requests go to the service and nowhere else."""

    page, service = b"", ""

    def do_GET(self) -> None:
        self._answer(self.page)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(b"<!doctype html><html lang=en><title>Done</title><h1>Welcome</h1>")

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        policy = f"default-src 'none'; script-src {self.service}; connect-src {self.service}"
        self.send_header("Content-Security-Policy", policy)
        self.end_headers()
        self.wfile.write(body)

    @override
    def log_message(self, *_: object) -> None:
        """Be silent."""


@contextmanager
def _shop() -> Iterator[tuple[str, type[_Shop]]]:
    handler = type("Shop", (_Shop,), {})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    serving.start()
    try:
        yield f"http://localhost:{server.server_port}", handler
    finally:
        server.shutdown()
        serving.join()
        server.server_close()


@pytest_asyncio.fixture(loop_scope="session")
async def form(api: Api, browser: Browser) -> AsyncIterator[Page]:
    """A page of a shop with a form, whose key is bound to the shop."""
    with _shop() as (origin, shop):
        async with open_container(api.settings) as container:
            owner = await container.jobs.account("alice")
            kind = KeyKind(test=True, public=True)
            key = (await container.keys.create(owner, kind=kind, origins=[origin])).secret
        shop.page, shop.service = FORM.format(service=api.url, key=key).encode(), api.url
        context = await browser.new_context(base_url=origin)
        page = await context.new_page()
        await page.goto("/")
        yield page
        await context.close()


async def test_a_form_offers_what_was_meant_and_reads_it_out(form: Page, axe: str) -> None:
    field = form.get_by_label("Email")
    await field.press_sequentially("jane@gmial.com")
    offer = form.get_by_role("button", name="Use it: jane@gmail.com")
    await expect(offer).to_be_visible()
    note = form.locator(".mailsift-note")
    await expect(note).to_have_attribute("aria-live", "polite")
    described = await field.get_attribute("aria-describedby")
    assert described == f"why {await note.get_attribute('id')}"
    await check_looks(form, axe)
    await offer.click()
    await expect(field).to_have_value("jane@gmail.com")
    await expect(field).to_be_focused()
    await field.fill("jane@disposable.example.com")
    await expect(note).to_have_text("This is a throw-away address.")
    await form.get_by_role("button", name="Sign up").click()  # it advises and forbids nothing
    await expect(form.get_by_role("heading", name="Welcome")).to_be_visible()


async def test_a_page_elsewhere_gets_nothing_and_its_form_works(form: Page) -> None:
    elsewhere = form.url.replace("localhost", "127.0.0.1")
    async with form.expect_event("requestfailed", lambda one: "/v1/widget/" in one.url):
        await form.goto(elsewhere)
        await form.get_by_label("Email").fill("jane@gmial.com")
    await expect(form.locator(".mailsift-note")).to_be_empty()
    await form.get_by_role("button", name="Sign up").click()
    await expect(form.get_by_role("heading", name="Welcome")).to_be_visible()


async def test_a_service_that_hangs_is_not_waited_for(form: Page) -> None:
    hung = asyncio.Event()
    await form.route("**/v1/widget/*", lambda _: hung.wait())
    details = await form.evaluate("""() => new Promise((done) => {
        addEventListener("mailsift", (event) => done([event.detail]));
        const field = document.querySelector("input");
        field.focus();
        field.value = "jane@gmial.com";
        field.blur();
    })""")
    assert details == [None]  # after 800 ms of the browser's own clock, and not never
    await form.get_by_role("button", name="Sign up").click()
    await expect(form.get_by_role("heading", name="Welcome")).to_be_visible()
    hung.set()


KEEPS_A_COPY = """(field) => {
  // As React does: what is set on this very field is known already, and an event that tells of it is none.
  const own = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value");
  let known = field.value;
  Object.defineProperty(field, "value", {
    configurable: true,
    get() { return own.get.call(this); },
    set(value) { known = value; own.set.call(this, value); },
  });
  field.addEventListener("input", () => {
    if (known === field.value) return;
    known = field.value;
    field.dataset.told = known;
  });
}"""


async def test_who_keeps_a_copy_of_the_field_hears_of_an_accepted_address(form: Page) -> None:
    field = form.get_by_label("Email")
    await field.evaluate(KEEPS_A_COPY)
    await field.press_sequentially("jane@gmial.com")
    await form.get_by_role("button", name="Use it: jane@gmail.com").click()
    await expect(field).to_have_attribute("data-told", "jane@gmail.com")


async def test_a_form_that_is_cleared_is_as_new(form: Page) -> None:
    field, note = form.get_by_label("Email"), form.locator(".mailsift-note")
    for _ in range(2):  # the same address again, too
        await field.press_sequentially("jane@disposable.example.com")
        await expect(note).to_have_text("This is a throw-away address.")
        await form.locator("form").evaluate("(form) => form.reset()")
        await expect(note).to_have_text("")
        await expect(field).to_have_attribute("data-mailsift", "")


async def test_nothing_moves_under_a_pressed_button(form: Page) -> None:
    body, note = form.locator("body"), form.locator(".mailsift-note")
    button = form.get_by_role("button", name="Sign up")
    await form.evaluate("""() => {
        let read = 0;
        const json = Response.prototype.json;
        Response.prototype.json = async function () {
            const found = await json.call(this);
            setTimeout(() => { document.body.dataset.read = ++read; });  // all that waited for it has gone on
            return found;
        };
        document.querySelector("form").addEventListener("submit", (event) => event.preventDefault());
        document.querySelector("input").focus();
        document.querySelector("input").value = "jane@disposable.example.com";
    }""")
    box = await button.bounding_box()
    assert box is not None
    await form.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    await expect(body).to_have_attribute("data-read", "1")  # the token
    await form.mouse.down()  # the field is left, and asked about
    await expect(body).to_have_attribute("data-read", "2")
    await expect(note).to_be_empty()
    assert await button.bounding_box() == box
    await form.mouse.up()
    await expect(note).to_have_text("This is a throw-away address.")
