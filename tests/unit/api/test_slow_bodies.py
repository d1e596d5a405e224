"""Who holds a body back is asked about again at its end."""

from __future__ import annotations

from itertools import count
from types import SimpleNamespace

import httpx
import pytest
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from mailsift.api.http.middleware import STILL_MAY, RequestMiddleware
from mailsift.pipeline.errors import MailsiftError


@pytest.mark.parametrize(
    ("seconds", "may", "status"),
    [(0.3, False, 200), (30.0, False, 401), (30.0, True, 200), (30.0, None, 503), (30.0, "nobody", 200)],
)
async def test_who_takes_long_to_send_a_body_has_to_be_let_in_still(
    monkeypatch: pytest.MonkeyPatch, seconds: float, may: bool | str | None, status: int
) -> None:
    async def still_may() -> bool:
        if may is None:
            raise MailsiftError("database_unavailable", "", retryable=True)
        return bool(may)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if may != "nobody":
            scope[STILL_MAY] = still_may
        body = await Request(scope, receive).body()
        await PlainTextResponse(body)(scope, receive, send)

    ticks = count(step=seconds)
    monkeypatch.setattr("mailsift.api.http.middleware.time", SimpleNamespace(monotonic=lambda: next(ticks)))
    guarded = RequestMiddleware(ExceptionMiddleware(app), {}, lambda _: False)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(guarded), base_url="http://x") as client:
        answer = await client.post("/", content=b"held back")
    assert answer.status_code == status
    assert ("www-authenticate" in answer.headers) == (status == 401)
