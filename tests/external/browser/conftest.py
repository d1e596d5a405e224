"""Fixtures of browser tests: a browser, an API beside it, and pages of people who are signed in.

A test here fails when a page writes an error to the console, breaks its policy or opens a dialog. All share a
browser and therefore its loop, async fixtures too (`loop_scope="session"`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio
import structlog

from mailsift.accounts.people import Role
from mailsift.settings import Settings
from tests.external.browser import axe as axe_core
from tests.external.browser.chromium import WIDE, Browser, Page, Scheme, Watch, chromium, sign_in
from tests.integration.api.conftest import Api, quick_passwords, running
from tests.support.sessions import PASSWORD, person
from tests.support.workers import worker_beside

__all__ = ["quick_passwords"]

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test of this folder needs a browser (tests.support.required_programs), and runs on its loop."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.needs("chromium"))
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@dataclass(frozen=True, slots=True)
class Visits:
    """Opens pages at one API."""

    api: Api
    browser: Browser
    watch: Watch

    async def anybody(self, *, width: int = WIDE, scheme: Scheme = "light", zone: str = "UTC") -> Page:
        """Return a page of somebody who is not signed in."""
        return await self.watch.open(self.browser, self.api.url, width=width, scheme=scheme, zone=zone)

    async def as_role(
        self,
        role: Role = Role.OWNER,
        *,
        operator: bool = False,
        account: str = "alice",
        width: int = WIDE,
        scheme: Scheme = "light",
        zone: str = "UTC",
    ) -> Page:
        """Return a page of a new person with this role, who has signed in."""
        email = await person(self.api, role, operator=operator, account=account)
        page = await self.anybody(width=width, scheme=scheme, zone=zone)
        await sign_in(page, email, PASSWORD)
        return page


@pytest.fixture
def settings(make_settings: Callable[..., Settings]) -> Settings:
    """An installation that may send webhooks to this machine, and asks no mail server."""
    return make_settings(
        api_port=0, dns_servers=("127.0.0.1:9",), allow_non_public=True, webhook_allow_http=True
    )


@pytest_asyncio.fixture(loop_scope="session")
async def api(settings: Settings) -> AsyncIterator[Api]:
    async with running(settings) as found:
        yield found


@pytest.fixture
def worker(settings: Settings) -> Iterator[None]:
    """A worker of this installation."""
    with worker_beside(settings):
        yield


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def started_browser() -> AsyncIterator[Browser]:
    async with chromium() as running_browser:
        yield running_browser


@pytest_asyncio.fixture(loop_scope="session")
async def browser(started_browser: Browser) -> AsyncIterator[Browser]:
    """The browser of this process; what a test has opened in it, profiles of its own, ends with the test."""
    yield started_browser
    for context in started_browser.contexts:
        await context.close()


@pytest_asyncio.fixture(loop_scope="session")
async def visits(api: Api, browser: Browser) -> AsyncIterator[Visits]:
    """Opens pages; whatever they do that no page may do fails the test."""
    watch = Watch()
    with structlog.testing.capture_logs() as logs:
        yield Visits(api, browser, watch)
        for context in browser.contexts:
            await context.close()
    assert watch.seen == []
    assert [log for log in logs if log["event"] in {"page.csp_report", "request.broken"}] == []


@pytest.fixture
def page_as(visits: Visits) -> Callable[..., Awaitable[Page]]:
    """`await page_as(role)` is a page of somebody with this role (Visits.as_role)."""
    return visits.as_role


@pytest.fixture(scope="session")
def axe(pytestconfig: pytest.Config) -> str:
    """The source of axe-core."""
    return axe_core.fetch(pytestconfig.cache.mkdir(f"axe-core-{axe_core.VERSION}"))
