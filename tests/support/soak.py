"""Everything at once, for a while: `make soak` (30 minutes), `make soak MINUTES=2 SEED=7`.

Lists of every mode come in through the API all the time, while the faults of `soak_faults` happen in an order
that the seed decides and a worker is replaced every minute. In the end, and after each job, it must hold that

- every job completes, with every row once, in its order and with exact counts,
- no verdict is wrong: what could not be found out is risky, never valid or invalid,
- a job has one event, and its receiver got it, the same bytes each time,
- the API never answers with an error that has no name, and asks to come back where that helps,
- no file, lease or process is left of what has ended; memory and open files stay as they were.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import io
import json
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import httpx
import psutil

from mailsift.runtime.embedded import EmbeddedServers
from mailsift.sandbox.client import SandboxProcess
from mailsift.sandbox.listing import write_list
from mailsift.sandbox.world import SandboxWorld
from mailsift.settings import Settings
from mailsift.storage.schema import migrate
from tests.support.child_processes import start_service
from tests.support.commands import CommandLine
from tests.support.installation import settings_for, until
from tests.support.liar import Liar
from tests.support.mail_gate import Gate
from tests.support.receiver import Receiver, receiving
from tests.support.serving import NO_TLS, address
from tests.support.small_disk import small_disk
from tests.support.soak_faults import Stage, rolls
from tests.support.workers import WorkerGroup

WORLD_SEED, DOMAINS = 3, 150
OPEN_JOBS: Final = 6
MODES: Final = ("deep", "fast", "medium")
LONG_LISTS: Final = 0.3
"""The share of lists without probes that are long: work that is caught in its middle."""
SETTLE_SECONDS: Final = 300.0
"""How long everything that is open may take once nothing goes wrong any more; many times what it takes."""
REST: Final = (1.0, 3.0)
MEMORY_MINUTES: Final = 10
"""A shorter run says nothing about memory: caches are still being filled."""
GROWTH: Final = 1.05
MORE_FILES: Final = 16
_EVENTS: Final = "SELECT id::text FROM event WHERE job_id = %s"
_ERROR: Final = re.compile(r" ERROR:  (?!canceling|deadlock|cannot execute)(.+)")
"""What PostgreSQL says of a statement that is wrong; what is tried again is not, be it when it may be."""
TRY_AGAIN: Final = frozenset({408, 429, 502, 503, 504, 507})


@dataclass
class Findings:
    """What was seen, and what should not have been."""

    wrong: list[str] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    jobs: int = 0
    rows: int = 0
    unsure: int = 0
    memory: list[float] = field(default_factory=list)
    files: list[int] = field(default_factory=list)
    events: dict[str, bytes] = field(default_factory=dict)
    until: float = float("inf")

    def check(self, fact: bool, otherwise: str) -> None:
        """Note what is wrong, and say it at once."""
        if not fact:
            self.wrong.append(otherwise)
            print(f"WRONG: {otherwise}", flush=True)


class Api:
    """Two APIs: one is asked first and may die, the other lives; asks again until somebody answers."""

    def __init__(self, settings: Settings, folder: Path, findings: Findings) -> None:
        self._settings, self._folder, self._findings = settings, folder, findings
        self._servers: list[subprocess.Popen[bytes]] = []
        self._logs: list[Path] = []
        self._urls: list[str] = []
        self._starts = 0
        self._client = httpx.AsyncClient(timeout=60, verify=NO_TLS)

    async def start(self) -> None:
        for _ in range(2):
            self._logs.append(self._folder / f"api-{len(self._logs)}.log")
            self._servers.append(self._launch(self._logs[-1]))
            self._urls.append(await address(self._logs[-1]))
        key = await asyncio.to_thread(CommandLine(self._settings).run, "keys", "create", "--account", "soak")
        self._client.headers["Authorization"] = f"Bearer {key.out.strip()}"

    async def aclose(self) -> None:
        await self._client.aclose()
        for server in self._servers:
            server.terminate()
            await asyncio.to_thread(server.wait, 60)

    def mortal(self) -> int:
        """The one that may die; where it has, another one is started."""
        return self._servers[0].pid

    @property
    def witness(self) -> int:
        return self._servers[1].pid

    async def revive(self) -> None:
        """Start the mortal API again when it is dead."""
        if self._servers[0].poll() is None:
            return
        self._starts += 1
        log = self._folder / f"api-again-{self._starts}.log"
        self._servers[0] = self._launch(log)
        self._urls[0] = await address(log)

    def _launch(self, log: Path) -> subprocess.Popen[bytes]:
        with log.open("wb") as out:
            return start_service(self._settings, out, "mailsift", "api")

    async def ask(
        self, method: str, path: str, *, within: float = SETTLE_SECONDS, **more: Any
    ) -> httpx.Response:
        """Return the first answer that is no "later"; fail when there is none for very long."""
        limit, turn = time.monotonic() + within, 0
        while time.monotonic() < limit:
            turn += 1
            try:
                answer = await self._client.request(method, f"{self._urls[turn % 2]}{path}", **more)
            except httpx.HTTPError:
                self._findings.answers["nobody answered"] += 1
                await asyncio.sleep(0.3)
                continue
            code = "" if answer.is_success else _code(answer)
            self._findings.answers[f"{answer.status_code} {code}".strip()] += 1
            if answer.status_code not in TRY_AGAIN and code != "idempotency_key_in_use":
                self._findings.check(
                    answer.status_code < 500, f"{method} {path}: {answer.status_code} {code}"
                )
                return answer
            is_refused = "retry-after" in answer.headers or answer.status_code == 409
            self._findings.check(is_refused, f"{code} without Retry-After")
            await asyncio.sleep(0.5)
        raise TimeoutError(f"{method} {path}: no answer in {within} s")


def _code(answer: httpx.Response) -> str:
    with suppress(ValueError, KeyError, TypeError):
        return str(answer.json()["code"])
    return "no envelope"


@dataclass
class Customer:
    """Hands lists in, waits for them and looks at every row."""

    api: Api
    stage: Stage
    receiver: Receiver
    findings: Findings
    folder: Path
    dice: random.Random
    over: asyncio.Event

    async def live(self, number: int) -> None:
        """Hand in one list after the other."""
        while not self.over.is_set():
            mode, rows = self.dice.choice(MODES), self.dice.randrange(50, 600)
            if number == 0:  # many chunks: what is done twice is counted twice
                mode, rows = "deep", self.dice.randrange(2_000, 4_000)
            elif mode != "deep" and self.dice.random() < LONG_LISTS:
                rows = self.dice.randrange(5_000, 20_000)
            try:
                await self.one_job(self.folder / f"customer-{number}", mode, rows)
            except Exception as error:  # noqa: BLE001 - told in the end, with everything else
                self.findings.check(fact=False, otherwise=f"a {mode} list of {rows} rows: {error!r}")

    async def one_job(self, folder: Path, mode: str, rows: int) -> None:
        await asyncio.to_thread(folder.mkdir, exist_ok=True)
        world = SandboxWorld(seed=WORLD_SEED, domains=DOMAINS)
        source = folder / "list.csv"
        truth = await asyncio.to_thread(write_list, world, source, rows=rows)
        once = {"Idempotency-Key": f'"{uuid4()}"', "Content-Type": "text/csv"}
        options = {"mode": mode, "max_age": self.dice.choice((0, 86_400))}
        made = await self.api.ask(
            "POST", "/v1/bulk/jobs", params=options, content=source.read_bytes(), headers=once
        )
        job = made.json()["data"]["job_id"]
        view = await self._ended(job)
        self._check_counts(view, rows)
        if view["status"] == "completed":
            path = f"/v1/bulk/jobs/{job}/results"
            results = await self.api.ask("GET", path, params={"format": "csv"})
            self._check_rows(job, mode, results.text, truth)
        await self._check_event(job, view)
        await self.api.ask("DELETE", f"/v1/bulk/jobs/{job}")
        self.findings.jobs += 1
        self.findings.rows += rows

    async def _ended(self, job: str) -> dict[str, Any]:
        while time.monotonic() < self.findings.until:
            answer = await self.api.ask("GET", f"/v1/bulk/jobs/{job}", params={"wait": 5})
            view: dict[str, Any] = answer.json()["data"]
            if view["status"] in {"completed", "failed", "cancelled"}:
                return view
            await asyncio.sleep(0.2)
        raise TimeoutError(f"job {job} does not end, though nothing goes wrong any more")

    def _check_counts(self, view: dict[str, Any], rows: int) -> None:
        check, job = self.findings.check, view["job_id"]
        check(view["status"] == "completed", f"job {job} ended {view['status']}: {view.get('error')}")
        counts = [view[name] for name in ("valid", "invalid", "risky")]
        check(sum(counts) == view["processed"] == rows, f"job {job}: {counts} of {rows}")

    def _check_rows(self, job: str, mode: str, results: str, truth: Path) -> None:
        with truth.open(encoding="utf-8", newline="") as file:
            expected = [row[mode] for row in csv.DictReader(file)]
        found = list(csv.DictReader(io.StringIO(results)))
        numbers = [row["id"] for row in found]
        self.findings.check(
            numbers == [str(n) for n in range(1, len(expected) + 1)], f"job {job}: rows are missing or moved"
        )
        for row, status in zip(found, expected, strict=False):
            verdict = row["mailsift_status"]
            self.findings.unsure += verdict != status
            self.findings.check(
                verdict in {status, "risky"}, f"job {job}, row {row['id']}: {verdict}, but it is {status}"
            )

    async def _check_event(self, job: str, view: dict[str, Any]) -> None:
        """The job has one event, and it comes; everything that comes says the same."""
        events: list[str] = []

        async def is_told() -> bool:
            events[:] = [id_ for (id_,) in await asyncio.to_thread(self.stage.query, _EVENTS, job)]
            return bool(events) and any(one.headers["webhook-id"] in events for one in self.receiver.requests)

        await until(is_told, within=SETTLE_SECONDS, every=0.3)
        self.findings.check(len(events) == 1, f"job {job} has {len(events)} events")
        came = [one for one in self.receiver.requests if one.headers["webhook-id"] in events]
        self.findings.check(len({one.body for one in came}) == 1, f"job {job}: its event differs")
        body = json.loads(came[0].body)
        kind = "failed" if view["status"] != "completed" else "completed"
        self.findings.check(body["type"] == f"bulk.validation.{kind}", f"job {job}: {body['type']}")
        self.findings.check(body["data"]["processed"] == view["processed"], f"job {job}: its event miscounts")
        self.findings.events[events[0]] = came[0].body


async def hurt(stage: Stage, api: Api, findings: Findings, over: asyncio.Event) -> None:
    """Let faults happen until it is over; each is undone before the next."""
    for fault, seconds in rolls(stage.dice):
        if over.is_set():
            return
        name = getattr(fault, "__name__", "").replace("_", " ")
        findings.faults[name] += 1
        done = fault(stage)
        await asyncio.to_thread(next, done)
        await asyncio.sleep(seconds)
        await asyncio.to_thread(next, done, None)
        await api.revive()
        with suppress(TimeoutError):
            await asyncio.wait_for(over.wait(), stage.dice.uniform(*REST))


async def replace_workers(stage: Stage, over: asyncio.Event) -> None:
    """Replace a worker each minute, as an upgrade does."""
    while not over.is_set():
        with suppress(TimeoutError):
            await asyncio.wait_for(over.wait(), 60)
        if not over.is_set():
            await asyncio.to_thread(stage.workers.replace, stage.victim())


async def watch(pids: list[int], findings: Findings, over: asyncio.Event) -> None:
    """Note memory and open files of the processes that live all the time."""
    while not over.is_set():
        family = [psutil.Process(pid) for pid in pids]
        family += [child for parent in family[:1] for child in parent.children()]
        with suppress(psutil.Error):
            findings.memory.append(sum(one.memory_info().rss for one in family) / 2**20)
            findings.files.append(sum(one.num_fds() for one in family))
        with suppress(TimeoutError):
            await asyncio.wait_for(over.wait(), 2)


def check_flat(findings: Findings, minutes: float) -> None:
    """Compare the second quarter of the run with the last one."""
    quarter = len(findings.memory) // 4
    if minutes < MEMORY_MINUTES or not quarter:
        return
    early, late = (
        [statistics.median(values[quarter : 2 * quarter]), statistics.median(values[-quarter:])]
        for values in (findings.memory, findings.files)
    )
    print(f"memory {early[0]:.0f} -> {early[1]:.0f} MiB, open files {late[0]:.0f} -> {late[1]:.0f}")
    findings.check(early[1] <= early[0] * GROWTH, "memory grew by more than 5 %")
    findings.check(late[1] <= late[0] + MORE_FILES, "open files grew")


def check_nothing_left(stage: Stage, settings: Settings, findings: Findings) -> None:
    """All jobs are deleted: nothing of them may be left but what is marked to go."""
    owners = {
        id_ for (id_,) in stage.query("SELECT id::text FROM job UNION SELECT job_id::text FROM leftover")
    }
    kept = {path.parts[-1] for path in settings.home.glob("blobs/jobs/*")}
    findings.check(kept <= owners, f"{len(kept - owners)} folders of jobs that nobody knows")
    for what, query in (
        ("leases", "SELECT 1 FROM chunk WHERE state = 'leased'"),
        ("steps", "SELECT 1 FROM job WHERE step_token IS NOT NULL"),
        ("jobs", "SELECT 1 FROM job"),
    ):
        findings.check(not stage.query(query), f"{what} are left")
    readers = [one for one in psutil.process_iter(["cmdline"]) if _reads_for(one, stage)]
    findings.check(len(readers) <= len(stage.workers.pids), f"{len(readers)} reading processes are left")


def _reads_for(process: psutil.Process, stage: Stage) -> bool:
    """Whether this is a reading process of one of the workers; each may keep one."""
    with suppress(psutil.Error):
        parents = {parent.pid for parent in process.parents()}
        return "mailsift.jobs.intake.child" in (process.info["cmdline"] or ()) and bool(
            parents & {*stage.workers.pids}
        )
    return False


@asynccontextmanager
async def staged(
    folder: Path, seed: int, findings: Findings
) -> AsyncIterator[tuple[Stage, Api, Receiver, Settings]]:
    """Start everything."""
    async with AsyncExitStack() as stack:
        disk = stack.enter_context(small_disk(folder / "disk", mebibytes=192))
        if disk is None:
            print("no disk to fill: that takes root")
        servers = stack.enter_context(EmbeddedServers(folder / "servers"))
        migrate(servers.database_url)
        servers.keep_up()
        sandbox = stack.enter_context(
            SandboxProcess(seed=WORLD_SEED, domains=DOMAINS, latency_ms=20, greylist_seconds=1)
        )
        resolver = Liar(sandbox.env["MAILSIFT_DNS_SERVERS"])
        resolver.lies = False
        stack.callback(resolver.close)
        gate = Gate(sandbox.smtp_port)
        await gate.turn("open")
        stack.push_async_callback(gate.close)
        settings = settings_for(
            (folder if disk is None else disk) / "home",
            database_url=servers.database_url,
            redis_url=servers.redis_url,
            sandbox={
                **sandbox.env,
                "MAILSIFT_DNS_SERVERS": resolver.server,
                "MAILSIFT_SMTP_PORT": str(gate.port),
            },
            api_port=0,
            webhook_allow_http=True,
        )
        receiver = await stack.enter_async_context(receiving())
        api = Api(settings, folder, findings)
        await api.start()
        stack.push_async_callback(api.aclose)
        await api.ask("POST", "/v1/webhooks", json={"url": receiver.url})
        workers = stack.enter_context(WorkerGroup(settings, 3, folder / "workers.log"))
        # It hears late that its leases are gone, so what it commits then must be refused.
        sluggish = settings.model_copy(update={"lease_seconds": 60.0, "heartbeat_seconds": 20.0})
        stack.enter_context(WorkerGroup(sluggish, 1, folder / "sluggish.log"))
        jumping = ("tests.support.jumping_clock", str(folder / "clock"))
        stack.enter_context(WorkerGroup(settings, 1, folder / "jumping.log", program=jumping))
        stage = Stage(
            servers=servers,
            sandbox=sandbox,
            resolver=resolver,
            gate=gate,
            clock=folder / "clock",
            workers=workers,
            api=api.mortal,
            blobs=settings.home / "blobs",
            disk=disk,
            dice=random.Random(seed),
        )
        yield stage, api, receiver, settings


async def soak(folder: Path, minutes: float, seed: int) -> Findings:
    """Run it."""
    findings, over = Findings(), asyncio.Event()
    async with staged(folder, seed, findings) as (stage, api, receiver, settings):
        customers = [
            Customer(api, stage, receiver, findings, folder, random.Random(f"{seed}/{n}"), over)
            for n in range(OPEN_JOBS)
        ]
        living = [asyncio.create_task(one.live(n)) for n, one in enumerate(customers)]
        beside = [
            asyncio.create_task(hurt(stage, api, findings, over)),
            asyncio.create_task(replace_workers(stage, over)),
            asyncio.create_task(watch([stage.workers.pids[0], api.witness], findings, over)),
        ]
        await asyncio.sleep(60 * minutes)
        over.set()
        await asyncio.gather(*beside)
        findings.until = time.monotonic() + SETTLE_SECONDS
        await asyncio.gather(*living)
        await asyncio.to_thread(check_nothing_left, stage, settings, findings)
        for one in receiver.requests:  # an event may come twice, but never another way
            known = findings.events.get(one.headers["webhook-id"])
            findings.check(known in {None, one.body}, "an event came again with other words")
            findings.check(known is not None, "an event came that no job has")
    check_flat(findings, minutes)
    statements = (folder / "servers" / "postgres" / "log").read_text()
    for error in sorted(set(_ERROR.findall(statements))):
        findings.check(fact=False, otherwise=f"a statement failed: {error}")
    return findings


def main() -> int:
    """Run it as the arguments say; 1: something was wrong, and the logs stay."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="ms-", dir="/tmp"))
    findings = asyncio.run(soak(folder, given.minutes, given.seed))
    for name, count in sorted(findings.faults.items()):
        print(f"{count:4} × {name}")
    print(", ".join(f"{count} × {what}" for what, count in findings.answers.most_common()))
    print(
        f"seed {given.seed}: {findings.jobs} jobs, {findings.rows:,} rows, {findings.unsure} of them unsure"
    )
    if findings.wrong or not findings.jobs:
        print(f"{len(findings.wrong)} things were wrong; logs: {folder}", *findings.wrong, sep="\n  ")
        return 1
    shutil.rmtree(folder, ignore_errors=True)
    print("nothing was lost, nothing came twice")
    return 0


if __name__ == "__main__":
    sys.exit(main())
