"""The protocol, which is the package's `mcp`: tools are listed and called, by HTTP or on standard input."""

from __future__ import annotations

import json
from importlib.metadata import version
from typing import Any, Final

import structlog
from fastapi.responses import Response
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
    ToolAnnotations,
)
from starlette.types import Receive, Scope, Send
from typing_extensions import override

from mailsift.api.mcp.tools import BODY_BYTES, TOOLS, ToolCall, call_tool
from mailsift.pipeline.errors import MailsiftError, error_fields

_ABOUT: Final = (
    "Mailsift says whether mail to an address will arrive. `risky` means that nobody could know: never tell"
    " it as invalid. Every address is asked about at somebody else's mail server: check only what is needed."
)
_LISTED: Final = [
    Tool(
        name=name,
        description=tool.about,
        input_schema=tool.takes.model_json_schema(),
        annotations=ToolAnnotations(read_only_hint=name != "check_list", destructive_hint=False),
    )
    for name, tool in TOOLS.items()
]
_log = structlog.get_logger()


def build_server(call: ToolCall) -> Server[Any]:
    """Return a server whose tools are called by this caller."""

    async def listed(_: ServerRequestContext[Any], __: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=_LISTED)

    async def called(_: ServerRequestContext[Any], wanted: CallToolRequestParams) -> CallToolResult:
        try:
            found = await call_tool(call, wanted.name, wanted.arguments or {})
        except MailsiftError as error:
            return _error_result(f"{error.code}: {error.message}")
        except Exception as error:  # noqa: BLE001 - its words may hold anything; the log has its class
            _log.error("mcp.error", **error_fields(error))
            return _error_result("internal_error: Something broke on our side.")
        return CallToolResult(content=[TextContent(text=json.dumps(found))], structured_content=found)

    server: Server[Any] = Server(
        "mailsift",
        version=version("mailsift"),
        instructions=_ABOUT,
        on_list_tools=listed,
        on_call_tool=called,
    )
    server.middleware.clear()  # spans of its own, with words of errors
    return server


def _error_result(text: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=text)], is_error=True)


class McpResponse(Response):
    """Answers one message; nothing is remembered between two, so any process may answer the next."""

    def __init__(self, call: ToolCall) -> None:
        super().__init__()
        self._call = call

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        manager = StreamableHTTPSessionManager(
            build_server(self._call), stateless=True, json_response=True, max_request_body_size=BODY_BYTES
        )
        async with manager.run():
            await manager.handle_request(scope, receive, send)


async def serve_stdio(call: ToolCall) -> None:
    """Answer on standard output what comes on standard input, until that ends."""
    server = build_server(call)
    async with stdio_server() as (messages, answers):
        await server.run(messages, answers, server.create_initialization_options())
