"""`mailsift accuracy`: how often verdicts were right, by what happened to messages after them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.table import Table

from mailsift.api.v1.accuracy import to_csv
from mailsift.cli.progress import console
from mailsift.cli.service import with_container
from mailsift.container import Container
from mailsift.jobs.outcomes.accuracy import SHARES, AccuracyRow, GroupBy
from mailsift.pipeline.clock import system_clock, utc_datetime
from mailsift.pipeline.outcomes.chances import Calibration
from mailsift.pipeline.outcomes.shares import MeasuredShare

AccountOption = Annotated[str, typer.Option("--account", "-a", help="The account whose verdicts are shown.")]
ByOption = Annotated[
    list[GroupBy] | None, typer.Option("--by", help="What to break it down by; may be repeated.")
]
DaysOption = Annotated[int, typer.Option(min=1, max=731, help="How many days of verdicts.")]
CsvOption = Annotated[bool, typer.Option("--csv", help="Print CSV.")]
_TITLES: Final = {
    "coverage": "Yes or no",
    "stability": "Same again",
    "delivered": "Arrived",
    "false_valid": "False valid",
    "false_invalid": "False invalid",
}


def accuracy(
    account: AccountOption, by: ByOption = None, days: DaysOption = 90, *, as_csv: CsvOption = False
) -> None:
    """Show how often the verdicts of an account's lists were right, with 95 % intervals."""
    show_accuracy(account, by or [], days, as_csv=as_csv)


def show_accuracy(account: str | None, by: Sequence[GroupBy], days: int, *, as_csv: bool) -> None:
    """Print the numbers of an account, or (None) of all but test accounts together."""

    async def report(container: Container) -> tuple[list[AccuracyRow], Calibration | None]:
        last = utc_datetime(system_clock()).date()
        first = last - timedelta(days=days - 1)
        whose = await container.jobs.find_account(account) if account is not None else None
        rows = await container.accuracy.report(whose, by, first, last)
        return rows, await container.accuracy.calibration(whose) if whose else None

    rows, calibration = with_container(report)
    if as_csv:
        sys.stdout.write(to_csv(rows, by))
        return
    if rows:
        Console().print(accuracy_table(rows, by))
    else:
        console.print("Nothing has been measured yet.")
    if calibration:
        Console().print(
            f"Chances of delivery were {calibration.error:.1%} off on average, on {calibration.n:,} addresses"
            " that they do not rest on."
        )


def accuracy_table(rows: Iterable[AccuracyRow], by: Sequence[GroupBy]) -> Table:
    """Return the rows as a table that cuts no number off, however narrow the terminal is."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in by:
        table.add_column(name.value.capitalize(), overflow="fold")
    for title in ("Judged", *_TITLES.values()):
        table.add_column(title, justify="right", overflow="fold")
    for row in rows:
        shares = (_share_text(getattr(row, name)) for name in SHARES)
        table.add_row(*row.group, f"{row.judged:,}", *shares)
    return table


def _share_text(share: MeasuredShare | None) -> str:
    return f"{share.value:.1%} ({share.low:.1%}–{share.high:.1%}, n {share.n:,})" if share else "–"
