"""Over standard input every line is answered: what is no message, and what is open when the input ends.

And what a tool says of a list that it has taken.
"""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, NoReturn
from uuid import uuid4

import pytest
from anyio import create_memory_object_stream

from mailsift.accounts.keys import Scope
from mailsift.api.mcp import ToolCall, call_tool
from mailsift.pipeline.errors import MailsiftError
from mailsift.storage.database import unavailable

INITIALIZE = (
    '{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},'
    '"clientInfo":{"name":"t","version":"1"}}}'
)
INITIALIZED = '{"jsonrpc":"2.0","method":"notifications/initialized"}'
CALL = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"check","arguments":{"email":"%s"}}}'
CANCEL = '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}'


async def _talk(monkeypatch: pytest.MonkeyPatch, *lines: str) -> list[tuple[object, object]]:
    """Say these lines and no more; return the id of each answer, and its error or whether it is a result.

    The library takes 0.4 s to load, which only the process pays that runs these tests.
    """
    from mcp.shared.message import SessionMessage  # noqa: PLC0415
    from mcp.types import JSONRPCError, JSONRPCResponse, jsonrpc_message_adapter  # noqa: PLC0415

    from mailsift.api import mcp_server  # noqa: PLC0415

    async def slow(*_: object) -> dict[str, Any]:
        await asyncio.sleep(20)
        return {"result": "deliverable"}

    monkeypatch.setattr(mcp_server, "call_tool", slow)
    say, messages = create_memory_object_stream[SessionMessage | Exception](20)
    answers, arriving = create_memory_object_stream[SessionMessage](20)
    for line in lines:
        try:
            await say.send(SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False)))
        except ValueError as error:
            await say.send(error)
    say.close()
    await mcp_server.answer_messages(mcp_server.build_server(None), messages, answers)  # type: ignore[arg-type]
    async with arriving:
        received = [one.message async for one in arriving]
    return [
        (one.id, one.error.code if isinstance(one, JSONRPCError) else "result")
        for one in received
        if isinstance(one, JSONRPCError | JSONRPCResponse)
    ]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("{", -32700),
        ("", -32700),
        (CALL % "\\ud800@example.com", -32700),
        ("{}", -32600),
        ("[1]", -32600),
    ],
)
async def test_a_line_that_is_no_message_is_answered(
    monkeypatch: pytest.MonkeyPatch, line: str, code: int
) -> None:
    found = await _talk(monkeypatch, line, INITIALIZE)
    assert found == [(None, code), (0, "result")]


async def test_what_is_open_when_the_input_ends_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    found = await _talk(monkeypatch, INITIALIZE, INITIALIZED, CALL % "a@example.com")
    assert found == [(0, "result"), (1, "result")]


async def test_what_is_called_off_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    before = asyncio.get_running_loop().time()
    await _talk(monkeypatch, INITIALIZE, INITIALIZED, CALL % "a@example.com", CANCEL)
    assert asyncio.get_running_loop().time() - before < 20


async def test_a_list_that_is_in_is_named_where_nobody_can_look_at_it() -> None:
    job = uuid4()

    async def is_done(*_: object, **__: object) -> SimpleNamespace:
        return SimpleNamespace(job_id=job)

    async def is_away(*_: object) -> NoReturn:
        raise unavailable()

    parts: Any = SimpleNamespace(
        budget=SimpleNamespace(spend=is_done), jobs=SimpleNamespace(receive=is_done, get=is_away)
    )
    caller: Any = SimpleNamespace(scopes={Scope.JOBS_WRITE.value}, key_id=None, account_id=uuid4())
    with pytest.raises(MailsiftError, match=f"database_unavailable: .* job {job}"):
        await call_tool(ToolCall(parts, caller), "check_list", {"emails": ["a@example.com"]})
