"""Read the operator's overrides of lists and provider rows from one TOML file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.syntax.address import parse_cell, read_domain

_LISTS = ("disposable", "free", "role", "alias")
_TABLES = (*_LISTS, "provider", "limits")


@dataclass(frozen=True, slots=True)
class ListChange:
    """What to add to a list and what to take from it; entries are as canonical addresses have them."""

    add: frozenset[str] = frozenset()
    remove: frozenset[str] = frozenset()

    def apply(self, entries: frozenset[str]) -> frozenset[str]:
        """Return the changed list; an entry both added and removed is removed."""
        return (entries | self.add) - self.remove


@dataclass(frozen=True, slots=True)
class Overrides:
    """The whole file.

    Attributes:
        disposable, free, role, alias: changes of the four lists (mailsift.pipeline.lists).
        providers: raw `[[provider]]` rows, each with a `key`; checked by mailsift.pipeline.providers.
        limits: raw `[limits]` table; checked by mailsift.pipeline.providers.
    """

    disposable: ListChange = ListChange()
    free: ListChange = ListChange()
    role: ListChange = ListChange()
    alias: ListChange = ListChange()
    providers: Sequence[Mapping[str, Any]] = ()
    limits: Mapping[str, Any] = field(default_factory=dict)


def read_overrides(path: Path | None) -> Overrides:
    """Read the file; None gives no overrides.

    Raises:
        MailsiftError: `bad_overrides`, naming the table and what is wrong with it.
    """
    if path is None:
        return Overrides()
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise bad_overrides(f"the file cannot be read: {error}") from error
    for name in tables:
        _require(name in _TABLES, f"unknown table [{name}]; known are {', '.join(_TABLES)}")
    return Overrides(
        **{name: _change(name, tables.get(name, {})) for name in _LISTS},
        providers=_rows(tables.get("provider", [])),
        limits=_table("limits", tables.get("limits", {})),
    )


def bad_overrides(message: str) -> MailsiftError:
    """Return the error for a mistake in the overrides file."""
    return MailsiftError("bad_overrides", f"Overrides file: {message}.")


def _change(name: str, table: object) -> ListChange:
    changes = _table(name, table)
    for key, entries in changes.items():
        _require(key in {"add", "remove"}, f"[{name}] knows `add` and `remove`, not `{key}`")
        good = isinstance(entries, list) and all(isinstance(entry, str) and entry for entry in entries)
        _require(good, f"[{name}] `{key}` must be a list of words")
    written = _local_part if name == "role" else read_domain
    return ListChange(
        **{
            key: frozenset(written(entry) or entry.lower() for entry in entries)
            for key, entries in changes.items()
        }
    )


def _local_part(entry: str) -> str:
    return parse_cell(f"{entry}@example.com").local


def _rows(rows: object) -> list[dict[str, Any]]:
    if not isinstance(rows, list):
        raise bad_overrides("write provider rows as [[provider]]")
    return [_table("provider", row) for row in rows]


def _table(name: str, table: object) -> dict[str, Any]:
    if not isinstance(table, dict):
        raise bad_overrides(f"[{name}] must be a table")
    return table


def _require(good: bool, message: str) -> None:
    if not good:
        raise bad_overrides(message)
