"""`mailsift serve`, `api` and `mcp`: the API, with a worker beside it or alone, and an assistant's tools."""

from __future__ import annotations

import asyncio
import gc
import socket
import tempfile
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated

import typer
import uvloop

from mailsift.accounts.keys import Caller, Scope
from mailsift.cli.lists import working
from mailsift.cli.operate import server_settings
from mailsift.cli.options import LOCAL_ACCOUNT
from mailsift.cli.terminal import PLAIN, console
from mailsift.container import API_POOL, open_container, scratch_folder
from mailsift.pipeline.background import repeating
from mailsift.pipeline.errors import MailsiftError
from mailsift.runtime.api_server import listening
from mailsift.runtime.api_server import serve as serve_api
from mailsift.runtime.embedded import installation
from mailsift.runtime.local_worker import LocalWorker
from mailsift.settings import Settings

_LOOK_SECONDS = 2.0

HostOption = Annotated[
    str | None, typer.Option("--host", help="Address to listen on. [default: MAILSIFT_API_HOST]")
]
PortOption = Annotated[int | None, typer.Option("--port", "-p", min=0, max=65535, help="0: any free port.")]


def serve(*, host: HostOption = None, port: PortOption = None) -> None:
    """Serve the API and work on its jobs; starts PostgreSQL and Valkey too when none are configured."""
    given = server_settings(api_host=host, api_port=port)
    with listening(given) as sockets, installation(given) as settings:
        worker = LocalWorker(worker_settings(settings))
        worker.ensure()
        try:
            uvloop.run(_serve(settings, sockets, worker.ensure, welcome=True))
        finally:
            worker.stop()


def api(*, host: HostOption = None, port: PortOption = None) -> None:
    """Serve the API alone; `mailsift worker` runs beside it."""
    given = server_settings(api_host=host, api_port=port)
    with listening(given) as sockets, installation(given) as settings:
        uvloop.run(_serve(settings, sockets, lambda: None))


def worker_settings(settings: Settings) -> Settings:
    """Return the settings of a worker on the same machine: its metrics are on the next port."""
    port = settings.metrics_port
    return settings if port is None else settings.model_copy(update={"metrics_port": port + 1})


async def _serve(
    settings: Settings,
    sockets: list[socket.socket],
    keep_alive: Callable[[], None],
    *,
    welcome: bool = False,
) -> None:
    async def look() -> None:
        keep_alive()

    tempfile.tempdir = str(scratch_folder(settings))  # of files sent as forms: /tmp may be memory
    greetings: list[asyncio.Task[None]] = []

    def started(url: str) -> None:
        _print_address(url)
        greetings.append(asyncio.create_task(greet(settings, settings.public_url or url, welcome=welcome)))

    async with repeating(look, every=_LOOK_SECONDS, task="restart"):
        await serve_api(settings, sockets=sockets, started=started)


async def greet(settings: Settings, pages: str, *, welcome: bool) -> None:
    """Say where to sign in; a `welcome` as soon as the database says whether there is nobody yet who can."""
    token = None
    while welcome:
        with suppress(MailsiftError):
            async with open_container(settings) as container:
                token = await container.people.links.first_owner()
            break
        await asyncio.sleep(_LOOK_SECONDS)
    if token is None:
        console.print(f"Sign in: {pages}/login", **PLAIN)
        return
    console.print("Nobody can sign in yet. Become the first owner with this link, which works once:", **PLAIN)
    console.print(f"{pages}/welcome?token={token}", **PLAIN)


def _print_address(url: str) -> None:
    """Say where the API is, which is ready now: what has been loaded so far stays, and need not be searched.

    Without this the collector walks through every module again and again: a fifth of the time of a request.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)  # a request leaves next to nothing that only the collector finds
    console.print(f"Mailsift listens on {url} (operations: {url}/docs)", **PLAIN)


def mcp(
    *,
    account: Annotated[
        str, typer.Option("--account", help="The account the jobs belong to.")
    ] = LOCAL_ACCOUNT,
    test: Annotated[bool, typer.Option("--test", help="Test mode: no mail server is asked.")] = False,
) -> None:
    """Serve an assistant over standard input and output (Model Context Protocol).

    Starts what is not running, as `mailsift run` does.
    """
    with working(Settings.from_env()) as (settings, _):
        uvloop.run(_serve_assistant(settings, account, test=test))


async def _serve_assistant(settings: Settings, account: str, *, test: bool) -> None:
    try:
        from mailsift.api.mcp import ToolCall  # noqa: PLC0415 - with it
        from mailsift.api.mcp_server import serve_stdio  # noqa: PLC0415 - an extra
    except ModuleNotFoundError:
        raise MailsiftError("mcp_missing", "MCP isn’t installed: install mailsift[mcp].") from None
    async with open_container(settings, pool_size=API_POOL) as container:
        jobs = container.jobs
        owner = await (jobs.account(account) if account == LOCAL_ACCOUNT else jobs.find_account(account))
        if test:
            owner = await container.keys.test_account(owner)
        # there is no key: the account has its budget
        caller = Caller(owner, owner, frozenset(scope.value for scope in Scope), None, test=test)
        await serve_stdio(ToolCall(await container.api_parts(), caller))
