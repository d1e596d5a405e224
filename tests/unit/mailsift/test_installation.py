"""The servers and the worker a command brings along."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from pydantic import SecretStr

from mailsift.pipeline.errors import MailsiftError
from mailsift.runtime.embedded import installation
from mailsift.runtime.local_worker import MOST_YOUNG_DEATHS, LocalWorker
from mailsift.settings import Settings


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    for name, _, _ in Settings.describe():
        monkeypatch.delenv(name, raising=False)
    return Settings(
        home=tmp_path / "new" / "home",
        database_url=SecretStr("postgresql://nobody@127.0.0.1:1/gone"),
        redis_url=SecretStr("redis://127.0.0.1:1"),
    )


def test_configured_servers_are_used_as_they_are_and_nothing_is_started(settings: Settings) -> None:
    with installation(settings) as found:
        assert found is settings
    assert not settings.home.exists()


def test_a_worker_gets_our_settings_and_none_of_the_environments(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAILSIFT_BLOB_URL", "s3://elsewhere")
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    environment = LocalWorker(settings).environment
    assert environment["MAILSIFT_HOME"] == str(settings.home)
    assert environment["AWS_REGION"] == "eu-central-1"
    assert "MAILSIFT_BLOB_URL" not in environment


def test_a_worker_that_keeps_dying_is_given_up_with_where_it_says_why(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    worker = LocalWorker(settings)
    for _ in range(MOST_YOUNG_DEATHS):
        worker.ensure()
        assert worker.process is not None
        worker.process.wait()
    with pytest.raises(MailsiftError, match=r"worker\.log says why") as failed:
        worker.ensure()
    assert failed.value.code == "worker_failed"
    assert (settings.home / "worker.log").exists()
    worker.stop()


def test_a_home_that_cannot_be_made_is_told_in_a_line(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "new").write_text("no folder")
    with pytest.raises(MailsiftError, match="home") as failed:
        LocalWorker(settings).ensure()
    assert failed.value.code == "worker_failed"


def test_a_worker_that_dies_now_and_then_is_replaced_for_ever(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    worker, pids = LocalWorker(settings, young_s=0.0), set()
    for _ in range(10):
        worker.ensure()
        assert worker.process is not None
        pids.add(worker.process.pid)
        worker.process.wait()
    assert len(pids) == 10
    worker.stop()


def test_a_worker_that_runs_is_left_alone_until_it_is_stopped(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = tmp_path / "sleeper"
    script.write_text("#!/bin/sh\nexec sleep 60\n")
    script.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(script))
    worker = LocalWorker(settings)
    worker.ensure()
    process = worker.process
    worker.ensure()
    assert worker.process is process
    assert process is not None
    worker.stop()
    worker.stop()
    assert process.returncode == -15
