"""Blobs that no job points to: written late, left by a crash, or old copies. None of them stays."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from uuid import uuid4

import pytest

from mailsift.jobs.engine.maintenance import SCRATCH_KEPT_SECONDS, Tidier
from mailsift.jobs.erasure import Eraser
from mailsift.jobs.service import JobService
from mailsift.jobs.views import AccountId, JobOptions
from mailsift.pipeline.clock import system_clock
from mailsift.pipeline.errors import MailsiftError
from mailsift.settings import Settings
from mailsift.storage.blobs import JobBlobs
from mailsift.storage.database import Database
from tests.support.parts import open_blobs
from tests.support.ready_jobs import FAST, Gate, Planter, caught, engine_on

ADDRESSES = [f"user{n}@example.com" for n in range(7)]
DUE = "UPDATE leftover SET due_at = clock_timestamp() - interval '1 second'"


@pytest.fixture
def settings(make_settings: Callable[..., Settings]) -> Settings:
    return make_settings(dns_servers=("127.0.0.1:9",))


@pytest.fixture
def eraser(settings: Settings, database: Database) -> Eraser:
    return Eraser(database=database, blobs=open_blobs(settings), outcome_days=settings.outcome_days)


def files(settings: Settings) -> list[str]:
    blobs = settings.home / "blobs"
    return sorted(str(file.relative_to(blobs)) for file in blobs.rglob("*") if file.is_file())


async def pieces(*data: bytes) -> AsyncIterator[bytes]:
    for piece in data:
        yield piece


async def test_what_a_worker_writes_after_its_job_was_deleted_goes_with_a_later_sweep(
    settings: Settings, planter: Planter, service: JobService, eraser: Eraser
) -> None:
    account, job_id = await planter.plant(ADDRESSES)
    async with engine_on(settings, gate := Gate()) as engine:
        draining = await caught(engine, gate)
        await service.cancel(account, job_id)
        assert await eraser.job(job_id)
        assert files(settings) == []
        gate.opened.set()
        await draining
    (late,) = files(settings)
    assert late.startswith(f"{JobBlobs(job_id).prefix}/segments/")
    assert await eraser.sweep() == 0
    assert files(settings) == [late]  # others may still write: not yet
    await planter.sql(DUE)
    await eraser.sweep()
    assert files(settings) == []
    assert await planter.sql("SELECT * FROM leftover") == []


async def test_a_list_that_is_stored_and_whose_job_never_comes_is_deleted(
    settings: Settings, planter: Planter, service: JobService, eraser: Eraser
) -> None:
    account, source = await service.account("a"), pieces(b"a@example.com\n")
    await service.submissions.store(
        account, source, FAST, source_name="list.txt", parent=None
    )  # and the process dies
    assert [Path(file).name for file in files(settings)] == ["source"]
    await eraser.sweep()
    assert len(files(settings)) == 1
    await planter.sql(DUE)
    await eraser.sweep()
    assert files(settings) == []


async def test_a_list_whose_account_is_deleted_meanwhile_is_not_kept(
    settings: Settings, service: JobService
) -> None:
    with pytest.raises(MailsiftError, match="account_not_found"):
        await service.receive(AccountId(uuid4()), pieces(b"a@example.com\n"), FAST)
    assert files(settings) == []


async def test_a_list_that_comes_in_too_slowly_is_refused_and_not_half_there(
    settings: Settings, planter: Planter, service: JobService, eraser: Eraser
) -> None:

    async def slowly() -> AsyncIterator[bytes]:
        yield b"a@example.com\n"
        await planter.sql(DUE)
        await eraser.sweep()
        yield b"b@example.com\n"

    account = await service.account("a")
    with pytest.raises(MailsiftError, match="service_unavailable") as refused:
        await service.receive(account, slowly(), FAST)
    assert refused.value.retryable
    assert await planter.sql("SELECT * FROM job") == []
    await planter.sql(DUE)
    await eraser.sweep()
    assert files(settings) == []


async def test_a_job_that_was_inserted_keeps_its_list_whatever_sweeps(
    settings: Settings, planter: Planter, service: JobService, eraser: Eraser, tmp_path: Path
) -> None:
    source = tmp_path / "list.csv"
    source.write_text("email\na@example.com\n")
    job_id = await service.submit(await service.account("a"), source, JobOptions())
    assert await planter.sql("SELECT * FROM leftover") == []
    await eraser.sweep()
    assert files(settings) == [JobBlobs(job_id).source]


async def test_a_job_that_runs_is_not_deleted_and_an_account_is_with_whatever_runs(
    settings: Settings, planter: Planter, eraser: Eraser
) -> None:
    account, job_id = await planter.plant(ADDRESSES)
    other, kept = await planter.plant(ADDRESSES, account="other")
    assert not await eraser.job(job_id)
    async with engine_on(settings, gate := Gate(), slots=1) as engine:
        draining = await caught(engine, gate)
        await eraser.account(account)
        assert [row["id"] for row in await planter.sql("SELECT id FROM account")] == [other]
        gate.opened.set()
        await draining
    assert [row["id"] for row in await planter.sql("SELECT id FROM job")] == [kept]
    await planter.sql(DUE)
    await eraser.sweep()
    assert {file.split("/")[1] for file in files(settings)} == {str(kept)}


async def test_old_files_of_this_machine_go_and_those_in_use_stay(settings: Settings) -> None:
    cache, scratch = settings.home / "blob-cache", settings.home / "scratch"
    old = [cache / "left-1", cache / "jobs/x/source/1f", scratch / "intake-a/rows.parquet"]
    new = [cache / "left-2", scratch / "partial-b/results.parquet"]
    for file in old + new:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("a@example.com")
    past = system_clock() - SCRATCH_KEPT_SECONDS - 60
    for place in (*old, *(file.parent for file in old[1:]), cache / "jobs/x", cache / "jobs"):
        os.utime(place, (past, past))
    clock, steady = system_clock(), 0.0
    tidier = Tidier(blobs=open_blobs(settings), scratch=scratch, clock=lambda: clock, steady=lambda: steady)
    assert await tidier.sweep() == 0  # who knows what this clock has done
    clock, steady = clock + 40 * 86_400, steady + 3_600
    assert await tidier.sweep() == 0  # it jumped: everything looks old
    clock, steady = system_clock(), steady + 3_600
    assert await tidier.sweep() == 0  # and back
    clock, steady = clock + 3_600, steady + 3_600
    assert await tidier.sweep() == 3
    assert not any(file.exists() for file in old)
    assert all(file.exists() for file in new)
    old[0].write_text("x")
    os.utime(old[0], (past, past))
    assert await tidier.sweep() == 0  # it has just looked


async def test_what_a_killed_process_left_goes_at_the_next_start_and_what_lives_stays_whatever_the_clock(
    settings: Settings,
) -> None:
    script = """
import asyncio, sys
from pathlib import Path
from mailsift.storage.local_files import process_folder
from mailsift.storage.blobs import Blobs
home = Path(sys.argv[1])
async def main():
    with process_folder(home / "scratch") as folder:
        (folder / "intake-x").mkdir()
        (folder / "intake-x" / "rows.parquet").write_text("a@example.com")
        blobs = Blobs((home / "blobs").as_uri(), home / "blob-cache")
        async with blobs.stream_in("jobs/x/source") as incoming:
            await incoming.write(b"a@example.com")
            print("up", flush=True)
            sys.stdin.read()
asyncio.run(main())
"""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        script,
        str(settings.home),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    await process.stdout.readline()

    async def swept() -> list[str]:
        """Sweep as a process that has just started, in another century."""
        later = Tidier(
            blobs=open_blobs(settings),
            scratch=settings.home / "scratch",
            clock=lambda: system_clock() + 4_000_000_000,
        )
        await later.sweep()
        places = [*(settings.home / "scratch").rglob("*"), *(settings.home / "blob-cache").rglob("*")]
        return sorted(place.name.split("-")[0] for place in places)

    assert await swept() == ["incoming", "intake", "process", "rows.parquet"]
    process.kill()
    await process.communicate()
    assert await swept() == []
