"""What keeps a source's name good, on the sandbox: a watchful gateway, an earned pace, a block list.

1. A gateway with the defaults of its manual (30 recipients a minute, blocks of 3 h at 5 unknown recipients of
   a minute that are half of all) and a list with 30 % bad rows: at our defaults, and with all care off. One
   is in the provider table (`gateway`), one is a company's own that is in no table (`unlisted`).
2. Mixed addresses from a source that is new, and from one that has earned its pace.
3. A source that is in a block list: when it rests, and what becomes of its work.

    python -m benchmarks.good_name [--rows N] [--mixed N] [--longest SECONDS] [--only PART]
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import uvloop
from sqlalchemy import text

from benchmarks.peers.listing import gateway_addresses
from benchmarks.sandboxed import SEED, home, surrounded
from mailsift.cli.lists import working
from mailsift.container import open_container, open_service, read_sources
from mailsift.jobs.views import JobOptions, JobView
from mailsift.pipeline.facts import Mode
from mailsift.pipeline.providers import PROVIDERS
from mailsift.sandbox.client import SandboxProcess
from mailsift.sandbox.listing import write_list
from mailsift.sandbox.world import SandboxWorld
from mailsift.settings import Settings
from mailsift.storage.sql import throttles

CARELESS: Final = """
[[provider]]
key = "forcepoint"
rate = 2.0
burst = 50
recipients = 50
harvest = 0
"""
"""The row as those of other gateways are: what is asked when nobody minds whom."""
_EARNED: Final = text("""
    INSERT INTO source_standing (provider, source, step, stepped_at, asked_at)
    SELECT provider, :source, 3, clock_timestamp(), clock_timestamp()
    FROM unnest(CAST(:providers AS text[])) AS p(provider)
