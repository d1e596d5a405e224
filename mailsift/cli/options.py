"""Options that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

from mailsift.pipeline.facts import Mode

LOCAL_ACCOUNT = "local"
"""Whose jobs are that are run in the terminal."""

ModeOption = Annotated[
    Mode,
    typer.Option(
        "--mode",
        "-m",
        help="fast: syntax and lists, no network. medium: also DNS. deep: also the mail server.",
    ),
]

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]

OwnerOption = Annotated[str, typer.Option("--account", "-a", help="The name of an existing account.")]


def without_broken_bytes(argument: str) -> str:
    """Replace the bytes of an argument that are no UTF-8: nothing that stores or shows texts takes them."""
    return argument.encode("utf-8", errors="surrogateescape").decode("utf-8", errors="replace")
