"""How polars' allocator is told to give memory back; loads nothing, for it has to be said before polars is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

FREE_AT_ONCE: Final[Mapping[str, str]] = {"_RJEM_MALLOC_CONF": "dirty_decay_ms:0,muzzy_decay_ms:0"}
"""The environment of processes that live on after their frames."""
