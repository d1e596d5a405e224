"""A marked address and a marked key go through everything; afterwards they are only where they belong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from mailsift.container import open_container
from mailsift.sandbox.client import SandboxProcess
from mailsift.settings import Settings
from tests.support.installation import until
from tests.support.leftovers import count_redis, in_files, in_redis, in_tables
from tests.support.receiver import Receiver, receiving, status
from tests.support.serving import address, command
from tests.support.workers import WorkerGroup, workers

SINGLE, JOBS, HOOKS = "/v1/email/single-validate", "/v1/bulk/jobs", "/v1/webhooks"
MARK = "canary7f3a"
ADDRESS = f"{MARK}@ordinary.sandbox.test"
CSV, JSON = {"Content-Type": "text/csv"}, {"Content-Type": "application/json"}
BELONGS = {"source", "rows.parquet", "addresses.parquet", "results.parquet", "domains.parquet"}
HOSTS = ("ordinary", "exim", "catch-all", "greylist", "nxdomain")
BROKEN: tuple[tuple[str, bytes, dict[str, str]], ...] = (  # what the requests of a broken client look like
    (SINGLE, f'{{"email": "{ADDRESS}"'.encode(), JSON),
    (SINGLE, f'{{"email": "{ADDRESS}", "{ADDRESS}": "{MARK}"}}'.encode(), JSON),
    (SINGLE, f'{{"email": ["{ADDRESS}"]}}'.encode(), JSON),
    (SINGLE, f'{{"email": "{MARK}\\ud800@x.test"}}'.encode(), JSON),
    (SINGLE, f'{{"email": "{ADDRESS}", "mode": "{MARK}"}}'.encode(), JSON),
    (SINGLE, MARK.encode() * 10_000, JSON),
    (JOBS, f'{{"emails": ["{ADDRESS}", {{"email": 7, "id": "{MARK}"}}]}}'.encode(), JSON),
    (JOBS, f'{{"emails": ["{ADDRESS}"], "column": {{"{ADDRESS}": 1}}}}'.encode(), JSON),
    (JOBS, ADDRESS.encode(), {"Content-Type": f"text/{MARK}"}),
    (f"{JOBS}?mode={MARK}&{ADDRESS}={MARK}", ADDRESS.encode(), CSV),
    (f"{JOBS}?metadata={{{MARK}", ADDRESS.encode(), CSV),
    (JOBS, ADDRESS.encode(), {**CSV, "Idempotency-Key": f"{MARK} {ADDRESS}"}),
    (f"{JOBS}/{ADDRESS}/pause", b"", {}),
    (f"/v1/{MARK}?email={ADDRESS}", b"", {}),
    (HOOKS, f'{{"url": "http://{MARK}:{MARK}@127.0.0.1/"}}'.encode(), JSON),
)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[SandboxProcess]:
    with SandboxProcess(domains=1, greylist_seconds=1) as running:
        yield running


@pytest.fixture
def settings(make_settings: Callable[..., Settings], sandbox: SandboxProcess) -> Settings:
    return make_settings(sandbox=sandbox.env, api_port=0, webhook_allow_http=True, log_level="debug")


async def _ended(client: httpx.AsyncClient, job_id: str) -> str:
    while True:
        job = (await client.get(f"{JOBS}/{job_id}", params={"wait": 20})).json()["data"]
        if job["finished_at"]:
            return str(job["status"])


async def _refused(client: httpx.AsyncClient, key: str) -> list[str]:
    """Send what is refused; return every answer, with its headers."""
    sent = [await client.post(path, content=body, headers=headers) for path, body, headers in BROKEN]
    sent.append(await client.get(f"{JOBS}?api_key={key}"))
    sent.append(await client.get(JOBS, headers={"Authorization": f"Bearer {key[:-1]}{MARK}"}))
    sent.append(await client.get(JOBS, headers=[("Authorization", f"Bearer {key}")] * 2))
    sent.append(await client.get(JOBS, params={"cursor": MARK}))
    sent.append(await client.get(JOBS, headers={"Cookie": f"session={key}", "Authorization": f"Basic {key}"}))
    assert {answer.status_code // 100 for answer in sent} == {4}
    return [f"{answer.text} {answer.headers}" for answer in sent]


async def _kill_the_reader_of(client: httpx.AsyncClient, list_: bytes) -> str:
    """Upload a list and kill the process that reads it; return the job."""
    sent = await client.post(JOBS, params={"mode": "fast"}, content=list_, headers=CSV)

    def readers() -> list[psutil.Process]:
        found = psutil.Process().children(recursive=True)
        return [child for child in found if "mailsift.jobs.intake.child" in _words(child)]

    async def reading() -> bool:
        return bool(readers())

    await until(reading, within=60, every=0.005)
    for child in readers():
        child.kill()
    return str(sent.json()["data"]["job_id"])


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


async def _live(client: httpx.AsyncClient, receiver: Receiver, group: WorkerGroup) -> None:
    """Do what customers do, and let things break meanwhile."""
    hook = (await client.post(HOOKS, json={"url": receiver.url})).json()["data"]["id"]
    deaf = await client.post(HOOKS, json={"url": "http://127.0.0.1:9/nobody"})
    assert deaf.status_code == 201
    tested = await client.post(f"{HOOKS}/test", json={"test_type": "test_webhook", "webhook_id": hook})
    assert tested.status_code == 200
    for email in (ADDRESS, f"known1+{MARK}@ordinary.sandbox.test", MARK, f"{MARK}@nxdomain.sandbox.test"):
        answer = await client.post(SINGLE, json={"email": email, "deadline_ms": 5_000})
        assert answer.status_code == 200
    rows = "".join(f"{n},{MARK}.{n}@{host}.sandbox.test\n" for n in range(20) for host in HOSTS)
    sent = await client.post(JOBS, params={"evidence": "true"}, content=f"id,email\n{rows}", headers=CSV)
    whole = sent.json()["data"]["job_id"]
    torn = await client.post(JOBS, content=f'email\n"{ADDRESS},{MARK}\n', headers=CSV)
    odd = await client.post(JOBS, content=f"{MARK}\n1\n", headers=CSV)

    async def started() -> bool:
        return bool((await client.get(f"{JOBS}/{whole}")).json()["data"]["started_at"])

    await until(started, within=60)
    group.kill(0, whole_group=False)
    assert await _ended(client, whole) == "completed"
    for failed in (torn, odd):
        assert await _ended(client, failed.json()["data"]["job_id"]) == "failed"
    crashed = await _kill_the_reader_of(client, b"id,email\n" + f"1,{ADDRESS}\n".encode() * 300_000)
    assert await _ended(client, crashed) == "completed"
    for kind in ("csv", "jsonl"):
        results = await client.get(f"{JOBS}/{whole}/results", params={"format": kind})
        assert MARK in results.text

    async def is_told() -> bool:
        return len(receiver.requests) >= 5

    await until(is_told, within=60)


async def test_a_marked_address_and_key_are_found_nowhere_but_where_they_belong(
    settings: Settings, tmp_path: Path
) -> None:
    async with open_container(settings) as container:
        key = (await container.keys.create(await container.jobs.account("acme"))).secret
    secret = key.removeprefix("svc_key_")
    logs = {name: tmp_path / f"{name}.log" for name in ("api", "worker")}
    headers = {"Authorization": f"Bearer {key}"}
    async with receiving(status(200, body=b"thanks")) as receiver, command(settings, logs["api"], "api"):
        url = await address(logs["api"])
        async with httpx.AsyncClient(base_url=url, headers=headers, timeout=60) as client:
            with workers(settings, 1, logs["worker"]) as group:
                answers = await _refused(client, key)
                await _live(client, receiver, group)
                answers += await _refused(client, key)
            queued = await client.post(JOBS, json={"emails": [ADDRESS]})  # nobody takes its wake-up
            assert queued.status_code == 202
    assert await count_redis(settings) > 5
    assert "ms:celery:mailsift" in await in_redis(settings, "mailsift.pull")
    texts = {name: log.read_text() for name, log in logs.items()} | {"answers": "\n".join(answers)}
    texts |= {"webhooks": "\n".join(f"{one.line}{one.headers}{one.body!r}" for one in receiver.requests)}
    assert all(len(text) > 1_000 for text in texts.values()), {
        name: len(text) for name, text in texts.items()
    }
    assert "chunk.done" in texts["worker"]
    for word in (MARK, secret):
        assert {name: _around(text, word) for name, text in texts.items() if word in text} == {}
        assert await in_redis(settings, word) == set()
        assert await in_tables(settings, word) == set()
    found = in_files(settings.home, MARK)
    assert {Path(file).parts[:2] for file in found} == {("blobs", "jobs")}
    parts = [Path(file) for file in found if Path(file).parent.name in ("segments", "residual")]
    assert {Path(file).name for file in found} <= BELONGS | {part.name for part in parts}
    assert in_files(settings.home, secret) == set()


def _around(text: str, word: str) -> str:
    place = text.index(word)
    return text[max(0, place - 200) : place + 200]
