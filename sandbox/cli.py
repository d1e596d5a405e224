"""The sandbox's commands: serve, list and the table of scenarios."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated

import typer
import uvloop

from mailsift.sandbox.behaviours import BEHAVIOURS
from mailsift.sandbox.counters import ControlServer
from mailsift.sandbox.listing import write_list
from mailsift.sandbox.server import Sandbox
from mailsift.sandbox.world import SandboxConfig, SandboxWorld, WorldMix

sandbox_app = typer.Typer(
    name="sandbox",
    help="A mail internet in a box: DNS and SMTP servers on loopback that know the truth.",
    no_args_is_help=True,
)

Seed = Annotated[int, typer.Option(help="The world is a pure function of it.")]
Domains = Annotated[int, typer.Option(min=1, help="Business domains in the world.")]
MixOption = Annotated[WorldMix, typer.Option(help="plain: mostly ordinary; hostile: every behaviour.")]


@sandbox_app.command()
def serve(  # noqa: PLR0913 - options of a command line
    *,
    seed: Seed = 1,
    domains: Domains = 1_000,
    mix: MixOption = WorldMix.PLAIN,
    dns_port: Annotated[int, typer.Option(help="0 picks a free one.")] = 0,
    smtp_port: Annotated[int, typer.Option(help="0 picks a free one.")] = 2525,
    control_port: Annotated[int, typer.Option(help="0 picks a free one.")] = 0,
    latency_ms: Annotated[
        float, typer.Option(help="Milliseconds between an SMTP command and its reply.")
    ] = 0,
    greylist_seconds: Annotated[
        float, typer.Option(help="How long greylisting puts a first contact off.")
    ] = 2,
    minute_seconds: Annotated[float, typer.Option(help="How long a limit a minute counts.")] = 2,
    until_eof: Annotated[bool, typer.Option("--until-eof", help="Stop when standard input ends.")] = False,
) -> None:
    """Serve until interrupted; prints one JSON line with ports and environment when ready."""
    config = SandboxConfig(
        seed=seed,
        domains=domains,
        mix=mix,
        dns_port=dns_port,
        smtp_port=smtp_port,
        latency=latency_ms / 1000,
        greylist=greylist_seconds,
        minute=minute_seconds,
    )
    uvloop.run(_serve(config, control_port, until_eof=until_eof))


async def _serve(config: SandboxConfig, control_port: int, *, until_eof: bool) -> None:
    loop, stopped = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    if until_eof:
        loop.add_reader(0, lambda: None if os.read(0, 4096) else stopped.set())
    async with AsyncExitStack() as stack:
        try:
            sandbox = await stack.enter_async_context(Sandbox(config))
            control = ControlServer(sandbox.counters, sandbox.deliveries.collect)
            await control.start(control_port)
        except OSError as error:
            typer.echo(f"mailsift: port_in_use: {_listen_error(error, config, control_port)}", err=True)
            raise typer.Exit(2) from None
        ready = {
            "dns_port": sandbox.dns_port,
            "smtp_port": sandbox.smtp_port,
            "control_port": control.port,
            "env": sandbox.env,
        }
        typer.echo(json.dumps(ready))
        await stopped.wait()
        await control.stop()


def _listen_error(error: OSError, config: SandboxConfig, control_port: int) -> str:
    """Say which ports were asked for and what to do about it."""
    ports = ", ".join(str(port) for port in (config.dns_port, config.smtp_port, control_port) if port)
    return f"The sandbox cannot listen on {ports}: {error.strerror or error}. Port 0 picks a free one."


@sandbox_app.command("list")
def list_(
    rows: Annotated[int, typer.Option(min=1, help="Rows without the header.")] = 20_000,
    seed: Seed = 1,
    domains: Domains = 1_000,
    mix: MixOption = WorldMix.PLAIN,
    output: Annotated[Path, typer.Option("--output", "-o", help="The CSV file to write.")] = Path("list.csv"),
) -> None:
    """Write a realistic list, and beside it `<list>.truth.csv` with the right verdict on every row."""
    world = SandboxWorld(seed=seed, domains=domains, mix=mix)
    truth = write_list(world, output, rows=rows)
    typer.echo(json.dumps({"rows": rows, "list": str(output), "truth": str(truth)}))


@sandbox_app.command()
def scenarios() -> None:
    """Print the scenario domains and the verdict that is right for `known@` each in mode deep."""
    world = SandboxWorld(domains=1)
    for behaviour in BEHAVIOURS:
        expected = world.truth(f"known@{behaviour.domain}").deep
        typer.echo(f"{behaviour.domain:40} {expected.status:8} {expected.result or '*'}")
