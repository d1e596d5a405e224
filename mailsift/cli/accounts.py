"""`mailsift accounts`: the end of an account."""

from __future__ import annotations

from typing import Annotated

import typer
import uvloop

from mailsift.cli.progress import PLAIN, console
from mailsift.container import open_container
from mailsift.jobs.views import AccountId
from mailsift.runtime.installation import installation
from mailsift.settings import Settings

accounts_app = typer.Typer(help="Delete accounts.", no_args_is_help=True)


@accounts_app.callback()
def about() -> None:
    """Delete accounts."""


@accounts_app.command("delete")
def delete(
    name: Annotated[str, typer.Argument(help="The account's name.")],
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Delete an account for good: its jobs, lists and results, keys, webhooks, schedules and members."""

    async def found(settings: Settings) -> AccountId:
        async with open_container(settings) as container:
            return await container.jobs.find_account(name)

    async def work(settings: Settings, account_id: AccountId) -> None:
        async with open_container(settings) as container:
            for row in await container.keys.list(account_id):
                await container.keys.revoke(account_id, row.id)  # processes that know it are told
            await container.eraser.account(account_id)

    with installation(Settings.from_env()) as settings:
        account_id = uvloop.run(found(settings))
        if not yes:
            typer.confirm(
                f"Delete the account {name} with everything that belongs to it, for good?", abort=True
            )
        uvloop.run(work(settings, account_id))
    console.print("Deleted.", **PLAIN)
