"""`mailsift users`: the people who sign in to the pages."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Annotated, Any, TypeVar

import typer
import uvloop
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mailsift.accounts.people import Role
from mailsift.accounts.service import People
from mailsift.accounts.sessions import normalized_email
from mailsift.cli.progress import PLAIN, console
from mailsift.container import open_container
from mailsift.events.audit import COMMAND_LINE
from mailsift.runtime.installation import installation
from mailsift.settings import Settings

T = TypeVar("T")

users_app = typer.Typer(
    help="Add, list and remove the people who sign in to the pages.", no_args_is_help=True
)

EmailArgument = Annotated[str, typer.Argument(help="The person's email address.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def _with_people(work: Callable[[People], Awaitable[T]]) -> tuple[T, Settings]:
    async def run(settings: Settings) -> T:
        async with open_container(settings) as container:
            return await work(container.people)

    given = Settings.from_env()
    with installation(given) as settings:
        return uvloop.run(run(settings)), given


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
        _with_people(
            lambda people: people.links.add_member(account, email, role, password, operator=operator)
        )
        console.print("They can sign in now.", **PLAIN)
        return
    secret, settings = _with_people(
        lambda people: people.links.invite_from_terminal(account, email, role, operator=operator)
    )
    _show_link(_page_address(settings, f"/invite?token={secret}"))


@users_app.command("list")
def list_users(*, as_json: JsonOption = False) -> None:
    """List everybody who can sign in, and where they are members."""
    rows, _ = _with_people(lambda people: people.members.everybody())
    people = [{name: _json_value(value) for name, value in row.items()} for row in rows]
    if as_json:
        for row in people:
            print(json.dumps(row))  # noqa: T201 - the command's output
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in ("email", "account", "role", "operator", "last sign-in"):
        table.add_column(column, overflow="fold")
    for row in people:
        words = (
            row["email"],
            row["account"],
            row["role"],
            "yes" if row["operator"] else "",
            row["last_sign_in"],
        )
        table.add_row(*map(Text, words))
    Console().print(table)


@users_app.command("remove")
def remove(email: EmailArgument) -> None:
    """Delete a person; their sessions end, their keys and jobs stay with the account."""
    _with_people(lambda people: people.members.remove_person(normalized_email(email), actor=COMMAND_LINE))
    console.print("Removed.", **PLAIN)


@users_app.command("link")
def link(email: EmailArgument) -> None:
    """Print a one-time link by which a person sets a new password."""
    secret, settings = _with_people(lambda people: people.links.new_password(email))
    _show_link(_page_address(settings, f"/password?token={secret}"))


@users_app.command("reset-code")
def reset_code(email: EmailArgument) -> None:
    """Let a person who has lost their authenticator and recovery codes sign in with the password alone."""
    _with_people(lambda people: people.sessions.factors.reset(normalized_email(email), actor=COMMAND_LINE))
    console.print("Their sign-in asks for no code any more.", **PLAIN)


def _page_address(settings: Settings, path: str) -> str:
    """Return the address of a page for people: below PUBLIC_URL, else where the API listens."""
    host = f"[{settings.api_host}]" if ":" in settings.api_host else settings.api_host
    return (settings.public_url or f"http://{host}:{settings.api_port}") + path


def _show_link(address: str) -> None:
    print(address)  # noqa: T201 - the command's output
    console.print("This link is shown only now, works once, and ends in three days.", **PLAIN)


def _json_value(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat(timespec="seconds")
    return value if isinstance(value, bool) else str(value or "")
