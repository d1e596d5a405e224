"""Results as XLSX beside the library one would take: texts only, in one run.

python -m benchmarks.sheets [--rows N] [--columns N]
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl
import xlsxwriter

from mailsift.jobs.results.export import write_sheet


def invented(rows: int, columns: int) -> pl.DataFrame:
    """Return texts as lists have them: numbers, names, addresses, words that repeat."""
    number = pl.int_range(rows, dtype=pl.UInt32).cast(pl.String)
    kinds = (
        number,
        pl.format("person{}@company{}.example", number, number.str.slice(0, 3)),
        pl.format("Company {} & Sons", number),
        pl.lit("The mail server accepted the address and refused a random one."),
        pl.lit("deliverable"),
        pl.lit(""),
    )
    return pl.select(kinds[place % len(kinds)].alias(f"c{place}") for place in range(columns))


def ours(frame: pl.DataFrame, out: Path) -> None:
    """Write it as results are written."""
    with out.open("wb") as file:
        write_sheet(frame.lazy(), frame.columns, file)


def theirs(frame: pl.DataFrame, out: Path) -> None:
    """Write it with xlsxwriter, row after row in constant memory."""
    with xlsxwriter.Workbook(out, {"constant_memory": True}) as book:
        sheet = book.add_worksheet()
        for row, values in enumerate(frame.iter_rows()):
            for place, value in enumerate(values):
                sheet.write_string(row, place, value)


def main() -> None:
    """Time both; the library on a tenth of the rows."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sheets", description=__doc__)
    parser.add_argument("--rows", type=int, default=10**6, help="ours; the library writes a tenth")
    parser.add_argument("--columns", type=int, default=20)
    args = parser.parse_args()
    rows, columns = args.rows, args.columns
    frame = invented(rows, columns)
    ways: dict[str, tuple[Callable[[pl.DataFrame, Path], None], pl.DataFrame]] = {
        "mailsift": (ours, frame),
        "xlsxwriter": (theirs, frame.head(max(1, rows // 10))),
    }
    print(f"XLSX, {columns} columns of texts; load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory(prefix="ms-sheets-") as folder:
        for name, (write, part) in ways.items():
            out, wall, cpu = Path(folder) / f"{name}.xlsx", time.perf_counter(), time.process_time()
            write(part, out)
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            size = out.stat().st_size / 2**20
            print(f"    {name:10} {part.height:>9,} rows: {wall:6.1f} s, {cpu:6.1f} s CPU", end="")
            print(f" ({1e6 * cpu / part.height:5.1f} us a row), {size:.0f} MiB")


if __name__ == "__main__":
    main()
