"""One address: its verdict comes without a new page, and what a hostile mail server says is text."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio
from playwright.async_api import expect

from mailsift.accounts.people import Role
from mailsift.settings import Settings
from tests.external.browser.conftest import Visits
from tests.unit.pipeline.dns_stub import Says, serving
from tests.unit.pipeline.smtp_stub import Mailer, mailing

HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>"
ZONE = {
    "shop.example": {"MX": Says(["10 mx.shop.example."])},
    "mx.shop.example": {"A": Says(["127.0.0.1"])},
}
WITHIN = 30_000


@pytest_asyncio.fixture(loop_scope="session")
async def ports() -> AsyncIterator[tuple[int, str]]:
    """The port of a mail server with a hostile tongue, and a name server that leads there."""
    mailer = Mailer(rcpt=lambda _: f"550 5.1.1 User unknown {HOSTILE}", banner=f"220 {HOSTILE}")
    async with mailing(mailer) as port, serving(ZONE) as dns:
        yield port, dns.server


@pytest.fixture
def settings(make_settings: Callable[..., Settings], ports: tuple[int, str]) -> Settings:
    return make_settings(
        sandbox={},
        api_port=0,
        smtp_port=ports[0],
        dns_servers=(ports[1],),
        allow_non_public=True,
        preflight_domains=("shop.example",),
        dns_canaries=(),
    )


async def test_a_verdict_comes_without_a_new_page_and_hostile_words_are_text(visits: Visits) -> None:
    page = await visits.as_role(Role.MEMBER)
    await page.goto("/")
    await page.evaluate("window.here = 'still'")
    await page.get_by_label("Email address").fill("bob@shop.example")
    await page.keyboard.press("Enter")
    verdict = page.get_by_role("region", name="Verdict")
    await expect(verdict.get_by_role("paragraph").get_by_text("bob@shop.example")).to_be_visible(
        timeout=WITHIN
    )
    await verdict.get_by_text("Evidence", exact=True).click()
    await expect(
        verdict.get_by_text("10 mx.shop.example")
        .or_(verdict.get_by_text("mx.shop.example (127.0.0.1)"))
        .first
    ).to_be_visible()
    await expect(verdict.locator(".quote").first).to_contain_text(HOSTILE)
    await expect(verdict.get_by_role("heading", name="How the score adds up")).to_be_visible()
    await page.get_by_label("Email address").fill(HOSTILE)
    await page.get_by_role("button", name="Validate").click()
    await expect(verdict.locator(".verdict-address")).to_have_text(HOSTILE, timeout=WITHIN)
    await expect(verdict.get_by_text("Syntax error")).to_be_visible()
    assert await page.evaluate("window.here") == "still"
    assert await page.locator("img[src=x]").count() == 0
