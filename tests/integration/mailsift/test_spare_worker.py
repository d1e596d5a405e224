"""A command starts no worker of its own while somebody else's claims, and does when that one is gone."""

from __future__ import annotations

import os
import socket
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from mailsift.runtime.local_worker import LocalWorker
from mailsift.settings import Settings
from mailsift.storage.database import Database
from mailsift.storage.sql import workers
from mailsift.storage.sql.workers import ProcessReport
from tests.support.installation import settings_for, until

NOBODY = 2**22 + 1
"""A process id that is never given out."""
HERE = ProcessReport(
    owner="w",
    worker_id="w",
    host=socket.gethostname(),
    pid=os.getpid(),
    version="1",
    slots=6,
    in_hand=0,
    lag_s=0.0,
    rss_bytes=0,
    beat_s=60.0,
    claimed_ago=None,
    swept_ago=None,
)


@pytest.fixture
def settings(tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Settings:
    script = tmp_path / "sleeper"
    script.write_text("#!/bin/sh\nexec sleep 60\n")
    script.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(script))
    return settings_for(tmp_path / "home", database_url=database_url, sandbox={})


async def starts_one(settings: Settings) -> bool:
    worker = LocalWorker(settings, spare=True, look_s=0.0)
    worker.ensure()
    try:
        return worker.process is not None
    finally:
        worker.stop()


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        pytest.param(HERE, False, id="on this machine"),
        pytest.param(replace(HERE, host="elsewhere", pid=NOBODY), False, id="on another machine"),
        pytest.param(replace(HERE, pid=NOBODY), True, id="dead"),
        pytest.param(replace(HERE, slots=0), True, id="a sweeper"),
    ],
)
async def test_who_needs_a_worker_of_his_own(
    settings: Settings, database: Database, report: ProcessReport, *, expected: bool
) -> None:
    async with database.begin() as connection:
        await workers.report(connection, report)
    assert await starts_one(settings) is expected
    async with database.begin() as connection:
        await workers.report_exit(connection, report.owner)
    assert await starts_one(settings)


async def test_a_folder_of_our_name_where_the_command_was_typed_is_not_loaded(
    tmp_path: Path, database_url: str, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mailsift").mkdir()
    monkeypatch.chdir(tmp_path)
    urls = {"database_url": database_url, "redis_url": redis_url}
    worker = LocalWorker(settings_for(tmp_path / "home", **urls, sandbox={}))
    worker.ensure()

    async def claims() -> bool:
        return bool(workers.claiming(database_url))

    try:
        await until(claims, within=60)
    finally:
        worker.stop()
