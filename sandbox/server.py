"""The sandbox in a process: a world, its DNS server and its mail servers, and the commands that start it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated, Self

import typer
import uvloop

from mailsift.sandbox.behaviours import BEHAVIOURS
from mailsift.sandbox.counters import ControlServer, Counters
from mailsift.sandbox.delivery import Deliveries
from mailsift.sandbox.dns_server import DnsServer, SandboxZone
from mailsift.sandbox.listing import write_list
from mailsift.sandbox.smtp_replies import RecipientReplies
from mailsift.sandbox.smtp_server import SmtpContext, SmtpServer, server_context
from mailsift.sandbox.world import SandboxConfig, SandboxWorld, WorldMix


class Sandbox:
    """A mail internet in a box; an async context manager.

    Attributes:
        world: knows the truth about every address.
        deliveries: takes messages, and has the reports that go back.
    """

    def __init__(self, config: SandboxConfig | None = None) -> None:
        self.config = config = config or SandboxConfig()
        self.world = SandboxWorld(seed=config.seed, domains=config.domains, mix=config.mix)
        self.counters = Counters(time.monotonic)
        self.deliveries = Deliveries(self.world, time.time)  # noqa: TID251 - a world has its own clock
        self._dns = DnsServer(SandboxZone(self.world, slow=config.slow_dns), self.counters)
        context = SmtpContext(
            config=config,
            recipient_replies=RecipientReplies(self.world, config, time.monotonic, self.counters),
            counters=self.counters,
            hosts=self.world.by_address,
            tls=server_context(),
            dropped=set(),
            deliveries=self.deliveries,
        )
        self._smtp = SmtpServer(context)

    @property
    def dns_port(self) -> int:
        """The DNS port on 127.0.0.1, UDP and TCP."""
        return self._dns.port

    @property
    def smtp_port(self) -> int:
        """The SMTP port of every mail server."""
        return self._smtp.port

    @property
    def env(self) -> dict[str, str]:
        """The environment that points Mailsift here."""
        return {
            "MAILSIFT_DNS_SERVERS": f"127.0.0.1:{self.dns_port}",
            "MAILSIFT_SMTP_PORT": str(self.smtp_port),
            "MAILSIFT_ALLOW_NON_PUBLIC": "true",
        }

    async def start(self) -> None:
        """Listen.

        Raises:
            OSError: a port is taken.
        """
        await self._dns.start(self.config.dns_port)
        try:
            await self._smtp.start(self.config.smtp_port)
        except OSError:
            await self._dns.stop()
            raise

    async def hide(self) -> None:
        """Let all mail servers vanish, as when a network fails; DNS goes on."""
        await self._smtp.stop()

    async def show(self) -> None:
        """Let them come back, at the same port.

        Raises:
            OSError: the port has been taken.
        """
        await self._smtp.stop()
        await self._smtp.start(self._smtp.port)

    async def stop(self) -> None:
        """Stop listening and cut all connections."""
        await self._smtp.stop()
        await self._dns.stop()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()


# The commands.

sandbox_app = typer.Typer(
    name="sandbox",
    help="A mail internet in a box: DNS and SMTP servers on loopback that know the truth.",
    no_args_is_help=True,
)

_Seed = Annotated[int, typer.Option(help="The world is a pure function of it.")]
_Domains = Annotated[int, typer.Option(min=1, help="Business domains in the world.")]
_MixOption = Annotated[WorldMix, typer.Option(help="plain: mostly ordinary; hostile: every behaviour.")]


@sandbox_app.command()
def serve(  # noqa: PLR0913 - options of a command line
    *,
    seed: _Seed = 1,
    domains: _Domains = 1_000,
    mix: _MixOption = WorldMix.PLAIN,
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
    seed: _Seed = 1,
    domains: _Domains = 1_000,
    mix: _MixOption = WorldMix.PLAIN,
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
