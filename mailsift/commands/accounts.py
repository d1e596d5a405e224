"""`mailsift accounts`: the end of an account."""

from __future__ import annotations

from typing import Annotated

import typer
import uvloop

from jobs.erasure import Eraser
from mailsift.installation import installation
from mailsift.progress import PLAIN, console
from mailsift.serve import open_keyring
from mailsift.settings import Settings
from mailsift.wiring import open_blobs, open_database

accounts_app = typer.Typer(help="Delete accounts.", no_args_is_help=True)


@accounts_app.callback()
def about() -> None:
    """Delete accounts."""


@accounts_app.command("delete")
def delete(
    name: Annotated[str, typer.Argument(help="The account's name.")],
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete an account for good: its jobs, lists and results, keys, webhooks, schedules and members."""
    if not yes:
        typer.confirm(f"Delete the account {name} with everything that belongs to it, for good?", abort=True)

    async def work(settings: Settings) -> None:
        database = open_database(settings)
        try:
            eraser = Eraser(database=database, blobs=open_blobs(settings))
            account_id = await eraser.find_account(name)
            async with open_keyring(settings) as ring:
                for row in await ring.keys.list(account_id):
                    await ring.keys.revoke(account_id, row.id)  # processes that know it are told
            await eraser.account(account_id)
        finally:
            await database.aclose()

    with installation(Settings.from_env()) as settings:
        uvloop.run(work(settings))
    console.print("Deleted.", **PLAIN)
