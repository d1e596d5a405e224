"""`mailsift serve` alone on an empty machine: servers, worker, API and a key from the command line."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import psutil

from mailsift.serve import open_keyring
from mailsift.settings import Settings

ROOT = Path(__file__).parents[3]


async def test_one_command_serves_a_newcomer(short_tmp: Path) -> None:
    home = short_tmp / "newcomer"
    environment = {
        "PATH": os.environ["PATH"],  # noqa: TID251 - for a child
        "MAILSIFT_HOME": str(home),
        "MAILSIFT_WORKER_PROCESSES": "1",
    }
    command = [sys.executable, "-m", "mailsift"]
    served = await asyncio.create_subprocess_exec(
        *command, "serve", "--port", "0", cwd=ROOT, env=environment, stderr=asyncio.subprocess.PIPE
    )
    assert served.stderr is not None
    url = ""
    while not url:
        line = (await served.stderr.readline()).decode()
        assert line, "it ended"
        url = line.split()[3] if line.startswith("Mailsift listens on") else ""
    making = await asyncio.create_subprocess_exec(
        *command,
        *("keys", "create", "--account", "newcomer", "--json"),
        cwd=ROOT,
        env=environment,
        stdout=asyncio.subprocess.PIPE,
    )
    key = json.loads((await making.communicate())[0])["key"]
    assert stat.S_IMODE((home / "pepper").stat().st_mode) == 0o600
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=40) as client:
        job = (await client.post("/v1/bulk/jobs", json={"emails": ["a@example.com"], "mode": "fast"})).json()
        done = await client.get(f"/v1/bulk/jobs/{job['data']['job_id']}", params={"wait": 30})
        assert done.json()["data"]["status"] == "completed"
    served.send_signal(signal.SIGTERM)
    log = (await served.communicate())[1].decode()
    assert served.returncode in {0, -signal.SIGTERM, 128 + signal.SIGTERM}
    assert key not in log
    assert "a@example.com" not in log


async def test_an_upload_streams_through_the_process(settings: Settings) -> None:
    size = 100 * 2**20
    command = [sys.executable, "-m", "mailsift", "api"]
    environment = {"PATH": os.environ["PATH"], **settings.environment()}  # noqa: TID251 - for a child
    served = await asyncio.create_subprocess_exec(
        *command, cwd=ROOT, env=environment, stderr=asyncio.subprocess.PIPE
    )
    assert served.stderr is not None
    line = (await served.stderr.readline()).decode()
    url = line.split()[3]
    async with open_keyring(settings) as ring:
        key = (await ring.keys.create(await ring.jobs.account("alice"))).secret
    process, piece = psutil.Process(served.pid), b"a@example.com\n" * 74_899
    before, most = process.memory_info().rss, 0

    async def pieces() -> AsyncIterator[bytes]:
        nonlocal most
        for _ in range(size // len(piece)):
            yield piece
            most = max(most, process.memory_info().rss)

    headers = {"Authorization": f"Bearer {key}", "Content-Type": "text/csv"}
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=60) as client:
        answer = await client.post("/v1/bulk/jobs", content=pieces())
    most = max(most, process.memory_info().rss)
    served.terminate()
    await served.communicate()
    assert answer.status_code == 202
    assert most - before < 64 * 2**20
