"""The terminal: where commands say what they do, how their tables look, and words that fit into them."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import IO, Any, Final, cast

from rich.console import Console
from rich.table import Table
from rich.text import Text

from mailsift.cli.streams import Watched, printable

console = Console(file=cast("IO[str]", Watched()), emoji=False)  # to look for their names loads 3,600 of them
PLAIN: dict[str, Any] = {"highlight": False, "markup": False, "soft_wrap": True}
"""How to print a line that names a file: as it is, and in one piece."""
STATUS_COLOURS: Final = {"valid": "green", "risky": "yellow", "invalid": "red"}
_WARNINGS = {
    "probe_unavailable": "this machine cannot reach mail servers, so mailboxes were not looked up. "
    "Run mailsift doctor, and open outbound port 25.",
    "no_trusted_resolver": "no resolver can be trusted now, so addresses wait; nothing is lost. "
    "Run mailsift doctor, and set MAILSIFT_DNS_SERVERS to resolvers that tell the truth.",
    "no_way_out": "this machine reaches nobody now, so addresses wait for its network; nothing is lost.",
}


def table_of(columns: Iterable[str], *, numbers: Container[str] = (), **how: Any) -> Table:
    """Return a table without rows; `numbers` stand to the right, Table.add_column takes the rest."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in columns:
        table.add_column(name, justify="right" if name in numbers else "left", **how)
    return table


def shortened(words: str, most: int) -> Text:
    """Return the beginning of what somebody has written, in so many columns."""
    text = as_text(words)
    text.truncate(most, overflow="ellipsis")
    return text


def as_text(text: str) -> Text:
    """Show hostile input as text: no markup, no emoji codes, no control characters."""
    return Text(printable(text))


def warning_line(code: str) -> Text:
    """Return the loud line about what makes verdicts poorer than they could be."""
    return Text(f"Warning: {code}: {_WARNINGS.get(code, '')}", style="bold red")
