"""Traces arrive at a collector, with the ids of jobs and requests and without anybody's data."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from api.keys import Scope
from mailsift.observed import load_tracing, traced
from mailsift.serve import open_keyring
from mailsift.settings import Settings
from pipeline import spans
from pipeline.errors import MailsiftError
from tests.collector import Collector, Span, collecting
from tests.installation import settings_for, until
from tests.planting import Planter, Poisoned, engine_on
from tests.receiver import receiving
from tests.serving import address, command
from tests.workers import ROOT

PEOPLE = [f"jane{n}@customer{n}.example" for n in range(30)]
TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PHASES = ["claim", "read", "sift", "store", "commit"]


def settings_of(tmp_path: Path, database_url: str, redis_url: str, endpoint: str) -> Settings:
    return settings_for(
        tmp_path / "home",
        database_url=database_url,
        redis_url=redis_url,
        sandbox={"MAILSIFT_SMTP_PORT": "9"},
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
        async with open_keyring(settings) as ring:
            key = (await ring.keys.create(await ring.jobs.account("alice"), scopes=tuple(Scope))).secret
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


async def test_a_chunk_that_fails_is_a_failed_span_without_the_words_of_its_error(
    tmp_path: Path, database_url: str, redis_url: str
) -> None:
    bad = PEOPLE[15]
    with collecting() as collector:
        settings = settings_of(tmp_path, database_url, redis_url, collector.url)
        await Planter(settings, tmp_path).plant(PEOPLE, chunk=10)
        error = ValueError(bad)
        with traced(settings, "worker"):
            async with engine_on(settings, lambda sound: Poisoned(sound, address=bad, error=error)) as engine:
                await engine.drain()
    found = {span.fields["mailsift.chunk"]: span for span in collector.named("chunk")}
    assert {n: (span.failed, span.fields.get("error.type")) for n, span in found.items()} == {
        0: (False, None),
        1: (True, "ValueError"),
        2: (False, None),
    }
    assert bad.encode() not in collector.raw


def test_nothing_is_traced_and_nothing_is_imported_when_no_endpoint_is_set() -> None:
    script = (
        "import sys, mailsift.cli, pathlib\n"
        "from mailsift.observed import traced\n"
        "from mailsift.settings import Settings\n"
        "with traced(Settings(home=pathlib.Path('/nowhere')), 'api'):\n"
        "    ours = ('mailsift.otel', 'opentelemetry.exporter', 'opentelemetry.sdk.trace')\n"
        "    print([name for name in sys.modules if name.startswith(ours)])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")
    with spans.working_on("request", {"request_id": "req_1"}) as shown:
        shown.name("x")
        shown.tell(status=200)
        shown.fail("x")
        assert shown is spans.current()
        assert shown.trace == ""


def test_the_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "mailsift.otel", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    settings = Settings(home=tmp_path, otel_endpoint="http://127.0.0.1:4318")
    with pytest.raises(MailsiftError) as refused:
        load_tracing(settings)
    assert refused.value.code == "otel_missing"
    assert 'pip install "mailsift[otel]"' in refused.value.message


def test_a_collector_that_is_away_costs_a_moment_and_no_work(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, otel_endpoint="http://127.0.0.1:9/v1/traces")
    with traced(settings, "worker"), spans.span("chunk", {"job": "1"}):
        assert re.fullmatch(r"[0-9a-f]{32}", spans.current().trace)
        with spans.part("read"):
            pass
    assert spans.current().trace == ""
