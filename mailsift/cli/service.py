"""The service behind a command: its parts, with embedded servers where none are named; how it is shown."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from rich.console import Console, RenderableType

from mailsift.cli.options import LOCAL_ACCOUNT
from mailsift.container import Container, open_container
from mailsift.events.audit import COMMAND_LINE, act_as
from mailsift.jobs.views import AccountId
from mailsift.runtime.embedded import installation
from mailsift.settings import Settings

T = TypeVar("T")


def with_container(work: Callable[[Container], Awaitable[T]]) -> T:
    """Return what comes of some work with the parts of this installation."""

    async def run(settings: Settings) -> T:
        async with open_container(settings) as container:
            return await work(container)

    with installation(Settings.from_env()) as settings:
        return asyncio.run(run(settings))


def with_account(
    work: Callable[[Container, AccountId], Awaitable[T]], account: str, *, makes_account: bool = False
) -> T:
    """Do the same with an account; what is changed there is recorded as done on the command line.

    Raises:
        MailsiftError: `account_not_found`, and what the work raises.
    """

    async def act(container: Container) -> T:
        act_as(COMMAND_LINE)
        find = container.jobs.account if makes_account else container.jobs.find_account
        return await work(container, await find(account))

    return with_container(act)


def with_local_account(work: Callable[[Container, AccountId], Awaitable[T]]) -> T:
    """Do the same with the account of what is run in the terminal."""
    return with_account(work, LOCAL_ACCOUNT, makes_account=True)


def print_json(*shapes: Mapping[str, Any]) -> None:
    """Print objects as JSON, one a line."""
    for shape in shapes:
        print(json.dumps(shape))  # noqa: T201 - the command's output


def show(
    found: Sequence[T],
    table: Callable[[Sequence[T]], RenderableType],
    fields: Callable[[T], Mapping[str, Any]],
    *,
    as_json: bool,
) -> None:
    """Print what was found as a table, or the fields of each as JSON."""
    if as_json:
        print_json(*map(fields, found))
    else:
        Console().print(table(found))
