"""How the allocator of polars gives memory back; it has to be said before polars is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

FREE_AT_ONCE: Final[Mapping[str, str]] = {"_RJEM_MALLOC_CONF": "dirty_decay_ms:0,muzzy_decay_ms:0"}
"""The environment of processes that live on after their frames."""
