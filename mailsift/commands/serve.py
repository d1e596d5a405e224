"""`mailsift serve` and `mailsift api`: the HTTP API, with a worker beside it or alone."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated

import typer
import uvloop

from mailsift.installation import LocalWorker, installation
from mailsift.logs import configure_logs
from mailsift.progress import PLAIN, console
from mailsift.serve import serve as serve_api
from mailsift.settings import Settings

_LOOK_SECONDS = 2.0

HostOption = Annotated[str | None, typer.Option("--host", help="Address to listen on. [default: API_HOST]")]
PortOption = Annotated[int | None, typer.Option("--port", "-p", min=0, max=65535, help="0: any free port.")]


def serve(*, host: HostOption = None, port: PortOption = None) -> None:
    """Serve the API and work on its jobs; starts PostgreSQL and Valkey too when none are configured."""
    configure_logs(logging.INFO)
    with installation(_settings(host, port)) as settings:
        worker = LocalWorker(settings)
        worker.ensure()
        try:
            uvloop.run(_serve(settings, worker.ensure))
        finally:
            worker.stop()


def api(*, host: HostOption = None, port: PortOption = None) -> None:
    """Serve the API alone; `mailsift worker` runs beside it."""
    configure_logs(logging.INFO)
    with installation(_settings(host, port)) as settings:
        uvloop.run(_serve(settings, lambda: None))


def _settings(host: str | None, port: int | None) -> Settings:
    given = {"api_host": host, "api_port": port}
    return Settings.from_env().model_copy(
        update={name: value for name, value in given.items() if value is not None}
    )


async def _serve(settings: Settings, keep_alive: Callable[[], None]) -> None:
    async def look() -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            keep_alive()

    watching = asyncio.create_task(look())
    try:
        await serve_api(settings, started=_welcome)
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching


def _welcome(url: str) -> None:
    console.print(f"Mailsift listens on {url} (operations: {url}/docs)", **PLAIN)
    console.print("Make a key in another terminal: mailsift keys create --account NAME", **PLAIN)
