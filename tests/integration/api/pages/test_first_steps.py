"""A new account: three things to do, a sample that asks nobody, and nothing of it among what is real."""

from __future__ import annotations

import asyncio
import csv
import io
import re

import httpx
import pytest

from mailsift.accounts.first_steps import sample_list
from mailsift.accounts.people import Role
from mailsift.container import open_container
from mailsift.jobs.views import JobOptions
from mailsift.pipeline.verdict import Result
from mailsift.storage.sql import stats
from tests.integration.api.conftest import Api
from tests.integration.api.pages.queries import sql
from tests.support.sessions import csrf_of, post, signed_in

SAMPLE, LIST, CONNECT = "See it on a sample", "Drop your own list", "Connect your system"
PAGES = ("/", "/jobs")


async def steps_on(client: httpx.AsyncClient, path: str) -> list[str]:
    page = (await client.get(path)).text
    return re.findall(r'<li class="card step">\s*<h3>([^<]+)</h3>', page)


async def test_steps_go_as_they_are_done_or_put_away(api: Api) -> None:
    async with signed_in(api, Role.MEMBER) as member, signed_in(api, Role.VIEWER) as viewer:
        for path in PAGES:
            assert await steps_on(member, path) == [SAMPLE, LIST, CONNECT]
            assert await steps_on(viewer, path) == []
        assert (await post(member, "/first-steps/nothing/dismiss", page="/")).status_code == 404
        for _ in range(2):  # twice is once
            answer = await post(member, "/first-steps/sample/dismiss", page="/")
            assert answer.status_code == 303
        assert await steps_on(member, "/jobs") == [LIST, CONNECT]
        page = (await member.get("/")).text
        assert "Create a key" in page
        assert f"curl {api.url}/v1/email/single-validate" in page
        await post(member, "/keys/new", name="mine", scope="jobs:read", lifetime="0")
        assert "Register a webhook" in (await member.get("/")).text
        async with open_container(api.settings) as container:
            alice = await container.jobs.account("alice")
            await container.webhooks.create(alice, "https://example.com/hook")
            assert await steps_on(member, "/") == [LIST]
            source = api.settings.home / "own.csv"
            source.write_text("email\nann@example.com\n")
            await container.jobs.submit(alice, source, JobOptions())
        for path in PAGES:
            assert await steps_on(member, path) == []
        async with signed_in(api, account="bob") as other:
            assert await steps_on(other, "/") == [SAMPLE, LIST, CONNECT]


async def test_who_has_been_at_work_for_a_while_is_left_alone(api: Api) -> None:
    async with signed_in(api) as owner:
        source = api.settings.home / "own.csv"
        source.write_text("email\nann@example.com\n")
        async with open_container(api.settings) as container:
            await container.jobs.submit(await container.jobs.account("alice"), source, JobOptions())
        assert await steps_on(owner, "/jobs") == [SAMPLE, CONNECT]
        await sql(api.settings, "UPDATE account SET created_at = now() - interval '15 days'")
        assert await steps_on(owner, "/jobs") == []


async def test_two_who_start_the_sample_at_once_start_it_once(api: Api) -> None:
    async with signed_in(api) as owner, signed_in(api, Role.MEMBER) as member:
        tokens = [csrf_of((await one.get("/")).text) for one in (owner, member)]
        clicks = [(owner, tokens[0]), (owner, tokens[0]), (member, tokens[1])]
        begun = await asyncio.gather(
            *(one.post("/first-steps/sample", data={"csrf": token}) for one, token in clicks)
        )
    assert len({answer.headers["location"] for answer in begun}) == 1
    assert await sql(api.settings, "SELECT count(*) FROM job") == [(1,)]


@pytest.mark.usefixtures("worker")
async def test_the_sample_runs_in_test_mode_and_stays_among_tests(api: Api) -> None:
    async with signed_in(api, Role.MEMBER) as member, signed_in(api, account="bob") as stranger:
        begun = await post(member, "/first-steps/sample", page="/")
        job = begun.headers["location"]
        assert re.fullmatch(r"/jobs/[0-9a-f-]{36}", job)
        again = await post(member, "/first-steps/sample", page="/")
        assert again.headers["location"] == job
        async with asyncio.timeout(60), member.stream("GET", f"{job}/live") as live:
            async for line in live.aiter_lines():
                if line == "event: end":
                    break
        rows = list(csv.DictReader(io.StringIO((await member.get(f"{job}/download?format=csv")).text)))
        assert len(rows) == sample_list().count(b"\n") - 1
        assert [row["mailsift_result"] for row in rows] == [row["what it shows"] for row in rows]
        assert set(Result) - {Result(row["mailsift_result"]) for row in rows} == {
            Result.PASSED,
            Result.UNKNOWN_SUFFIX,
        }
        for path in ("", "/results", "/rows/1", "/runs", "/what-if"):
            page = await member.get(job + path)
            assert page.status_code == 200, path
            assert ">Test</span>" in page.text or path == "/what-if", path
            assert (await stranger.get(job + path)).status_code == 404, path
        assert (
            "so no mailbox was looked up" not in (await member.get(job)).text
        )  # of a made-up answer nobody is warned
        assert job not in (await member.get("/jobs")).text
        assert job in (await member.get("/jobs?state=test")).text
        assert job not in (await stranger.get("/jobs?state=test")).text
        assert await steps_on(member, "/jobs") == [LIST, CONNECT]
        async with api.client(await api.key("alice")) as live_key:
            assert (await live_key.get(f"/v1/bulk{job}")).status_code == 404
            assert (await live_key.get("/v1/usage")).json()["data"]["days"] == []
        async with open_container(api.settings) as container, container.database.begin() as connection:
            assert (await stats.snapshot(connection)).today == (0, 0, 0)
        done = await post(member, f"{job}/delete", page=job)
        assert done.headers["location"] == "/jobs"
        assert (await member.get(job)).status_code == 404
