"""The list everybody gets: distinct and well-formed addresses of a world, and the truth about them.

In a calm one no DNS server makes anybody wait, so that everybody can be right about every row that is
valid or invalid in truth; a hostile one has every behaviour of the sandbox. International addresses are left
out: they would measure IDNA and SMTPUTF8.
"""

from __future__ import annotations

import csv
from pathlib import Path

from benchmarks.sandboxed import SEED
from mailsift.sandbox.listing import write_list
from mailsift.sandbox.world import SandboxWorld, WorldMix

ADDRESSES_A_DOMAIN = 10
_SURPLUS = 1.2  # rows written for each that stays; the others are repeated, malformed or international


def domains_of(rows: int) -> int:
    """Return how many business domains the world of so many addresses has."""
    return max(50, rows // ADDRESSES_A_DOMAIN)


def write_rows(folder: Path, rows: int, mix: WorldMix) -> None:
    """Write `list.csv` (email) and `truth.csv` (email, status) of such a world into the folder."""
    world = SandboxWorld(seed=SEED, domains=domains_of(rows), mix=mix)
    source = write_list(world, folder / "all.csv", rows=int(rows * _SURPLUS) + 100)
    with source.open(newline="", encoding="utf-8") as given:
        truths = {
            row["email"]: row["deep"]
            for row in csv.DictReader(given)
            if row["fast"] != "invalid" and _is_plain(row["email"])
        }
    kept = list(truths.items())[:rows]
    with (folder / "list.csv").open("w", newline="", encoding="utf-8") as made:
        csv.writer(made).writerows([["email"], *([email] for email, _ in kept)])
    with (folder / "truth.csv").open("w", newline="", encoding="utf-8") as made:
        csv.writer(made).writerows([["email", "status"], *kept])


def _is_plain(address: str) -> bool:
    return address.isascii() and "@xn--" not in address


def read_statuses(path: Path, column: str) -> dict[str, str]:
    """Return address -> status from a CSV file with columns `email` and this one."""
    with path.open(newline="", encoding="utf-8") as given:
        return {row["email"]: row[column] for row in csv.DictReader(given)}


def gateway_addresses(rows: int, domain: str = "gateway.sandbox.test") -> list[str]:
    """Return addresses at a watchful gateway of the sandbox, the first 30 % unknown there: an old import."""
    return [f"{'nobody' if n < 0.3 * rows else 'known'}{n}@{domain}" for n in range(rows)]
