"""`mailsift keys`: make, list, roll and revoke API keys."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Iterable
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
from mailsift.cli.options import JsonOption, OwnerOption
from mailsift.cli.service import show, with_account
from mailsift.cli.streams import check_out, let_go
from mailsift.cli.terminal import PLAIN, console, shortened, table_of
from mailsift.container import Container
from mailsift.jobs.views import AccountId
from mailsift.pipeline.errors import MailsiftError
from mailsift.storage.sql.keys import KeyRow

_WIDE: Final = 140
"""Columns of a terminal from which on everything fits."""
_MOST_DAYS: Final = 36_525
_COLUMNS: Final = ("id", "key", "name", "scopes", "created", "last used", "ends")
_WIDE_ONLY: Final = {"scopes", "created", "last used"}

keys_app = typer.Typer(no_args_is_help=True)

KeyArgument = Annotated[UUID, typer.Argument(help="The key's id, as `mailsift keys list` shows it.")]


@keys_app.command("create")
def create(  # noqa: PLR0913 - options of a command
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
        await _show_new(container, account_id, minted, as_json=as_json)

    check_out()
    with_account(make, account, makes_account=True)


@keys_app.command("list")
def list_keys(*, account: OwnerOption, as_json: JsonOption = False) -> None:
    """List an account's keys; the keys themselves are not stored."""
    rows = with_account(lambda parts, account_id: parts.keys.list(account_id), account)
    show(rows, partial(key_table, is_wide=Console().width >= _WIDE), _key_fields, as_json=as_json)


def key_table(rows: Iterable[KeyRow], *, is_wide: bool) -> Table:
    """Return keys, one a line, with their whole ids, which the other commands take."""
    names = [name for name in _COLUMNS if is_wide or name not in _WIDE_ONLY]
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
def revoke(key: KeyArgument, *, account: OwnerOption) -> None:
    """End a key now."""
    with_account(lambda parts, account_id: parts.keys.revoke(account_id, key), account)
    console.print("Revoked.")


@keys_app.command("roll")
def roll(
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
        await _show_new(container, account_id, minted, as_json=as_json)

    check_out()
    with_account(replace, account)


async def _show_new(container: Container, account_id: AccountId, minted: MintedKey, *, as_json: bool) -> None:
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
