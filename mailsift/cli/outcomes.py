"""`mailsift outcomes`: tell what became of messages that were really sent."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
import uvloop

from mailsift.cli.options import OwnerOption
from mailsift.cli.progress import console
from mailsift.container import open_container
from mailsift.jobs.outcomes.service import ImportCounts
from mailsift.runtime.installation import installation
from mailsift.settings import Settings

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

    async def run(settings: Settings) -> ImportCounts:
        async with open_container(settings) as container:
            account_id = await container.jobs.find_account(account)
            total = ImportCounts()
            for file in files:
                total += await container.outcomes.import_file(account_id, file)
            return total

    with installation(Settings.from_env()) as settings:
        taken = uvloop.run(run(settings))
    console.print(
        f"{taken.taken:,} outcomes taken, {taken.repeated:,} known already, {taken.malformed:,} not readable."
    )
