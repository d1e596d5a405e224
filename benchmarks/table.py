"""Runs the comparisons with what one would write instead, and prints the rows of README's table.

    python -m benchmarks.table [--rounds N] [--rows N] [--deep-rows N]

Each row is the median of so many runs (three) of both, in turns on the same machine, with the CPU seconds of
both. The rows of peers, downloads and the API come from benchmarks.peers, .download and .single_validate.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

from benchmarks.engine import Compared, deep, medium

_WORDS = {
    "documented": "csv module, email-validator with its own DNS check, dnspython with an LRU cache",
    "tuned": "a loop tuned by hand, which asks once a domain",
    "naive": "one connection an address, as many at a time",
}


def rows_of(found: Compared) -> list[str]:
    """Return a row of the table for each of the others."""
    what = found.title.partition(" ")[2]
    cpu = found.of_ours(lambda run: sum(run.cpu.values()))
    peak = found.of_ours(lambda run: run.peak_mib)
    ours = f"{found.of_ours(lambda run: run.seconds):.1f} s, {cpu:.0f} s CPU, peak {peak:.0f} MiB"
    rows = []
    for name in found.others:
        wall, used = (
            found.of_others(name, lambda run: run.seconds),
            found.of_others(name, lambda run: run.cpu),
        )
        other = f"{wall:.1f} s, {used:.0f} s CPU: {_WORDS[name]}"
        rows.append(f"| {what} | {ours} | {other} | {found.ratio(name):.1f}x |")
    return rows


def main() -> None:
    """Run them all, then print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.table", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=1_000_000, help="in medium")
    parser.add_argument("--deep-rows", type=int, default=20_000)
    chosen = parser.parse_args()
    rounds = chosen.rounds
    with tempfile.TemporaryDirectory(prefix="ms-lists-") as folder:
        compared = [
            medium(Path(folder), chosen.rows, rounds),
            deep(Path(folder), chosen.deep_rows, 20, rounds),
        ]
    print(f"Medians of {rounds}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the end.")
    print("Ours: servers and worker up and warm, no fact known. The others start cold and use one core.\n")
    print("| what | Mailsift | the other | ratio |\n|---|---|---|---|")
    print("\n".join(row for found in compared for row in rows_of(found)))


if __name__ == "__main__":
    main()
