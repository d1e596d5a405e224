"""The process that takes a first look at one customer's file and then ends (jobs.intake.look)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jobs.intake.child import answer
from jobs.intake.plan import IntakeLimits


def _look(request: Mapping[str, Any], limits: IntakeLimits) -> dict[str, Any]:
    # Only now: polars reserves its memory and threads when it is imported, inside the limits.
    from jobs.intake.look import look_at  # noqa: PLC0415

    return look_at(Path(request["source"]), Path(request["workdir"]), limits)


if __name__ == "__main__":
    answer(_look)
