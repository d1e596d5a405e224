"""How far ahead polars reads, and how it gives memory back; to be set before polars is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

FREE_SOON: Final[Mapping[str, str]] = {"_RJEM_MALLOC_CONF": "dirty_decay_ms:300,muzzy_decay_ms:0,narenas:1"}
"""The environment of processes whose frames come and go: pages stay for the next frame of any thread, but not
for long. To give them back at once costs a worker five times as many page faults, a tenth of its time."""

LITTLE_AHEAD: Final[Mapping[str, str]] = {
    "POLARS_CSV_CHUNK_SIZE": str(2 << 20),  # bytes
    "POLARS_IDEAL_MORSEL_SIZE": str(1 << 12),  # rows
    "POLARS_INFLIGHT_SINK_MORSEL_LIMIT": "2",
    "POLARS_ROW_GROUP_PREFETCH_SIZE": "1",
}
"""The environment of processes that stream files from a disk: by itself polars has hundreds of megabytes of
them in memory before anybody wants them, and is no faster for it."""
