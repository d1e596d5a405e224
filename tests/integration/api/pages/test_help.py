"""Every page says where it is explained, and that place is there, for whoever sees the page."""

from __future__ import annotations

import re
from pathlib import Path

import httpx

from mailsift.api import pages
from mailsift.api.pages.page import TOPICS
from tests.integration.api.conftest import Api
from tests.integration.api.pages.test_page_access import OPEN, routes
from tests.support.sessions import browser, signed_in

FOLDER = Path(pages.__file__).parents[1] / "templates"
LINK = re.compile(r'<a class="help" href="/help#([a-z-]+)"')
LAYOUTS = {"sign_in.html", "ops/layout.html"}


def test_every_template_of_a_page_has_a_topic() -> None:
    whole = {
        str(path.relative_to(FOLDER))
        for path in FOLDER.rglob("*.html")
        if path.read_text().startswith("{% extends")
    }
    assert whole - LAYOUTS - {"help.html"} == set(TOPICS)


async def test_every_page_links_to_a_topic_that_is_there(api: Api) -> None:
    async with signed_in(api, operator=True) as operator, signed_in(api) as owner, browser(api) as stranger:
        for client, paths in (
            (operator, [path for path in routes("GET") if "{" not in path]),
            (owner, ["/", "/jobs", "/keys/new", "/nothing-here"]),
            (stranger, ["/login", "/probing", "/nothing-here"]),
        ):
            topics = await _topics(client)
            linked = {path: await _linked(client, path) for path in paths}
            assert {path: topic for path, topic in linked.items() if topic and topic not in topics} == {}
            assert [path for path, topic in linked.items() if topic == ""] == []
        assert set(TOPICS.values()) <= await _topics(operator)
        assert not [topic for topic in await _topics(owner) if topic.startswith("ops")]
    assert "/help" in OPEN


async def _topics(client: httpx.AsyncClient) -> set[str]:
    page = (await client.get("/help")).text
    topics = re.findall(r'<section class="card topic" id="([a-z-]+)"', page)
    assert len(topics) == len(set(topics))
    assert set(re.findall(r'<a href="#([a-z-]+)"', page)) == set(topics)
    assert "http" not in re.sub(r"<pre.*?</pre>", "", page.partition("<main")[2])
    return set(topics)


async def _linked(client: httpx.AsyncClient, path: str) -> str | None:
    """Return the topic a page links to, "" without one; None for what is no page."""
    answer = await client.get(path)
    if "<main" not in answer.text:
        return None
    found = LINK.findall(answer.text)
    assert len(found) <= 1
    return str(found[0]) if found else ""
