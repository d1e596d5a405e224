"""Jobs, keys and what was measured in a narrow terminal: what the other commands take stands there whole."""

from __future__ import annotations

import io
from dataclasses import replace
from uuid import UUID

import pytest
from rich.console import Console
from rich.table import Table

from mailsift.cli.accounts import key_table
from mailsift.cli.jobs import job_fields_table, job_table
from mailsift.cli.ops import ledger_table, throttle_table
from mailsift.cli.outcomes import accuracy_table
from mailsift.jobs.admin.console import LedgerRow, ThrottleRow
from mailsift.jobs.outcomes.accuracy import AccuracyRow, GroupBy
from mailsift.jobs.views import WAITS_FOR_STORAGE
from mailsift.pipeline.outcomes.chances import MeasuredShare
from mailsift.pipeline.providers import Provider
from mailsift.pipeline.throttle import LedgerCounts, LedgerKind, SessionOutcome, Standing
from mailsift.storage.redis.throttle import LearnedRate
from mailsift.storage.sql.chunks import Waiting
from mailsift.storage.sql.keys import KeyRow
from mailsift.storage.sql.throttles import ThrottleEdit
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
    table = lines(accuracy_table([row], [GroupBy.PROVIDER, GroupBy.RESULT]), width)
    assert "…" not in "".join(table)


@pytest.mark.parametrize("width", [80, 200])
def test_of_what_providers_are_asked_nothing_is_cut_off(width: int) -> None:
    host, source = "mx.mail-gateway.example-of-a-provider.com", "2001:db8:85a3:1234:5678:8a2e:370:7334"
    base, is_wide = Provider(host), width == 200
    counts = dict.fromkeys(LedgerKind, 1_234_567)
    learned = LearnedRate(host, source, closed_s=7_200, mix=dict.fromkeys(SessionOutcome, 123_456))
    edit = ThrottleEdit(host, source, edited_by="ada.lovelace@engines.example.com")
    throttle = ThrottleRow(learned, base, base, held=False, edit=edit, waiting=1_234_567)
    asked = LedgerRow(host, source, LedgerCounts(counts), Standing(-3), 0.05)
    for table in (throttle_table([throttle], is_wide=is_wide), ledger_table([asked], is_wide=is_wide)):
        head, *rows = lines(table, width)
        assert "".join(row[: head.index("source")].strip() for row in rows) == host
        assert "1,234,567" in rows[0]
        assert "…" not in "".join(rows)


def test_a_wide_one_shows_everything() -> None:
    _, row = lines(job_table([JOB], is_wide=True), 120)
    assert "customers-2026-november-final.csv" in row
    assert "2026-11-21" in row
    _, row = lines(key_table([KEY], is_wide=True), 150)
    assert "jobs:read jobs:write" in row


def test_a_job_is_shown_in_words_not_in_python_s() -> None:
    waits = (Waiting("google", "greylisted", 1_200, START), Waiting("", WAITS_FOR_STORAGE, 0, START))
    table = [line.rstrip() for line in lines(job_fields_table(replace(JOB, waiting=waits)), 120)]
    at = f"{START.astimezone():%H:%M:%S}"
    assert table[-2].split(maxsplit=1) == ["waiting", f"1,200 addresses, greylisted at google, until {at}"]
    assert table[-1].strip().startswith(f"storage until {at} (is a disk full")
    (tiers,) = (line for line in table if line.startswith("tiers"))
    assert tiers.split(maxsplit=1)[1] == "send 390, review 40, remove 70"


def test_what_a_list_calls_itself_and_its_column_moves_no_cursor() -> None:
    view = replace(JOB, name="\x1b[2Jlist.csv", address_column="email\x1b]0;title\x07\u202e")
    table = [*lines(job_table([view], is_wide=True), 120), *lines(job_fields_table(view), 120)]
    assert all(line.isprintable() for line in table)
    assert sum("list.csv" in line for line in table) == 2
