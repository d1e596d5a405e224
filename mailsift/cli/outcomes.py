"""`mailsift outcomes`, `suppressions`: what became of messages, and to whom an account may not send."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from mailsift.cli.options import OwnerOption
from mailsift.cli.progress import console
from mailsift.cli.service import with_account
from mailsift.container import Container
from mailsift.jobs.outcomes.service import ImportCounts
from mailsift.jobs.outcomes.suppressions import Suppression, SuppressionFormat, SuppressionReason
from mailsift.jobs.views import AccountId

_SHOWN = 100

outcomes_app = typer.Typer(help="Report what became of messages you sent.", no_args_is_help=True)
suppressions_app = typer.Typer(help="Manage the addresses an account may not send to.", no_args_is_help=True)
EmailsArgument = Annotated[list[str], typer.Argument(metavar="EMAIL...", help="Addresses.")]


@outcomes_app.command("import")
def import_files(
    files: Annotated[
        list[Path],
        typer.Argument(
            exists=True,
            dir_okay=False,
            help="CSV, JSON lines or Parquet with an address and what happened; bounces (.eml) or mbox.",
        ),
    ],
    account: OwnerOption,
) -> None:
    """Import deliveries, bounces, complaints and unsubscriptions; importing a file twice changes nothing."""

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
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="CSV, JSON or Parquet.")],
    account: OwnerOption,
) -> None:
    """Put the addresses of a file on the list: ours, Amazon SES's or SendGrid's."""
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
