"""What `mailsift serve` says of signing in."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest

from mailsift.cli import serve
from mailsift.storage.database import unavailable


async def test_a_database_that_comes_up_late_keeps_no_first_owner_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    links = SimpleNamespace(first_owner=AsyncMock(side_effect=[unavailable(), unavailable(), "secret"]))

    @asynccontextmanager
    async def opened(_: object) -> AsyncIterator[SimpleNamespace]:
        yield SimpleNamespace(people=SimpleNamespace(links=links))

    monkeypatch.setattr(serve, "open_container", opened)
    settings: Any = None
    await serve.greet(settings, "http://127.0.0.1:8025", welcome=True)
    assert "http://127.0.0.1:8025/welcome?token=secret" in capsys.readouterr().err
