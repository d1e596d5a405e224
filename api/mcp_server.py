"""The protocol, which is the package's `mcp`: tools are listed and called, by HTTP or on standard input."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

import structlog
from anyio import create_memory_object_stream
from fastapi.responses import Response
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.message import SessionMessage
from mcp.types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    CallToolRequestParams,
    CallToolResult,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    ListToolsResult,
    PaginatedRequestParams,
    RequestId,
    TextContent,
    Tool,
    ToolAnnotations,
)
from pydantic import ValidationError
from starlette.types import Receive, Scope, Send
from typing_extensions import override

from mailsift.api.mcp import BODY_BYTES, TOOLS, ToolCall, call_tool
from mailsift.pipeline.errors import MailsiftError, error_fields

if TYPE_CHECKING:
    from mcp.shared._stream_protocols import ReadStream, WriteStream

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
_CANCELLED: Final = "notifications/cancelled"
_LAST_SECONDS: Final = 60
"""How long what is open may take when nothing more comes; tools take less."""
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
    """Answer on standard output what comes on standard input, until that ends and all is answered."""
    async with stdio_server() as (messages, answers):
        await answer_messages(build_server(call), messages, answers)


async def answer_messages(
    server: Server[Any],
    messages: ReadStream[SessionMessage | Exception],
    answers: WriteStream[SessionMessage],
) -> None:
    """Let a server answer messages, and answer for it what is none, until all of them are answered."""
    to_server, asked = create_memory_object_stream[SessionMessage | Exception]()
    answered, from_server = create_memory_object_stream[SessionMessage]()
    between = _Between(answers)
    async with asyncio.TaskGroup() as group:
        group.create_task(between.take(messages, to_server))
        group.create_task(between.give(from_server))
        await server.run(asked, answered, server.create_initialization_options())


class _Between:
    """Stands between a client and the server, which drops what it works at when the client says no more."""

    def __init__(self, answers: WriteStream[SessionMessage]) -> None:
        self._answers = answers
        self._open: set[RequestId] = set()
        self._answered = asyncio.Event()

    async def take(
        self,
        messages: ReadStream[SessionMessage | Exception],
        to_server: WriteStream[SessionMessage | Exception],
    ) -> None:
        """Hand on what comes, and end when there is nothing more and nothing open."""
        async with to_server, messages:
            async for message in messages:
                if isinstance(message, Exception):
                    await self._answers.send(_unread(message))
                    continue
                self._note(message.message)
                await to_server.send(message)
            with suppress(TimeoutError):
                async with asyncio.timeout(_LAST_SECONDS):
                    while self._open:
                        self._answered.clear()
                        await self._answered.wait()

    async def give(self, from_server: ReadStream[SessionMessage]) -> None:
        """Hand on what the server says."""
        async with self._answers, from_server:
            async for message in from_server:
                await self._answers.send(message)
                if isinstance(message.message, JSONRPCResponse | JSONRPCError):
                    self._close(message.message.id)

    def _note(self, message: JSONRPCMessage) -> None:
        if isinstance(message, JSONRPCRequest):
            self._open.add(message.id)
        elif isinstance(message, JSONRPCNotification) and message.method == _CANCELLED:
            self._close((message.params or {}).get("requestId"))

    def _close(self, request_id: object) -> None:
        self._open = {one for one in self._open if one != request_id}
        self._answered.set()


def _unread(error: Exception) -> SessionMessage:
    """Return the answer to a line that is no message: JSON-RPC 2.0, section 5.1."""
    is_json = isinstance(error, ValidationError) and error.errors()[0]["type"] != "json_invalid"
    data = (
        ErrorData(code=INVALID_REQUEST, message="The line is JSON, but no message of JSON-RPC.")
        if is_json
        else ErrorData(code=PARSE_ERROR, message="The line isn’t valid JSON.")
    )
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=None, error=data))
