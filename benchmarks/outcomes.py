"""What outcomes are worth: validate a list, send to what is to be sent to, tell what happened, and once more.

    python -m benchmarks.outcomes [--rows N] [--seed N]

The list and the mail servers are the sandbox's: they take the messages over SMTP, put some off, send some
back days later as reports, and complain of some. The second part sends to what is risky, too, and holds the
chances against addresses that they do not rest on.
"""

from __future__ import annotations

import argparse
import asyncio
import mailbox
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import polars as pl
import uvloop

from benchmarks.sandboxed import home, surrounded
from mailsift.cli.lists import working
from mailsift.container import Container, open_container
from mailsift.jobs.outcomes.accuracy import GroupBy, Measurer, judged_addresses
from mailsift.jobs.views import AccountId, JobId, JobOptions
from mailsift.pipeline.clock import system_clock
from mailsift.pipeline.facts import Mode
from mailsift.pipeline.providers import DEFAULT, PROVIDERS
from mailsift.runtime.local_worker import LocalWorker
from mailsift.sandbox.client import SandboxProcess
from mailsift.sandbox.delivery import Destiny, destiny
from mailsift.sandbox.listing import write_list
from mailsift.sandbox.population import Mailbox
from mailsift.sandbox.world import SandboxWorld
from mailsift.settings import Settings
from tests.support.sandbox_sender import Campaign, SandboxSender

FEWER_BOUNCES: Final = 0.8
GREATEST_ERROR: Final = 0.03
_SPEED: Final = 10_000  # times the rates of the provider table: what is measured here is no rate


@dataclass(frozen=True, slots=True)
class Loop:
    """One installation, one account, one list.

    Attributes:
        folder: for files of outcomes.
    """

    container: Container
    worker: LocalWorker
    sandbox: SandboxProcess
    world: SandboxWorld
    account: AccountId
    folder: Path

    async def validate(self, source: Path, parent: JobId | None = None) -> tuple[JobId, pl.DataFrame]:
        """Return a complete job over the list, and its verdicts."""
        jobs = self.container.jobs
        job_id = await jobs.submit(self.account, source, JobOptions(mode=Mode.DEEP), parent=parent)
        while (await jobs.get(self.account, job_id)).finished_at is None:
            self.worker.ensure()
            await asyncio.sleep(0.2)
        judged = await judged_addresses(self.container.blobs, job_id)
        return job_id, pl.concat(judged.windows())

    async def send(self, addresses: list[str]) -> tuple[Campaign, set[str]]:
        """Send, tell what happened, and return the campaign with the addresses whose message came back."""
        sender = SandboxSender(self.world, smtp_port=self.sandbox.smtp_port, now=system_clock)
        campaign = await sender.send(addresses)
        events, reports = self.folder / "events.jsonl", self.folder / "reports.mbox"
        campaign.write(events)
        reports.unlink(missing_ok=True)
        box = mailbox.mbox(reports)
        for report in self.sandbox.reports():
            box.add(report.encode())
        box.close()
        for file in (events, reports):
            if file.stat().st_size:
                taken = await self.container.outcomes.import_file(self.account, file)
                print(f"    {file.name}: {taken.taken:,} outcomes taken, {taken.malformed:,} not readable")
        later = {one for one in campaign.delivered if destiny(self.world, *_parts(one)) is Destiny.RETURNS}
        return campaign, campaign.bounced | later

    async def count(self) -> None:
        """Wait until everything told is counted, as a worker does a little later."""
        database = self.container.database
        measurer = Measurer(
            database=database, blobs=self.container.blobs, outcomes=self.container.outcomes, job_rest_s=0
        )
        while not await measurer.sweep():  # noqa: ASYNC110 - the database says when it is due
            await asyncio.sleep(1)

    def is_good(self, address: str) -> bool:
        """Say whether messages to an address arrive in the end."""
        local, name = _parts(address)
        domain = self.world.find(name)
        if domain is None or not domain.exchangers:
            return False
        exists = self.world.mailbox(local, name) is Mailbox.EXISTS
        return exists and destiny(self.world, local, name) is not Destiny.RETURNS


def _parts(address: str) -> tuple[str, str]:
    local, _, domain = address.rpartition("@")
    return local, domain


