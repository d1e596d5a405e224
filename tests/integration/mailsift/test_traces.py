"""Traces arrive at a collector, with the ids of jobs and requests and without anybody's data."""

from __future__ import annotations

import asyncio
import multiprocessing
import re
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TypeVar

import httpx
import pytest
from opentelemetry import trace
from structlog.contextvars import get_contextvars

from mailsift.accounts.keys import Scope
from mailsift.container import open_container
from mailsift.jobs.tracing import fail, open_part, open_span
from mailsift.pipeline.errors import MailsiftError
from mailsift.settings import Settings
from mailsift.tracing import check_tracing, traced
from tests.support.installation import settings_for, until
from tests.support.otlp_collector import Collector, Span, collecting
from tests.support.ready_jobs import Planter, Poisoned, engine_on
from tests.support.receiver import receiving
from tests.support.serving import address, command
from tests.support.workers import ROOT

T = TypeVar("T")

PEOPLE = [f"jane{n}@customer{n}.example" for n in range(30)]
TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PHASES = ["claim", "read", "sift", "store", "commit"]


def settings_of(tmp_path: Path, database_url: str, redis_url: str, endpoint: str) -> Settings:
    return settings_for(
        tmp_path / "home",
        database_url=database_url,
        redis_url=redis_url,
        api_port=0,
        dns_servers=("127.0.0.1:9",),
        webhook_allow_http=True,
        allow_non_public=True,
        otel_endpoint=endpoint,
    )


async def test_a_request_and_its_job_are_traced_from_end_to_end(
    tmp_path: Path, database_url: str, redis_url: str
) -> None:
    with collecting() as collector:
        settings = settings_of(tmp_path, database_url, redis_url, collector.url)
        request_id, job, key = await _play(settings, tmp_path)
    _is_a_request(collector, request_id)
    _are_steps_and_chunks(collector, job)
    _is_a_delivery(collector)
    for word in (*PEOPLE, key, "svc_key_", "customer1.example"):
        assert word.encode() not in collector.raw


async def _play(settings: Settings, tmp_path: Path) -> tuple[str, str, str]:
    """Have a list worked on; returns the ids of its request and its job, and the key."""
    api_log = tmp_path / "api.log"
    async with (
        receiving() as receiver,
        command(settings, api_log, "api"),
        command(settings, tmp_path / "worker.log", "worker", "--processes", "1"),
        httpx.AsyncClient(base_url=await address(api_log), timeout=60) as client,
    ):
        async with open_container(settings) as container:
            key = (
                await container.keys.create(await container.jobs.account("alice"), scopes=tuple(Scope))
            ).secret
        client.headers["Authorization"] = f"Bearer {key}"
        await client.post("/v1/webhooks", json={"url": receiver.url})
        parent = {"traceparent": f"00-{TRACE}-{CALLER}-01"}
        made = await client.post("/v1/bulk/jobs", json={"emails": PEOPLE, "mode": "fast"}, headers=parent)
        assert made.status_code == 202, made.text

        async def delivered() -> bool:
            return bool(receiver.requests)

        await until(delivered, within=60)
    assert f'"trace": "{TRACE}"' in api_log.read_text()
    return made.headers["X-Request-Id"], made.json()["data"]["job_id"], key


def _is_a_request(collector: Collector, request_id: str) -> None:
    (found,) = collector.named("POST /v1/bulk/jobs")
    assert (found.service, found.trace, found.parent) == ("mailsift-api", TRACE, CALLER)
    assert found.fields["mailsift.request_id"] == request_id
    assert found.fields["mailsift.status"] == 202
    assert not found.failed


def _are_steps_and_chunks(collector: Collector, job: str) -> None:
    for step in ("job.intake", "job.finalizing"):
        (found,) = collector.named(step)
        assert (found.service, found.fields["mailsift.job"]) == ("mailsift-worker", job)
    (chunk,) = collector.named("chunk")
    assert chunk.fields["mailsift.job"] == job
    assert (chunk.fields["mailsift.chunk"], chunk.fields["mailsift.addresses"]) == (0, len(PEOPLE))
    assert re.fullmatch(r"[0-9a-f-]{36}", chunk.fields["mailsift.lease"])
    parts = sorted((one for one in collector.spans if one.parent == chunk.id), key=lambda one: one.started)
    assert [part.name for part in parts] == PHASES
    assert {part.trace for part in parts} == {chunk.trace}
    assert all(_within(part, chunk) for part in parts)


