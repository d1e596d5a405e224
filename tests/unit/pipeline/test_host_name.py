"""What this host calls itself where nobody has said how it greets."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from mailsift.pipeline.probe import config
from mailsift.pipeline.probe.config import host_name
from mailsift.settings import Settings


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    host_name.cache_clear()
    yield
    host_name.cache_clear()


@pytest.fixture
def silent_resolver(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A resolver that never answers; gives the questions it got."""
    asked: list[str] = []
    over = threading.Event()

    def getfqdn() -> str:
        asked.append("who am I?")
        over.wait(10)
        return "late.example.com"

    monkeypatch.setattr(socket, "getfqdn", getfqdn)
    monkeypatch.setattr(socket, "gethostname", lambda: "short")
    monkeypatch.setattr(config, "_HOST_NAME_SECONDS", 0.01)
    monkeypatch.delenv("MAILSIFT_HELO_NAME", raising=False)
    yield asked
    over.set()


def test_settings_are_read_without_a_resolver(silent_resolver: list[str]) -> None:
    settings = Settings.from_env()
    assert settings.helo_name
    assert settings.given_helo_name == ""
    assert "MAILSIFT_HELO_NAME" not in {name for name, value in settings.environment().items() if value}
    assert silent_resolver == []


def test_a_silent_resolver_is_asked_once_and_not_waited_for(silent_resolver: list[str]) -> None:
    assert [Settings().greeting(), Settings().greeting()] == ["short", "short"]
    assert silent_resolver == ["who am I?"]


def test_a_name_that_no_resolver_can_be_asked_about_is_passed_over_in_silence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "a" * 64)
    assert host_name() == "localhost"
    assert capsys.readouterr().err == ""


def test_a_name_that_is_set_is_the_one(silent_resolver: list[str]) -> None:
    settings = Settings(helo_name="mail.example.com")
    assert settings.greeting() == settings.helo_name == "mail.example.com"
    assert settings.environment()["MAILSIFT_HELO_NAME"] == "mail.example.com"
    assert silent_resolver == []


@pytest.mark.parametrize(
    ("full", "short", "greets"),
    [
        ("web1.example.com", "web1", "web1.example.com"),
        ("büro.example.com", "web1", "web1"),
        ("bü ro", "bü ro", "localhost"),
        ("", "web1", "web1"),
    ],
)
def test_what_no_greeting_can_hold_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, full: str, short: str, greets: str
) -> None:
    monkeypatch.setattr(socket, "getfqdn", lambda: full)
    monkeypatch.setattr(socket, "gethostname", lambda: short)
    assert host_name() == greets
