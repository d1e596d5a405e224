"""What every request passes: an id, limits on its body, private headers, gzip, a log line without secrets."""

from __future__ import annotations

import asyncio
import gzip
import logging
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Final

import structlog
from opentelemetry.trace import Span
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from structlog.contextvars import bind_contextvars, reset_contextvars

from mailsift.api.http.errors import RefusedError, error_headers, error_response
from mailsift.api.http.inputs import accepted
from mailsift.api.metrics import count_request, route_of
from mailsift.events.audit import act_as
from mailsift.jobs.tracing import fail, open_span
from mailsift.pipeline.errors import MailsiftError, is_full, outage_of

_BODY_BYTES: Final = 64 * 1024
"""What a body may have where nothing else is said."""

_KEY_IN_QUERY: Final = re.compile(
    rb"svc_[a-z]+_|(?:^|&)(?:api[_-]?key|access_token|authorization)=", re.IGNORECASE
)
_OUR_KEY_IN_QUERY: Final = re.compile(rb"svc_(?:key|test)_", re.IGNORECASE)
_REQUEST_ID: Final = re.compile(r"(?:req_)?[A-Za-z0-9.-]{8,64}")
"""What is taken over from the caller, e.g. from a proxy in front; it cannot hold an address or a key."""
_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
"""W3C Trace Context, section 3.2: the caller's trace, span and flags."""
_ONCE: Final = {
    b"authorization": "Authorization",
    b"content-type": "Content-Type",
    b"idempotency-key": "Idempotency-Key",
}
"""Headers of which a second one would leave open which of them counts."""
STILL_MAY: Final = "still_may"
"""In a request's scope: says once more whether who sends it may, as far as that is known by then."""
_PROMPT_S: Final = 1.0
"""Of who takes longer to send a body it is asked at its end. Else whoever holds one back could order
something for as long as he likes: with a key that is revoked by then, or as an owner who is none any more."""
_PRIVATE: Final = {b"cache-control": b"private, no-store", b"x-content-type-options": b"nosniff"}
_log = structlog.get_logger()
logging.getLogger("uvicorn.access").disabled = True  # it would print query strings


class RequestMiddleware:
    """ASGI middleware around the whole application.

    `large` are most bytes of the bodies of (method, path) that take more than BODY_BYTES; a path that ends
    with a slash stands for all that lie directly below it. At a door clients send their key in the URL.
    """

    def __init__(
        self, app: ASGIApp, large: Mapping[tuple[str, str], int], is_door: Callable[[str], bool]
    ) -> None:
        self._app = app
        self._is_door = is_door
        self._large = large
        lines = LinesOfATurn(structlog.get_config()["logger_factory"]())
        self._log = structlog.wrap_logger(lines).bind()  # once: to find out how takes as long as to log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        act_as("")  # a connection that carries one request after another may lend them one context
        exchange = _Exchange(scope, receive, send, self._limit_of(scope["method"], scope["path"]))
        before = bind_contextvars(**exchange.ids)
        try:
            with open_span("request", exchange.ids, parent=exchange.parent) as span:
                refusal = exchange.refusal(self._is_door)
                if refusal is not None:
                    await exchange.answer(refusal)
                else:
                    await exchange.through(self._app)
                exchange.log(span, self._log)
        finally:
            reset_contextvars(**before)

    def _limit_of(self, method: str, path: str) -> int:
        folder = path[: path.rfind("/") + 1]
        return self._large.get((method, path)) or self._large.get((method, folder), _BODY_BYTES)


_LINES: Final = 16
"""Some 4 KiB: a pipe takes so much whole, whoever else writes there."""


class LinesOfATurn:
    """Where the access log goes: what is told in one turn of the event loop is written at once.

    Under load a write for each request takes a tenth of all that a small one costs.
    """

    def __init__(self, log: Any) -> None:
        self._log = log
        self._lines: list[str] = []

    def __getattr__(self, name: str) -> Any:
        """Be that log but for what is told."""
        return getattr(self._log, name)

    def info(self, line: str) -> None:
        """Take a line."""
        if not self._lines:
            asyncio.get_running_loop().call_soon(self._write)
        self._lines.append(line)

    def _write(self) -> None:
        lines, self._lines = self._lines, []
        for start in range(0, len(lines), _LINES):
            self._log.info("\n".join(lines[start : start + _LINES]))


def _public_error(error: Exception) -> MailsiftError:
    """Return what is said of an error nobody expected: of a disk that is full or away, or nothing."""
    if is_full(error):
        text = (
            "There is no room left on the disk of this server, so nothing was done. Send this again later; "
            "operators make room on the disk of MAILSIFT_HOME."
        )
        return MailsiftError("storage_full", text, retryable=True)
    if outage_of(error):  # a store that went between the look whether a file is there and its reading
        text = "Files of this server can’t be read right now."
        return MailsiftError("blob_store_failed", text, retryable=True)
    return MailsiftError("internal_error", "")


