"""Backup and restore as docs/operations.md tells them, with Debian's PostgreSQL 15 and its own tools."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import psycopg
import pytest

from mailsift.container import open_service
from mailsift.jobs.service import JobService
from mailsift.jobs.views import AccountId, JobId, JobView
from mailsift.sandbox.client import SandboxProcess
from mailsift.sandbox.listing import write_list
from mailsift.sandbox.world import SandboxWorld
from mailsift.settings import Settings
from mailsift.storage.schema import migrate
from tests.support import debian
from tests.support.completeness import check_complete, submit
from tests.support.installation import ended, settings_for, until
from tests.support.job_states import events_of
from tests.support.parts import open_database
from tests.support.workers import ROOT, workers

pytestmark = pytest.mark.needs("postgresql", "redis-server", "rsync")
SEED, DOMAINS, ROWS = 9, 200, 2_000


def commands(heading: str) -> str:
    """Return what the guide says under a heading."""
    guide = (ROOT / "docs/operations.md").read_text()
    found = re.search(rf"^### {heading}\n.*?```sh\n(.*?)```", guide, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


@dataclass
class RestoredInstallation:
    """An installation on servers of its own; everything it has is in its two servers and its home."""

    settings: Settings
    backup: Path

    def type(self, heading: str) -> None:
        """Type the commands under a heading of the guide."""
        assert self.settings.database_url is not None
        url = self.settings.database_url.get_secret_value()
        done = subprocess.run(
            ["bash", "-c", commands(heading)],
            check=False,
            capture_output=True,
            text=True,
            timeout=120,
            env={
                "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",  # noqa: TID251 - for a child
                "DATABASE_URL": url.replace("+psycopg", ""),
                "BLOBS": str(self.settings.home / "blobs"),
                "BACKUP": str(self.backup),
                **self.settings.environment(),
            },
        )
        assert done.returncode == 0, done.stderr


@asynccontextmanager
async def new_installation(
    home: Path, backup: Path, sandbox: SandboxProcess
) -> AsyncIterator[RestoredInstallation]:
    """A PostgreSQL and a Redis that nobody has used, and settings for them."""
    with debian.postgres() as database, debian.redis() as port:
        yield RestoredInstallation(
            settings_for(
                home, database_url=database, redis_url=f"redis://127.0.0.1:{port}", sandbox=sandbox.env
            ),
            backup,
        )


@pytest.fixture(scope="module")
def sandbox() -> Iterator[SandboxProcess]:
    with SandboxProcess(seed=SEED, domains=DOMAINS, latency_ms=40) as running:
        yield running


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "list.csv"
    write_list(SandboxWorld(seed=SEED, domains=DOMAINS), path, rows=ROWS)
    return path


def migrated(restored: RestoredInstallation) -> None:
    assert restored.settings.database_url is not None
    migrate(restored.settings.database_url.get_secret_value())


async def hurried(
    restored: RestoredInstallation, service: JobService, account: AccountId, job_id: JobId
) -> JobView:
    """Return the job once it has ended, without the pauses between attempts."""
    assert restored.settings.database_url is not None
    url = restored.settings.database_url.get_secret_value()

    async def over() -> bool:
        with psycopg.connect(url) as connection:
            connection.execute("UPDATE chunk SET ready_at = now() WHERE state = 'ready'")
        return (await service.get(account, job_id)).finished_at is not None

    await until(over, within=120, every=0.5)
    return await service.get(account, job_id)


async def ids_of_events(settings: Settings, job_id: JobId) -> list[UUID]:
    database = open_database(settings)
    async with database.begin() as connection:
        found = [one.id for one in await events_of(connection, job_id)]
    await database.aclose()
    return found


async def begin(service: JobService, source: Path) -> tuple[AccountId, JobId]:
    """Hand in the list and wait until some of it, but not all, has a verdict."""
    account, job_id = await submit(service, source)

    async def begun() -> bool:
        return (await service.get(account, job_id)).processed > 0

    await until(begun, within=60)
    return account, job_id


async def test_a_job_goes_on_where_the_backup_found_it_and_comes_out_whole(
    tmp_path: Path, sandbox: SandboxProcess, source: Path
) -> None:
    async with new_installation(tmp_path / "old", tmp_path / "backup", sandbox) as old:
        migrated(old)
        async with open_service(old.settings) as service:
            with workers(old.settings, 2, tmp_path / "old.log"):
                account, job_id = await begin(service, source)
                await asyncio.to_thread(old.type, "Back up")
                assert (await service.get(account, job_id)).finished_at is None, "it came too late"
    async with new_installation(tmp_path / "new", tmp_path / "backup", sandbox) as new:
        await asyncio.to_thread(new.type, "Restore")
        async with open_service(new.settings) as service:
            found = await service.get(account, job_id)
            assert 0 < found.processed < found.total
            with workers(new.settings, 2, tmp_path / "new.log"):
                view = await ended(service, account, job_id, within=120)
            await check_complete(new.settings, service, account, view, source)


async def test_a_job_that_lost_its_parts_finds_their_verdicts_again(
    tmp_path: Path, sandbox: SandboxProcess, source: Path
) -> None:
    async with new_installation(tmp_path / "old", tmp_path / "backup", sandbox) as old:
        migrated(old)
        async with open_service(old.settings) as service:
            with workers(old.settings, 2, tmp_path / "old.log"):
                account, job_id = await begin(service, source)
                await asyncio.to_thread(old.type, "Back up")
                await ended(service, account, job_id, within=120)
        event_ids = await ids_of_events(old.settings, job_id)
        for parts in ("segments", "residual"):  # as if it had begun and ended between two copies
            for part in (tmp_path / "backup/blobs").rglob(f"{parts}/*"):
                part.unlink()
    async with new_installation(tmp_path / "new", tmp_path / "backup", sandbox) as new:
        await asyncio.to_thread(new.type, "Restore")
        async with open_service(new.settings) as service:
            with workers(new.settings, 2, tmp_path / "new.log"):
                view = await hurried(new, service, account, job_id)
            await check_complete(new.settings, service, account, view, source)
        assert (
            await ids_of_events(new.settings, job_id) == event_ids
        )  # who was told of its end knows it again
