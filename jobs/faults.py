"""How an error is named in the log."""

from __future__ import annotations

import traceback
from pathlib import Path


def told(error: Exception) -> dict[str, str]:
    """Name an error and its place without its words: they may hold an address."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return {"error": f"{type(error).__module__}.{type(error).__qualname__}", "at": place}