async def measure(loop: Loop, source: Path) -> bool:
    """Go round once, then look at the chances; says whether all is as it should be."""
    first, before = await loop.validate(source)
    first_send = before.filter(pl.col("tier") == "send")["address"].to_list()
    print(f"  {len(before):,} addresses, {len(first_send):,} to be sent to")
    campaign, came_back = await loop.send(first_send)
    put_off = {row["email"] for row in campaign.events if row["event"] == "deferred"}
    put_off |= {one for one in first_send if destiny(loop.world, *_parts(one)) is Destiny.LATE}

    _, after = await loop.validate(source, parent=first)
    tier = dict(after.select("address", "tier").iter_rows())
    again = [address for address in tier if tier[address] == "send"]
    _, came_back_again = await loop.send(again)
    fewer = 1 - len(came_back_again) / len(came_back)
    print(f"  bounces: {len(came_back):,} of {len(first_send):,} sent")
    print(f"  then: {len(came_back_again):,} of {len(again):,} sent")
    removed = [address for address in put_off if loop.is_good(address) and tier[address] == "remove"]
    print(f"  {fewer:.1%} fewer")
    print(f"  {len(removed)} of {len(put_off):,} good mailboxes removed for a message that was put off")

    risky = [address for address in tier if tier[address] == "review"]
    _, risky_back = await loop.send(risky)
    print(f"  sent to {len(risky):,} to be reviewed, too: {len(risky_back):,} came back")
    await loop.count()
    last = datetime.fromtimestamp(system_clock(), UTC).date()
    for row in await loop.container.accuracy.report(loop.account, [GroupBy.RESULT], last, last):
        if row.delivered:
            print(f"    {row.group[0]:20} {row.delivered.n:6,} sent to   {row.delivered.value:6.1%} arrived")
    held = await loop.container.accuracy.calibration(loop.account)
    if held is None:
        raise SystemExit("nothing was counted")
    print(f"  calibration error {held.error:.4f} on {held.n:,} addresses the chances do not rest on")
    for one in held.bins:
        print(f"    said {one.said:6.1%}   arrived {one.arrived:6.1%}   n {one.n:,}")
    expected = await loop.container.accuracy.expected_bounces(loop.account, first)
    if expected is not None and expected.send is not None:
        say, were = expected.send, len(came_back)
        print(f"  expected bounces: {say.expected:.0f} ({say.low:.0f} to {say.high:.0f}), were {were:,}")
    return fewer >= FEWER_BOUNCES and not removed and held.error <= GREATEST_ERROR


async def run(
    settings: Settings, worker: LocalWorker, sandbox: SandboxProcess, world: SandboxWorld, source: Path
) -> bool:
    """Open the installation and measure."""
    async with open_container(settings) as container:
        account = await container.jobs.account("benchmark")
        return await measure(Loop(container, worker, sandbox, world, account, source.parent), source)


def main() -> None:
    """Print what was found, and end with 1 where it is not as it should be."""
    options = argparse.ArgumentParser(prog="python -m benchmarks.outcomes", description=__doc__)
    options.add_argument("--rows", type=int, default=10_000)
    options.add_argument("--seed", type=int, default=1)
    chosen = options.parse_args()
    domains = max(50, chosen.rows // 50)
    overrides = "".join(
        f'[[provider]]\nkey = "{row.key}"\nrate = {row.rate * _SPEED}\n' for row in (DEFAULT, *PROVIDERS)
    )
    with tempfile.TemporaryDirectory(prefix="ms-outcomes-", dir="/tmp") as folder:
        world = SandboxWorld(seed=chosen.seed, domains=domains)
        source = Path(folder) / "list.csv"
        write_list(world, source, rows=chosen.rows)
        with (
            SandboxProcess(seed=chosen.seed, domains=domains) as sandbox,
            # Nor is care measured: it makes the last few addresses wait for minutes.
            home(sandbox, overrides, MAILSIFT_RAMP="false") as (_, environment),
            surrounded(environment),
            working(Settings.from_env()) as (settings, worker),
        ):
            good = uvloop.run(run(settings, worker, sandbox, world, source))
    raise SystemExit(0 if good else 1)


if __name__ == "__main__":
    main()
