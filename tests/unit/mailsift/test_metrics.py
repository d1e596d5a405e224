"""What processes show to Prometheus: alone, shared by the processes of a worker, and their page."""

from __future__ import annotations

import http.client
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import Metric, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from typing_extensions import override

from mailsift import gauges, metrics
from mailsift.cli.operate import share_counts
from mailsift.jobs.metrics import LEASES_EXPIRED
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.metrics import provider_label
from mailsift.settings import Settings
from tests.support.exposition import Exposed, documented, sample_name


def test_a_process_shows_what_it_counts_and_what_it_is() -> None:
    registry = metrics.registry_of(metrics.SWEEPER, role="sweeper")
    before = Exposed(generate_latest(registry).decode())
    LEASES_EXPIRED.labels("chunk").inc()
    page = Exposed(generate_latest(registry).decode())
    assert page.values("mailsift_build_info", "role") == {"sweeper"}
    expired = [
        exposition.value("mailsift_lease_expired_total", kind="chunk") for exposition in (before, page)
    ]
    assert expired[1] == expired[0] + 1
    assert "mailsift_addresses_total" not in page.samples
    assert not [name for name in page.samples if name.endswith("_created")]


def test_a_number_that_somebody_elses_process_has_by_now_is_of_none_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_pid: int, _signal: int) -> None:
        raise PermissionError

    (level := tmp_path / "gauge_livesum_4242.db").touch()
    monkeypatch.setattr(os, "kill", refuse)
    assert not list(metrics.SharedCounts(tmp_path).collect())
    assert not level.exists()


def ask(port: int, path: str, method: str = "GET") -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request(method, path)
    answer = connection.getresponse()
    scrape = answer.status, answer.read()
    connection.close()
    return scrape


class Level(Collector):
    """A gauge that cannot be read at first."""

    def __init__(self, *errors: Exception) -> None:
        self._errors = list(errors)

    @override
    def collect(self) -> Iterator[Metric]:
        if self._errors:
            raise self._errors.pop()
        yield GaugeMetricFamily("level", "Level", 7)


def test_a_port_shows_the_metrics_and_nothing_else() -> None:
    port = metrics.MetricsPort("127.0.0.1", 0)
    port.show(Level())
    status, body = ask(port.port, "/metrics")
    assert (status, Exposed(body.decode()).value("level")) == (200, 7)
    assert ask(port.port, "/metrics?x=1")[0] == 200
    assert ask(port.port, "/")[0] == 404
    assert ask(port.port, "/metrics", "POST")[0] == 405
    port.close()
    with pytest.raises(ConnectionRefusedError):
        ask(port.port, "/metrics")


def test_a_page_that_cannot_be_made_is_an_error_this_time_only(capfd: pytest.CaptureFixture[str]) -> None:
    port = metrics.MetricsPort("127.0.0.1", 0)
    port.show(Level(ValueError("jane@example.com")))
    status, body = ask(port.port, "/metrics")
    assert status == 500
    assert b"jane" not in body
    assert ask(port.port, "/metrics")[0] == 200
    port.close()
    assert "jane" not in capfd.readouterr().err


def test_it_listens_on_ipv6_too() -> None:
    port = metrics.MetricsPort("::1", 0)
    port.show(Level())
    connection = http.client.HTTPConnection("::1", port.port, timeout=10)
    connection.request("GET", "/metrics")
    assert b"level 7" in connection.getresponse().read()
    connection.close()
    port.close()


def test_a_port_that_is_taken_is_told_at_once(tmp_path: Path) -> None:
    taken = metrics.MetricsPort("127.0.0.1", 0)
    settings = Settings(home=tmp_path, metrics_port=taken.port)
    with pytest.raises(MailsiftError) as refused, metrics.metered_worker(settings, tmp_path):
        pass
    taken.close()
    assert refused.value.code == "port_in_use"


def test_without_a_port_nothing_is_kept_and_nothing_listens(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    with metrics.metered_worker(settings, share_counts(settings)) as show:
        show()
    assert list(tmp_path.iterdir()) == []


def test_a_customers_mail_host_is_no_label() -> None:
    assert provider_label("google") == "google"
    assert provider_label("customer.example") == "other"


def test_every_metric_is_documented_as_it_is() -> None:
    shown_by = {
        "API": (*metrics.API, *gauges.METRICS),
        "worker": metrics.WORKER,
        "sweeper": metrics.SWEEPER,
    }
    known = {metric: family for of in shown_by.values() for metric in of for family in metric.describe()}
    expected = {
        sample_name(family): (
            family.type,
            family.documentation,
            ", ".join(role for role, of in shown_by.items() if metric in of),
        )
        for metric, family in known.items()
    }
    assert len(expected) == len(known)
    assert {one.name: (one.type, one.meaning, one.shown_by) for one in documented()} == expected


def test_what_is_there_from_the_start_is_what_labels_are_documented_to_be() -> None:
    possible = {one.name: one.labels for one in documented()}
    for metric in (*metrics.API, *metrics.WORKER, *gauges.METRICS):
        for family in metric.collect():
            for sample in family.samples:
                labels = {name: value for name, value in sample.labels.items() if name != "le"}
                known = possible[sample_name(family)]
                assert list(known) == list(labels)
                assert all(value in known[name] for name, value in labels.items() if known[name])


def test_names_speak_of_units() -> None:
    for one in documented():
        assert one.name.startswith("mailsift_")
        assert one.name.endswith("_total") == (one.type == "counter")
        assert not one.meaning.endswith(".")
