"""Fixtures of the tests that type commands."""

from __future__ import annotations

import pytest

from tests.support.commands import Keyboard


@pytest.fixture
def keyboard(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Keyboard:
    return Keyboard(monkeypatch, capsys)
