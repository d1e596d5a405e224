"""An API that is stopped while it is used: who waits is let go, who is cut off is told to come again."""

from __future__ import annotations

import asyncio
import signal
from contextlib import AsyncExitStack
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
import pytest

from mailsift.jobs.service import JobService
from mailsift.runtime import api_server
from mailsift.runtime.api_server import RequestLimits
from mailsift.settings import Settings
from tests.integration.api.conftest import running
from tests.integration.api.test_api_wire import problem_of
from tests.support.captured_logs import our_logs
from tests.support.sessions import signed_in

JOBS: Final = "/v1/bulk/jobs"
PROMPTLY: Final = 10.0
"""Seconds for a test: fewer than requests under way may take, and no wait here ends by itself so soon."""


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Say that somebody has looked at a job."""
    sound, has_read = JobService.get, asyncio.Event()

    async def get(*arguments: Any) -> Any:
        found = await sound(*arguments)
        has_read.set()
        return found

    monkeypatch.setattr(JobService, "get", get)
    return has_read


async def follow(client: httpx.AsyncClient, path: str, begun: asyncio.Event) -> list[str]:
    """Return the events that a stream told until it ended."""
    events = []
    async with client.stream("GET", path) as stream:
        async for line in stream.aiter_lines():
            if line.startswith("event: "):
                events.append(line.removeprefix("event: "))
                begun.set()
    return events


async def test_who_waits_for_a_job_or_follows_it_is_let_go_at_once(
    settings: Settings, looked: asyncio.Event
) -> None:
    """No worker is there: the job stays as it is."""
    async with asyncio.timeout(PROMPTLY), AsyncExitStack() as clients:
        async with running(settings) as api:
            client = await clients.enter_async_context(api.client(await api.key("alice")))
            person = await clients.enter_async_context(signed_in(api))
            made = await client.post(JOBS, json={"emails": ["a@example.com"], "mode": "fast"})
            job = made.json()["data"]["job_id"]
            waiting = asyncio.create_task(client.get(f"{JOBS}/{job}", params={"wait": 60}))
            await looked.wait()
            following = []
            for who, path in ((client, f"{JOBS}/{job}/events"), (person, f"/jobs/{job}/live")):
                begun = asyncio.Event()
                following.append(asyncio.create_task(follow(who, path, begun)))
                await begun.wait()
        answer = await waiting
        assert (answer.status_code, answer.json()["data"]["job_id"]) == (200, job)
        assert answer.headers["connection"] == "close"
        assert [await one for one in following] == [["progress"], ["progress"]]


async def test_a_list_that_is_still_coming_is_refused_in_our_words_and_may_be_sent_again(
    settings: Settings,
) -> None:
    async with running(settings, RequestLimits(drain_seconds=0)) as api:
        key = await api.key("alice")
        url = urlsplit(api.url)
        reader, writer = await asyncio.open_connection(url.hostname, url.port)
        head = f"POST {JOBS}?mode=fast HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n"
        head += 'Content-Type: text/csv\r\nIdempotency-Key: "once"\r\nContent-Length: 1000\r\n'
        writer.write(f"{head}Expect: 100-continue\r\n\r\n".encode())
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"  # it is being read
        writer.write(b"email\na@example.com\n")
    answer = await reader.read()
    writer.close()
    status, problem = problem_of(answer)
    assert (status, problem["code"]) == (503, "service_unavailable")
    assert b"\r\nretry-after: " in answer
    async with running(settings) as api, api.client(key) as client:
        headers = {"Content-Type": "text/csv", "Idempotency-Key": '"once"'}
        again = await client.post(JOBS, params={"mode": "fast"}, content=b"a@example.com\n", headers=headers)
        assert again.status_code == 202


def test_who_interrupts_it_twice_is_told_of_no_error(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt_twice(_: str) -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGINT, lambda *_: None)  # the API raises them once more when it has ended
    try:
        with our_logs():
            asyncio.run(api_server.serve(settings, started=interrupt_twice))
    finally:
        signal.signal(signal.SIGINT, before)
    assert '"level": "error"' not in capsys.readouterr().err
