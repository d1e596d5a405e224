"""`mailsift outcomes`, `suppressions`, `accuracy`: what became of messages, and what follows from it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.table import Table

from mailsift.cli.options import OwnerOption
from mailsift.cli.service import with_account, with_container
from mailsift.cli.terminal import console, table_of
from mailsift.container import Container
from mailsift.jobs.outcomes.accuracy import AccuracyRow, GroupBy, to_csv
from mailsift.jobs.outcomes.service import ImportCounts
from mailsift.jobs.outcomes.suppressions import Suppression, SuppressionFormat, SuppressionReason
from mailsift.jobs.service import check_readable
from mailsift.jobs.views import AccountId
from mailsift.pipeline.clock import system_clock, utc_datetime
from mailsift.pipeline.outcomes.chances import Calibration, MeasuredShare
from mailsift.pipeline.wording import counted

_SHOWN = 100

outcomes_app = typer.Typer(no_args_is_help=True)
suppressions_app = typer.Typer(no_args_is_help=True)
EmailsArgument = Annotated[list[str], typer.Argument(metavar="EMAIL...", help="Addresses.")]


@outcomes_app.command("import")
def import_files(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="CSV, JSON, JSON lines or Parquet: an address, and what happened; bounces (.eml) or mbox.",
        ),
    ],
    account: OwnerOption,
) -> None:
    """Import deliveries, bounces, complaints and unsubscriptions; importing a file twice changes nothing."""
    for file in files:
        check_readable(file)

    async def take(container: Container, account_id: AccountId) -> ImportCounts:
        total = ImportCounts()
        for file in files:
            total += await container.outcomes.import_file(account_id, file)
        return total

    _print_counts(with_account(take, account), "outcomes taken")


@suppressions_app.command("list")
def list_some(
    account: OwnerOption,
    *,
    email: Annotated[str, typer.Option(help="Look up this address.")] = "",
) -> None:
    """Show the list, or whether an address is on it."""
    page = with_account(
        lambda parts, account_id: parts.suppressions.page(account_id, limit=_SHOWN, email=email), account
    )
    for one in page.suppressions:
        print(f"{one.email}  {one.reason.value}  {one.origin}")  # noqa: T201 - the command's output
    if page.next:
        console.print(f"These are {_SHOWN}; `mailsift suppressions export` writes all of them.")


@suppressions_app.command("add")
def add(
    emails: EmailsArgument, account: OwnerOption, *, reason: SuppressionReason = SuppressionReason.MANUAL
) -> None:
    """Put addresses on the list."""
    found = [Suppression(email, reason, "cli") for email in emails]
    _print_counts(with_account(lambda parts, account_id: parts.suppressions.add(account_id, found), account))


@suppressions_app.command("remove")
def remove(emails: EmailsArgument, account: OwnerOption) -> None:
    """Remove addresses from the list."""
    removed = with_account(lambda parts, account_id: parts.suppressions.remove(account_id, emails), account)
    console.print(f"{removed:,} removed.")


@suppressions_app.command("import")
def import_file(
    file: Annotated[Path, typer.Argument(help="CSV, JSON or Parquet, or one address a line.")],
    account: OwnerOption,
) -> None:
    """Put the addresses of a file on the list: ours, Amazon SES's or SendGrid's."""
    check_readable(file)
    _print_counts(
        with_account(lambda parts, account_id: parts.suppressions.import_file(account_id, file), account)
    )


@suppressions_app.command("export")
def export_file(
    account: OwnerOption,
    *,
    format: SuppressionFormat = SuppressionFormat.CSV,  # noqa: A002 - the word for it
) -> None:
    """Write the list to standard output: our CSV, or for Amazon SES or SendGrid."""

    async def write(parts: Container, account_id: AccountId) -> None:
        async for piece in parts.suppressions.export(account_id, format):
            sys.stdout.buffer.write(piece)

    with_account(write, account)
    sys.stdout.buffer.flush()


def _print_counts(taken: ImportCounts, what: str = "added") -> None:
    console.print(
        f"{taken.taken:,} {what}, {taken.repeated:,} known already, {taken.malformed:,} not readable."
    )


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
            f"Chances of delivery were {calibration.error:.1%} off on average, on "
            f"{counted(calibration.n, 'address')} that they do not rest on."
        )


def accuracy_table(rows: Iterable[AccuracyRow], by: Sequence[GroupBy]) -> Table:
    """Return the rows as a table that cuts no number off, however narrow the terminal is."""
    numbers = ("Judged", *_TITLES.values())
    groups = (name.value.capitalize() for name in by)
    table = table_of((*groups, *numbers), numbers=numbers, overflow="fold")
    for row in rows:
        shares = (_share_text(getattr(row, name)) for name in _TITLES)
        table.add_row(*row.group, f"{row.judged:,}", *shares)
    return table


def _share_text(share: MeasuredShare | None) -> str:
    return f"{share.value:.1%} ({share.low:.1%}–{share.high:.1%}, n {share.n:,})" if share else "–"
