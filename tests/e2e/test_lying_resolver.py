"""A job whose resolver denies everything waits for it, says so, and ends with the truth once it is honest."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest

from mailsift.cli.options import LOCAL_ACCOUNT
from mailsift.container import open_service
from mailsift.sandbox.client import SandboxProcess
from mailsift.sandbox.listing import write_list
from mailsift.sandbox.world import SandboxWorld, WorldMix
from mailsift.settings import Settings
from tests.support.commands import CommandLine, Keyboard
from tests.support.installation import until
from tests.support.liar import Liar

SEED, DOMAINS, ROWS = 5, 200, 2_000


@pytest.fixture
def liar() -> Iterator[Liar]:
    with SandboxProcess(seed=SEED, domains=DOMAINS, mix=WorldMix.PLAIN) as sandbox:
        running = Liar(sandbox.env["MAILSIFT_DNS_SERVERS"])
        yield running
        running.close()


@pytest.fixture
def settings(make_settings: Callable[..., Settings], liar: Liar) -> Settings:
    sandbox = {"MAILSIFT_DNS_SERVERS": liar.server, "MAILSIFT_ALLOW_NON_PUBLIC": "true"}
    # What waits but for the resolver is silent DNS alone: it is silent each time.
    return make_settings(sandbox=sandbox, greylist_delays=(0.5, 0.5, 0.5))


async def waiting_for_the_resolver(settings: Settings) -> None:
    """Return when the newest job does."""
    async with open_service(settings) as service:
        account = await service.account(LOCAL_ACCOUNT)

        async def waits() -> bool:
            newest = (await service.page(account, limit=1)).jobs
            reasons = [wait.reason for job in newest for wait in (await service.get(account, job.id)).waiting]
            return "resolver" in reasons

        await until(waits, within=60)


def test_a_job_waits_for_a_resolver_that_can_be_trusted(
    settings: Settings, keyboard: Keyboard, liar: Liar, tmp_path: Path
) -> None:
    source, out = tmp_path / "list.csv", tmp_path / "out.csv"
    write_list(SandboxWorld(seed=SEED, domains=DOMAINS, mix=WorldMix.PLAIN), source, rows=ROWS)
    for mode in ("medium", "deep"):
        checked = json.loads(keyboard.type(settings, "check", "ann@gmail.com", "--mode", mode, "--json").out)
        assert (checked["status"], checked["result"]) == ("risky", "dns_unavailable")

    running = CommandLine(settings).start("run", source, "--output", out, "--json", "--mode", "medium")
    asyncio.run(waiting_for_the_resolver(settings))
    (listed,) = keyboard.type(settings, "jobs", "list", "--json").out.splitlines()
    view = json.loads(keyboard.type(settings, "jobs", "show", json.loads(listed)["job_id"], "--json").out)
    waits = [wait["reason"] for wait in view["waiting"]]
    assert (waits, view["warning"]) == (["resolver"], "no_trusted_resolver")

    liar.lies = False
    _, err = running.communicate(timeout=100)
    assert running.returncode == 0, err
    assert "Warning: no_trusted_resolver: no resolver can be trusted now" in err
    truth = pl.read_csv(source.with_name("list.truth.csv"), infer_schema=False)
    rows = pl.read_csv(out, infer_schema=False).hstack(truth.select("medium"))
    wrong = rows.filter(pl.col("mailsift_status") != pl.col("medium"))
    # The resolver before the sandbox asks one question at a time, so that some time out: risky, never wrong.
    assert set(wrong["mailsift_result"]) <= {"dns_unavailable"}
    assert rows["mailsift_status"].n_unique() == 3
