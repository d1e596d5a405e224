"""How much faster parse() reads a realistic list than email-validator called row by row, on one core."""

from __future__ import annotations

import argparse
import os
import random
import resource
import sys
import time
from collections.abc import Callable

_NAMES = ("jane", "Peter", "m.schmidt", "o'neil", "ana-maria", "k_lee", "info", "j.doe+news")
_BIG = ("gmail.com", "yahoo.com", "Hotmail.com", "outlook.com", "gmx.de", "orange.fr")
_BAD = (
    "{n}",
    "a b{n}@gmail.com",
    "x{n}@gmail",
    "x..y{n}@gmx.de",
    "x{n}@gmx..de",
    "{n}@",
    "@{n}.com",
    "x{n}@a.com.",
)
_WORLD = ("jörg{n}@gmx.de", "x{n}@bücher.de", '"a {n}"@gmx.de')


def realistic(rows: int) -> list[str]:
    """Return a list as customers send it: 3 % bad, 0.1 % international or quoted, 1 % with stray blanks."""
    pick = random.Random(1)
    domains = [f"{pick.choice(('mail', 'shop'))}{n}.{pick.choice(('com', 'de'))}" for n in range(rows // 18)]
    cells = []
    for n in range(rows):
        draw = pick.random()
        if draw < 0.031:
            cells.append(pick.choice(_BAD if draw < 0.03 else _WORLD).format(n=n))
            continue
        domain = pick.choice(_BIG) if pick.random() < 0.55 else pick.choice(domains)
        cells.append(f"{pick.choice(_NAMES)}{n}@{domain}" + (" " if draw > 0.99 else ""))
    return cells


def main() -> None:
    """Print both rates, the ratio and what they disagree on."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=1_000_000)
    options.add_argument("--sample", type=int, default=20_000, help="rows for email-validator")
    chosen = options.parse_args()
    os.environ["POLARS_MAX_THREADS"] = "1"  # noqa: TID251 - read by polars at import; the comparison is by core
    import polars as pl  # noqa: PLC0415 - after the line above

    from mailsift.pipeline.syntax.column import parse_column  # noqa: PLC0415
    from tests.support.envelope import email_validator_takes  # noqa: PLC0415

    cells = realistic(chosen.rows)
    column = pl.Series("raw", cells)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds = min(_timed(lambda: parse_column(column)) for _ in range(3))
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024

    sample = cells[: chosen.sample]
    started = time.perf_counter()
    verdicts = [email_validator_takes(cell.strip()) for cell in sample]
    slow = len(sample) / (time.perf_counter() - started)
    fast = chosen.rows / seconds
    differ = sum(
        a != b for a, b in zip(verdicts, parse_column(column.head(len(sample)))["rule"] == "", strict=True)
    )
    print(f"parse            {fast:12,.0f} addresses/s   {chosen.rows:,} rows, {memory:.0f} MiB")
    print(f"email-validator  {slow:12,.0f} addresses/s   {len(sample):,} rows")
    print(f"ratio            {fast / slow:12.1f}")
    print(f"disagreements    {differ:12,}")
    sys.exit(1 if differ else 0)


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