""")
LONGEST: Final = 110.0


@contextmanager
def fresh(sandbox: SandboxProcess, overrides: str = "", **more: str) -> Iterator[Settings]:
    """Give a fresh installation on the sandbox with one worker."""
    with (
        home(sandbox, overrides, MAILSIFT_WORKER_PROCESSES="1", **more) as (_, environment),
        surrounded(environment),
        working(Settings.from_env()) as (settings, _),
    ):
        yield settings


async def time_list(
    settings: Settings, source: Path, enough: Callable[[JobView], bool], longest: float = LONGEST
) -> tuple[float, JobView]:
    """Run the list until there is nothing more to see; return the seconds and how it stands then."""
    async with open_service(settings) as service:
        account = await service.account("benchmark")
        job_id = await service.submit(account, source, JobOptions(mode=Mode.DEEP, max_age=0))
        began = time.perf_counter()
        while True:
            view = await service.get(account, job_id)
            took = time.perf_counter() - began
            if view.finished_at is not None or enough(view) or took > longest:
                return took, view
            await asyncio.sleep(0.1)


def _nearly_done(view: JobView) -> bool:
    return view.total > 0 and view.processed >= 0.97 * view.total


def show_gateway(rows: int, longest: float, domain: str) -> None:
    """Run a bad list at a gateway that blocks harvesters, with and without care.

    Its minute is a minute: the guard that keeps below its limits counts in real time, too. How others fare
    there: `python -m benchmarks.peers --gateway N`.
    """
    print(f"{rows} addresses at {domain}, 30 % of them unknown; it takes 30 recipients a minute")
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "list.csv"
        source.write_text("\n".join(["email", *gateway_addresses(rows, domain), ""]))
        ways: Mapping[str, dict[str, Any]] = {
            "at the defaults": {},
            "all care off": {"overrides": CARELESS, "MAILSIFT_RAMP": "false", "MAILSIFT_STOP_SHARE": "0"},
        }
        for name, way in ways.items():
            with SandboxProcess(seed=SEED, domains=20, minute_seconds=60) as sandbox:
                with fresh(sandbox, **way) as settings:
                    took, view = uvloop.run(time_list(settings, source, _blocked(sandbox), longest))
                bans = sandbox.counters()["bans"]
            print(
                f"  {name:<16}{bans:>3} blocks{took:>8.1f} s{view.valid:>6} valid{view.invalid:>6} invalid"
                f"{view.total - view.valid - view.invalid:>6} without an answer"
            )


def _blocked(sandbox: SandboxProcess) -> Callable[[JobView], bool]:
    """After a block nothing is learned for three hours: enough is seen."""
    return lambda view: view.processed > 0 and sandbox.counters()["bans"] > 0


def show_pace(rows: int) -> None:
    """Run mixed addresses from a new source and from an established one.

    Whom DNS fails for is left out: that is asked about again 12 seconds later, whatever a name is worth.
    """
    print(f"{rows} mixed addresses")
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "list.csv"
        truth = write_list(SandboxWorld(seed=SEED, domains=50), source, rows=rows + rows // 4)
        with truth.open(encoding="utf-8", newline="") as file:
            emails = [row["email"] for row in csv.DictReader(file) if row["deep_result"] != "dns_unavailable"]
        with source.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([["email"], *([email] for email in emails[:rows])])
        for name in ("a new source", "an established one"):
            with SandboxProcess(seed=SEED, domains=50) as sandbox, fresh(sandbox) as settings:
                if name != "a new source":
                    uvloop.run(_earn(settings))
                took, view = uvloop.run(time_list(settings, source, _nearly_done))
            print(f"  {name:<20}{took:>6.1f} s{view.processed:>6} of {view.total} (the rest is greylisted)")


async def _earn(settings: Settings) -> None:
    """Give the source the name of three doublings at every provider of the table."""
    async with open_container(settings) as container, container.database.begin() as connection:
        keys = [row.key for row in PROVIDERS if row.ceiling]
        await connection.execute(_EARNED, {"source": read_sources(settings)[0].identity, "providers": keys})
    await asyncio.sleep(2 * throttles.EDITS_REFRESH_SECONDS)  # workers have heard


def show_listing() -> None:
    """Let a source be in a block list, and then not."""
    print("a source in a block list")
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "list.csv"
        source.write_text("email\n" + "".join(f"known{n}@ordinary.sandbox.test\n" for n in range(20)))
        for zone in ("dnsbl.sandbox.test", "dnsbl-empty.sandbox.test"):
            more = {"MAILSIFT_SOURCE_IDENTITIES": "203.0.113.99", "MAILSIFT_BLOCK_LISTS": zone}
            with SandboxProcess(seed=SEED, domains=20) as sandbox, fresh(sandbox, **more) as settings:
                held = uvloop.run(_held(settings))
                _, view = uvloop.run(time_list(settings, source, lambda view: bool(view.waiting)))
                asked = sandbox.counters()["rcpts"]
            waits = sum(wait.addresses for wait in view.waiting)
            print(
                f"  {zone:<26}held: {held or 'no':<32}{asked:>4} recipients asked"
                f"{view.processed:>4} done{waits:>4} wait"
            )


async def _held(settings: Settings) -> str:
    """Wait until the source was looked for; return why it is held."""
    async with open_container(settings) as container:
        for _ in range(100):
            async with container.database.begin() as connection:
                looked = (
                    await connection.execute(text("SELECT count(*) FROM source_listing WHERE detail <> ''"))
                ).scalar()
                held = await throttles.held_sources(connection)
            if looked:
                await asyncio.sleep(3.0)  # processes hear of holds
                return held.get("203.0.113.99", "")
            await asyncio.sleep(0.2)
    return "never looked"


def main() -> None:
    """Show one of the three, or all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.good_name", description=__doc__)
    parser.add_argument("--rows", type=int, default=40)
    parser.add_argument("--mixed", type=int, default=200)
    parser.add_argument("--longest", type=float, default=LONGEST, help="seconds for a list at the gateway")
    parser.add_argument("--only", choices=["gateway", "unlisted", "pace", "listing"])
    chosen = parser.parse_args()
    parts: Mapping[str, Callable[[], None]] = {
        "gateway": lambda: show_gateway(chosen.rows, chosen.longest, "gateway.sandbox.test"),
        "unlisted": lambda: show_gateway(chosen.rows, chosen.longest, "own-gateway.sandbox.test"),
        "pace": lambda: show_pace(chosen.mixed),
        "listing": show_listing,
    }
    for name, show in parts.items():
        if chosen.only in (None, name):
            show()
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
