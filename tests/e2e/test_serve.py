"""`mailsift serve` with servers of its own: they come back when they die; a taken port costs nothing."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from mailsift.runtime.embedded import EmbeddedServers
from mailsift.settings import Settings
from tests.support.child_processes import environment_for
from tests.support.commands import CommandLine, Keyboard
from tests.support.installation import settings_for, until
from tests.support.serving import NO_TLS, address, command
from tests.support.workers import ROOT, kill_group


@contextmanager
def hang_up(way: signal.Handlers) -> Iterator[None]:
    """Let what is started here inherit this way with SIGHUP, whether or not the tests run under nohup."""
    before = signal.signal(signal.SIGHUP, way)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.fixture
def taken() -> Iterator[int]:
    """A port on which somebody else listens."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield other.getsockname()[1]


@pytest.mark.parametrize("name", ["serve", "api"])
def test_a_taken_port_is_said_before_anything_is_started(
    short_tmp: Path, taken: int, name: str, keyboard: Keyboard
) -> None:
    settings = settings_for(short_tmp / f"taken-{name}", sandbox={}, api_port=taken)
    with hang_up(signal.SIG_DFL):
        typed = keyboard.type(settings, name)
    assert (typed.status, typed.out) == (2, "")
    assert typed.err == (
        f"mailsift: port_in_use: Can’t listen on 127.0.0.1:{taken}: Address already in use.\n"
    )
    assert [path.name for path in settings.home.iterdir()] == ["overrides.toml"]


def test_a_host_that_is_no_name_is_said_in_one_line(short_tmp: Path, keyboard: Keyboard) -> None:
    settings = settings_for(short_tmp / "no-host", sandbox={})
    with hang_up(signal.SIG_DFL):
        typed = keyboard.type(settings, "api", "--host", "a..b")
    assert (typed.status, typed.err.count("\n")) == (2, 1)
    assert typed.err.startswith("mailsift: port_in_use: Can’t listen on a..b:")


@pytest.mark.parametrize("option", ["--dns-port", "--smtp-port", "--control-port"])
def test_a_sandbox_whose_port_is_taken_says_so(
    short_tmp: Path, taken: int, option: str, keyboard: Keyboard
) -> None:
    settings = settings_for(short_tmp / "sandboxed", sandbox={})
    typed = keyboard.type(settings, "sandbox", "serve", "--smtp-port", 0, option, taken)
    assert (typed.status, typed.out, typed.err.count("\n")) == (2, "", 1)
    assert typed.err.startswith(f"mailsift: port_in_use: The sandbox cannot listen on {taken}: ")


async def test_servers_that_die_come_back_and_work_goes_on(short_tmp: Path) -> None:
    """In a home whose name a shell, a URL or a configuration file could trip over."""
    home = short_tmp / """it's "my" $HOME"""
    settings = settings_for(home, sandbox={}, api_port=0, webhook_allow_http=True)
    servers, log = EmbeddedServers(home), short_tmp / "serve.log"
    async with command(settings, log, "serve"):
        url = await address(log)
        headers = {"Authorization": f"Bearer {await _key(settings)}"}
        async with httpx.AsyncClient(base_url=url, headers=headers, timeout=60, verify=NO_TLS) as client:
            assert await _completed(client) == 3
            for name, read in (("postgres", _postgres), ("valkey", _valkey)):
                before = read(servers)
                assert before is not None
                os.kill(before, signal.SIGKILL)
                await until(lambda name=name: _says(log, "embedded.restarted", name), within=60)  # type: ignore[misc]
                assert read(servers) not in {None, before}
                assert await _completed(client) == 3
    assert CommandLine(settings).running() == []


async def test_a_lone_worker_watches_its_servers_too_and_leaves_nothing(short_tmp: Path) -> None:
    settings = settings_for(short_tmp / "lone", sandbox={})
    servers, log = EmbeddedServers(settings.home), short_tmp / "worker.log"

    address = servers.database_url.replace("+psycopg", "")

    async def beats() -> bool:
        query = "SELECT 1 FROM worker WHERE beat_at > clock_timestamp() - interval '2 s'"
        with suppress(psycopg.Error), psycopg.connect(address) as connection:
            return connection.execute(query).fetchone() is not None
        return False

    line = CommandLine(settings)
    async with command(settings, log, "worker", "--processes", "1"):
        await until(beats, within=60)
        for name, read in (("valkey", _valkey), ("postgres", _postgres)):
            before = read(servers)
            assert before is not None
            os.kill(before, signal.SIGKILL)
            await until(lambda name=name: _says(log, "embedded.restarted", name), within=60)  # type: ignore[misc]
            assert read(servers) not in {None, before}
        await until(beats, within=60)
    assert line.running() == []


