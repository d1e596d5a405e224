"""Flower runs beside our workers, over our broker: `celery -A mailsift.celery_app flower`."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from mailsift import celery_app
from mailsift.jobs.tasks import make_app, send_wake_ups
from mailsift.pipeline.errors import MailsiftError
from mailsift.settings import Settings
from tests.support.child_processes import environment_for
from tests.support.installation import settings_for, until
from tests.support.ports import free_port
from tests.support.servers import RedisServer
from tests.support.workers import ROOT, workers


@pytest.fixture
def settings(tmp_path: Path, database_url: str, redis_server: RedisServer) -> Settings:
    return settings_for(tmp_path / "home", database_url=database_url, redis_url=redis_server.url, sandbox={})


@contextmanager
def flower(settings: Settings, folder: Path) -> Iterator[str]:
    """Run Flower as docs/operations.md says; gives its address."""
    port = free_port()
    with (folder / "flower.log").open("wb") as log:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "celery", "-A", "mailsift.celery_app", "flower"),
                *("--address=127.0.0.1", f"--port={port}"),
            ],
            cwd=ROOT,
            env=environment_for(
                {"HOME": str(folder), "FLOWER_UNAUTHENTICATED_API": "true"}, settings.environment()
            ),
            stdout=log,
            stderr=log,
        )
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(30)


async def test_flower_answers_and_knows_our_workers_and_our_queue(settings: Settings, tmp_path: Path) -> None:
    assert settings.redis_url is not None
    with flower(settings, tmp_path) as url:
        async with httpx.AsyncClient(base_url=url, timeout=30) as client:

            async def healthy() -> bool:
                try:
                    return (await client.get("/healthcheck")).text == "OK"
                except httpx.TransportError:
                    return False

            await until(healthy, within=60)
            await asyncio.to_thread(send_wake_ups, make_app(settings.redis_url.get_secret_value()), 4)
            with workers(settings, 1, tmp_path / "log"):

                async def shows_the_worker() -> bool:
                    found = (await client.get("/api/workers", params={"refresh": "1"})).json()
                    queues = [
                        queue["name"] for one in found.values() for queue in one.get("active_queues", ())
                    ]
                    return queues == ["mailsift"]

                await until(shows_the_worker, within=60, every=1.0)
                (length,) = (await client.get("/api/queues/length")).json()["active_queues"]
                assert length["name"] == "mailsift"
                assert "mailsift" in (await client.get("/broker")).text
                assert (await client.get("/api/tasks")).json() == {}  # our workers send no events


def test_importing_the_application_reads_no_settings_and_asking_for_it_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("MAILSIFT_REDIS_URL", raising=False)
    with pytest.raises(AttributeError):
        celery_app.nothing  # noqa: B018 - the asking is the test
    with pytest.raises(MailsiftError) as refused:
        celery_app.app  # noqa: B018 - see above
    assert refused.value.code == "bad_settings"
    monkeypatch.setenv("MAILSIFT_REDIS_URL", "redis://cache:6379/2")
    assert celery_app.app.conf.broker_url == "redis://cache:6379/2"
