"""How far ahead polars reads, how it gives memory back, and what it is loaded without: said before it is."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Final

from typing_extensions import override

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

UNUSED_FRAMES: Final = "polars.io.iceberg"
"""A format of tables; with all that it loads, a sixth of polars."""


class _Empty(ModuleType):
    @override
    def __getattr__(self, name: str) -> None:
        if name.startswith("__"):  # what tools ask of every module there is
            raise AttributeError(name)


def leave_out(name: str) -> None:
    """Let a library load without a module of its own that we use nothing of: all it holds is None then.

    No-op when it is loaded.
    """
    sys.modules.setdefault(name, _Empty(name))