async def _ask_again(still_may: Callable[[], Awaitable[bool]]) -> None:
    """Refuse who may not any more; any other error of a body is to the framework one that cannot be read."""
    try:
        may = await still_may()
    except MailsiftError:
        raise HTTPException(503) from None
    if not may:
        raise HTTPException(401, headers={"WWW-Authenticate": "Bearer"})


def _as_get(scope: Scope) -> Scope:
    """Return a HEAD as the GET it asks about: of a whole, for no other method has ranges (section 14.2)."""
    headers = [(name, value) for name, value in scope["headers"] if name != b"range"]
    return {**scope, "method": "GET", "headers": headers}


class _Exchange:
    """One request and its answer."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, limit: int) -> None:
        # A HEAD is answered as a GET without its body (RFC 9110, section 9.3.2)
        self._method, self._head_only = scope["method"], scope["method"] == "HEAD"
        self._scope = _as_get(scope) if self._head_only else scope
        self._receive, self._send, self._limit = receive, send, limit
        self._headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        self._state: dict[str, Any] = self._scope.setdefault("state", {})
        self._taken = self._status = 0
        self._waits_for_100 = b"expect" in self._headers  # until somebody reads the body
        self._since = time.monotonic()
        asked = self._headers.get(b"x-request-id", "")
        request_id = asked if _REQUEST_ID.fullmatch(asked) else f"req_{secrets.token_hex(12)}"
        self._scope["request_id"] = request_id
        self.parent = self._headers.get(b"traceparent", "")
        self.ids = {"request_id": request_id}
        if found := _TRACEPARENT.fullmatch(self.parent):
            self.ids["trace"] = found[1]

    def refusal(self, is_door: Callable[[str], bool]) -> MailsiftError | None:
        """Say why the request goes no further, if it does not."""
        return self._refused_target(is_door) or self._refused_headers()

    def _refused_target(self, is_door: Callable[[str], bool]) -> MailsiftError | None:
        if self._scope["path"].endswith("\n"):  # which the patterns of the framework take for the end
            return MailsiftError("not_found", "There is nothing here.")
        query = self._scope["query_string"]
        if _KEY_IN_QUERY.search(query) and (
            _OUR_KEY_IN_QUERY.search(query) or not is_door(self._scope["path"])
        ):
            text = "A key belongs in the Authorization header, never in a URL: this one should be revoked."
            return MailsiftError("key_in_query", text)
        return None

    def _refused_headers(self) -> MailsiftError | None:
        names = [name for name, _ in self._scope["headers"]]
        for name, title in _ONCE.items():
            if names.count(name) > 1:
                return MailsiftError("bad_request", f"Send only one {title} header.")
        if names.count(b"host") != 1 and self._scope["http_version"] != "1.0":  # RFC 9112, section 3.2
            return MailsiftError("bad_request", "A request must have exactly one Host header.")
        if self._headers.get(b"content-encoding", "identity").lower() != "identity":
            text, taken = "Send the body without Content-Encoding.", {"Accept-Encoding": "identity"}
            return RefusedError("unsupported_media_type", text, taken)
        if self._headers.get(b"transfer-encoding", "chunked").strip().lower() != "chunked":
            text = "Send the body without a Transfer-Encoding other than chunked."
            return MailsiftError("transfer_coding_unknown", text)  # RFC 9112, section 6.1
        length = self._headers.get(b"content-length", "0")
        if length.isdecimal() and int(length[:19]) > self._limit:
            text = f"The body can have at most {self._limit:,} bytes here."
            return MailsiftError("content_too_large", text)
        return None

    async def through(self, app: ASGIApp) -> None:
        """Let the application answer; what it did not expect is an internal error that tells nothing.

        Raises:
            asyncio.CancelledError: the server ends, and waits no longer for the rest of the answer.
        """
        try:
            await app(self._scope, self._count, self._mark)
        except ClientDisconnect:
            pass
        except asyncio.CancelledError:
            if self._status:
                raise
            text = "This server is being stopped before it was done with the request. Send it again."
            await self.answer(MailsiftError("service_unavailable", text, retryable=True))
        except Exception as error:  # noqa: BLE001 - the last net; the text of an error may hold anything
            place = error.__traceback__
            while place is not None and place.tb_next is not None:
                place = place.tb_next
            where = f"{place.tb_frame.f_code.co_qualname}:{place.tb_lineno}" if place is not None else ""
            _log.error("request.broken", error=type(error).__qualname__, where=where)
            if not self._status:
                await self.answer(_public_error(error))

    async def answer(self, error: MailsiftError) -> None:
        """Send an error."""
        response = error_response(Request(self._scope), error, headers=error_headers(error))
        await response(self._scope, self._receive, self._mark)

    def log(self, span: Span, log: structlog.typing.FilteringBoundLogger) -> None:
        """Count it, and write the access log: never a query string, which may hold an address."""
        seconds = time.monotonic() - self._since
        count_request(self._scope, self._status, seconds)
        if span.is_recording():
            self._describe(span)
        log.info(
            "request",
            method=self._method,
            path=self._scope["path"] if self._status != 404 else "",
            status=self._status,
            ms=round(seconds * 1000, 1),
        )

    def _describe(self, span: Span) -> None:
        method, route = self._method, route_of(self._scope)
        span.update_name(f"{method} {route}")
        span.set_attributes(
            {"mailsift.method": method, "mailsift.route": route, "mailsift.status": self._status}
        )
        if self._status >= 500:
            fail(span, str(self._status))

    async def _count(self) -> Message:
        self._waits_for_100 = False
        message = await self._receive()
        self._taken += len(message.get("body", b""))
        if self._taken > self._limit:
            raise HTTPException(413)
        still_may = self._scope.get(STILL_MAY)
        is_end = message["type"] == "http.request" and not message.get("more_body")
        if still_may and is_end and not self._status and time.monotonic() - self._since > _PROMPT_S:
            await _ask_again(still_may)
        return message

    async def _mark(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            ours = {"x-request-id": self._scope["request_id"], **self._state.get("limit_headers", {})}
            if self._waits_for_100:  # nobody knows whether the body comes (RFC 9110, section 10.1.1)
                ours["connection"] = "close"
            sent = {name.lower().encode("latin-1"): value.encode("latin-1") for name, value in ours.items()}
            there = dict(message["headers"])
            missing = [one for one in (_PRIVATE | sent).items() if one[0] not in there]
            message["headers"] = [*message["headers"], *missing]
            await self._send(message)
            if self._head_only:  # and nothing has to be made any more: whoever makes it finds nobody reading
                await self._send({"type": "http.response.body", "body": b""})
        elif not self._head_only:
            await self._send(message)


_COMPRESSED: Final = frozenset(
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
_GZIP_LEVEL: Final = 5


class CompressionMiddleware:
    """ASGI middleware that compresses what the application answers in one piece, for who takes gzip.

    Pages, JSON, scripts and styles are; files and event streams go out as they are. What holds a secret
    beside something a stranger may choose must not be compressed (BREACH). Under /v1 there is no stranger: a
    key is in no cookie. Pages carry a CSRF token, and write it another way in every answer
    (mailsift.api.pages.cookies.mask).
    """

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
                message["headers"] = _varying(message["headers"])
                self._start = message
                return
        elif self._start is not None:
            start, self._start = self._start, None
            is_worth_it = not message.get("more_body") and len(message["body"]) >= _LEAST_BYTES
            if is_worth_it and accepts_gzip(Headers(scope=self._scope).get("accept-encoding", "")):
                message = _compress(start, message)
            await self._send(start)
        await self._send(message)


def accepts_gzip(header: str) -> bool:
    """Read Accept-Encoding (RFC 9110, section 12.5.3): does it take gzip, or anything?"""
    codings = accepted(header)
    return codings.get("gzip", codings.get("*", False))


def _is_compressible(start: Message) -> bool:
    headers = dict(start["headers"])
    media_type = headers.get(b"content-type", b"").partition(b";")[0].strip()
    return (
        media_type in _COMPRESSED and b"content-encoding" not in headers and b"content-range" not in headers
    )


def _varying(headers: Collection[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return headers that say that the answer also depends on Accept-Encoding (RFC 9110, section 12.5.5)."""
    varies = [value for name, value in headers if name == b"vary"]
    others = [one for one in headers if one[0] != b"vary"]
    return [*others, (b"vary", b", ".join((*varies, b"Accept-Encoding")))]


def _compress(start: Message, body: Message) -> Message:
    """Return the body as gzip, and say so in the headers."""
    data = gzip.compress(body["body"], _GZIP_LEVEL, mtime=0)
    headers = MutableHeaders(raw=start["headers"])
    headers["content-encoding"], headers["content-length"] = "gzip", str(len(data))
    if (tag := headers.get("etag", "W/")) and not tag.startswith("W/"):
        headers["etag"] = f"W/{tag}"  # the same content, not the same bytes
    return {**body, "body": data}
