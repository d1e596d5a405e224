"""Who may: `mailsift users`, the people who sign in to the pages; `mailsift keys`; the end of an account."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Final
from uuid import UUID

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mailsift.accounts.doors import Door
from mailsift.accounts.keys import DAY, LONGEST_OVERLAP, KeyKind, MintedKey, Scope
from mailsift.accounts.links import checked_name
from mailsift.accounts.people import Role
from mailsift.accounts.sessions import normalized_email
from mailsift.cli.options import JsonOption, OwnerOption
from mailsift.cli.service import show, with_account, with_container
from mailsift.cli.streams import check_out, let_go
from mailsift.cli.terminal import PLAIN, console, shortened, table_of
from mailsift.container import Container
from mailsift.events.audit import COMMAND_LINE
from mailsift.jobs.views import AccountId
from mailsift.pipeline.errors import MailsiftError
from mailsift.settings import Settings
from mailsift.storage.sql.keys import KeyRow

users_app = typer.Typer(no_args_is_help=True)

EmailArgument = Annotated[str, typer.Argument(help="The person's email address.")]


@users_app.command("create")
def create_user(
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
    rows = with_container(lambda parts: parts.people.members.list_all())
    people = [{name: _json_value(value) for name, value in row.items()} for row in rows]
    show(people, _users_table, dict, as_json=as_json)


def _users_table(people: Iterable[Mapping[str, Any]]) -> Table:
    table = table_of(("email", "account", "role", "operator", "last sign-in"), overflow="fold")
    for row in people:
        operator = "yes" if row["operator"] else ""
        table.add_row(*map(Text, (row["email"], row["account"], row["role"], operator, row["last_sign_in"])))
    return table


def _json_value(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat(timespec="seconds")
    return value if isinstance(value, bool) else str(value or "")


@users_app.command("remove")
def remove_user(email: EmailArgument) -> None:
    """Delete a person; their sessions end, their keys and jobs stay with the account."""
    with_container(
        lambda parts: parts.people.members.remove_person(normalized_email(email), actor=COMMAND_LINE)
    )
    console.print("Removed.", **PLAIN)


@users_app.command("link")
def link_user(email: EmailArgument) -> None:
    """Print a one-time link by which a person sets a new password."""
    secret = with_container(lambda parts: parts.people.links.new_password(email))
    _show_link(f"/password?token={secret}")


@users_app.command("reset-code")
def reset_user_code(email: EmailArgument) -> None:
    """Let a person who has lost their authenticator and recovery codes sign in with the password alone."""
    with_container(
        lambda parts: parts.people.sessions.factors.reset(normalized_email(email), actor=COMMAND_LINE)
    )
    console.print("Their sign-in asks for no code any more.", **PLAIN)


def _show_link(path: str) -> None:
    """Print the address of a page for people: below PUBLIC_URL, else where the API listens."""
    settings = Settings.from_env()
    host = f"[{settings.api_host}]" if ":" in settings.api_host else settings.api_host
    print((settings.public_url or f"http://{host}:{settings.api_port}") + path)  # noqa: T201 - the command's output
    console.print("This link is shown only now, works once, and ends in three days.", **PLAIN)


keys_app = typer.Typer(no_args_is_help=True)

KeyArgument = Annotated[UUID, typer.Argument(help="The key's id, as `mailsift keys list` shows it.")]

_WIDE_FOR_KEYS: Final = 140
"""Columns of a terminal from which on everything fits."""
_MOST_DAYS: Final = 36_525
_KEY_COLUMNS: Final = ("id", "key", "name", "scopes", "created", "last used", "ends")
_WIDE_KEY_COLUMNS: Final = {"scopes", "created", "last used"}


@keys_app.command("create")
def create_key(  # noqa: PLR0913 - options of a command
    *,
    account: Annotated[
        str, typer.Option("--account", "-a", help="The key's account; a new name creates an account.")
    ],
    name: Annotated[str, typer.Option(help="What to call the key.")] = "",
    scopes: Annotated[
        list[Scope] | None, typer.Option("--scopes", help="What it may do; may be repeated. [default: all]")
    ] = None,
    days: Annotated[float, typer.Option(min=0, max=_MOST_DAYS, help="Days until it ends; 0: never.")] = 0.0,
    test: Annotated[
        bool, typer.Option("--test", help="A test-mode key: no mail server is asked, nothing is counted.")
    ] = False,
    door: Annotated[
        Door | None,
        typer.Option(help="A key for the clients of this service, where MAILSIFT_DOORS names it."),
    ] = None,
    origins: Annotated[
        list[str] | None,
        typer.Option(
            "--origin",
            help="A public key for forms on pages of this origin, https://www.example.com; may be repeated.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Create a key and show it once."""
    account = checked_name(account)

    async def make(container: Container, account_id: AccountId) -> None:
        minted = await container.keys.create(
            account_id,
            name=name,
            scopes=scopes or (),
            lifetime=days * DAY,
            kind=KeyKind(test=test, door=door, public=bool(origins)),
            origins=origins or (),
        )
        await _show_new_key(container, account_id, minted, as_json=as_json)

    check_out()
    with_account(make, account, makes_account=True)


