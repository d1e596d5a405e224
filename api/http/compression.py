"""Pages, JSON, scripts and styles go out as gzip to who takes it; files and event streams as they are.

What holds a secret beside something a stranger may choose must not be compressed (BREACH). Under /v1 there is
no stranger: a key is in no cookie. Pages carry a CSRF token, and write it another way in every answer
(mailsift.api.pages.cookies.mask).
"""

from __future__ import annotations

import gzip
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mailsift.api.http.inputs import accepted

_TYPES: Final = frozenset(
    {
        b"application/json",
        b"application/problem+json",
        b"image/svg+xml",
        b"text/css",
        b"text/html",
        b"text/javascript",
    }
)
_LEAST_BYTES: Final = 1_024
"""What is smaller fits into one packet anyway."""
_LEVEL: Final = 5


class CompressionMiddleware:
    """ASGI middleware that compresses what the application answers in one piece."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "http":
            send = _Compressor(send, scope).send
        await self._app(scope, receive, send)


class _Compressor:
    """An answer on its way out."""

    def __init__(self, send: Send, scope: Scope) -> None:
        self._send = send
        self._scope = scope
        self._start: Message | None = None

    async def send(self, message: Message) -> None:
        """Pass a message on; a start waits for the body when that may be compressed."""
        if message["type"] == "http.response.start":
            if _is_compressible(message):
                message["headers"] = list(message["headers"])
                MutableHeaders(raw=message["headers"]).add_vary_header("Accept-Encoding")
                self._start = message
                return
        elif self._start is not None:
            start, self._start = self._start, None
            if not message.get("more_body") and len(message["body"]) >= _LEAST_BYTES and self._accepts_gzip():
                message = _compress(start, message)
            await self._send(start)
        await self._send(message)

    def _accepts_gzip(self) -> bool:
        return accepts_gzip(Headers(scope=self._scope).get("accept-encoding", ""))


def accepts_gzip(header: str) -> bool:
    """Read Accept-Encoding (RFC 9110, section 12.5.3): does it take gzip, or anything?"""
    codings = accepted(header)
    return codings.get("gzip", codings.get("*", False))


def _is_compressible(start: Message) -> bool:
    headers = dict(start["headers"])
    media_type = headers.get(b"content-type", b"").partition(b";")[0].strip()
    return media_type in _TYPES and b"content-encoding" not in headers and b"content-range" not in headers


def _compress(start: Message, body: Message) -> Message:
    """Return the body as gzip, and say so in the headers."""
    data = gzip.compress(body["body"], _LEVEL, mtime=0)
    headers = MutableHeaders(raw=start["headers"])
    headers["content-encoding"], headers["content-length"] = "gzip", str(len(data))
    if (tag := headers.get("etag", "W/")) and not tag.startswith("W/"):
        headers["etag"] = f"W/{tag}"  # the same content, not the same bytes
    return {**body, "body": data}
