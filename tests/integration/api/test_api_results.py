"""Results by pages and as files: the same filters give the same rows."""

from __future__ import annotations

import asyncio
import io
import json
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from urllib.parse import SplitResult, urlsplit

import httpx
import openpyxl
import polars as pl
import pytest

from mailsift.settings import Settings
from tests.integration.api.conftest import Api

JOBS = "/v1/bulk/jobs"
ROWS = [
    f"{name},{name}@{domain}" for domain in ("example.com", "bad..example", "müller.de") for name in "abcd"
]
FILTERS: list[dict[str, Any]] = [
    {},
    {"status": "valid"},
    {"status": ["valid", "invalid"], "domain": "MÜLLER.de"},
    {"result": "syntax_error"},
    {"text": "B@"},
    {"tier": "remove"},
    {"tier": ["send", "review"], "text": "b@"},
]


async def completed(client: httpx.AsyncClient, rows: Sequence[str] = ROWS) -> str:
    body = "\n".join(["id,email", *rows]).encode()
    sent = await client.post(f"{JOBS}?mode=fast", content=body, headers={"content-type": "text/csv"})
    job_id = str(sent.json()["data"]["job_id"])
    answer = await client.get(f"{JOBS}/{job_id}?wait=60")
    assert answer.json()["data"]["status"] == "completed"
    return f"{JOBS}/{job_id}/results"


