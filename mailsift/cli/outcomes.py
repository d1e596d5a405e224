"""`mailsift outcomes`: tell what became of messages that were really sent."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mailsift.cli.options import OwnerOption
from mailsift.cli.progress import console
from mailsift.cli.service import with_account
from mailsift.container import Container
from mailsift.jobs.outcomes.service import ImportCounts
from mailsift.jobs.views import AccountId

outcomes_app = typer.Typer(help="Report what became of messages you sent.", no_args_is_help=True)


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

    taken = with_account(take, account)
    console.print(
        f"{taken.taken:,} outcomes taken, {taken.repeated:,} known already, {taken.malformed:,} not readable."
    )
