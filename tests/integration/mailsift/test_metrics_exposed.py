"""A running API and a running worker show what the alert rules and the dashboard look at, and no more."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx
import pytest

from mailsift.accounts.keys import Scope
from mailsift.container import open_container
from mailsift.pipeline.metrics import OTHER
from mailsift.pipeline.providers import PROVIDERS
from mailsift.sandbox.client import SandboxProcess
from mailsift.sandbox.listing import write_list
from mailsift.sandbox.world import SandboxWorld, WorldMix
from mailsift.settings import Settings
from tests.support.exposition import Documented, Exposed, documented, page, scraped, wanted
from tests.support.installation import settings_for, until
from tests.support.ports import free_port
from tests.support.receiver import receiving
from tests.support.servers import Urls
from tests.support.serving import address, command
from tests.support.workers import workers

SEED, DOMAINS, ROWS = 11, 500, 1_500
EVERY = {one.name: one for one in documented()}
METERED = {"_bucket", "_sum", "_count"}


@dataclass(frozen=True)
class Scene:
    """What was shown after a list of so many domains had been worked on, and after another such list."""

    pages: tuple[str, str]
    first: Exposed
    second: Exposed
    addresses: int


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory, shared_servers: Callable[[], Urls]) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("metrics")
    urls = shared_servers()
    with SandboxProcess(seed=SEED, domains=DOMAINS, mix=WorldMix.CALM) as sandbox:
        settings = settings_for(
            folder / "home",
            database_url=urls.database_url,
            redis_url=urls.redis_url,
            sandbox=sandbox.env,
            api_port=0,
            metrics_port=free_port(),
            webhook_allow_http=True,
        )
        yield asyncio.run(_played(settings, folder))


async def _played(settings: Settings, folder: Path) -> Scene:
    beside = settings.model_copy(update={"metrics_port": free_port()})
    ports = [port for one in (settings, beside) if (port := one.metrics_port)]
    api_log = folder / "api.log"
    async with command(settings, api_log, "api"):
        url = await address(api_log)
        async with receiving() as receiver, httpx.AsyncClient(base_url=url, timeout=60) as client:
            client.headers["Authorization"] = f"Bearer {await _key(settings)}"
            await client.post("/v1/webhooks", json={"url": receiver.url})
            with workers(beside, 1, folder / "worker.log"):
                addresses = await _work(client, folder / "list.csv", SandboxWorld(seed=SEED, domains=DOMAINS))

                async def is_told() -> bool:
                    return bool(receiver.requests)

                await until(is_told, within=30)
                await until(partial(_is_at_rest, ports), within=60)
                pages = (await page(ports[0]), await page(ports[1]))
                await _work(client, folder / "more.csv", SandboxWorld(seed=SEED + 1, domains=DOMAINS))
                second = Exposed(*[await page(port) for port in ports])
    return Scene(pages, Exposed(*pages), second, addresses)


async def _is_at_rest(ports: list[int]) -> bool:
    """Say whether everything is over, for the gauges too, which are read anew every five seconds."""
    samples = await scraped(*ports)
    busy = sum(samples.value(f"mailsift_{name}") for name in ("jobs", "worker_inflight", "outbox_pending"))
    return not busy


async def _key(settings: Settings) -> str:
    async with open_container(settings) as container:
        account = await container.jobs.account("tests")
        return (await container.keys.create(account, scopes=tuple(Scope))).secret


async def _work(client: httpx.AsyncClient, source: Path, world: SandboxWorld) -> int:
    """Have a list worked on; returns how many distinct addresses it has."""
    write_list(world, source, rows=ROWS)
    made = await client.post(
        "/v1/bulk/jobs",
        content=source.read_bytes(),  # noqa: ASYNC240 - a small file
        headers={"Content-Type": "text/csv"},
    )
    assert made.status_code == 202, made.text
    path = f"/v1/bulk/jobs/{made.json()['data']['job_id']}"

    async def over() -> bool:
        job_shape = (await client.get(path, params={"wait": 20})).json()["data"]
        return bool(job_shape["status"] == "completed")

    await until(over, within=120)
    await client.post("/v1/email/single-validate", json={"email": "a@example.com", "mode": "fast"})
    assert (await client.get("/v1/nowhere/jane@example.com")).status_code == 404
    return int((await client.get(path)).json()["data"]["addresses"])


def test_what_rules_and_dashboard_name_is_shown_with_its_labels(scene: Scene) -> None:
    for one in wanted():
        assert one.metric in scene.first.samples, one
        assert one.labels <= scene.first.labels(one.metric), one


def test_the_values_they_look_for_are_possible() -> None:
    for one in wanted():
        for label, value in one.values:
            assert value in _documented(one.metric).labels[label], one


def test_everything_that_is_shown_is_documented(scene: Scene) -> None:
    for name in scene.first.samples:
        assert _documented(name).name in EVERY


def test_the_numbers_are_those_of_the_job(scene: Scene) -> None:
    samples = scene.first
    assert samples.value("mailsift_addresses_total") == scene.addresses + 1  # and the single one
    assert samples.value("mailsift_jobs_ended_total", state="completed") == 1
    assert samples.value("mailsift_step_attempts_total", outcome="done") == 2
    done = samples.value("mailsift_chunk_attempts_total", outcome="done")
    assert done == samples.value("mailsift_chunk_claim_seconds_count") > 1
    assert samples.value("mailsift_chunk_attempts_total") == done
    assert samples.value("mailsift_webhook_attempts_total", outcome="delivered") == 1
    assert samples.value("mailsift_smtp_reply_total", **{"class": "accepted"}) > 100
    assert (
        samples.value("mailsift_throttle_granted_total") == samples.value("mailsift_smtp_sessions_total") > 10
    )
    assert samples.value("mailsift_throttle_recipients_total") > 100
    assert (
        samples.value("mailsift_api_requests_total", route="/v1/bulk/jobs", method="POST", status="202") == 1
    )
    assert samples.value("mailsift_api_requests_total", route=OTHER, status="404") == 1
    assert samples.value("mailsift_worker_up") == 1
    assert samples.value("mailsift_worker_slots", kind="all") == 6
    assert samples.value("mailsift_worker_memory_bytes") > 50 * 2**20
    assert samples.value("mailsift_gauges_up") == 2


def test_an_installation_at_rest_has_nothing_open_and_no_drift(scene: Scene) -> None:
    for name in ("jobs", "chunks", "chunk_addresses", "count_drift", "outbox_pending", "worker_inflight"):
        assert scene.first.value(f"mailsift_{name}") == 0, name
    assert scene.first.value("mailsift_webhook_endpoints", state="healthy") == 1


def test_five_hundred_more_domains_add_hardly_a_series(scene: Scene) -> None:
    new = scene.second.series() - scene.first.series()
    of_providers = {name for name, labels in new if "provider" in dict(labels)}
    assert {name for name, _ in new} - of_providers <= {"mailsift_api_requests_total"}
    assert len(new) < 100
    assert len(scene.second.series()) < 1_000


def test_no_label_holds_more_than_it_may(scene: Scene) -> None:
    names = {row.key for row in PROVIDERS} | {OTHER}
    assert len(names) <= 71
    for name, samples in scene.second.samples.items():
        possible = {label: values for label, values in _documented(name).labels.items() if values}
        for labels, _ in samples:
            assert labels.get("provider", OTHER) in names
            for label, value in labels.items():
                assert value in possible.get(label, {value}), (name, labels)
                assert "@" not in value


@pytest.mark.needs("promtool")
def test_the_names_keep_the_conventions_of_prometheus(scene: Scene) -> None:
    for text in scene.pages:
        judged = subprocess.run(
            ["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False
        )
        assert judged.stdout + judged.stderr == ""


def _documented(sample: str) -> Documented:
    """Return the metric a sample is of."""
    stem, _, suffix = sample.rpartition("_")
    return EVERY[sample] if sample in EVERY or f"_{suffix}" not in METERED else EVERY[stem]
