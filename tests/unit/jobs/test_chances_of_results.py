"""The chances that messages arrive, written beside the rows of results."""

from __future__ import annotations

import random
from pathlib import Path

import polars as pl
import pytest

from mailsift.jobs.columns import JUDGED_ADDRESS, VERDICT_PREFIX, names_metadata
from mailsift.jobs.outcomes.accuracy import AccuracyRow, GroupBy, add_chances, tally, to_csv
from mailsift.pipeline.outcomes.chances import Cell, Chances
from mailsift.pipeline.outcomes.outcome import Fate

KNOWN = {"valid": "deliverable", "risky": "catch_all", "invalid": "mailbox_not_found"}
CHANCES = Chances(
    tally(
        (Cell(status, result, provider, 90), fate, n)
        for status, result in KNOWN.items()
        if status != "invalid"  # of those nobody knows anything
        for provider, fate, n in (
            ("google", Fate.DELIVERED, 900),
            ("", Fate.DELIVERED, 50),
            ("", Fate.GONE, 50),
        )
    ),
    {},
)


@pytest.mark.parametrize("kept", [True, False], ids=["with addresses", "of an older release"])
def test_each_row_of_a_long_list_has_the_chance_of_its_own_provider(kept: bool, tmp_path: Path) -> None:
    dice, rows, out = random.Random(3), tmp_path / "results", tmp_path / "out"
    domains = {f"d{n}.example": "google" if n % 3 else "" for n in range(7_000)}
    addresses = [f"p@{domain}" for domain in [*domains, "unknown.example"] * 3] + ["", "p@"]
    dice.shuffle(addresses)
    statuses = dice.choices(list(KNOWN), k=len(addresses))
    frame = pl.DataFrame(
        {
            "c0": [str(n) for n in range(len(addresses))],
            JUDGED_ADDRESS: addresses,
            f"{VERDICT_PREFIX}status": statuses,
            f"{VERDICT_PREFIX}result": [KNOWN[status] for status in statuses],
            f"{VERDICT_PREFIX}score": pl.Series([90] * len(addresses), dtype=pl.UInt8),
        }
    )
    frame = frame if kept else frame.drop(JUDGED_ADDRESS)
    frame.write_parquet(rows, row_group_size=1_000, metadata=names_metadata(["email"]))
    table = pl.DataFrame({"domain": list(domains), "provider": list(domains.values())})
    add_chances(rows, table, CHANCES, out)
    found = pl.read_parquet(out)
    assert found.select(frame.columns).equals(frame)
    for row, address, status in zip(found.iter_rows(named=True), addresses, statuses, strict=True):
        provider = domains.get(address.rpartition("@")[2], "") if kept else ""
        expected = CHANCES.of(Cell(status, KNOWN[status], provider, 90))
        chance = tuple(row[f"{VERDICT_PREFIX}{name}"] for name in ("p", "p_low", "p_high"))
        assert chance == ((expected.value, expected.low, expected.high) if expected else (None, None, None))
    assert found[f"{VERDICT_PREFIX}p"].n_unique() == (3 if kept else 2)


def test_a_report_opens_safely_in_a_spreadsheet() -> None:
    row = AccuracyRow(("=cmd.example", "deep"), 7, 0, None, None, None, None, None)
    line = to_csv([row], [GroupBy.PROVIDER, GroupBy.MODE]).splitlines()[1]
    assert line.startswith("'=cmd.example,deep,7,0,")
