from __future__ import annotations

import json

import pytest

from mailsift.jobs.views import JobOptions, Priority, dump_options, load_options
from mailsift.pipeline.facts import Mode

FULL = JobOptions(
    mode=Mode.MEDIUM,
    column="e-mail",
    name="Kunden – 2026",
    evidence=True,
    max_age=60.5,
    deadline_s=3600,
    priority=Priority.HIGH,
    retention_s=86_400,
    preview=100,
    metadata={"crm": "17"},
)


@pytest.mark.parametrize("options", [JobOptions(), FULL])
def test_options_come_back_from_json_as_they_were(options: JobOptions) -> None:
    loaded = load_options(json.loads(json.dumps(dump_options(options))))
    assert loaded == options
    assert isinstance(loaded.mode, Mode)
    assert isinstance(loaded.priority, Priority)


def test_what_another_release_stored_does_not_hurt() -> None:
    assert load_options({"mode": "fast", "shoe_size": 44}) == JobOptions(mode=Mode.FAST)
