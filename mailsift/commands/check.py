"""`mailsift check`: one address or a few, right now."""

from __future__ import annotations

import io
import json
import sys
from typing import Annotated, Any

import polars as pl
import typer
import uvloop
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mailsift.installation import installation
from mailsift.progress import console as stderr
from mailsift.progress import warning
from mailsift.settings import Settings
from mailsift.wiring import open_sifter
from pipeline import syntax
from pipeline.facts import Mode
from pipeline.frames import VERDICTS
from pipeline.sift import Request
from pipeline.verdict import Result

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
    max_age: Annotated[
        float,
        typer.Option(
            "--max-age",
            min=0,
            metavar="SECONDS",
            help="Use mailbox verdicts again that are younger; 0: always ask.",
        ),
    ] = 0.0,
) -> None:
    """Check addresses now and print their verdicts.

    Nobody comes back later here: a server that says "try again later" gives `deferred`.
    """
    given = _from_stdin() if addresses == ["-"] else [_readable(address) for address in addresses]
    if not given:
        return
    with installation(Settings.from_env(), database=False) as settings:
        rows = uvloop.run(_check(settings, given, Request(mode, evidence=evidence, max_age=max_age)))
    if any(row["result"] == Result.PROBE_UNAVAILABLE for row in rows):
        stderr.print(warning(Result.PROBE_UNAVAILABLE), soft_wrap=True)
    show = _print_json if as_json else _print_table
    show(given, rows)


def _from_stdin() -> list[str]:
    text = sys.stdin.buffer.read().decode("utf-8-sig", errors="replace")
    return [line.rstrip("\n") for line in io.StringIO(text, newline=None) if line.strip()]


def _readable(argument: str) -> str:
    """Replace the bytes of an argument that are no UTF-8."""
    return argument.encode("utf-8", errors="surrogateescape").decode("utf-8", errors="replace")


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
        status = Text(row["status"], style=COLOURS[row["status"]])
        reason = f"{row['reason']} {row['suggestion']}".strip()
        table.add_row(_plain(email), status, str(row["score"]), row["result"], _plain(reason))
    console.print(table)
    for email, row in zip(given, rows, strict=True):
        if row["evidence"]:
            console.print(Text("\n").append(_plain(email)), style="bold")
            console.print_json(row["evidence"])


def _plain(text: str) -> Text:
    """Show hostile input as text: no markup, no emoji codes, no control characters."""
    return Text("".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text))
