"""Webhooks of one account, on a database of their own."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.webhooks import Webhooks, open_webhooks


@pytest.fixture
async def hooks(database_url: str) -> AsyncIterator[Webhooks]:
    """A module that needs more than the database has its own."""
    async with open_webhooks(database_url) as opened:
        yield opened
