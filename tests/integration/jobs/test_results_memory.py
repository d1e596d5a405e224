"""What is made of the results of a long list is made in memory that does not grow with its rows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from mailsift.jobs.columns import VERDICT_PREFIX, column_id, names_metadata
from mailsift.pipeline.allocator import FREE_SOON, LITTLE_AHEAD
from mailsift.pipeline.frames import VERDICTS

MEASURED = """
import re
import sys
from pathlib import Path

from mailsift.jobs.results import breakdown, browse, export, parts

def peak():
    status = re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())
    return int(status[1]) // 1024

def work(results):
    if sys.argv[1] == "retry":
        parts.rows_to_retry(results, results.with_suffix(".again"), "email")
    elif sys.argv[1] == "diff":
        breakdown.compare_runs(results, results, ("email", "email"), limit=100)
    elif sys.argv[1] == "xlsx":
        export.export(results, results.with_suffix(".xlsx"), format=export.ExportFormat.XLSX)
    else:
        files = browse.ResultFiles(results, results, 0, results=results)
        asked = browse.PageRequest(50, after=9, sort=browse.SortBy.EMAIL)
        browse.read_page(files, browse.RowFilter(), asked)

few, many = map(Path, sys.argv[2:])
work(few)
before = peak()
work(many)
print(peak() - before)
"""


NOTHING = {pl.Boolean: False, pl.String: "", pl.UInt8: 0, pl.UInt16: 0}


def results(path: Path, rows: int, *, more: str = "") -> Path:
    """Write the results of a list that came to nothing, with these words more in each of three columns."""
    n = pl.int_range(rows).alias("n")
    words = {
        column_id(place): pl.format("{} of some words in a row {}{}", n, place, pl.lit(more))
        for place in range(1, 4)
    }
    verdict = {name: pl.lit(NOTHING[dtype]).cast(dtype) for name, dtype in VERDICTS.items()}
    verdict |= {"status": pl.lit("risky"), "result": pl.lit("deferred")}
    pl.LazyFrame().select(
        pl.format("person{}@example.org", n).alias(column_id(0)),
        **words,
        **{f"{VERDICT_PREFIX}{name}": value for name, value in verdict.items()},
    ).sink_parquet(path, row_group_size=16_384, metadata=names_metadata(["email", *"abc"]))
    return path


def growth(work: str, few: Path, many: Path) -> int:
    """Return by how many MiB the peak of a process grows with the second of two files."""
    measured = subprocess.run(
        [sys.executable, "-c", MEASURED, work, few, many],
        env={**FREE_SOON, **LITTLE_AHEAD, "POLARS_MAX_THREADS": "2"},
        capture_output=True,
        text=True,
        check=True,
    )
    return int(measured.stdout)


@pytest.mark.parametrize(("work", "most"), [("retry", 100), ("diff", 250), ("sorted", 40)])
def test_a_long_list_takes_no_more_memory_than_a_short_one(work: str, most: int, tmp_path: Path) -> None:
    few, many = results(tmp_path / "few", 40_000), results(tmp_path / "many", 1_200_000)
    assert growth(work, few, many) < most


def test_a_workbook_of_long_cells_takes_little_more_than_they_do(tmp_path: Path) -> None:
    few, many = results(tmp_path / "few", 1_000), results(tmp_path / "many", 1_000, more=" words" * 5_000)
    assert growth("xlsx", few, many) < 300
