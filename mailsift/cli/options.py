"""Options that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

from mailsift.pipeline.facts import Mode

ModeOption = Annotated[
    Mode,
    typer.Option(
        "--mode",
        "-m",
        help="fast: syntax and lists, no network. medium: also DNS. deep: also the mail server.",
    ),
]
OwnerOption = Annotated[str, typer.Option("--account", "-a", help="The name of an existing account.")]
