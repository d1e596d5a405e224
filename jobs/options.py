"""Job options to and from the database's JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from jobs.views import JobOptions, Priority
from pipeline.facts import Mode


def dump_options(options: JobOptions) -> dict[str, Any]:
    """Return the options as JSON types."""
    return {**asdict(options), "mode": options.mode.value, "priority": options.priority.value}


def load_options(stored: Mapping[str, Any]) -> JobOptions:
    """Return the options; what an older or newer release stored beside them is left alone."""
    known = {field.name for field in fields(JobOptions)}
    values = {name: value for name, value in stored.items() if name in known}
    priority = Priority(stored.get("priority", Priority.NORMAL))
    return JobOptions(**{**values, "mode": Mode(stored["mode"]), "priority": priority})