@keys_app.command("list")
def list_keys(*, account: OwnerOption, as_json: JsonOption = False) -> None:
    """List an account's keys; the keys themselves are not stored."""
    rows = with_account(lambda parts, account_id: parts.keys.list(account_id), account)
    show(rows, partial(key_table, is_wide=Console().width >= _WIDE_FOR_KEYS), _key_fields, as_json=as_json)


def key_table(rows: Iterable[KeyRow], *, is_wide: bool) -> Table:
    """Return keys, one a line, with their whole ids, which the other commands take."""
    names = [name for name in _KEY_COLUMNS if is_wide or name not in _WIDE_KEY_COLUMNS]
    table = table_of(names, no_wrap=True)
    for row in rows:
        cells: dict[str, str | Text] = {
            "id": str(row.id),
            "key": row.hint,
            "name": shortened(row.name, 24 if is_wide else 11),
            "scopes": shortened(" ".join(row.scopes), 20),
            "created": _day(row.created_at),
            "last used": _day(row.last_used_at),
            "ends": "revoked" if row.revoked_at else _day(row.expires_at),
        }
        table.add_row(*(cells[name] for name in names))
    return table


def _day(at: datetime | None) -> str:
    return at.astimezone().strftime("%Y-%m-%d") if at else "never"


@keys_app.command("revoke")
def revoke_key(key: KeyArgument, *, account: OwnerOption) -> None:
    """End a key now."""
    with_account(lambda parts, account_id: parts.keys.revoke(account_id, key), account)
    console.print("Revoked.")


@keys_app.command("roll")
def roll_key(
    key: KeyArgument,
    *,
    account: OwnerOption,
    hours: Annotated[
        float,
        typer.Option(min=0, max=LONGEST_OVERLAP / 3600, help="Hours for which the old key keeps working."),
    ] = 24.0,
    as_json: JsonOption = False,
) -> None:
    """Replace a key with a new one; the old one ends later, so that nobody is locked out."""

    async def replace(container: Container, account_id: AccountId) -> None:
        minted = await container.keys.roll(account_id, key, overlap=hours * 3600)
        await _show_new_key(container, account_id, minted, as_json=as_json)

    check_out()
    with_account(replace, account)


async def _show_new_key(
    container: Container, account_id: AccountId, minted: MintedKey, *, as_json: bool
) -> None:
    """Show a key this once; one that cannot be shown opens nothing."""
    secret = {"key": minted.secret, **_key_fields(minted.row)}
    try:
        print(json.dumps(secret) if as_json else minted.secret, flush=True)  # noqa: T201 - the command's output
    except OSError as error:
        let_go(sys.stdout)
        await container.keys.revoke(account_id, minted.row.id)
        why = os.strerror(error.errno or errno.EIO)
        text = f"Can’t write: {why}. The new key was revoked, as nobody has seen it."
        raise MailsiftError("output_not_writable", text) from None
    if not as_json:
        console.print("This key is shown only now.", **PLAIN)


def _key_fields(row: KeyRow) -> dict[str, Any]:
    moments = {
        "created_at": row.created_at,
        "expires_at": row.expires_at,
        "last_used_at": row.last_used_at,
        "revoked_at": row.revoked_at,
    }
    return {
        "id": str(row.id),
        "account_id": str(row.account_id),
        "name": row.name,
        "hint": row.hint,
        "scopes": list(row.scopes),
        "origins": list(row.origins),
        **{name: at.isoformat() if at else "" for name, at in moments.items()},
    }


accounts_app = typer.Typer(no_args_is_help=True)


@accounts_app.callback()
def about_accounts() -> None:
    """Delete accounts."""


@accounts_app.command("delete")
def delete_account(
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
