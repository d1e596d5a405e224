"""What a process that a test starts is told of our environment: where programs are, and who counts lines."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

_HANDED_ON: Final = ("PATH", "COVERAGE_PROCESS_CONFIG")
"""The second one is there under `make cover` only."""


def environment_for(*more: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a child: these variables, and what every child needs."""
    told = {name: os.environ[name] for name in _HANDED_ON if name in os.environ}  # noqa: TID251 - for a child
    for variables in more:
        told |= variables
    return told
