"""Which places an account may use, and with which credentials: a file of the operator's."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from mailsift.jobs.places.place import Place, database_url
from mailsift.pipeline.errors import MailsiftError

_EVERYBODY: Final = "*"


@dataclass(frozen=True, slots=True)
class Connection:
    """A place, and all that lies below it.

    Attributes:
        url: how the URLs begin that it is for.
        accounts: names of those who may use it.
        credentials: what the store or database is told; shown to nobody.
    """

    url: str
    accounts: frozenset[str]
    credentials: Mapping[str, str] = field(repr=False)

    def leads_to(self, place: Place) -> bool:
        """Say whether a place is this one or below it."""
        return f"{place.label}/".startswith(f"{self.url}/")

    def serves(self, account: str) -> bool:
        """Say whether an account may use it."""
        return bool(self.accounts & {account, _EVERYBODY})


class Connections:
    """All connections of an installation."""

    def __init__(self, connections: Sequence[Connection] = ()) -> None:
        # The most particular one decides.
        self._connections = sorted(connections, key=lambda one: -len(one.url))

    @classmethod
    def load(cls, path: Path | None) -> Connections:
        """Read the file: tables `[[connection]]` with `url`, `accounts` and the credentials.

        Raises:
            MailsiftError: `bad_connections`; it names no value.
        """
        if path is None:
            return cls()
        try:
            tables = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise _bad_connections(f"it cannot be read ({type(error).__name__})") from None
        rows = tables.pop("connection", [])
        if tables or not isinstance(rows, list):
            raise _bad_connections("it holds tables [[connection]] and nothing else")
        return cls([_read(number, row) for number, row in enumerate(rows, 1)])

    def find(self, place: Place, account: str) -> Connection | None:
        """Return what an account uses for a place, None when there is nothing."""
        fitting = (one for one in self._connections if one.leads_to(place) and one.serves(account))
        return next(fitting, None)


def _read(number: int, row: Any) -> Connection:
    values = dict(row) if isinstance(row, dict) else {}
    url, accounts = values.pop("url", None), values.pop("accounts", None)
    if not isinstance(url, str) or "://" not in url or "@" in url or "?" in url:
        raise _bad_connections(f"number {number} has no url, or one with credentials or a query in it")
    if not isinstance(accounts, list) or not all(isinstance(name, str) for name in accounts):
        raise _bad_connections(f"number {number} has no list of accounts")
    if not all(isinstance(value, str) for value in values.values()):
        raise _bad_connections(f"number {number} has a value that is no text")
    return Connection(database_url(url).rstrip("/"), frozenset(accounts), values)


def _bad_connections(text: str) -> MailsiftError:
    return MailsiftError("bad_connections", f"The MAILSIFT_CONNECTIONS file isn’t valid: {text}.")
