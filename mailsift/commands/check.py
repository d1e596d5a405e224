"""`mailsift check`: one address or a few, right now."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import polars as pl
import typer
import uvloop
from rich.console import Console
from rich.table import Table

from mailsift.installation import installation
from mailsift.settings import Settings
from mailsift.wiring import open_sifter
from pipeline import syntax
from pipeline.facts import Mode
from pipeline.frames import VERDICTS
from pipeline.sift import Request

COLOURS = {"valid": "green", "risky": "yellow", "invalid": "red"}

Addresses = Annotated[
    list[str], typer.Argument(help="Addresses to check; - reads them from stdin, one a line.")
]
ModeOption = Annotated[
    Mode,
    typer.Option(
        "--mode",
        "-m",
        help="fast: syntax and lists, no network. medium: and DNS. deep: and ask the mail server.",
    ),
]


def check(
    addresses: Addresses,
    *,
    mode: ModeOption = Mode.DEEP,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
    evidence: Annotated[bool, typer.Option("--evidence", help="Show the facts behind the verdict.")] = False,
) -> None:
    """Check addresses now and print their verdicts.

    Nobody comes back later here: a server that says "try again later" gives `deferred`.
    """
    given = (
        [line for line in sys.stdin.read().splitlines() if line.strip()] if addresses == ["-"] else addresses
    )
    if not given:
        return
    with installation(Settings.from_env(), database=False) as settings:
        rows = uvloop.run(_check(settings, given, Request(mode, evidence=evidence)))
    show = _print_json if as_json else _print_table
    show(given, rows)


async def _check(settings: Settings, given: list[str], request: Request) -> list[dict[str, Any]]:
    parsed = syntax.parse(pl.Series("raw", given, pl.String))
    numbered = parsed.with_columns(
        pl.col("address").rank("dense").cast(pl.UInt32).alias("n"), pl.lit(1, pl.UInt32).alias("rows")
    )
    distinct = numbered.unique("n", maintain_order=True)
    async with open_sifter(settings) as sifter:
        sifted = await sifter.sift(distinct, request)
    joined = numbered.select("n").join(
        sifted.finished.select("n", *VERDICTS, "evidence"), on="n", how="left", maintain_order="left"
    )
    return joined.drop("n").to_dicts()


def _print_json(given: list[str], rows: list[dict[str, Any]]) -> None:
    for email, row in zip(given, rows, strict=True):
        facts = row.pop("evidence")
        told = {"evidence": json.loads(facts)} if facts else {}
        print(json.dumps({"email": email, **row, **told}, ensure_ascii=False))  # noqa: T201 - the command's output


def _print_table(given: list[str], rows: list[dict[str, Any]]) -> None:
    console = Console()
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("address", overflow="fold")
    for name in ("status", "score", "result"):
        table.add_column(name, justify="right" if name == "score" else "left")
    table.add_column("reason", overflow="fold")
    for email, row in zip(given, rows, strict=True):
        colour = COLOURS[row["status"]]
        reason = f"{row['reason']} {row['suggestion']}".strip()
        cells = (email, f"[{colour}]{row['status']}[/]", str(row["score"]), row["result"])
        table.add_row(_plain(cells[0]), *cells[1:], _plain(reason))
    console.print(table)
    for email, row in zip(given, rows, strict=True):
        if row["evidence"]:
            console.print(f"\n[bold]{_plain(email)}[/]")
            console.print_json(row["evidence"])


def _plain(text: str) -> str:
    """Show control characters and markup of hostile input as text."""
    printable = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)
    return printable.replace("[", r"\[")
