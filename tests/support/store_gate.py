"""A gate before an object store: it may hold the second part of an upload, and lets Google's client in."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

import httpx
from typing_extensions import override

from tests.support.connections import in_thread

_SIGNED: Final = "AWS4-HMAC-SHA256 Credential=x/x/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=x"
_HOPS: Final = {"connection", "transfer-encoding", "content-length", "date", "server", "host"}


class StoreGate(ThreadingHTTPServer):
    """Hands requests on to the store.

    Attributes:
        holds_a_part: whether one part of an upload, not its first, waits for ever.
        held: set when that part has come.
    """

    daemon_threads = True

    def __init__(self, store: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.store = httpx.Client(base_url=store, timeout=60)
        self.holds_a_part = False
        self.held, self.over = threading.Event(), threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: StoreGate
    protocol_version = "HTTP/1.1"

    def _pass(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        later = "partNumber=" in self.path and "partNumber=1&" not in f"{self.path}&"
        if later and self.server.holds_a_part and not self.server.held.is_set():
            self.server.held.set()
            self.server.over.wait(120)
            self.close_connection = True
            return
        headers = {name.lower(): value for name, value in self.headers.items() if name.lower() not in _HOPS}
        if not headers.get("authorization", "").startswith("AWS4"):  # moto knows S3's signatures alone
            headers["authorization"] = _SIGNED
        answer = self.server.store.request(self.command, self.path, content=body, headers=headers)
        self.send_response(answer.status_code)
        for name, value in answer.headers.items():
            if name.lower() not in _HOPS:
                self.send_header(name, value)
        length = answer.headers.get("content-length", "0") if self.command == "HEAD" else len(answer.content)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.content)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _pass  # noqa: N815 - as the library calls them

    @override
    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def store_gate(store: str) -> Iterator[StoreGate]:
    """Run a gate before the store with this address."""
    gate = StoreGate(store)
    with gate.store, in_thread(gate):
        try:
            yield gate
        finally:
            gate.over.set()
