"""A real Prometheus reads a running API and worker: rules are evaluated, queries answered, nothing fires."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from mailsift.runtime.api_server import serve
from mailsift.settings import Settings
from tests.support.exposition import ALERTS, expressions, rules
from tests.support.installation import until
from tests.support.ports import free_port
from tests.support.workers import workers

pytestmark = pytest.mark.needs("prometheus")
VARIABLES = {"$__rate_interval": "10s", "$provider": ".*"}


@pytest.fixture
def settings(make_settings: Callable[..., Settings]) -> Settings:
    return make_settings(api_port=0, metrics_port=free_port())


@contextmanager
def prometheus(folder: Path, targets: dict[str, int | None]) -> Iterator[str]:
    """Run a Prometheus that reads these ports every second; gives its address."""
    config = yaml.safe_load((ALERTS.parent / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["rule_files"] = [str(ALERTS)]
    config["scrape_configs"] = [
        {"job_name": job, "static_configs": [{"targets": [f"127.0.0.1:{port}"]}]}
        for job, port in targets.items()
    ]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    port = free_port()
    command = [
        "prometheus",
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


async def test_it_reads_evaluates_and_answers(settings: Settings, tmp_path: Path) -> None:
    beside = settings.model_copy(update={"metrics_port": free_port()})
    listening: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    stop = asyncio.Event()
    serving = asyncio.create_task(serve(settings, started=listening.set_result, stop=stop))
    ports = {"mailsift-api": settings.metrics_port, "mailsift-worker": beside.metrics_port}
    try:
        await listening
        with (
            workers(beside, 1, tmp_path / "worker.log"),
            prometheus(tmp_path, ports) as url,
        ):
            async with httpx.AsyncClient(base_url=url, timeout=30) as client:
                await _look(client)
    finally:
        stop.set()
        await serving


async def _look(client: httpx.AsyncClient) -> None:
    async def read() -> bool:
        """Say whether both were read, and the worker has begun to sweep."""
        up = await _ask(client, "sum(up) == 2 and on() max(mailsift_sweeper_last_tick_timestamp_seconds) > 0")
        return bool(up) and len(await _evaluated(client)) == len(list(rules()))

    await until(read, within=90, every=0.5)
    await until(lambda: _is_quiet(client), within=90, every=0.5)
    for rule in await _evaluated(client):
        assert (rule["health"], rule.get("lastError", "")) == ("ok", ""), rule["name"]
    for query in expressions():
        for variable, value in VARIABLES.items():
            query = query.replace(variable, value)  # noqa: PLW2901 - the same query, filled in
        await _ask(client, query)


async def _ask(client: httpx.AsyncClient, query: str) -> list[Any]:
    try:
        answer = await client.post("/api/v1/query", data={"query": query})
    except httpx.TransportError:  # it has not come up yet
        return []
    if answer.status_code == 503:
        return []
    body = answer.json()
    assert body["status"] == "success", (query, body)
    return list(body["data"]["result"])


async def _evaluated(client: httpx.AsyncClient) -> list[dict[str, Any]]:
    """Return the rules that have been evaluated."""
    groups = (await client.get("/api/v1/rules")).json()["data"]["groups"]
    return [rule for group in groups for rule in group["rules"] if rule["health"] != "unknown"]


async def _is_quiet(client: httpx.AsyncClient) -> bool:
    """Say whether nothing fires or is about to."""
    return not (await client.get("/api/v1/alerts")).json()["data"]["alerts"]
