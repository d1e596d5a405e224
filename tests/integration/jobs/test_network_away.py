"""DNS and mail servers vanish in the middle of a job, or one machine speaks for all: it waits, ends right."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from mailsift.container import open_service
from mailsift.jobs.results.export import export, format_of
from mailsift.jobs.service import JobService
from mailsift.jobs.views import OUTAGES, AccountId, JobId, JobOptions, JobView
from mailsift.pipeline.dns import trust
from mailsift.pipeline.facts import Mode
from mailsift.pipeline.probe import port25
from mailsift.pipeline.verdict import Result
from mailsift.sandbox.server import Sandbox
from mailsift.sandbox.world import SandboxConfig, WorldMix
from tests.support.installation import settings_for, until
from tests.support.liar import Liar
from tests.support.middlebox import Interception, Middlebox
from tests.support.ready_jobs import Planter, engine_on

CHUNK = 20
UNAVAILABLE = Result.DNS_UNAVAILABLE
"""Of a domain for which DNS fails at any time: it is asked about twice anyhow."""
NOW = "UPDATE chunk SET ready_at = clock_timestamp() WHERE state = 'ready'"


async def statuses(service: JobService, account: AccountId, job: JobId, out: Path) -> list[str]:
    async with service.browser.results(account, job) as results:
        export(results, out, format=format_of(out))
    return pl.read_csv(out, infer_schema=False)["mailsift_status"].to_list()


@pytest.mark.parametrize(
    ("middlebox", "dns", "just_looked"),
    [
        (None, False, False),
        (None, False, True),
        (None, True, False),
        (Middlebox.REFUSES, False, False),
        (Middlebox.ACCEPTS, False, False),
    ],
    ids=[
        "mail servers",
        "mail servers right after a look at them",
        "and DNS",
        "one machine refuses for all",
        "one machine accepts for all",
    ],
)
async def test_what_vanishes_in_the_middle_costs_time_and_no_verdict(
    tmp_path: Path,
    database_url: str,
    redis_url: str,
    monkeypatch: pytest.MonkeyPatch,
    *,
    middlebox: Middlebox | None,
    dns: bool,
    just_looked: bool,
) -> None:
    monkeypatch.setattr(trust, "RECHECK_S", 0.1)
    monkeypatch.setattr(port25, "CLOSED_SECONDS", 0.1)
    monkeypatch.setattr(port25, "FRESH_SECONDS", 3_600.0 if just_looked else 0.0)
    if not just_looked:
        monkeypatch.setattr(port25, "KEPT_SECONDS", 0.0)
    async with Sandbox(SandboxConfig(domains=30, mix=WorldMix.CALM)) as sandbox:
        resolver = Liar(sandbox.env["MAILSIFT_DNS_SERVERS"])
        resolver.lies = False
        env = {**sandbox.env, "MAILSIFT_DNS_SERVERS": resolver.server}
        home = tmp_path / "home"
        settings = settings_for(home, database_url=database_url, redis_url=redis_url, sandbox=env)
        names = [one.name for one in sandbox.world.ranked]
        broken = {name for name in names if sandbox.world.truth(f"known@{name}").deep.result == UNAVAILABLE}
        listed = [f"{who}@{name}" for name in names if name not in broken for who in ("known", "nobody")]
        planter = Planter(settings, tmp_path)
        account, job = await planter.plant(listed, chunk=CHUNK, options=JobOptions(mode=Mode.DEEP))
        await planter.sql("UPDATE chunk SET ready_at = clock_timestamp() + interval '1 hour' WHERE n > 0")
        async with open_service(settings) as service, engine_on(settings) as engine:

            async def go_on() -> JobView:
                """Work on whatever waits, as if its time had come."""
                await planter.sql(NOW)
                await engine.drain()
                return await service.get(account, job)

            async def has_ended() -> bool:
                return (await go_on()).finished_at is not None

            await engine.drain()
            before = (await service.get(account, job)).processed
            assert 0 < before <= CHUNK
            interception = Interception(sandbox, middlebox) if middlebox else None
            await (interception.begin() if interception else sandbox.hide())
            resolver.silent = dns

            async def says_for_what() -> bool:
                view = await go_on()
                waits = {wait.reason for wait in view.waiting}
                if codes := {code for reason, code in OUTAGES.items() if reason in waits}:
                    assert view.warning in codes
                    assert view.time_left is None or view.time_left.seconds is None
                assert waits <= {"our_network", "resolver", "slow"} | ({"deferred"} if just_looked else set())
                return ("resolver" if dns else "our_network") in waits

            await until(says_for_what, within=60)
            away = (await go_on()).processed

            if interception:
                interception.end()
            await sandbox.show()
            resolver.silent = False
            await until(has_ended, within=90)
            found = await statuses(service, account, job, tmp_path / "out.csv")
        resolver.close()
        truths = [sandbox.world.truth(address).deep.status for address in listed]
    assert found == truths
    assert away < len(listed)
