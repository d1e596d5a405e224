"""`mailsift accounts`: the end of an account."""

from __future__ import annotations

from typing import Annotated

import typer

from mailsift.cli.progress import PLAIN, console
from mailsift.cli.service import with_container
from mailsift.container import Container

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

    async def work(container: Container) -> None:
        account_id = await container.jobs.find_account(name)
        if not yes:
            question = f"Delete the account {name} with everything that belongs to it, for good?"
            typer.confirm(question, abort=True, err=True)
        for row in await container.keys.list(account_id):
            await container.keys.revoke(account_id, row.id)  # processes that know it are told
        await container.eraser.account(account_id)

    with_container(work)
    console.print("Deleted.", **PLAIN)
