"""A resolver that lies, seen from the API and from a job: nothing false meanwhile, the truth afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import polars as pl
import pytest

from mailsift.container import open_service
from mailsift.jobs.results.export import export, format_of
from mailsift.jobs.views import JobOptions
from mailsift.pipeline.dns import trust
from mailsift.pipeline.facts import Mode
from mailsift.sandbox.client import SandboxProcess
from mailsift.sandbox.world import SandboxWorld, WorldMix
from mailsift.settings import Settings
from tests.integration.api.conftest import running
from tests.support.installation import until
from tests.support.liar import Liar
from tests.support.ready_jobs import Planter, engine_on, work_until_ended
from tests.unit.pipeline.dns_lies import LIES

DOMAINS = 40
WORLD = SandboxWorld(seed=1, domains=DOMAINS, mix=WorldMix.CALM)
LISTED = [f"{local}@{domain.name}" for domain in WORLD.ranked for local in ("known", "nobody")]
SINGLE = ["known@ordinary.sandbox.test", "nobody@exim.sandbox.test", "known@nxdomain.sandbox.test"]
LATER = ["known@sendmail.sandbox.test", "nobody@exchange.sandbox.test", "known@null-mx.sandbox.test"]
TOLD = ("a wildcard that may not be kept", "NXDOMAIN after a while")
"""One that invents from the start, one that denies after a while."""


@pytest.fixture(scope="module")
def sandbox() -> Iterator[SandboxProcess]:
    with SandboxProcess(domains=DOMAINS, mix=WorldMix.CALM) as running_one:
        yield running_one


@pytest.fixture
def liar(sandbox: SandboxProcess, request: pytest.FixtureRequest) -> Iterator[Liar]:
    running_one = Liar(sandbox.env["MAILSIFT_DNS_SERVERS"], LIES[request.param])
    yield running_one
    running_one.close()


@pytest.fixture
def settings(make_settings: Callable[..., Settings], sandbox: SandboxProcess, liar: Liar) -> Settings:
    env = {**sandbox.env, "MAILSIFT_DNS_SERVERS": liar.server}
    return make_settings(sandbox=env, api_port=0)


async def asked(client: httpx.AsyncClient, addresses: list[str]) -> dict[str, str]:
    """Ask the API about some addresses, one at a time."""
    statuses = {}
    for address in addresses:
        answer = await client.post("/v1/email/single-validate", json={"email": address, "mode": "deep"})
        statuses[address] = answer.json()["data"]["status"]
    return statuses


def wrong(statuses: dict[str, str]) -> dict[str, str]:
    truths = {address: WORLD.truth(address).deep.status for address in statuses}
    return {
        address: status for address, status in statuses.items() if status not in {"risky", truths[address]}
    }


@pytest.mark.parametrize("liar", TOLD, indirect=True)
async def test_api_and_job_say_nothing_false_and_are_right_once_the_resolver_is(
    settings: Settings, liar: Liar, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trust, "RECHECK_S", 0.1)  # three good looks would fit into a minute
    planter = Planter(settings, tmp_path)
    async with (
        running(settings) as api,
        api.client(await api.key("alice")) as client,
        open_service(settings) as service,
        engine_on(settings) as engine,
    ):
        account, job = await planter.plant(LISTED, chunk=20, options=JobOptions(mode=Mode.DEEP))
        await engine.drain()
        assert wrong(await asked(client, SINGLE)) == {}

        liar.lies = False
        right = {address: WORLD.truth(address).deep.status for address in LATER}

        async def is_right() -> bool:
            return await asked(client, LATER) == right

        await until(is_right, within=60)
        await planter.sql("UPDATE chunk SET ready_at = clock_timestamp() WHERE state = 'ready'")
        await work_until_ended(engine, service, account, job)
        out = tmp_path / "out.csv"
        async with service.browser.results(account, job) as results:
            export(results, out, format=format_of(out))
    rows = pl.read_csv(out, infer_schema=False)
    statuses = dict(zip(LISTED, rows["mailsift_status"], strict=True))
    assert wrong(statuses) == {}
    doubted = rows.filter(pl.col("mailsift_result") == "dns_unavailable")["email"]
    truths = {address: WORLD.truth(address).deep.status for address in LISTED}
    assert all(statuses[address] == truths[address] for address in set(LISTED) - set(doubted))
