"""Every line of a request carries its id, every line of a chunk the job, the chunk and the lease."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import dropwhile
from pathlib import Path
from typing import Any

import httpx
import pytest

from mailsift.accounts.keys import Scope
from mailsift.container import open_container
from mailsift.settings import Settings
from tests.support.captured_logs import our_logs
from tests.support.installation import until
from tests.support.ready_jobs import Planter, Poisoned, engine_on
from tests.support.receiver import receiving
from tests.support.serving import address, command

PEOPLE = [f"jane{n}@customer{n}.example" for n in range(30)]
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
Line = dict[str, Any]


@pytest.fixture
def settings(make_settings: Callable[..., Settings]) -> Settings:
    return make_settings(
        api_port=0, dns_servers=("127.0.0.1:9",), webhook_allow_http=True, allow_non_public=True
    )


def lines(log: Path) -> list[Line]:
    """Read a log: from its first line on, after a welcome perhaps, nothing in it but JSON."""
    logged = dropwhile(lambda line: not line.startswith("{"), log.read_text().splitlines())
    return [json.loads(line) for line in logged]


async def test_the_log_of_an_api_and_a_worker_tells_whom_each_line_is_about_and_no_secret(
    settings: Settings, tmp_path: Path
) -> None:
    api_log, worker_log = tmp_path / "api.log", tmp_path / "worker.log"
    async with (
        receiving() as receiver,
        command(settings, api_log, "api"),
        command(settings, worker_log, "worker", "--processes", "1"),
        httpx.AsyncClient(base_url=await address(api_log), timeout=60) as client,
    ):
        async with open_container(settings) as container:
            key = (
                await container.keys.create(await container.jobs.account("alice"), scopes=tuple(Scope))
            ).secret
        client.headers["Authorization"] = f"Bearer {key}"
        made = await client.post("/v1/webhooks", json={"url": receiver.url})
        assert made.status_code == 201, made.text
        secret = made.json()["data"]["secret"]
        ids = await _ask(client)
        job = await _job(client)

        async def delivered() -> bool:
            return bool(receiver.requests)

        await until(delivered, within=60)
    assert worker_log.read_text().startswith("{")
    requests, work = lines(api_log), lines(worker_log)
    assert {line["request_id"] for line in requests if line["event"] == "request"} >= set(ids)
    assert all("request_id" in line for line in requests)
    assert [line["trace"] for line in requests if line["request_id"] == "front.0123456789"] == [TRACE]
    of_chunks = [line for line in work if line["event"].startswith("chunk.")]
    assert of_chunks
    assert all({"job", "chunk", "lease"} <= line.keys() for line in of_chunks)
    of_steps = [line for line in work if line["event"].startswith("job.step")]
    assert {line["step"] for line in of_steps} == {"intake", "finalizing"}
    assert {line["job"] for line in of_chunks + of_steps} == {job}
    assert all("lease" in line for line in of_steps)
    (attempt,) = (line for line in work if line["event"] == "webhook.attempt")
    assert {"delivery", "endpoint", "lease"} <= attempt.keys()
    everything = api_log.read_text() + worker_log.read_text()
    for word in (*PEOPLE, key, secret, "customer1.example", "svc_key_", "whsec_"):
        assert word not in everything


async def _ask(client: httpx.AsyncClient) -> list[str]:
    """Send requests with and without an id of their own; returns the ids of the answers."""
    given = {"X-Request-Id": "front.0123456789", "traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}
    taken = await client.get("/healthz", headers=given)
    assert taken.headers["X-Request-Id"] == given["X-Request-Id"]
    ids = [taken.headers["X-Request-Id"]]
    for odd in ("short", "x" * 80, "jane@example.com", "svc_key_0123456789", "a b c d e f g h", ""):
        answer = await client.get("/healthz", headers={"X-Request-Id": odd, "traceparent": "00-nonsense"})
        ids.append(answer.headers["X-Request-Id"])
        assert re.fullmatch(r"req_[0-9a-f]{24}", ids[-1])
    again = await client.get(f"/v1/nowhere/{PEOPLE[0]}", headers={"X-Request-Id": ids[-1]})
    assert again.headers["X-Request-Id"] == ids[-1] == again.json()["request_id"]
    await client.get("/v1/bulk/jobs", params={"cursor": PEOPLE[0]})
    return ids


async def _job(client: httpx.AsyncClient) -> str:
    made = await client.post("/v1/bulk/jobs", json={"emails": PEOPLE, "mode": "fast"})
    job = str(made.json()["data"]["job_id"])

    async def over() -> bool:
        answer = await client.get(f"/v1/bulk/jobs/{job}", params={"wait": 20})
        return bool(answer.json()["data"]["status"] == "completed")

    await until(over, within=60)
    return job


async def test_a_chunk_that_fails_tells_which_it_was(
    settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, job_id = await Planter(settings, tmp_path).plant(PEOPLE, chunk=10)
    bad = PEOPLE[15]
    with our_logs():
        capsys.readouterr()
        error = ValueError(bad)
        async with engine_on(settings, Poisoned(address=bad, error=error)) as engine:
            await engine.drain()
        logged = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    failed = [line for line in logged if line["event"] == "chunk.error"]
    assert {(line["job"], line["chunk"], line["error"]) for line in failed} == {
        (str(job_id), 1, "builtins.ValueError")
    }
    done = [line for line in logged if line["event"] == "chunk.done"]
    assert {(line["job"], line["chunk"]) for line in done} == {(str(job_id), 0), (str(job_id), 2)}
    assert len({line["lease"] for line in done + failed}) == len(done + failed)
    assert bad not in json.dumps(logged)
