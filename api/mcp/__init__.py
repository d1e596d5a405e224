"""What an assistant may ask, over the Model Context Protocol: four tools, by HTTP or on standard input.

Here is POST /mcp: the tools, for whoever has a key.
"""

from __future__ import annotations

import asyncio
import re
from importlib import import_module
from typing import Final
from urllib.parse import urlsplit

from fastapi import APIRouter, Request
from fastapi.responses import Response

from mailsift.accounts.usage import mcp_disabled
from mailsift.api.http.inputs import check_json_type, check_query
from mailsift.api.mcp.tools import ToolCall
from mailsift.api.parts import parts_of
from mailsift.pipeline.errors import MailsiftError

PATH: Final = "/mcp"
router = APIRouter()


@router.post(PATH, include_in_schema=False)
async def answer_message(request: Request) -> Response:
    """Answer one message of the Model Context Protocol (streamable HTTP, without sessions).

    Counted like a request under /v1; what a tool needs of a key's scopes it says itself.
    """
    parts = parts_of(request)
    if not parts.budget.per_day:
        raise mcp_disabled()
    _check_origin(request, parts.people.public_url)
    caller = await parts.authenticator.authenticate(request)
    check_query(request)
    check_json_type(request)
    try:  # only here: nobody else needs the package, and it takes a second to load
        server = await asyncio.to_thread(import_module, "mailsift.api.mcp.server")
    except ModuleNotFoundError:
        raise MailsiftError("mcp_missing", "MCP isn’t installed here: install mailsift[mcp].") from None
    response: Response = server.McpResponse(ToolCall(parts, caller))
    return response


_ON_THIS_MACHINE: Final = re.compile(r"https?://(?:localhost|127\.0\.0\.1|\[::1\])(?::\d+)?")


def _check_origin(request: Request, public_url: str) -> None:
    """Refuse a page of another site, also one whose name was made to lead here (DNS rebinding).

    The protocol asks for it (revision 2025-06-18, Transports, Security Warning). What is no page, as most
    assistants are, names no origin.
    """
    own = urlsplit(public_url)
    for origin in request.headers.getlist("origin"):
        if origin != f"{own.scheme}://{own.netloc}" and not _ON_THIS_MACHINE.fullmatch(origin):
            raise MailsiftError("origin_refused", "Pages of other sites can’t use the tools.")
