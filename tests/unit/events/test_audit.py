"""What is written down of a change, before a database keeps it."""

from __future__ import annotations

from typing import Any, cast
from uuid import uuid4

import pytest

from mailsift.events import audit
from mailsift.storage.database import Connection
from mailsift.storage.sql import deliveries, people


@pytest.mark.parametrize(
    ("action", "subject", "detail"),
    [
        ("schedule.create", "of jane@example.com.csv", {}),
        ("job.create", "", {"list": "jane@example.com.csv"}),
    ],
)
async def test_no_address_in_the_name_of_a_list_is_kept(
    action: str, subject: str, detail: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[object] = []

    async def keep(*values: object, **more: Any) -> None:
        kept.extend((*values[2:], *more.values()))

    async def nobody_asks(*_: object) -> bool:
        return False

    monkeypatch.setattr(people, "audit", keep)
    monkeypatch.setattr(deliveries, "is_asked_for", nobody_asks)
    await audit.record(cast("Connection", None), uuid4(), "cli", action, subject, **detail)
    assert "…" in str(kept)
    assert "jane" not in str(kept)
