"""Is it alive, is it ready, and what can it do: pages for machines and one for people."""

from __future__ import annotations

import asyncio
import html
import re
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, JSONResponse
from pydantic import BaseModel, Field

from mailsift.api.http.errors import STATUS_OF
from mailsift.api.http.openapi import error_responses, operation_id
from mailsift.api.http.responses import Envelope, answer
from mailsift.api.parts import parts_of
from mailsift.pipeline.errors import MailsiftError
from mailsift.storage.database import unavailable

router = APIRouter(tags=["health"], generate_unique_id_function=operation_id)
_VERSION = version("mailsift")
_NO_KEY: dict[str, Any] = {"security": []}
_NO_SCRIPTS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
}
_CODE = re.compile("`([^`]+)`")
_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Mailsift API</title>
<style>:root{{color-scheme:light dark}}
body{{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}}
code{{font:14px ui-monospace,monospace;overflow-wrap:anywhere}}td:first-child code{{overflow-wrap:normal}}
td{{vertical-align:top;padding:.2rem 1rem .2rem 0}}</style>
<h1>Mailsift API {version}</h1><p>{about}</p>
<p>Machine readable: <a href="/openapi.json">openapi.json</a>. Requests under <code>/v1</code> carry
<code>Authorization: Bearer svc_key_…</code>; <code>mailsift keys create --account NAME</code>
makes a key.</p>
<h2>Operations</h2><table>{operations}</table>
<h2>Error codes</h2><table>{codes}</table></html>
"""


class Readiness:
    """Says in time whether requests can be served, also where what it asks stands still.

    Probes of whoever watches us wait for four seconds.
    """

    def __init__(self, ask: Callable[[], Awaitable[None]], *, seconds: float = 3.0) -> None:
        self._ask, self._seconds = ask, seconds
        self._asked: asyncio.Task[MailsiftError | None] | None = None

    async def check(self) -> None:
        """Ask, or wait for the answer to a question that is still open: none takes more than one connection.

        Raises:
            MailsiftError: what was said, or `database_unavailable` where nothing was.
        """
        if self._asked is None or self._asked.done():
            self._asked = asyncio.create_task(self._question())
        asked = self._asked
        await asyncio.wait({asked}, timeout=self._seconds)
        if not asked.done():
            raise unavailable()
        if error := asked.result():
            raise error

    async def _question(self) -> MailsiftError | None:
        try:
            await self._ask()
        except MailsiftError as error:  # nobody may wait for it any more
            return error
        return None


class Liveness(BaseModel):
    """What a process that answers says of itself."""

    version: str = Field(description="The release that runs here.")


@router.get(
    "/healthz",
    summary="Alive?",
    response_model=Envelope[Liveness],
    responses={405: error_responses()[405]},
    openapi_extra=_NO_KEY,
)
async def healthz() -> JSONResponse:
    """Say that this process answers, and which release it is."""
    return answer({"version": _VERSION}, "Alive.")


@router.get(
    "/readyz",
    summary="Ready?",
    response_model=Envelope[None],
    responses={status: error_responses()[status] for status in (405, 503)},
    openapi_extra=_NO_KEY,
)
async def readyz(request: Request) -> JSONResponse:
    """Say whether requests can be served: the database answers and has this release's schema."""
    await parts_of(request).ready()
    return answer(None, "Ready.")


@router.get("/docs", include_in_schema=False)
async def docs(request: Request) -> HTMLResponse:
    """List every operation; loads nothing from anywhere."""
    description = request.app.openapi()
    operations = "".join(_operation(path, shape) for path, shape in description["paths"].items())
    codes = "".join(
        f'<tr id="{code}"><td><code>{code}</code><td>{status}' for code, status in STATUS_OF.items()
    )
    page = _PAGE.format(
        version=html.escape(description["info"]["version"]),
        about=_CODE.sub(r"<code>\1</code>", html.escape(description["info"]["description"])),
        operations=operations,
        codes=codes,
    )
    return HTMLResponse(page, headers=_NO_SCRIPTS)


def _operation(path: str, shape: dict[str, Any]) -> str:
    return "".join(
        f"<tr><td><code>{method.upper()}</code><td><code>{html.escape(path)}</code>"
        f"<td>{html.escape(operation['summary'])}"
        for method, operation in shape.items()
    )
