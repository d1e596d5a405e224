"""Hostile files over HTTP: each job fails with its code, and nothing else notices."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import psutil
import pytest

from mailsift.settings import Settings
from tests.support.hostile_files import ADDRESS, BAD, OF_EACH_KIND
from tests.support.installation import until
from tests.support.leftovers import places_below
from tests.support.workers import workers

if TYPE_CHECKING:
    from tests.integration.api.conftest import Api

JOBS = "/v1/bulk/jobs"
CSV = {"Content-Type": "text/csv"}
GOOD = b"email\na@example.com\nb@example.com\n"


@pytest.fixture
def worker(settings: Settings, tmp_path: Path) -> Iterator[None]:
    """Processes, for a file may end one."""
    with workers(settings, 1, tmp_path / "worker.log"):
        yield


def _processes() -> set[int]:
    """Return the processes of this test's worker, without those that read one file and end."""
    return {
        child.pid
        for child in psutil.Process().children(recursive=True)
        if "worker" in child.cmdline() and "mailsift.jobs.intake.child" not in child.cmdline()
    }


async def _ended(client: httpx.AsyncClient, job_id: str) -> dict[str, Any]:
    job: dict[str, Any] = (await client.get(f"{JOBS}/{job_id}", params={"wait": 15})).json()["data"]
    return job if job["finished_at"] else await _ended(client, job_id)


@pytest.mark.usefixtures("worker")
async def test_a_hostile_file_of_each_kind_fails_its_own_job_with_its_code_and_no_other(
    api: Api, client: httpx.AsyncClient
) -> None:
    """All of them, each between good lists, has tests/integration/jobs/test_standing_reader.py."""

    async def listening() -> bool:
        return len(_processes()) >= 2

    await until(listening, within=60)
    before, jobs = _processes(), {}
    for name in ("nothing", *OF_EACH_KIND):
        make, code = BAD[name]
        sent = await client.post(JOBS, params={"mode": "fast"}, content=make(), headers=CSV)
        if sent.status_code == 422:
            assert (name, sent.json()["code"]) == ("nothing", code)
            continue
        assert sent.status_code == 202, (name, sent.text)
        jobs[name] = sent.json()["data"]["job_id"]
    assert list(jobs) == OF_EACH_KIND
    good = await client.post(JOBS, params={"mode": "fast"}, content=GOOD, headers=CSV)
    ended = {name: await _ended(client, job_id) for name, job_id in jobs.items()}
    assert {name: job["error_code"] for name, job in ended.items()} == {name: BAD[name][1] for name in jobs}
    assert {job["status"] for job in ended.values()} == {"failed"}
    assert not [job for job in ended.values() if ADDRESS.split("@")[0] in str(job)]
    done = await _ended(client, good.json()["data"]["job_id"])
    assert (done["status"], done["valid"]) == ("completed", 2)
    assert _processes() == before  # nobody died over them
    assert not [file for file in (api.settings.home / "scratch").rglob("*") if file.is_file()]


async def test_twenty_uploads_that_break_off_at_once_leave_no_job_no_blob_and_no_file(
    api: Api, client: httpx.AsyncClient
) -> None:
    host, _, port = api.url.removeprefix("http://").partition(":")
    boundary = "between"
    kinds = {
        "text/csv": b"a@example.com\n" * 50_000,
        "application/json": b'{"emails": ["a@example.com"' + b', "b@example.com"' * 50_000,
        f"multipart/form-data; boundary={boundary}": (
            f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="l.csv"\r\n'
            "Content-Type: text/csv\r\n\r\n"
        ).encode()
        + b"a@example.com\n" * 200_000,
    }

    async def break_off(kind: str, begun: bytes) -> None:
        _, writer = await asyncio.open_connection(host, int(port))
        head = (
            f"POST {JOBS} HTTP/1.1\r\nHost: x\r\nAuthorization: {client.headers['authorization']}\r\n"
            f"Content-Type: {kind}\r\nContent-Length: {len(begun) + 1_000_000}\r\n\r\n"
        )
        writer.write(head.encode() + begun)
        await writer.drain()
        writer.transport.abort()

    await asyncio.gather(*(break_off(*one) for one in list(kinds.items()) * 7))

    async def nothing_left() -> bool:
        places = (api.settings.home / name for name in ("blobs", "blob-cache", "scratch"))
        return not [file for place in places for file in places_below(place) if file.is_file()]

    await until(nothing_left, within=20)
    assert (await client.get(JOBS)).json()["data"]["jobs"] == []
    sent = await client.post(JOBS, content=GOOD, headers=CSV)
    assert sent.status_code == 202


async def test_fifty_uploads_at_once_with_one_idempotency_key_make_one_job_and_store_one_list(
    api: Api, client: httpx.AsyncClient
) -> None:
    headers = {**CSV, "Idempotency-Key": '"once"'}
    limits = httpx.Limits(max_connections=50)
    async with httpx.AsyncClient(base_url=api.url, headers=client.headers, timeout=60, limits=limits) as many:
        answers = await asyncio.gather(*(many.post(JOBS, content=GOOD, headers=headers) for _ in range(50)))
        assert sorted(answer.status_code for answer in answers) == [200] * 49 + [202]
        assert len({answer.json()["data"]["job_id"] for answer in answers}) == 1
        others = await asyncio.gather(
            *(many.post(JOBS, content=GOOD + b"c@example.com\n", headers=headers) for _ in range(20)),
            *(many.post(JOBS, content=GOOD, params={"name": "x"}, headers=headers) for _ in range(20)),
        )
    assert {(other.status_code, other.json()["code"]) for other in others} == {
        (422, "idempotency_key_reused")
    }
    (job,) = (await client.get(JOBS)).json()["data"]["jobs"]
    stored = [file for file in (api.settings.home / "blobs").rglob("*") if file.is_file()]
    assert [file.parent.name for file in stored] == [job["job_id"]]
