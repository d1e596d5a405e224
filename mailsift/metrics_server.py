"""The port on which Prometheus reads the metrics: a thread of its own, so that no loop has to be there."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

import structlog
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4
from typing_extensions import override

from jobs.faults import told
from pipeline.errors import MailsiftError

Page = Callable[[], bytes]
"""Makes what is shown, in a thread."""

PATH: Final = "/metrics"
_log = structlog.get_logger()


class _Handler(BaseHTTPRequestHandler):
    """Answers `GET /metrics` and nothing else."""

    timeout = 10.0  # seconds a client may take to send its request
    server: _Listener

    def do_GET(self) -> None:
        """Send the page."""
        if self.path.partition("?")[0] != PATH:
            self.send_error(404)
            return
        try:
            page = self.server.page()
        except Exception as error:  # noqa: BLE001 - whatever it was, the next look may find it better
            _log.warning("metrics.unreadable", **told(error))
            self.send_error(500)
            return
        self.send_response(200)
        self.send_header("Content-Type", CONTENT_TYPE_PLAIN_0_0_4)
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: somebody looks every few seconds."""

    @override
    def version_string(self) -> str:
        return "mailsift"


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    page: Page

    @override
    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing when a client goes away in the middle."""


class _Listener6(_Listener):
    address_family = socket.AF_INET6


class MetricsServer:
    """Listens from the start; answers once it is told what to show.

    Args:
        host, port: where to listen; port 0 is any free one.

    Raises:
        MailsiftError: `port_in_use`.
    """

    def __init__(self, host: str, port: int) -> None:
        try:
            self._listener = (_Listener6 if ":" in host else _Listener)((host, port), _Handler)
        except OSError:
            text = f"Nothing can listen on {host}:{port}, where the metrics are to be shown."
            raise MailsiftError("port_in_use", text) from None
        self.port: int = self._listener.server_address[1]
        self._thread: threading.Thread | None = None

    def start(self, page: Page) -> None:
        """Answer from now on."""
        self._listener.page = page
        self._thread = threading.Thread(
            target=self._listener.serve_forever, name="mailsift-metrics", daemon=True
        )
        self._thread.start()

    def close_inherited(self) -> None:
        """Close the port in a process that was forked; it stays open in this one."""
        self._listener.socket.close()

    def close(self) -> None:
        """Stop answering and listening."""
        if self._thread is not None:
            self._listener.shutdown()
            self._thread.join()
        self._listener.server_close()
