"""Faults, caused for real: each rings on /ops, in `ops top` and in the metrics within a quarter of a minute.

All intervals are the usual ones. It is silent again within half a minute of its repair.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx
import psutil
import pytest
import redis

from mailsift.container import open_container
from mailsift.jobs.schedules import ScheduleSpec
from mailsift.pipeline.facts import Mode
from mailsift.runtime.embedded import EmbeddedServers
from mailsift.sandbox.client import SandboxProcess
from mailsift.settings import Settings
from mailsift.storage.schema import migrate
from tests.support.busy_installation import sql
from tests.support.installation import settings_for, until
from tests.support.liar import Liar
from tests.support.mail_gate import Gate
from tests.support.ports import free_port
from tests.support.receiver import Receiver, receiving, status
from tests.support.serving import NO_TLS, address
from tests.support.sessions import browser, person, sign_in
from tests.support.small_disk import small_disk
from tests.support.workers import ROOT, kill_group

RINGS, SILENT = 15.0, 30.0
"""What is promised; a crowded machine may take PATIENCE times as long before the test says no."""
PATIENCE: Final = 6
EVERYWHERE: Final = ("gmail.com", "outlook.com", "icloud.com", "gmx.de")


class Served(NamedTuple):
    """The API, as sessions take it."""

    url: str
    settings: Settings


class Top:
    """`mailsift ops top`, which goes on all the time."""

    def __init__(self, log: Path) -> None:
        self._log = log

    @property
    def size(self) -> int:
        return self._log.stat().st_size

    def text_since(self, since: int) -> str:
        """Return what it has shown since then."""
        with self._log.open("rb") as file:
            file.seek(since)
            return file.read().decode(errors="replace")  # it may be writing right now


@dataclass(frozen=True)
class Fault:
    """What goes wrong, as `ops top` says it, and how; `repair` puts it right."""

    code: str
    pattern: str
    cause: Callable[[], Awaitable[object]]
    repair: Callable[[], Awaitable[object]]


@dataclass
class Installation:
    """Everything of one installation, and what may be done to it."""

    settings: Settings
    folder: Path
    database: EmbeddedServers
    valkey: EmbeddedServers
    gate: Gate
    liar: Liar
    receiver: Receiver
    disk: Path
    stack: AsyncExitStack
    api: httpx.AsyncClient
    pages: httpx.AsyncClient
    top: Top
    worker: subprocess.Popen[bytes] | None = None
    other: subprocess.Popen[bytes] | None = None
    jobs: int = 0
    took: dict[str, tuple[float, float]] = field(default_factory=dict)

    def start(self, *words: str, **more: str) -> subprocess.Popen[bytes]:
        """Start a command; it is stopped at the end, if it still runs."""
        unmeasured = self.settings.model_copy(update={"metrics_port": None})
        process = started(unmeasured, self.folder / f"{words[0]}.log", *words, **more)
        self.stack.callback(ended, process)
        return process

    async def sql(self, statement: str, **values: object) -> list[dict[str, Any]]:
        return await sql(self.settings, statement, **values)

    async def is_up(self) -> bool:
        return "throughput" in self.top.text_since(0) and bool(await self.sql("SELECT 1 FROM worker"))

    async def submit(self, mode: Mode, *domains: str, rows: int = 3) -> None:
        """Hand a list in; whether it is taken or not."""
        self.jobs += 1
        lines = [f"known{self.jobs}x{n}@{domain}" for domain in domains for n in range(rows)]
        await self.api.post(
            "/v1/bulk/jobs",
            params={"mode": mode.value, "max_age": 0},
            content="\n".join(["email", *lines]),
            headers={"Content-Type": "text/csv"},
        )

    async def rings(self, code: str, pattern: str, since: int) -> list[bool]:
        """Say of /ops, metrics and `ops top` whether they show it."""
        page = await self.pages.get("/ops")
        metrics = await self.api.get(f"http://127.0.0.1:{self.settings.metrics_port}/metrics")
        on_page = f'/ops/runbook#{code}"' in page.text or (
            code == "database_gone"
            and page.status_code == 503
            and "The database isn’t responding" in page.text
        )
        return [
            on_page,
            re.search(rf'^mailsift_alarm{{alarm="{code}",[^}}]*}} 1.0$', metrics.text, re.MULTILINE)
            is not None,
            re.search(pattern, self.top.text_since(since)) is not None,
        ]

    async def is_silent(self, code: str, pattern: str, since: int) -> bool:
        """Say whether none shows it; of `ops top` two pictures in a row."""
        on_page, in_metrics, _ = await self.rings(code, pattern, since)
        rest = re.split(pattern, self.top.text_since(since))[-1]
        return not on_page and not in_metrics and rest.count("throughput") >= 2

    async def drill(self, *faults: Fault) -> None:
        """Cause the faults until all ring in all three places, repair them until all are silent."""
        since, causing = self.top.size, {}
        for fault in faults:
            await fault.cause()
            causing[fault.code] = time.monotonic()
        rang = await self.wait(faults, RINGS, lambda one: self._all_ring(one, since))
        since = self.top.size
        for fault in faults:
            await fault.repair()
        repaired = time.monotonic()
        fell_silent = await self.wait(
            faults, SILENT, lambda one: self.is_silent(one.code, one.pattern, since)
        )
        for fault in faults:
            times = rang[fault.code] - causing[fault.code], fell_silent[fault.code] - repaired
            self.took[fault.code] = times
            say(f"{fault.code:20} rang after {times[0]:5.1f} s, silent {times[1]:5.1f} s after the repair")

    async def _all_ring(self, fault: Fault, since: int) -> bool:
        return all(await self.rings(fault.code, fault.pattern, since))

    async def wait(
        self, faults: tuple[Fault, ...], promised: float, condition: Callable[[Fault], Awaitable[bool]]
    ) -> dict[str, float]:
        """Return when the condition began to hold for each."""
        limit, found = time.monotonic() + PATIENCE * promised, {}
        while missing := [one for one in faults if one.code not in found]:
            for fault in missing:
                if await condition(fault):
                    found[fault.code] = time.monotonic()
            assert time.monotonic() < limit, [one.code for one in missing]
            await asyncio.sleep(0.3)
        return found


def started(settings: Settings, log: Path, *words: str, **more: str) -> subprocess.Popen[bytes]:
    with log.open("ab") as out:
        return subprocess.Popen(
            [sys.executable, "-m", "mailsift", *words],
            cwd=ROOT,
            env={"PATH": os.environ["PATH"], **more, **settings.environment()},  # noqa: TID251 - for a child
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )


def ended(process: subprocess.Popen[bytes]) -> None:
    kill_group(process.pid)
    process.wait()


@pytest.fixture
async def installation(short_tmp: Path) -> AsyncIterator[Installation]:
    async with AsyncExitStack() as stack:
        enter = stack.enter_context
        disk = enter(small_disk(short_tmp / "disk", mebibytes=320))
        database = enter(EmbeddedServers(short_tmp / "database", valkey=False))
        valkey = enter(EmbeddedServers(short_tmp / "valkey", postgres=False))
        migrate(database.database_url)
        sandbox = enter(SandboxProcess(domains=1))
        liar = Liar(sandbox.env["MAILSIFT_DNS_SERVERS"])
        liar.lies = False
        stack.callback(liar.close)
        gate = Gate(sandbox.smtp_port)
        stack.push_async_callback(gate.close)
        usual = Settings()
        settings = settings_for(
            (disk or short_tmp) / "home",
            database_url=database.database_url,
            redis_url=valkey.redis_url,
            sandbox={
                **sandbox.env,
                "MAILSIFT_DNS_SERVERS": liar.server,
                "MAILSIFT_SMTP_PORT": str(gate.port),
            },
            api_port=0,
            metrics_port=free_port(),
            webhook_allow_http=True,
            chunk_slots=2,
            lease_seconds=usual.lease_seconds,
            heartbeat_seconds=usual.heartbeat_seconds,
            sweep_seconds=usual.sweep_seconds,
        )
        receiver = await stack.enter_async_context(receiving(status(500)))
        stack.callback(ended, started(settings, short_tmp / "api.log", "api"))
        url = await address(short_tmp / "api.log")
        api = await stack.enter_async_context(httpx.AsyncClient(base_url=url, timeout=30, verify=NO_TLS))
        async with open_container(settings) as container:
            account = await container.jobs.account("alice")
            key = await container.keys.create(account)
            await container.webhooks.create(account, receiver.url)
        api.headers["Authorization"] = f"Bearer {key.secret}"
        served = Served(url, settings)
        pages = await stack.enter_async_context(browser(served))
        await sign_in(pages, await person(served, operator=True))
        stack.callback(ended, started(settings, short_tmp / "top.log", "ops", "top", COLUMNS="300"))
        made = Installation(
            settings=settings,
            folder=short_tmp,
            database=database,
            valkey=valkey,
            gate=gate,
            liar=liar,
            receiver=receiver,
            disk=disk or short_tmp,
            stack=stack,
            api=api,
            pages=pages,
            top=Top(short_tmp / "top.log"),
        )
        made.worker = made.start("worker", "--processes", "1")
        await until(made.is_up, within=90)
        yield made


_TRIED = "SELECT 1 FROM chunk WHERE state = 'leased' AND attempt = :attempt"
# As if nobody had sent it for five minutes, to a receiver that works.
_UNSENT = """
    WITH idle AS (UPDATE endpoint SET served_at = NULL, paced_until = NULL)
    UPDATE delivery SET state = 'pending', finished_at = NULL,
        next_attempt_at = clock_timestamp() - interval '5 minutes'
    WHERE id = (SELECT id FROM delivery WHERE state = 'succeeded' LIMIT 1)
