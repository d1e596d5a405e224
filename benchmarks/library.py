"""`mailsift.check_many` beside the engine: the same list to a result file, CPU seconds, and every verdict.

The library is one process that begins with nothing loaded; the engine an installation that is up and warm.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import polars as pl

from benchmarks.engine import OVERRIDES
from benchmarks.measured import Measured, measure
from benchmarks.sandboxed import calm_list, calm_sandbox, home, run_job
from mailsift.pipeline.frames import VERDICTS

_LIBRARY = """
import sys, polars, mailsift
source, mode, out = sys.argv[1:]
listed = polars.read_csv(source, infer_schema=False)
mailsift.check_many(listed, column="email", mode=mode, prefix="mailsift_").write_csv(out)
"""
_IMPORT = "import time; began = time.process_time(); import mailsift; print(time.process_time() - began)"
_IMPORTS = 9


def import_seconds() -> float:
    """Return the CPU seconds of `import mailsift` in a fresh process, the median of some."""
    command = [sys.executable, "-c", _IMPORT]
    return median(float(subprocess.check_output(command)) for _ in range(_IMPORTS))


def run_library(folder: Path, environment: dict[str, str], source: Path, mode: str) -> Measured:
    """Check the list in one process, its start and the result file included."""
    command = [sys.executable, "-c", _LIBRARY, str(source), mode, str(folder / "library.csv")]
    return measure(command, environment=environment)


def different_rows(folder: Path) -> tuple[int, int]:
    """Return how many rows the two results have, and how many differ in any of the 13 fields."""
    fields = [f"mailsift_{name}" for name in VERDICTS]
    ours, theirs = (
        pl.read_csv(folder / name, infer_schema=False).select("mailsift_address", *fields)
        for name in ("library.csv", "out.csv")
    )
    if ours.height != theirs.height:
        raise SystemExit(f"{ours.height:,} rows and {theirs.height:,}")
    same = pl.concat(
        [ours.select(fields), theirs.select(pl.all().name.suffix("_"))], how="horizontal"
    ).select(pl.all_horizontal(pl.col(name).eq_missing(pl.col(f"{name}_")) for name in fields))
    return ours.height, int((~same.to_series()).sum())


def compare(source: Path, domains: int, mode: str, rounds: int) -> None:
    """Run both in turns and print what they took."""
    ours: list[Measured] = []
    theirs: list[float] = []
    rows = different = 0
    with calm_sandbox(domains) as sandbox:
        for _ in range(rounds):
            with home(sandbox, OVERRIDES) as (folder, environment):
                _, summary = run_job(folder, environment, source, mode)
                theirs.append(sum(summary["cpu"].values()))
                ours.append(run_library(folder, environment, source, mode))
                rows, different = different_rows(folder)
    mine, others = median(run.cpu for run in ours), median(theirs)
    wall, peak = median(run.seconds for run in ours), max(run.peak_mib for run in ours)
    print(f"{mode}, {rows:,} rows, {domains:,} domains; median of {rounds}, load {os.getloadavg()[0]:.1f}")
    print(f"    library {mine:6.2f} s CPU, {wall:6.2f} s, peak {peak:.0f} MiB, one process, start included")
    print(f"    engine  {others:6.2f} s CPU, all processes: the library takes {mine / others:.2f} x")
    print(f"    {different:,} rows differ")
    if different:
        raise SystemExit(1)


def main() -> None:
    """Compare, in modes fast and medium."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3, help="of each, in turns; medians are printed")
    parser.add_argument("--modes", default="fast,medium")
    chosen = parser.parse_args()
    print(f"import mailsift: {1000 * import_seconds():.0f} ms CPU")
    with tempfile.TemporaryDirectory(prefix="ms-library-") as scratch:
        domains = max(500, chosen.rows * 57 // 1000)
        calm_list(Path(scratch) / "list.csv", chosen.rows, domains)
        for mode in chosen.modes.split(","):
            compare(Path(scratch) / "list.csv", domains, mode, chosen.rounds)


if __name__ == "__main__":
    main()