def _within(inner: Span, outer: Span) -> bool:
    slack = 5_000_000  # the claim was measured by another clock
    return outer.started - slack <= inner.started <= inner.ended <= outer.ended


def _is_a_delivery(collector: Collector) -> None:
    (found,) = collector.named("webhook.delivery")
    assert found.fields["mailsift.status"] == 200
    assert {"mailsift.delivery", "mailsift.endpoint", "mailsift.lease"} <= found.fields.keys()


def in_a_new_process(work: Callable[..., T], *given: object) -> T:
    """Call a function where no trace has been written yet: OpenTelemetry is set up once in a process."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(work, *given).result(60)


def fail_at_one_address(settings: Settings, address: str) -> None:
    error = ValueError(address)

    async def drain() -> None:
        async with engine_on(settings, Poisoned(address=address, error=error)) as engine:
            await engine.drain()

    with traced(settings, "worker"):
        asyncio.run(drain())


async def test_a_chunk_that_fails_is_a_failed_span_without_the_words_of_its_error(
    tmp_path: Path, database_url: str, redis_url: str
) -> None:
    bad = PEOPLE[15]
    with collecting() as collector:
        settings = settings_of(tmp_path, database_url, redis_url, collector.url)
        await Planter(settings, tmp_path).plant(PEOPLE, chunk=10)
        await asyncio.to_thread(in_a_new_process, fail_at_one_address, settings, bad)
    found = {span.fields["mailsift.chunk"]: span for span in collector.named("chunk")}
    assert {n: (span.failed, span.fields.get("error.type")) for n, span in found.items()} == {
        0: (False, None),
        1: (True, "ValueError"),
        2: (False, None),
    }
    assert bad.encode() not in collector.raw


def test_nothing_is_traced_and_nothing_is_imported_when_no_endpoint_is_set() -> None:
    script = (
        "import sys, mailsift.cli, mailsift.cli.serve, pathlib\n"
        "from mailsift.tracing import traced\n"
        "from mailsift.settings import Settings\n"
        "with traced(Settings(home=pathlib.Path('/nowhere')), 'api'):\n"
        "    theirs = ('opentelemetry.exporter', 'opentelemetry.sdk.trace')\n"
        "    print([name for name in sys.modules if name.startswith(theirs)])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")
    with open_span("request", {"request_id": "req_1"}) as span:
        span.update_name("x")
        fail(span, "x")
        assert not span.is_recording()
        assert not span.get_span_context().is_valid


def test_the_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter", None)
    settings = Settings(home=tmp_path, otel_endpoint="http://127.0.0.1:4318")
    with pytest.raises(MailsiftError) as refused:
        check_tracing(settings)
    assert refused.value.code == "otel_missing"
    assert 'pip install "mailsift[otel]"' in refused.value.message


def trace_to_nobody(settings: Settings) -> tuple[str, str, bool]:
    """Return the traces that log lines name within a span and after it, and whether a part was recorded."""
    with traced(settings, "worker"):
        with open_part("read"):
            assert not trace.get_current_span().is_recording()
        with open_span("chunk", {"job": "1"}):
            within = get_contextvars()["trace"]
            with open_part("read"):
                recorded = trace.get_current_span().is_recording()
    return within, get_contextvars().get("trace", ""), recorded


def test_a_collector_that_is_away_costs_a_moment_and_no_work(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, otel_endpoint="http://127.0.0.1:9/v1/traces")
    within, after, recorded = in_a_new_process(trace_to_nobody, settings)
    assert re.fullmatch(r"[0-9a-f]{32}", within)
    assert (after, recorded) == ("", True)
