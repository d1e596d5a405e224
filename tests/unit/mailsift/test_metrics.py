"""Meters attached to Prometheus: alone, shared by the processes of a worker, and their page."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import generate_latest

from mailsift import metrics
from mailsift.metrics_server import MetricsServer
from mailsift.observed import metered_worker
from mailsift.settings import Settings
from pipeline.errors import MailsiftError
from pipeline.meter import Counter, Gauge, Histogram, Label, provider_label
from tests.exposition import Exposed
from tests.workers import ROOT

CALLS = Counter("tests_calls_total", "Calls", Label("kind", ("good", "bad")))
LEVEL = Gauge("tests_level", "Level")
TIMES = Histogram("tests_times_seconds", "Times", buckets=(0.1, 1.0))
METERS = (CALLS, LEVEL, TIMES)

# Two processes count and one of them dies; what it had counted stays, what it was does not.
_CROWD = """
import os, signal, sys, json
from pathlib import Path
from mailsift import metrics
from jobs.meters import ATTEMPTS, CLAIM, LOOP_LAG, SWEPT, UP

folder = Path(sys.argv[1])
metrics.share_counts(folder)
metrics.attach(metrics.WORKER, role="worker")
pages = []
for number in (1, 2):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        ATTEMPTS.add("done", amount=number)
        CLAIM.observe(0.02 * number)
        UP.set(1)
        LOOP_LAG.set(float(number))
        SWEPT.set(100.0 * number)
        os.write(writer, b"!")
        signal.pause()
    os.read(reader, 1)
    pages.append(metrics.shared_page(folder).decode())
os.kill(child, signal.SIGKILL)
os.waitpid(child, 0)
pages.append(metrics.shared_page(folder).decode())
print(json.dumps(pages))
os.killpg(0, signal.SIGKILL)
"""


@pytest.fixture
def page() -> Iterator[Exposed]:
    """What a process shows that has counted a little."""
    registry = metrics.attach((metrics.BUILD, *METERS), role="api")
    CALLS.add("good")
    CALLS.add("good", amount=2.5)
    LEVEL.set(7)
    TIMES.observe(0.5)
    yield Exposed(generate_latest(registry).decode())
    metrics.detach((metrics.BUILD, *METERS))


def test_a_meter_counts_once_it_is_attached(page: Exposed) -> None:
    assert page.value("tests_calls_total", kind="good") == 3.5
    assert page.value("tests_level") == 7
    assert page.value("tests_times_seconds_bucket", le="1.0") == 1
    assert page.value("tests_times_seconds_bucket", le="0.1") == 0
    assert page.value("mailsift_build_info", role="api") == 1


def test_label_values_that_are_known_are_there_from_the_start(page: Exposed) -> None:
    assert page.values("tests_calls_total", "kind") == {"good", "bad"}
    assert page.value("tests_calls_total", kind="bad") == 0


def test_a_meter_that_is_not_attached_counts_nothing_and_takes_anything(page: Exposed) -> None:
    metrics.detach(METERS)
    CALLS.add("unheard of")
    TIMES.observe(1.0)
    registry = metrics.attach((metrics.BUILD, *METERS), role="api")
    assert Exposed(generate_latest(registry).decode()).value("tests_calls_total") == 0
    assert page.value("tests_calls_total") == 3.5


def test_all_processes_of_a_worker_are_shown_as_one_and_no_count_dies_with_its_process(
    tmp_path: Path,
) -> None:
    (tmp_path / "metrics").mkdir()
    (tmp_path / "metrics" / "counter_1.db").write_bytes(b"left over")
    done = subprocess.run(
        [sys.executable, "-c", _CROWD, str(tmp_path / "metrics")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        start_new_session=True,
    )
    assert done.stdout, done.stderr
    one, both, after = (Exposed(text) for text in json.loads(done.stdout))
    for shown, counted, alive, lag in ((one, 1, 1, 1.0), (both, 3, 2, 2.0), (after, 3, 1, 1.0)):
        assert shown.value("mailsift_chunk_attempts_total", outcome="done") == counted
        assert shown.value("mailsift_worker_up") == alive
        assert shown.value("mailsift_worker_loop_lag_seconds") == lag
    assert after.value("mailsift_chunk_claim_seconds_count") == 2
    assert after.value("mailsift_chunk_claim_seconds_sum") == pytest.approx(0.06)
    assert after.value("mailsift_sweeper_last_tick_timestamp_seconds") == 200
    assert after.values("mailsift_chunk_attempts_total", "outcome") == {
        *("done", "error", "lease_lost", "stopped")
    }


def ask(port: int, path: str, method: str = "GET") -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request(method, path)
    answer = connection.getresponse()
    told = answer.status, answer.read()
    connection.close()
    return told


def test_a_port_shows_the_metrics_and_nothing_else() -> None:
    server = MetricsServer("127.0.0.1", 0)
    server.start(lambda: b"all of it")
    assert ask(server.port, "/metrics") == (200, b"all of it")
    assert ask(server.port, "/metrics?x=1") == (200, b"all of it")
    assert ask(server.port, "/")[0] == 404
    assert ask(server.port, "/metrics", "POST")[0] == 501
    server.close()
    with pytest.raises(ConnectionRefusedError):
        ask(server.port, "/metrics")


def test_a_page_that_cannot_be_made_is_an_error_this_time_only() -> None:
    pages = [b"all of it", b""]

    def page() -> bytes:
        if made := pages.pop():
            return made
        raise ValueError("jane@example.com")

    server = MetricsServer("127.0.0.1", 0)
    server.start(page)
    status, body = ask(server.port, "/metrics")
    assert status == 500
    assert b"jane" not in body
    assert ask(server.port, "/metrics") == (200, b"all of it")
    server.close()


def test_it_listens_on_ipv6_too() -> None:
    server = MetricsServer("::1", 0)
    server.start(lambda: b"here")
    connection = http.client.HTTPConnection("::1", server.port, timeout=10)
    connection.request("GET", "/metrics")
    assert connection.getresponse().read() == b"here"
    connection.close()
    server.close()


def test_a_port_that_is_taken_is_told_at_once(tmp_path: Path) -> None:
    taken = MetricsServer("127.0.0.1", 0)
    settings = Settings(home=tmp_path, metrics_port=taken.port)
    with pytest.raises(MailsiftError) as refused, metered_worker(settings):
        pass
    taken.close()
    assert refused.value.code == "port_in_use"


def test_without_a_port_nothing_is_counted_and_nothing_listens(tmp_path: Path) -> None:
    with metered_worker(Settings(home=tmp_path)) as show:
        show()
    assert list(tmp_path.iterdir()) == []
    assert all(meter._record is None for meter in metrics.WORKER)


def test_a_customers_mail_host_is_no_label() -> None:
    assert provider_label("google") == "google"
    assert provider_label("customer.example") == "other"


def test_every_metric_is_documented_as_it_is() -> None:
    lines = (ROOT / "docs" / "metrics.md").read_text().splitlines()
    assert [line for line in lines if line.startswith("| `")] == [
        f"| `{name}` | {' | '.join(rest)} |" for name, *rest in metrics.described()
    ]


def test_names_are_unique_and_speak_of_units() -> None:
    meters = {id(meter): meter for meter in (*metrics.API, *metrics.WORKER, *metrics.INSTALLATION)}
    names = [meter.name for meter in meters.values()]
    assert len(set(names)) == len(names)
    for meter in meters.values():
        assert meter.name.startswith("mailsift_")
        assert meter.name.endswith("_total") == isinstance(meter, Counter)
        assert not meter.meaning.endswith(".")
        assert all(label.values or label.about for label in meter.labels)
