"""What every request passes: an id, limits on its body, private headers, a log line without secrets."""

from __future__ import annotations

import logging
import re
import secrets
import time
from collections.abc import Mapping
from typing import Any, Final

import structlog
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.errors import problem
from api.meters import count_request, route_of
from pipeline.errors import MailsiftError
from pipeline.spans import Span, working_on

BODY_BYTES: Final = 64 * 1024
"""What a body may have where nothing else is said."""

_KEY_IN_QUERY: Final = re.compile(
    rb"svc_key_|(?:^|&)(?:api[_-]?key|access_token|authorization)=", re.IGNORECASE
)
_REQUEST_ID: Final = re.compile(r"(?:req_)?[A-Za-z0-9.-]{8,64}")
"""What is taken over from the caller, e.g. from a proxy in front; it cannot hold an address or a key."""
_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
"""W3C Trace Context, section 3.2: the caller's trace, span and flags."""
_PRIVATE: Final = {"cache-control": "private, no-store", "x-content-type-options": "nosniff"}
_log = structlog.get_logger()
logging.getLogger("uvicorn.access").disabled = True  # it would print query strings


class Gate:
    """ASGI middleware around the whole application.

    Args:
        app: what it guards.
        large: most bytes of the bodies of (method, path) that take more than BODY_BYTES.
    """

    def __init__(self, app: ASGIApp, large: Mapping[tuple[str, str], int]) -> None:
        self._app = app
        self._large = large
        self._log = _log.bind()  # once: to find out how to log takes as long as to log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        passage = _Passage(
            scope, receive, send, self._large.get((scope["method"], scope["path"]), BODY_BYTES)
        )
        with working_on("request", passage.ids, parent=passage.parent) as shown:
            refusal = passage.refusal()
            if refusal is not None:
                await passage.answer(refusal)
            else:
                await passage.through(self._app)
            passage.log(shown, self._log)


class _Passage:
    """One request on its way through the gate."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, limit: int) -> None:
        self._scope, self._receive, self._send, self._limit = scope, receive, send, limit
        self._headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        self._state: dict[str, Any] = scope.setdefault("state", {})
        self._taken = self._status = 0
        self._since = time.monotonic()
        asked = self._headers.get(b"x-request-id", "")
        scope["request_id"] = asked if _REQUEST_ID.fullmatch(asked) else f"req_{secrets.token_hex(12)}"
        self.parent = self._headers.get(b"traceparent", "")
        self.ids = {"request_id": str(scope["request_id"])}
        if found := _TRACEPARENT.fullmatch(self.parent):
            self.ids["trace"] = found[1]

    def refusal(self) -> MailsiftError | None:
        """Say why the request goes no further, if it does not."""
        if _KEY_IN_QUERY.search(self._scope["query_string"]):
            text = "A key belongs in the Authorization header, never in a URL: this one should be revoked."
            return MailsiftError("key_in_query", text)
        if [name for name, _ in self._scope["headers"]].count(b"authorization") > 1:
            return MailsiftError("bad_request", "There is more than one Authorization header.")
        if self._headers.get(b"content-encoding", "identity").lower() != "identity":
            return MailsiftError("unsupported_media_type", "Bodies are taken without Content-Encoding.")
        length = self._headers.get(b"content-length", "0")
        if length.isdecimal() and int(length[:19]) > self._limit:
            return self._too_large()
        return None

    async def through(self, app: ASGIApp) -> None:
        """Let the application answer; what it did not expect is an internal error that tells nothing."""
        try:
            await app(self._scope, self._count, self._mark)
        except ClientDisconnect:
            pass
        except Exception as error:  # noqa: BLE001 - the last net; the text of an error may hold anything
            place = error.__traceback__
            while place is not None and place.tb_next is not None:
                place = place.tb_next
            where = f"{place.tb_frame.f_code.co_qualname}:{place.tb_lineno}" if place is not None else ""
            _log.error("request.broken", error=type(error).__qualname__, where=where)
            if not self._status:
                await self.answer(MailsiftError("internal_error", ""))

    async def answer(self, error: MailsiftError) -> None:
        """Send an error."""
        await problem(Request(self._scope), error)(self._scope, self._receive, self._mark)

    def log(self, shown: Span, log: structlog.typing.FilteringBoundLogger) -> None:
        """Count it, and write the access log: never a query string, which may hold an address."""
        seconds = time.monotonic() - self._since
        count_request(self._scope, self._status, seconds)
        method, route = self._scope["method"], route_of(self._scope)
        shown.name(f"{method} {route}")
        shown.tell(method=method, route=route, status=self._status)
        if self._status >= 500:
            shown.fail(str(self._status))
        log.info(
            "request",
            method=method,
            path=self._scope["path"] if self._status != 404 else "",
            status=self._status,
            ms=round(seconds * 1000, 1),
        )

    async def _count(self) -> Message:
        message = await self._receive()
        self._taken += len(message.get("body", b""))
        if self._taken > self._limit:
            raise HTTPException(413)
        return message

    async def _mark(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            headers = message["headers"] = list(message["headers"])
            there = {name.lower() for name, _ in headers}
            ours = {"x-request-id": self._scope["request_id"], **_PRIVATE}
            ours |= self._state.get("limit_headers", {})
            for name, value in ours.items():
                if (raw := name.lower().encode("latin-1")) not in there:
                    headers.append((raw, value.encode("latin-1")))
        await self._send(message)

    def _too_large(self) -> MailsiftError:
        return MailsiftError("content_too_large", f"A body may have {self._limit:,} bytes here.")
