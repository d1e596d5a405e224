"""An object is read to its end, however often a connection breaks or its time is over, and never as two."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from typing_extensions import override

from mailsift.pipeline.errors import MailsiftError
from mailsift.storage import foreign
from mailsift.storage.blobs import Blobs
from mailsift.storage.foreign import read_object, write_object

MIB = 1 << 20
WHOLE = bytes(range(256)) * (4 * MIB // 256) + b"the end"


class Store(ThreadingHTTPServer):
    """Has one object, of which an answer brings no more than some bytes, and then hangs up.

    Attributes:
        brings: bytes that an answer brings.
        changes: whether another object takes its place after each answer.
        starts: where each answer began.
        holds: whether everything is kept waiting until `over`; `held` is set when something is.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.brings, self.changes, self.starts = len(WHOLE), False, list[int]()
        self.holds, self.held, self.over = False, threading.Event(), threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Store

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self._hold()
        self.send_response(200)
        self.send_header("etag", '"1"')
        self.send_header("content-length", "0")
        self.end_headers()

    def _hold(self) -> bool:
        if self.server.holds:
            self.server.held.set()
            self.server.over.wait(60)
        return self.server.holds

    def do_GET(self) -> None:
        store = self.server
        if self._hold():
            return  # who has asked is gone
        start = int(self.headers.get("range", "bytes=0-").removeprefix("bytes=").partition("-")[0])
        version = f'"{len(store.starts) if store.changes else 0}"'
        if self.headers.get("if-match", version) != version:
            self.send_error(412)
            return
        self.send_response(206 if start else 200)
        self.send_header("content-length", str(len(WHOLE) - start))
        self.send_header("content-range", f"bytes {start}-{len(WHOLE) - 1}/{len(WHOLE)}")
        self.send_header("etag", version)
        self.send_header("last-modified", "Wed, 21 Oct 2015 07:28:00 GMT")
        self.end_headers()
        if self.command == "GET":
            store.starts.append(start)
            self.wfile.write(WHOLE[start : start + store.brings])

    def do_HEAD(self) -> None:
        self.do_GET()

    @override
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def store() -> Iterator[Store]:
    with Store() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.over.set()
        server.shutdown()
        thread.join()


@pytest.fixture
def read(store: Store) -> Callable[[], Awaitable[bytes]]:
    async def whole() -> bytes:
        return b"".join([piece async for piece in read_object("s3://bucket/list.csv", known(store))])

    return whole


def known(store: Store) -> dict[str, str]:
    keys = {"access_key_id": "nobody", "secret_access_key": "none", "region": "us-east-1"}
    return {**keys, "endpoint": store.url, "allow_http": "true"}


async def test_an_object_whose_connections_break_is_read_to_its_end(
    store: Store, read: Callable[[], Awaitable[bytes]]
) -> None:
    store.brings = MIB // 4  # the library itself goes on a few times
    assert await read() == WHOLE
    assert len(store.starts) > 16


async def test_a_part_may_be_sent_more_slowly_than_one_request_reads(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[[], Awaitable[bytes]]
) -> None:
    monkeypatch.setattr(foreign, "LONGEST_READ", timedelta(milliseconds=100))
    (tmp_path / "list.csv").write_bytes(b"email")
    store.holds = True
    writing = asyncio.create_task(write_object("s3://bucket/list.csv", known(store), tmp_path / "list.csv"))
    await asyncio.to_thread(store.held.wait)
    with pytest.raises(MailsiftError, match="place_unavailable"):
        await read()
    store.over.set()
    await writing


async def test_a_store_that_brings_nothing_more_is_not_asked_for_ever(
    store: Store, read: Callable[[], Awaitable[bytes]]
) -> None:
    store.brings = 0
    with pytest.raises(MailsiftError, match="place_unavailable") as failed:
        await read()
    assert failed.value.retryable
    assert len(store.starts) < 10


@pytest.mark.parametrize(
    ("url", "known"),
    [
        ("s3://bucket/list.csv", {"metadata_endpoint": "http://127.0.0.1:1", "allow_http": "true"}),
        ("az://account/bucket/list.csv", {"msi_endpoint": "http://127.0.0.1:1", "allow_http": "true"}),
    ],
)
async def test_who_has_no_credentials_hears_that(url: str, known: dict[str, str]) -> None:
    with pytest.raises(MailsiftError, match=r"place_unavailable: .*credentials") as failed:
        await anext(read_object(url, known))
    assert failed.value.retryable  # a machine that has a role may get them a moment later


async def test_an_object_that_is_replaced_meanwhile_is_read_anew(
    store: Store, read: Callable[[], Awaitable[bytes]]
) -> None:
    store.brings, store.changes = MIB // 4, True
    with pytest.raises(MailsiftError, match="place_unavailable") as failed:
        await read()
    assert failed.value.retryable


async def test_a_blob_whose_connections_break_is_fetched_to_its_end(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.brings = MIB // 4
    known = {"ENDPOINT": store.url, "ACCESS_KEY_ID": "a", "SECRET_ACCESS_KEY": "b", "ALLOW_HTTP": "true"}
    for name, value in {**known, "REGION": "us-east-1"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    blobs = Blobs("s3://bucket", tmp_path)
    assert (await blobs.fetch("jobs/results.parquet")).read_bytes() == WHOLE
