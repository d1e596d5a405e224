"""What every page has: headers, errors in words, static files, and a place for reports."""

from __future__ import annotations

import json
import re
from pathlib import Path

import httpx
import pytest
import structlog

from tests.integration.api.conftest import Api
from tests.support.sessions import browser, signed_in

TEMPLATES = Path(__file__).parents[4] / "api" / "templates"
POLICY = {
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self'",
    "connect-src 'self'",
    "form-action 'self'",
    "frame-ancestors 'none'",
    "base-uri 'none'",
    "report-uri /csp-report",
}


def policy_of(answer: httpx.Response) -> set[str]:
    return {part.strip() for part in answer.headers["content-security-policy"].split(";")}


async def test_pages_are_private_strict_and_never_kept(api: Api) -> None:
    async with signed_in(api) as client, browser(api) as stranger:
        for answer in (
            await client.get("/keys"),
            await client.get("/nothing-here"),
            await stranger.get("/login"),
        ):
            assert policy_of(answer) == POLICY
            assert answer.headers["cache-control"] == "no-store"
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["referrer-policy"] == "same-origin"
            assert answer.headers["x-frame-options"] == "DENY"


def test_no_template_holds_what_the_policy_refuses() -> None:
    files = list(TEMPLATES.glob("*.html"))
    assert len(files) > 15
    for file in files:
        source = file.read_text()
        assert not re.search(r"<style|\sstyle=|\son[a-z]+=|javascript:", source, re.IGNORECASE), file.name
        assert not re.search(r"<script(?![^>]*\ssrc=)", source), file.name
        assert not re.search(r"""(?:src|href)=["'](?:https?:)?//""", source), file.name
        assert "|safe" not in source.replace(" ", ""), file.name


def test_every_form_that_changes_something_carries_the_token() -> None:
    for file in TEMPLATES.glob("*.html"):
        for form in re.findall(r'<form[^>]*method="post".*?</form>', file.read_text(), re.DOTALL):
            assert "csrf_field()" in form, file.name


async def test_an_error_is_a_page_for_people_and_json_for_programs(api: Api) -> None:
    async with signed_in(api) as client:
        page = await client.get("/nothing-here")
        assert page.status_code == 404
        assert "There is nothing here" in page.text
        assert re.search(r"Code <code>not_found</code>, request <code>req_[0-9a-f]{24}</code>", page.text)
        problem = await client.get("/nothing-here", headers={"Accept": "application/json"})
        assert problem.json()["code"] == "not_found"
        program = await client.get("/v1/nothing-here")
        assert program.json()["code"] == "not_found"
        wrong = await client.put("/keys")
        assert wrong.status_code == 405
        assert "That is not possible here" in wrong.text


async def test_who_is_signed_in_stays_so_where_nothing_is(api: Api) -> None:
    async with signed_in(api) as client, browser(api) as stranger:
        for answer in (
            await client.get("/nothing-here"),
            await client.get("/jobs/no-id"),
            await client.put("/keys"),
        ):
            assert 'href="/keys"' in answer.text
            assert "Sign out" in answer.text
        assert "Sign out" not in (await stranger.get("/nothing-here")).text


async def test_a_broken_page_says_so_and_nothing_else(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("secret of the house")

    monkeypatch.setattr("mailsift.api.pages.keys.render", broken)
    async with signed_in(api) as client:
        answer = await client.get("/keys")
    assert answer.status_code == 500
    assert "Something went wrong on our side" in answer.text
    assert "secret of the house" not in answer.text


@pytest.mark.parametrize("name", ["app.css", "app.js", "logo.svg"])
async def test_static_files_are_kept_for_ever_under_the_name_of_their_content(api: Api, name: str) -> None:
    async with browser(api) as client:
        page = (await client.get("/login")).text
        (path,) = set(re.findall(rf'"(/static/{re.escape(name)}\?v=[0-9a-f]{{12}})"', page))
        answer = await client.get(path)
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]
        assert answer.headers["content-type"].split(";")[0] in {
            "text/css",
            "text/javascript",
            "image/svg+xml",
        }
        assert "immutable" not in (await client.get(f"/static/{name}?v=old")).headers["cache-control"]


@pytest.mark.parametrize(
    "name", ["nothing.css", "..%2Fapp.py", "%2e%2e%2ferrors.py", "app.css%00", "__init__.py"]
)
async def test_nothing_but_static_files_is_served_as_one(api: Api, name: str) -> None:
    async with browser(api) as client:
        assert (await client.get(f"/static/{name}")).status_code == 404


async def test_a_page_and_all_it_loads_is_small(api: Api) -> None:
    async with signed_in(api) as client:
        page = await client.get("/keys")
        loaded = [await client.get(path) for path in set(re.findall(r'"(/static/[^"]+)"', page.text))]
        assert len(loaded) >= 3
        assert len(page.content) + sum(len(answer.content) for answer in loaded) < 100_000


async def test_a_report_is_noted_by_its_directive_alone(api: Api) -> None:
    secret = "https://evil.example/?email=ada@example.com"
    reports = [
        ({"csp-report": {"effective-directive": "script-src-elem", "blocked-uri": secret}}, "script-src"),
        ({"csp-report": {"violated-directive": "img-src 'self'", "document-uri": secret}}, "img-src"),
        ({"csp-report": {"effective-directive": secret}}, "other"),
        ({"csp-report": []}, "unreadable"),
        ([1], "unreadable"),
    ]
    with structlog.testing.capture_logs() as logs:
        async with browser(api) as client:
            for body, _ in reports:
                answer = await client.post("/csp-report", content=json.dumps(body))
                assert answer.status_code == 204
    noted = [log["directive"] for log in logs if log["event"] == "page.csp_report"]
    assert noted == [directive for _, directive in reports]
    assert secret not in str(logs)


async def test_reports_cannot_flood_the_log(api: Api) -> None:
    with structlog.testing.capture_logs() as logs:
        async with browser(api) as client:
            for _ in range(80):
                assert (await client.post("/csp-report", content=b"{}")).status_code == 204
    assert 55 <= sum(log["event"] == "page.csp_report" for log in logs) <= 65
