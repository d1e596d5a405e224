"""Lists and jobs for tests of pages: uploaded, started and awaited as people do it."""

from __future__ import annotations

import asyncio
import re
import time
from urllib.parse import quote

import httpx

from tests.support.sessions import csrf_of, post

CSV = b"id,who,email\n1,Ann,ann@example.com\n2,Bob,BOB@example.com\n3,Bob,bob@example.com\n4,Cy,no at\n"


async def uploaded(client: httpx.AsyncClient, data: bytes = CSV, name: str = "list.csv") -> str:
    """Upload a list as a script does; returns where it is looked at."""
    headers = {
        "X-CSRF-Token": csrf_of((await client.get("/")).text),
        "X-Fragment": "1",
        "X-File-Name": quote(name),
        "Content-Type": "application/octet-stream",
        "Accept": "application/json",
    }
    answer = await client.post("/lists", content=data, headers=headers)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["href"])


async def started(client: httpx.AsyncClient, data: bytes = CSV, name: str = "list.csv", **fields: str) -> str:
    """Upload a list and start it; returns where its job is shown."""
    href = await uploaded(client, data, name)
    chosen = {"mode": "fast", "what": "all", "priority": "normal", "sure": "on", **fields}
    answer = await post(client, f"{href}/start", page="/", **chosen)
    assert answer.status_code == 303, answer.text
    return answer.headers["location"]


async def ended(client: httpx.AsyncClient, job: str, *, within: float = 60.0) -> str:
    """Return the page of a job once it has ended."""
    limit = time.monotonic() + within
    while "data-job=" in (page := (await client.get(job)).text):
        assert time.monotonic() < limit, "the job does not end"
        await asyncio.sleep(0.2)
    return page


async def done(client: httpx.AsyncClient, data: bytes = CSV, name: str = "list.csv", **fields: str) -> str:
    """Upload a list, start it and wait for its end; returns where its job is shown."""
    job = await started(client, data, name, **fields)
    await ended(client, job)
    return job


def words(page: str) -> str:
    """Return what a page says, without its markup."""
    unbroken = re.sub(r'<wbr><span class="domain">([^<]*)</span>', r"\1", page)
    return " ".join(re.sub(r"<[^>]*>", " ", unbroken).split())
