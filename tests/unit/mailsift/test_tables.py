"""Jobs, keys and what was measured in a narrow terminal: what the other commands take stands there whole."""

from __future__ import annotations

import io
from dataclasses import replace
from uuid import UUID

import pytest
from rich.console import Console
from rich.table import Table

from mailsift.cli.jobs import job_table
from mailsift.cli.keys import key_table
from mailsift.cli.outcomes import accuracy_table
from mailsift.jobs.outcomes.accuracy import AccuracyRow, GroupBy
from mailsift.pipeline.outcomes.chances import MeasuredShare
from mailsift.storage.sql.keys import KeyRow
from tests.support.job_views import RUNNING, START

JOB = replace(
    RUNNING, name="customers-2026-november-final.csv", total=1_000_000, processed=120_000, valid=100_000
)
KEY = KeyRow(
    id=UUID(int=2**127),
    account_id=UUID(int=1),
    name="the nightly import of our shop",
    hint="svc_key_abcd…wxyz",
    scopes=("jobs:read", "jobs:write"),
    created_at=START,
    expires_at=None,
    last_used_at=None,
    revoked_at=START,
    rotated_to=None,
)


def lines(table: Table, width: int) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width).print(table)
    return out.getvalue().splitlines()


@pytest.mark.parametrize(
    ("table", "whole"),
    [
        (
            job_table([JOB], is_wide=False),
            [str(JOB.id)[:8], "running 12 %", "customers-2026-no…", "1,000,000"],
        ),
        (key_table([KEY], is_wide=False), [str(KEY.id), KEY.hint, "the nightl…", "revoked"]),
    ],
)
def test_a_narrow_terminal_shows_what_matters_on_one_line(table: Table, whole: list[str]) -> None:
    _, row = lines(table, 80)
    assert [piece for piece in whole if piece not in row] == []


@pytest.mark.parametrize("width", [40, 80])
def test_of_what_was_measured_no_number_is_cut_off(width: int) -> None:
    share = MeasuredShare(0.991, 0.985, 0.996, 800_012)
    row = AccuracyRow(("microsoft365", "mailbox_not_found"), 800_012, 3, share, share, share, share, share)
    shown = lines(accuracy_table([row], [GroupBy.PROVIDER, GroupBy.RESULT]), width)
    assert "…" not in "".join(shown)


def test_a_wide_one_shows_everything() -> None:
    _, row = lines(job_table([JOB], is_wide=True), 120)
    assert "customers-2026-november-final.csv" in row
    assert "2026-11-21" in row
    _, row = lines(key_table([KEY], is_wide=True), 150)
    assert "jobs:read jobs:write" in row
