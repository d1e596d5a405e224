"""`mailsift users`: the people who sign in to the pages; `mailsift accounts`: the end of an account."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from mailsift.accounts.people import Role
from mailsift.accounts.sessions import normalized_email
from mailsift.cli.options import JsonOption
from mailsift.cli.service import show, with_container
from mailsift.cli.terminal import PLAIN, console, table_of
from mailsift.container import Container
from mailsift.events.audit import COMMAND_LINE
from mailsift.settings import Settings

accounts_app = typer.Typer(no_args_is_help=True)
users_app = typer.Typer(no_args_is_help=True)

EmailArgument = Annotated[str, typer.Argument(help="The person's email address.")]


@users_app.command("create")
def create(
    email: EmailArgument,
    *,
    account: Annotated[
        str, typer.Option("--account", "-a", help="The account they join; a new name creates one.")
    ],
    role: Annotated[Role, typer.Option(help="What they may do there.")] = Role.OWNER,
    operator: Annotated[
        bool, typer.Option("--operator", help="They may see and control the whole installation.")
    ] = False,
    password_stdin: Annotated[
        bool, typer.Option("--password-stdin", help="Read their password from stdin; else print a link.")
    ] = False,
) -> None:
    """Make a person a member of an account, at once or by a one-time link that is printed."""
    if password_stdin:
        password = sys.stdin.readline().rstrip("\n")
        with_container(
            lambda parts: parts.people.links.add_member(account, email, role, password, operator=operator)
        )
        console.print("They can sign in now.", **PLAIN)
        return
    secret = with_container(
        lambda parts: parts.people.links.invite_from_terminal(account, email, role, operator=operator)
    )
    _show_link(f"/invite?token={secret}")


@users_app.command("list")
def list_users(*, as_json: JsonOption = False) -> None:
    """List everybody who can sign in, and where they are members."""
    rows = with_container(lambda parts: parts.people.members.everybody())
    people = [{name: _json_value(value) for name, value in row.items()} for row in rows]
    show(people, _table, dict, as_json=as_json)


def _table(people: Iterable[Mapping[str, Any]]) -> Table:
    table = table_of(("email", "account", "role", "operator", "last sign-in"), overflow="fold")
    for row in people:
        operator = "yes" if row["operator"] else ""
        table.add_row(*map(Text, (row["email"], row["account"], row["role"], operator, row["last_sign_in"])))
    return table


@users_app.command("remove")
def remove(email: EmailArgument) -> None:
    """Delete a person; their sessions end, their keys and jobs stay with the account."""
    with_container(
        lambda parts: parts.people.members.remove_person(normalized_email(email), actor=COMMAND_LINE)
    )
    console.print("Removed.", **PLAIN)


@users_app.command("link")
def link(email: EmailArgument) -> None:
    """Print a one-time link by which a person sets a new password."""
    secret = with_container(lambda parts: parts.people.links.new_password(email))
    _show_link(f"/password?token={secret}")


@users_app.command("reset-code")
def reset_code(email: EmailArgument) -> None:
    """Let a person who has lost their authenticator and recovery codes sign in with the password alone."""
    with_container(
        lambda parts: parts.people.sessions.factors.reset(normalized_email(email), actor=COMMAND_LINE)
    )
    console.print("Their sign-in asks for no code any more.", **PLAIN)


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


def _show_link(path: str) -> None:
    """Print the address of a page for people: below PUBLIC_URL, else where the API listens."""
    settings = Settings.from_env()
    host = f"[{settings.api_host}]" if ":" in settings.api_host else settings.api_host
    print((settings.public_url or f"http://{host}:{settings.api_port}") + path)  # noqa: T201 - the command's output
    console.print("This link is shown only now, works once, and ends in three days.", **PLAIN)


def _json_value(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat(timespec="seconds")
    return value if isinstance(value, bool) else str(value or "")