@pytest.mark.parametrize(
    ("name", "number", "status"),
    [("worker", signal.SIGINT, 130), ("sweeper", signal.SIGINT, 130), ("worker", signal.SIGHUP, 0)],
)
async def test_ctrl_c_and_a_terminal_that_goes_away_end_it(
    tmp_path: Path, database_url: str, redis_url: str, name: str, number: signal.Signals, status: int
) -> None:
    settings = settings_for(
        tmp_path, database_url=database_url, redis_url=redis_url, sandbox={}, worker_processes=1
    )
    with hang_up(signal.SIG_DFL):
        process = CommandLine(settings).start(name)
    try:
        async with await psycopg.AsyncConnection.connect(
            database_url.replace("+psycopg", ""), autocommit=True
        ) as connection:

            async def beats() -> bool:
                return await (await connection.execute("SELECT 1 FROM worker")).fetchone() is not None

            await until(beats, within=60)
        os.killpg(process.pid, number)  # as a terminal does
        assert await asyncio.to_thread(process.wait, 20) == status
    finally:
        kill_group(process.pid)
        process.communicate()


BEFORE_A_PROCESS_IS_THERE = """
import signal, sys
from celery import signals
from mailsift.cli import main
signals.worker_before_create_process.connect(lambda **_: signal.raise_signal(signal.SIGHUP), weak=False)
sys.argv = ["mailsift", "worker", "--processes", "1"]
main()
"""


def test_a_terminal_that_closes_while_a_worker_starts_ends_it_too(
    tmp_path: Path, database_url: str, redis_url: str
) -> None:
    settings = settings_for(tmp_path, database_url=database_url, redis_url=redis_url, sandbox={})
    with hang_up(signal.SIG_DFL):
        process = subprocess.Popen(
            [sys.executable, "-c", BEFORE_A_PROCESS_IS_THERE],
            cwd=ROOT,
            env=environment_for(settings.environment()),
            start_new_session=True,
        )
    try:
        assert process.wait(30) == 0
    finally:
        kill_group(process.pid)
        process.wait()


@pytest.mark.parametrize("name", ["serve", "api", "sweeper", "worker"])
@pytest.mark.parametrize("goes_on", [False, True], ids=["closed", "nohup"])
async def test_a_closed_terminal_ends_a_server_warm_unless_nohup_says_otherwise(
    short_tmp: Path, name: str, goes_on: bool
) -> None:
    settings = settings_for(short_tmp / f"{name}-{goes_on}", sandbox={}, api_port=0, worker_processes=1)
    line, log = CommandLine(settings), short_tmp / f"{name}-{goes_on}.log"

    async def beats() -> bool:
        query = "SELECT 1 FROM worker WHERE beat_at > clock_timestamp() - interval '5 s'"
        url = EmbeddedServers(settings.home).database_url.replace("+psycopg", "")
        with suppress(psycopg.Error), psycopg.connect(url) as connection:
            return connection.execute(query).fetchone() is not None
        return False

    with hang_up(signal.SIG_IGN if goes_on else signal.SIG_DFL):
        async with command(settings, log, name) as process:
            await (until(beats, within=60) if name in {"worker", "sweeper"} else address(log))
            for _ in range(2):  # the shell tells it, and then the system
                os.killpg(process.pid, signal.SIGHUP)
            if goes_on:
                with pytest.raises(subprocess.TimeoutExpired):
                    await asyncio.to_thread(process.wait, 2)
            else:
                assert await asyncio.to_thread(process.wait, 20) == 0
                assert line.running() == []
    assert line.running() == []


def _postgres(servers: EmbeddedServers) -> int | None:
    return servers.postgres.pid()


def _valkey(servers: EmbeddedServers) -> int | None:
    return servers.valkey.pid()


async def _says(log: Path, *words: str) -> bool:
    lines = (await asyncio.to_thread(log.read_text)).splitlines()
    return any(all(word in line for word in words) for line in lines)


async def _key(settings: Settings) -> str:
    words = ("keys", "create", "--account", "somebody", "--json")
    typed = await asyncio.to_thread(CommandLine(settings).run, *words)
    return str(json.loads(typed.out)["key"])


async def _completed(client: httpx.AsyncClient) -> int:
    """Have a small list validated and return how many of its rows have a verdict."""
    job: dict[str, Any] = {}

    async def taken_in() -> bool:  # connections that died with a server may cost a request
        answer = await client.post(
            "/v1/bulk/jobs", json={"emails": [f"a{n}@example.com" for n in range(3)], "mode": "fast"}
        )
        job.update(answer.json()["data"] or {})
        return bool(answer.is_success)

    await until(taken_in, within=30)
    state: dict[str, Any] = {}

    async def over() -> bool:
        answer = await client.get(f"/v1/bulk/jobs/{job['job_id']}", params={"wait": 5})
        state.update(answer.json()["data"] or {})
        return state.get("status") == "completed"

    await until(over, within=60)
    return int(state["processed"])
