"""What a place is called: a URL without credentials.

And which places an account may use, and with which credentials: a file of the operator's.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from mailsift.pipeline.errors import MailsiftError

_STORES: Final = frozenset({"s3", "gs", "az"})
_DATABASES: Final = frozenset({"postgresql", "postgres"})
_WEB: Final = frozenset({"https", "http"})
_SCHEME: Final = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
_LONGEST: Final = 8_192
LONGEST_NAME: Final = 63
"""Bytes of a column's or table's name; PostgreSQL cuts off what is longer, and two names may be one then."""
_QUERY, _TABLE = "query", "table"
_WRITTEN_QUERY: Final = re.compile(r"((?i:postgres(?:ql)?)://[^?]*)\?query=(\s*\S+\s+\S.*)", re.DOTALL)
_FEWEST_NAMES: Final[Mapping[str, int]] = {"az": 2}
"""Behind what stands for the host: the container, and the key."""
_TABLE_NAME: Final = re.compile(r"[^\s.\"\x00]+(\.[^\s.\"\x00]+)?")


@dataclass(frozen=True, slots=True)
class Place:
    """A place.

    Attributes:
        scheme: in lower case.
        base: what is dialled: the URL, of a database without what follows the question mark.
        query: the query of a source in a database.
        table: the table of a sink in a database.
    """

    scheme: str
    base: str
    query: str = ""
    table: str = ""

    @property
    def label(self) -> str:
        """What may be shown: a query, and what follows a question mark in a URL, may hold secrets."""
        return self.base.partition("?")[0]

    @property
    def name(self) -> str:
        """What a person would call the list."""
        return self.label.rstrip("/").rpartition("/")[2][:200]

    @property
    def is_database(self) -> bool:
        """Whether rows come from a query or go to a table."""
        return self.scheme in _DATABASES

    @property
    def is_store(self) -> bool:
        """Whether it is an object in a store."""
        return self.scheme in _STORES


def is_place(text: str) -> bool:
    """Say whether a text is a URL and not the name of a file."""
    return _SCHEME.match(text) is not None


def parse_source(url: str) -> Place:
    """Read the URL of a list.

    Raises:
        MailsiftError: `bad_place`.
    """
    place = _parse(url)
    if place.is_database and not place.query:
        raise _bad_place("A list from a database has a query: postgresql://host/database?query=SELECT …")
    return place


def parse_sink(url: str) -> Place:
    """Read the URL that results go to.

    Raises:
        MailsiftError: `bad_place`.
    """
    place = _parse(url)
    if place.scheme in _WEB:
        raise _bad_place("Results go to s3://, gs://, az:// or a table in postgresql://.")
    if place.is_database and not _TABLE_NAME.fullmatch(place.table):
        raise _bad_place("Results go to a table: postgresql://host/database?table=checked")
    if any(len(name.encode()) > LONGEST_NAME for name in place.table.split(".")):
        raise _bad_place(f"A table’s name has at most {LONGEST_NAME} bytes; PostgreSQL would cut it.")
    return place


def _parse(url: str) -> Place:
    base, query = _unencoded(url)
    try:
        parts = urlsplit(base)
        scheme, host = parts.scheme.lower(), parts.hostname
        found = parse_qs(parts.query, keep_blank_values=True)
    except ValueError:
        raise _bad_place("This is no URL.") from None
    if scheme not in _STORES | _DATABASES | _WEB or not host or len(url) > _LONGEST or not base.isprintable():
        raise _bad_place("A place is a URL: https://, s3://, gs://, az:// or postgresql://.")
    if parts.username is not None or parts.password is not None:
        raise _bad_place("A place has no user name or password in it: those belong into the settings.")
    if parts.fragment or {".", ".."}.intersection(parts.path.split("/")):
        raise _bad_place("A place has neither a fragment nor dots for folders.")
    if scheme in _DATABASES:
        return _database(base, {_QUERY: [query]} if query else found)
    if scheme in _STORES:
        names = parts.path.split("/")[1:]
        if "?" in base or "#" in base or not all(names) or len(names) < _FEWEST_NAMES.get(scheme, 1):
            raise _bad_place("An object is called scheme://bucket/key, or az://account/container/key.")
    return Place(scheme, _one_spelling(url))


def _unencoded(url: str) -> tuple[str, str]:
    """Part a database's URL from a query that was not encoded: its signs are its own, and lines may end."""
    found = _WRITTEN_QUERY.fullmatch(url)
    return (found[1], found[2]) if found and re.sub(r"\s", "", found[2]).isprintable() else (url, "")


def _database(url: str, found: dict[str, list[str]]) -> Place:
    """Read the URL of a database: a query of which it is a source, or a table of which it is a sink."""
    if unknown := sorted(found.keys() - {_QUERY, _TABLE}):
        raise _bad_place(f"A database's URL has a query or a table, and no {unknown[0]!r}.")
    if sum(map(len, found.values())) > 1:
        raise _bad_place("A database's URL has one query or one table.")
    base = _one_spelling(url).partition("?")[0]
    return Place("postgresql", base, *("".join(found.get(name, ())) for name in (_QUERY, _TABLE)))


def _one_spelling(url: str) -> str:
    """Return a URL with its scheme in small letters (RFC 3986 section 3.1); a database has one of two."""
    scheme, _, rest = url.partition("://")
    scheme = scheme.lower()
    return f"{'postgresql' if scheme in _DATABASES else scheme}://{rest}"


def _bad_place(text: str) -> MailsiftError:
    return MailsiftError("bad_place", text)


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
    return Connection(_one_spelling(url).rstrip("/"), frozenset(accounts), values)


def _bad_connections(text: str) -> MailsiftError:
    return MailsiftError("bad_connections", f"The MAILSIFT_CONNECTIONS file isn’t valid: {text}.")
