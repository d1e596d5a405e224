"""An upgrade without downtime: the schema of the next release comes first, and this one works on with it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import psycopg

from mailsift.container import open_service
from mailsift.sandbox.client import SandboxProcess
from mailsift.sandbox.listing import write_list
from mailsift.sandbox.world import SandboxWorld
from mailsift.storage.schema import newest_revision
from tests.support.commands import CommandLine, Keyboard
from tests.support.completeness import check_complete, submit
from tests.support.installation import ended, settings_for, until
from tests.support.next_release import REVISION, migrate_to_next
from tests.support.ports import free_port
from tests.support.workers import workers

SEED, DOMAINS, ROWS = 5, 200, 2_000


async def test_a_job_runs_through_while_the_schema_of_the_next_release_arrives(
    tmp_path: Path, database_url: str, redis_url: str
) -> None:
    source = tmp_path / "list.csv"
    write_list(SandboxWorld(seed=SEED, domains=DOMAINS), source, rows=ROWS)
    with SandboxProcess(seed=SEED, domains=DOMAINS, latency_ms=40) as sandbox:
        settings = settings_for(
            tmp_path / "home",
            database_url=database_url,
            redis_url=redis_url,
            sandbox=sandbox.env,
            api_port=free_port(),
        )
        line = CommandLine(settings)
        api = line.start("api")
        try:
            async with open_service(settings) as service, httpx.AsyncClient() as client:
                with workers(settings, 2, tmp_path / "workers.log"):
                    account, job_id = await submit(service, source)

                    async def begun() -> bool:
                        return (await service.get(account, job_id)).processed > 0

                    async def ready() -> bool:
                        try:
                            url = f"http://127.0.0.1:{settings.api_port}/readyz"
                            return (await client.get(url)).status_code == 200
                        except httpx.TransportError:
                            return False

                    await until(begun, within=60)
                    await until(ready, within=60)
                    migrated = await asyncio.to_thread(migrate_to_next, database_url, tmp_path / "next")
                    view = await service.get(account, job_id)
                    assert (migrated, view.finished_at) == (REVISION, None), "it came too late"
                    view = await ended(service, account, job_id, within=120)
                assert await ready()
                await check_complete(settings, service, account, view, source)
        finally:
            api.terminate()
            api.communicate(timeout=60)


def test_the_release_before_has_nothing_to_migrate_and_nobody_has_to_wait(
    tmp_path: Path, database_url: str, redis_url: str, keyboard: Keyboard
) -> None:
    line = CommandLine(
        settings_for(tmp_path / "home", database_url=database_url, redis_url=redis_url, sandbox={})
    )
    migrate_to_next(database_url, tmp_path / "next")
    for words in (("migrate",), ("migrate", "--wait")):
        typed = keyboard.type(line.settings, *words)
        assert (typed.status, typed.out.strip()) == (0, f"The database is at revision {REVISION}."), typed.err
    with psycopg.connect(database_url.replace("+psycopg", "")) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '0001'")
    waiting = line.start("migrate", "--wait")
    try:
        assert waiting.stderr is not None
        first_line = waiting.stderr.readline()
        assert waiting.poll() is None, "it waits"
        with psycopg.connect(database_url.replace("+psycopg", "")) as connection:
            connection.execute("UPDATE alembic_version SET version_num = %s", [newest_revision()])
        out, err = waiting.communicate(timeout=60)
    finally:
        waiting.kill()
        waiting.communicate()
    assert (waiting.returncode, out.strip()) == (0, f"The database is at revision {newest_revision()}."), err
    assert (first_line, err) == ("Waiting for another process to migrate the database.\n", "")


def test_who_waits_for_a_database_says_what_keeps_it_out(
    tmp_path: Path, database_url: str, redis_url: str
) -> None:
    home, missing = tmp_path / "home", f"{database_url}_of_nobody"
    line = CommandLine(settings_for(home, database_url=missing, redis_url=redis_url, sandbox={}))
    waiting = line.start("migrate", "--wait")
    try:
        assert waiting.stderr is not None
        assert "_of_nobody" in waiting.stderr.readline()
    finally:
        waiting.kill()
        waiting.communicate()