"""
READER = "mailsift.jobs.intake.child"


@pytest.mark.timeout(900)  # thirty deadlines in a row, each many times what it takes
async def test_each_fault_rings_in_three_places_and_is_silent_after_its_repair(
    installation: Installation, tmp_path: Path
) -> None:
    it = installation
    await first_faults(it, tmp_path)
    await refusals(it)
    await lies(it)
    await away(it)
    await slow_readers(it)
    await standstill(it)
    await no_room(it)
    await nobody_left(it)
    await no_servers(it)
    late = {code: times for code, times in it.took.items() if times[0] > RINGS or times[1] > SILENT}
    say(f"{len(it.took)} alarms; later than promised on this machine: {late or 'none'}")


async def first_faults(it: Installation, tmp_path: Path) -> None:
    """Port 25 is closed from the start, a receiver fails, an upgrade stops half-way."""
    (tmp_path / "mailsift-0.0.1.dist-info").mkdir()
    (tmp_path / "mailsift-0.0.1.dist-info" / "METADATA").write_text("Name: mailsift\nVersion: 0.0.1\n")

    async def upgrade_stops() -> None:
        it.other = it.start("worker", "--processes", "1", PYTHONPATH=str(tmp_path))

        async def both_work() -> bool:
            return len(await it.sql("SELECT 1 FROM worker")) == 2

        await until(both_work, within=60)
        await it.sql("UPDATE worker SET started_at = started_at - interval '10 minutes'")

    async def upgrade_goes_on() -> None:
        assert it.other is not None
        it.other.terminate()
        await asyncio.to_thread(it.other.wait, 60)

    async def receiver_works() -> None:
        it.receiver.answer = status(200)
        await it.submit(Mode.FAST, "gmail.com")

    await it.drill(
        Fault("versions_differ", "Different releases", upgrade_stops, upgrade_goes_on),
        Fault(
            "port25_closed",
            "port 25 is closed, and was never",
            lambda: it.submit(Mode.DEEP, "gmail.com"),
            lambda: it.gate.turn("open"),
        ),
        Fault("webhooks_fail", "1 webhooks? fails", nothing, receiver_works),
    )


async def refusals(it: Installation) -> None:
    """Every provider says that we are listed; what was learned is forgotten once we are not."""

    async def refuse() -> None:
        await it.gate.turn("refusing")
        for _ in range(6):
            await it.submit(Mode.DEEP, *EVERYWHERE)

    async def delisted() -> None:
        await it.gate.turn("open")
        async with open_container(it.settings) as container:
            for row in await container.operations.console.throttles() or ():
                await container.operations.throttles.reset("drill", row.learned.provider, "*")

    await it.drill(
        Fault("provider_refuses", "google refuses us", refuse, delisted),
        Fault("source_refused", "providers refuse us", nothing, nothing),
    )


async def lies(it: Installation) -> None:
    """The resolver denies every name, and a source is held."""

    async def lie() -> None:
        it.liar.lies = True
        await it.submit(Mode.MEDIUM, "ordinary.sandbox.test", "exim.sandbox.test")  # nobody knows these

    async def be_honest() -> None:
        it.liar.lies = False

    async def hold() -> None:
        async with open_container(it.settings) as container:
            (source,) = await container.operations.console.sources()
            await container.operations.throttles.hold(
                "drill", "*", source.source.identity, seconds=0, note="listed"
            )

    async def let_go() -> None:
        async with open_container(it.settings) as container:
            (source,) = await container.operations.console.sources()
            assert await container.operations.throttles.let_go("drill", "*", source.source.identity)

    await it.drill(
        Fault("resolver_distrusted", "can be trusted: addresses wait", lie, be_honest),
        Fault("source_held", r"held \(listed\)", hold, let_go),
    )


async def away(it: Installation) -> None:
    """Port 25 was open, and closes."""

    async def close() -> None:
        await it.gate.turn("closed")
        await it.submit(Mode.DEEP, *EVERYWHERE)

    await it.drill(
        Fault("network_away", "port 25 is closed, and was open", close, partial(it.gate.turn, "open"))
    )


async def slow_readers(it: Installation) -> None:
    """Whatever reads a list hangs."""
    stopped: dict[int, psutil.Process] = {}
    hanging: list[asyncio.Task[None]] = []

    async def stop_readers() -> None:
        hanging.append(asyncio.create_task(keep_readers_stopped(it, stopped)))
        for _ in range(4):
            await it.submit(Mode.FAST, "gmail.com")
        await it.sql("UPDATE job SET created_at = created_at - interval '2 minutes' WHERE started_at IS NULL")

    async def let_them_read() -> None:
        hanging.pop().cancel()
        for process in stopped.values():
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGCONT)

    await it.drill(Fault("reading_slow", "A small list has been waiting", stop_readers, let_them_read))


async def keep_readers_stopped(it: Installation, stopped: dict[int, psutil.Process]) -> None:
    assert it.worker is not None
    while True:
        for child in psutil.Process(it.worker.pid).children(recursive=True):
            with suppress(psutil.Error):
                if child.pid not in stopped and READER in child.cmdline():
                    child.send_signal(signal.SIGSTOP)
                    stopped[child.pid] = child
        await asyncio.sleep(0.02)


async def standstill(it: Installation) -> None:
    """Mail servers hang until every slot waits for one; whoever asks them is killed three times."""
    passing: list[asyncio.Task[None]] = []

    async def wait_long() -> None:
        for domain in 3 * EVERYWHERE:
            await it.submit(Mode.DEEP, domain)
        passing.append(asyncio.create_task(let_time_pass(it)))

    async def go_on() -> None:
        passing.pop().cancel()
        await it.gate.turn("open")

    await it.drill(
        Fault("chunks_fail", "tried more than twice", lambda: hang_and_kill(it), go_on),
        Fault("work_stands_still", "Every slot is busy, work has been", wait_long, nothing),
    )


async def hang_and_kill(it: Installation) -> None:
    """Whoever works on a chunk is killed twice, and somebody works on it a third time."""
    await it.gate.turn("silent")
    for domain in EVERYWHERE[:2]:
        await it.submit(Mode.DEEP, domain)
    for attempt in (1, 2, 3):

        async def is_tried(attempt: int = attempt) -> bool:
            return bool(await it.sql(_TRIED, attempt=attempt))

        await until(is_tried, within=90)
        if attempt < 3:
            assert it.worker is not None
            for child in psutil.Process(it.worker.pid).children():
                child.kill()
            await it.sql("UPDATE chunk SET lease_until = clock_timestamp() WHERE state = 'leased'")


async def let_time_pass(it: Installation) -> None:
    """Make all that is ready five minutes older, in which nothing was done."""
    while True:
        await it.sql("DELETE FROM throughput")
        await it.sql("UPDATE chunk SET ready_at = ready_at - interval '5 minutes' WHERE state = 'ready'")
        await asyncio.sleep(1)


async def no_room(it: Installation) -> None:
    """The store goes away, then there is no room on the disk."""
    blobs, ballast = it.settings.home / "blobs", it.disk / "ballast"

    async def store_goes() -> None:
        blobs.rename(blobs.with_name("away"))
        blobs.write_text("")
        await it.submit(Mode.FAST, "gmail.com")

    async def store_comes() -> None:
        blobs.unlink()
        blobs.with_name("away").rename(blobs)

    async def fill() -> None:
        with ballast.open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(2**20))

    async def make_room() -> None:
        ballast.unlink()

    await it.drill(
        Fault("store_away", "The store of lists and results", store_goes, store_comes),
        Fault("disk_full", "A disk is full", fill, make_room),
    )


async def nobody_left(it: Installation) -> None:
    """The only worker is killed; a schedule is due, and somebody writes over the broker's keys."""

    async def kill() -> None:
        assert it.worker is not None
        ended(it.worker)

    async def start() -> None:
        it.worker = it.start("worker", "--processes", "1")

    async def be_due() -> None:
        async with open_container(it.settings) as container:
            account = await container.jobs.account("alice")
            (job, *_) = (await container.jobs.page(account, limit=1)).jobs
            await container.schedules.create(account, job.id, ScheduleSpec(cron="0 0 1 1 *"))
        await it.sql("UPDATE schedule SET next_run_at = clock_timestamp(), starts_at = NULL")

    async def be_unsent() -> None:
        await it.sql(_UNSENT)

    async def spoil() -> None:
        with redis.Redis.from_url(it.valkey.redis_url) as client:
            client.delete("ms:celery:mailsift")
            client.set("ms:celery:mailsift", "rubbish")

    await it.drill(
        Fault("worker_gone", "gone without a goodbye", kill, start),
        Fault("no_workers", "No worker may claim work", nothing, nothing),
        Fault("schedules_late", "1 schedule is late", be_due, nothing),
        Fault("deliveries_late", "A webhook has been due for", be_unsent, nothing),
        Fault("broker_spoilt", "of the broker overwritten", spoil, nothing),
    )


async def no_servers(it: Installation) -> None:
    """Valkey goes and comes, then PostgreSQL."""
    for code, pattern, server in (
        ("redis_gone", "Redis does not answer", it.valkey),
        ("database_gone", "PostgreSQL does not answer", it.database),
    ):
        stop, start = partial(asyncio.to_thread, server.stop), partial(asyncio.to_thread, server.start)
        await it.drill(Fault(code, pattern, stop, start))


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


async def nothing() -> None:
    """What the fault before has caused, too."""
