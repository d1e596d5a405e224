"""What the tests of single parts share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from tests.support.leaping_loop import LeapingLoop


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Let no test wait for a time to pass."""
    return {"leaping": LeapingLoop}