async def paged(client: httpx.AsyncClient, path: str, **asked: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    cursor, more, matches = "", True, 0
    while more:
        answer = await client.get(path, params={"format": "json", "limit": 3, "cursor": cursor, **asked})
        assert answer.status_code == 200, answer.text
        page = answer.json()["data"]
        rows, cursor, more = [*rows, *page["rows"]], page["next_cursor"], page["has_more"]
        assert bool(cursor) == more
        matches = page["matches"]
    assert matches == len(rows)
    return rows


def ids_in(kind: str, body: bytes) -> list[str]:
    if kind == "xlsx":
        _, *rows = openpyxl.load_workbook(io.BytesIO(body)).active.iter_rows(values_only=True)
        return [str(row[0]) for row in rows]
    if kind == "parquet":
        return pl.read_parquet(io.BytesIO(body))["id"].to_list()
    if kind == "jsonl":
        return [json.loads(line)["id"] for line in body.splitlines()]
    return [line.split(",")[0] for line in body.decode().splitlines()[1:]]


@pytest.mark.usefixtures("worker")
async def test_results_that_cannot_be_read_are_an_outage_and_no_defect(
    client: httpx.AsyncClient, settings: Settings
) -> None:
    path = await completed(client)
    [results] = settings.home.glob("blobs/jobs/*/results.parquet")
    kept = results.rename(results.with_name("kept"))
    results.symlink_to("/proc/self/mem")  # it is there, and reading it is EIO
    refused = await client.get(path)
    assert (refused.status_code, refused.json()["code"]) == (503, "blob_store_failed")
    assert int(refused.headers["retry-after"]) > 0
    kept.rename(results)
    assert (await client.get(path)).is_success


@pytest.mark.usefixtures("worker")
async def test_any_number_of_people_may_take_results_slowly_and_nobody_else_waits(api: Api) -> None:
    key, address = await api.key("alice"), urlsplit(api.url)
    async with api.client(key) as client:
        path = await completed(client, [f"{'long ' * 60}{n},n{n}@example.com" for n in range(30_000)])
        request = f"GET {path}?format=csv HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n\r\n"
        async with AsyncExitStack() as stack:
            slow = [
                await stack.enter_async_context(connected(address))
                for _ in range(min(32, (os.cpu_count() or 1) + 4) + 1)  # more than threads for what blocks
            ]
            for _, writer in slow:
                writer.write(request.encode())
            for reader, _ in slow:
                assert await asyncio.wait_for(reader.readline(), 30) == b"HTTP/1.1 200 OK\r\n"
            assert len((await client.get(path, params={"format": "json"})).json()["data"]["rows"]) > 0
            assert await completed(client)
            whole = await client.get(path, params={"format": "csv"})
            reader, _ = slow[-1]
            while await reader.readline() != b"\r\n":
                pass
            pieces = []
            while size := int(await reader.readline(), 16):
                pieces.append((await reader.readexactly(size + 2))[:-2])
            assert b"".join(pieces) == whole.content


@asynccontextmanager
async def connected(address: SplitResult) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Give a connection through which little comes that is not asked for."""
    reader, writer = await asyncio.open_connection(address.hostname, address.port, limit=1_024)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


@pytest.mark.usefixtures("worker")
async def test_pages_and_every_kind_of_file_hold_the_same_rows(client: httpx.AsyncClient) -> None:
    path = await completed(client)
    for asked in FILTERS:
        rows = await paged(client, path, columns="id", **asked)
        ids = [row["cells"]["id"] for row in rows]
        for kind in ("csv", "xlsx", "jsonl", "parquet"):
            answer = await client.get(path, params={"format": kind, **asked})
            assert ids_in(kind, answer.content) == ids, (kind, asked)
    assert await paged(client, path, provider="google") == []  # nobody's provider is known in mode fast
    whole = await client.get(path, params={"format": "jsonl", "domain": "müller.de"})
    tag, size = whole.headers["etag"], len(whole.content)
    other = await client.get(path, params={"format": "jsonl", "domain": "example.com"})
    assert other.headers["etag"] != tag
    part = await client.get(
        path, params={"format": "jsonl", "domain": "müller.de"}, headers={"Range": "bytes=5-19"}
    )
    assert (part.status_code, part.content) == (206, whole.content[5:20])
    assert part.headers["content-range"] == f"bytes 5-19/{size}"
    same = await client.get(
        path, params={"format": "jsonl", "domain": "müller.de"}, headers={"If-None-Match": tag}
    )
    assert same.status_code == 304
    head = await client.head(path, params={"format": "json", "status": "invalid"})
    page = await client.get(path, params={"format": "json", "status": "invalid"})
    assert (head.content, head.headers["etag"]) == (b"", page.headers["etag"])
    again = await client.get(
        path, params={"format": "json", "status": "invalid"}, headers={"If-None-Match": page.headers["etag"]}
    )
    assert again.status_code == 304

    rows = await paged(client, path, sort="-score")
    assert [row["score"] for row in rows] == sorted((row["score"] for row in rows), reverse=True)
    assert {row["row"] for row in rows} == set(range(1, len(ROWS) + 1))
    assert all(value is not None for row in rows for value in row.values())
    first = (await client.get(path, params={"format": "json", "limit": 2})).json()["data"]
    assert first["rows"][1] | {"cells": {}} == first["rows"][1]
    assert (first["rows"][1]["email"], first["rows"][1]["address"]) == ("b@example.com", "b@example.com")

    for asked, code in (
        ({"format": "json", "cursor": first["next_cursor"], "sort": "email"}, "bad_cursor"),
        ({"format": "json", "cursor": first["next_cursor"], "status": "valid"}, "bad_cursor"),
        ({"format": "json", "cursor": "x"}, "bad_cursor"),
        ({"format": "csv", "sort": "email"}, "wrong_for_format"),
        ({"limit": "5"}, "wrong_for_format"),
        ({"result": "fine"}, "invalid_request"),
        ({"format": "json", "columns": "nope"}, "unknown_column"),
        ({"format": "json", "reslt": "passed"}, "invalid_request"),
    ):
        answer = await client.get(path, params=asked)
        assert (answer.status_code, answer.json()["code"]) == (422, code), asked
    answer = await client.get(path, params={"format": "json", "reslt": "passed"})
    assert "did you mean `result`?" in answer.json()["message"]
