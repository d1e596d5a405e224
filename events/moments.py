"""Times as the clock gives them and as the database keeps them."""

from __future__ import annotations

from datetime import UTC, datetime


def moment(epoch: float) -> datetime:
    """Return epoch seconds as a time in UTC."""
    return datetime.fromtimestamp(epoch, UTC)
