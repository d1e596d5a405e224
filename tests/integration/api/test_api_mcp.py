"""Assistants: the protocol's own client calls the tools, by HTTP with a key and on standard input."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from mailsift.accounts.keys import KeyKind, Scope
from mailsift.container import open_container
from mailsift.settings import Settings
from tests.support.serving import address, command

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import CallToolResult

    from tests.integration.api.conftest import Api

BUDGET = 6
PUBLIC_URL = "https://mail.own.test"
ROOT = Path(__file__).parents[3]
MESSAGE = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
ACCEPT = {"Accept": "application/json, text/event-stream"}


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"mcp_budget": BUDGET, "public_url": PUBLIC_URL})


async def key_of(settings: Settings, *scopes: Scope) -> str:
    async with open_container(settings) as container:
        owner = await container.jobs.account("alice")
        return (await container.keys.create(owner, scopes=scopes, kind=KeyKind(test=True))).secret


@asynccontextmanager
async def assistant(url: str, key: str) -> AsyncIterator[Client]:
    """Talk by HTTP; only the process that runs these tests loads the library, which takes 0.4 s."""
    import httpx2  # noqa: PLC0415
    from mcp import Client  # noqa: PLC0415
    from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415

    headers = {"Authorization": f"Bearer {key}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http)) as client,
    ):
        yield client


def fields_of(result: CallToolResult) -> dict[str, Any]:
    assert not result.is_error, result.content
    found: dict[str, Any] = result.structured_content
    assert json.loads(words(result)) == found
    return found


async def completed(client: Client, arguments: dict[str, Any]) -> dict[str, Any]:
    """Have a list checked; the job with its first rows."""
    listed = fields_of(await client.call_tool("check_list", arguments))
    while listed["job"]["status"] != "completed":
        await asyncio.sleep(0.25)
        listed = fields_of(await client.call_tool("job", {"job_id": listed["job"]["job_id"]}))
    return listed


def words(result: CallToolResult) -> str:
    (content,) = result.content
    assert content.type == "text"
    return content.text


@pytest.mark.usefixtures("worker")
async def test_an_assistant_checks_addresses_and_a_list_and_hears_why(api: Api) -> None:
    async with assistant(api.url, await key_of(api.settings)) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == list(SCOPES)
        one = fields_of(await client.call_tool("check", {"email": "jane@mailbox-full.example.com"}))
        assert (one["status"], one["result"]) == ("risky", "mailbox_full")
        why = fields_of(await client.call_tool("explain", {"email": "jane@mailbox-not-found.example.com"}))
        assert why["result"] == "mailbox_not_found"
        assert why["meaning"]
        assert [section["title"] for section in why["facts"]][:2] == ["Address", "Domain"]
        emails = ["jane@example.com", "joe@@example.com"]
        listed = await completed(client, {"emails": emails, "mode": "fast"})
        job_id = listed["job"]["job_id"]
        assert [(row["email"], row["result"]) for row in listed["rows"]] == list(
            zip(emails, ("passed", "syntax_error"), strict=True)
        )
        page = fields_of(await client.call_tool("job", {"job_id": job_id, "limit": 1}))
        assert (len(page["rows"]), page["matches"]) == (1, 2)
        rest = fields_of(await client.call_tool("job", {"job_id": job_id, "cursor": page["next_cursor"]}))
        assert [row["row"] for row in rest["rows"]] == [2]
        wanted = {"job_id": job_id, "status": ["invalid"]}
        assert [row["row"] for row in fields_of(await client.call_tool("job", wanted))["rows"]] == [2]


async def test_a_key_asks_about_as_many_addresses_as_its_budget_has(api: Api) -> None:
    key, other = await key_of(api.settings), await key_of(api.settings)
    async with assistant(api.url, key) as client:
        for _ in range(BUDGET - 1):
            fields_of(await client.call_tool("check", {"email": "jane@example.com"}))
        refused = await client.call_tool("check_list", {"emails": ["a@example.com", "b@example.com"]})
        assert refused.is_error
        assert words(refused).startswith("mcp_budget_spent: This key may have 6 addresses checked in a day")
        assert "1 are left; 2 were wanted" in words(refused)
        fields_of(await client.call_tool("check", {"email": "jane@example.com"}))
    async with assistant(api.url, other) as client:
        fields_of(await client.call_tool("check", {"email": "jane@example.com"}))


SCOPES: dict[str, tuple[Scope, dict[str, Any]]] = {
    "check": (Scope.VALIDATE, {"email": "jane@example.com"}),
    "check_list": (Scope.JOBS_WRITE, {"emails": ["jane@example.com"]}),
    "job": (Scope.JOBS_READ, {"job_id": "7f5c3a52-6f5e-4f44-9f0c-6d3f0f2f9f11"}),
    "explain": (Scope.VALIDATE, {"email": "jane@example.com"}),
}
UNFIT: list[tuple[str, dict[str, Any], str]] = [
    ("check", {}, "email"),
    ("check", {"email": "x" * 2_000}, "email"),
    ("check", {"email": "jane@example.com", "modus": "fast"}, "modus"),
    ("check_list", {"emails": ["a@example.com"] * 1_001}, "emails"),
    ("check_list", {"emails": []}, "emails"),
    ("job", {"job_id": "../../etc/passwd"}, "job_id"),
    ("job", {"job_id": "7f5c3a52-6f5e-4f44-9f0c-6d3f0f2f9f11", "limit": 51}, "limit"),
    ("erase", {}, "There is no such tool"),
]


BROKEN = (
    '{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"arguments": "jane@example.com"}}',
    '{"jsonrpc": "2.0", "id": "jane@example.com", "method": "jane@example.com"}',
    '{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"reason": "jane@example.com"}}',
    '{"jsonrpc": "3.0", "jane@example.com": 1}',
    "[jane@example.com",
    "[]",
    "",
)


async def test_what_a_tool_cannot_take_is_said_and_costs_nothing(api: Api) -> None:
    async with assistant(api.url, await key_of(api.settings)) as client:
        for name, arguments, says in UNFIT:
            refused = await client.call_tool(name, arguments)
            assert refused.is_error, name
            assert words(refused).startswith(f"invalid_request: {says}"), words(refused)
        unknown = await client.call_tool("job", SCOPES["job"][1])
        assert words(unknown).startswith("job_not_found")
        for _ in range(BUDGET):
            fields_of(await client.call_tool("check", {"email": "jane@example.com"}))


async def test_a_tool_needs_its_scope(api: Api) -> None:
    async with assistant(api.url, await key_of(api.settings, Scope.WEBHOOKS_READ)) as client:
        for name, (scope, arguments) in SCOPES.items():
            refused = await client.call_tool(name, arguments)
            assert words(refused) == f"insufficient_scope: This key lacks the scope {scope.value}."


@pytest.mark.usefixtures("worker")
async def test_a_key_that_may_read_no_job_gets_no_rows_of_its_list(api: Api) -> None:
    async with assistant(api.url, await key_of(api.settings, Scope.JOBS_WRITE)) as client:
        made = fields_of(
            await client.call_tool("check_list", {"emails": ["jane@example.com"], "mode": "fast"})
        )
        assert made["job"]["status"] == "completed"
        assert (made["rows"], made["matches"], made["next_cursor"]) == ([], 0, "")
        read = await client.call_tool("job", {"job_id": made["job"]["job_id"]})
        assert words(read).startswith("insufficient_scope")


async def test_no_log_has_a_key_or_an_address(settings: Settings, tmp_path: Path) -> None:
    log = tmp_path / "api.log"
    async with command(settings, log, "api"):
        key, url = await key_of(settings), await address(log)
        async with httpx.AsyncClient(headers={**ACCEPT, "Authorization": f"Bearer {key}"}) as anybody:
            for body in BROKEN:
                headers = {"Content-Type": "application/json"}
                assert (await anybody.post(f"{url}/mcp", content=body, headers=headers)).status_code < 500
        async with assistant(url, key) as client:
            for name in ("check", "explain", "job"):  # a list would wait for a worker
                await client.call_tool(name, SCOPES[name][1])
            for name, arguments, _ in UNFIT:
                await client.call_tool(name, arguments)
    logged = log.read_text()
    assert '"path": "/mcp"' in logged
    assert [one for one in (key, key[9:], "jane", "example.com") if one in logged] == []


async def test_the_door_wants_a_key_a_short_message_and_leave(api: Api) -> None:
    async with httpx.AsyncClient(base_url=api.url, headers=ACCEPT) as nobody:
        answer = await nobody.post("/mcp", json=MESSAGE)
        assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized")
        assert answer.headers["www-authenticate"] == 'Bearer realm="mailsift"'
    async with api.client(await key_of(api.settings)) as client:
        answer = await client.post("/mcp", json=MESSAGE, headers=ACCEPT)
        assert [tool["name"] for tool in answer.json()["result"]["tools"]] == list(SCOPES)
        assert answer.headers["ratelimit-policy"].startswith('"requests"')
        assert (await client.get("/mcp")).status_code == 405
        answer = await client.post("/mcp?kye=1", json=MESSAGE, headers=ACCEPT)
        assert answer.json()["code"] == "invalid_request"
        long = {**MESSAGE, "params": {"x": "y" * 600_000}}
        answer = await client.post("/mcp", json=long, headers=ACCEPT)
        assert answer.json()["code"] == "content_too_large"


async def test_what_is_no_json_is_refused_as_everywhere(api: Api) -> None:
    async with api.client(await api.key("alice")) as client:
        answer = await client.post("/mcp", content=b"{}", headers={"Content-Type": "text/plain"})
    assert (answer.status_code, answer.json()["code"]) == (415, "unsupported_media_type")


async def test_pages_of_other_sites_are_refused_also_under_our_name(settings: Settings, api: Api) -> None:
    async with api.client(await key_of(settings)) as client:

        async def asked(**headers: str) -> tuple[int, str]:
            answer = await client.post("/mcp", json=MESSAGE, headers=ACCEPT | headers)
            return answer.status_code, answer.json().get("code", "")

        for origin in ("https://evil.example.com", "null", "http://localhost.evil.example.com"):
            assert await asked(Origin=origin) == (403, "origin_refused")
        assert await asked(Origin="http://evil.example.com", Host="evil.example.com") == (
            403,
            "origin_refused",
        )
        for origin in (PUBLIC_URL, "http://localhost:6274", "http://[::1]:6274"):
            assert await asked(Origin=origin) == (200, "")


async def test_an_assistant_starts_the_command_and_talks_to_it(settings: Settings) -> None:
    from mcp import Client, StdioServerParameters, stdio_client  # noqa: PLC0415

    environment = {"PATH": os.environ["PATH"], **settings.environment()}  # noqa: TID251 - for a child
    words_ = ["-m", "mailsift", "mcp", "--test"]
    parameters = StdioServerParameters(command=sys.executable, args=words_, env=environment, cwd=ROOT)
    async with asyncio.timeout(120), Client(stdio_client(parameters)) as client:
        found = fields_of(await client.call_tool("check", {"email": "jane@catch-all.example.com"}))
        assert found["result"] == "catch_all"
        emails = ["jane@example.com", "joe@null-mx.example.com"]
        listed = await completed(client, {"emails": emails})
        assert [row["result"] for row in listed["rows"]] == ["deliverable", "null_mx"]
