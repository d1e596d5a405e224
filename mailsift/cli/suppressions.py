"""`mailsift suppressions`: to whom an account may not send."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, TypeVar
from uuid import UUID

import typer
import uvloop

from mailsift.cli.options import OwnerOption
from mailsift.cli.progress import console
from mailsift.container import open_container
from mailsift.events.audit import COMMAND_LINE, act_as
from mailsift.jobs.outcomes.service import ImportCounts
from mailsift.jobs.outcomes.suppressions import (
    Suppression,
    SuppressionFormat,
    SuppressionReason,
    SuppressionService,
)
from mailsift.runtime.installation import installation
from mailsift.settings import Settings

T = TypeVar("T")
_SHOWN = 100

suppressions_app = typer.Typer(help="Manage the addresses an account may not send to.", no_args_is_help=True)
EmailsArgument = Annotated[list[str], typer.Argument(metavar="EMAIL...", help="Addresses.")]


def _with_service(account: str, act: Callable[[SuppressionService, UUID], Awaitable[T]]) -> T:
    async def run(settings: Settings) -> T:
        act_as(COMMAND_LINE)
        async with open_container(settings) as container:
            return await act(container.suppressions, await container.jobs.find_account(account))

    with installation(Settings.from_env()) as settings:
        return uvloop.run(run(settings))


@suppressions_app.command("list")
def list_some(
    account: OwnerOption,
    *,
    email: Annotated[str, typer.Option(help="Look up this address.")] = "",
) -> None:
    """Show the list, or whether an address is on it."""
    page = _with_service(
        account, lambda service, account_id: service.page(account_id, limit=_SHOWN, email=email)
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

    async def act(service: SuppressionService, account_id: UUID) -> ImportCounts:
        return await service.add(account_id, [Suppression(email, reason, "cli") for email in emails])

    _print_counts(_with_service(account, act))


@suppressions_app.command("remove")
def remove(emails: EmailsArgument, account: OwnerOption) -> None:
    """Remove addresses from the list."""
    removed = _with_service(account, lambda service, account_id: service.remove(account_id, emails))
    console.print(f"{removed:,} removed.")


@suppressions_app.command("import")
def import_file(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="CSV, JSON or Parquet.")],
    account: OwnerOption,
) -> None:
    """Put the addresses of a file on the list: ours, Amazon SES's or SendGrid's."""
    _print_counts(_with_service(account, lambda service, account_id: service.import_file(account_id, file)))


@suppressions_app.command("export")
def export_file(
    account: OwnerOption,
    *,
    format: SuppressionFormat = SuppressionFormat.CSV,  # noqa: A002 - the word for it
) -> None:
    """Write the list to standard output: our CSV, or for Amazon SES or SendGrid."""

    async def act(service: SuppressionService, account_id: UUID) -> None:
        async for piece in service.export(account_id, format):
            sys.stdout.buffer.write(piece)

    _with_service(account, act)
    sys.stdout.buffer.flush()


def _print_counts(taken: ImportCounts) -> None:
    console.print(
        f"{taken.taken:,} added, {taken.repeated:,} known already, {taken.malformed:,} not readable."
    )
