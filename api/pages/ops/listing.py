"""Lists of the operator console: filtered by what one asks for, sorted by a column, and paged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar
from urllib.parse import urlencode

T = TypeVar("T")

ROWS_A_PAGE: Final = 50


@dataclass(frozen=True, slots=True)
class ListFilter(Generic[T]):
    """One value a filter may have: what it is called, and which rows it leaves."""

    label: str
    keeps: Callable[[T], bool]


@dataclass(frozen=True, slots=True)
class Listed(Generic[T]):
    """One page of a list, and the way to the others."""

    path: str
    rows: Sequence[T]
    matching: int  # rows the filters leave
    known: int  # all of them
    page: int  # which page this is, from 1
    pages: int
    words: Mapping[str, str]  # what was asked, by parameter; what is unknown is left out
    choices: Mapping[str, Sequence[tuple[str, str]]]  # what each filter offers: value and label

    @property
    def query(self) -> str:
        """What a live part of this page asks again; "" for the page as it is without a question."""
        asked = urlencode(self.words)
        return f"?{asked}" if asked else ""

    def link(self, **change: str | int) -> str:
        """Return the address of this list with another page, order or filter; without a page the first."""
        words = {name: value for name, value in self.words.items() if name != "page"}
        asked = urlencode(words | {name: str(value) for name, value in change.items()})
        return f"{self.path}?{asked}" if asked else self.path

    def sorted_by(self, column: str) -> str:
        """Say how a column is sorted, as `aria-sort` does; "" where it is not."""
        asked = self.words.get("sort", "")
        return {column: "ascending", f"-{column}": "descending"}.get(asked, "")

    def sort_link(self, column: str) -> str:
        """Return the address that sorts by a column, or the other way round where it is sorted by it."""
        return self.link(sort=f"-{column}" if self.sorted_by(column) == "ascending" else column)


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """What can be asked of a list that is held in memory as a whole; unasked, rows stay as they came."""

    path: str
    columns: Mapping[str, Callable[[T], Any]]  # what each is sorted by
    filters: Mapping[str, Mapping[str, ListFilter[T]]]  # what each parameter may be
    text: Callable[[T], str]  # what is searched for the words of `text`

    def of(self, rows: Sequence[T], asked: Mapping[str, str]) -> Listed[T]:
        """Return the page of these rows that is asked for; a question that cannot be meant is left out."""
        words = self._known(asked)
        left = [row for row in rows if self._keeps(row, words)]
        if sort := words.get("sort", ""):
            left.sort(key=self.columns[sort.removeprefix("-")], reverse=sort.startswith("-"))
        pages = max(1, -(-len(left) // ROWS_A_PAGE))
        page = min(int(words.get("page", "1")), pages)
        return Listed(
            path=self.path,
            rows=left[(page - 1) * ROWS_A_PAGE : page * ROWS_A_PAGE],
            matching=len(left),
            known=len(rows),
            page=page,
            pages=pages,
            words=words,
            choices={
                name: [("", "All"), *((value, one.label) for value, one in choices.items())]
                for name, choices in self.filters.items()
            },
        )

    def _known(self, asked: Mapping[str, str]) -> dict[str, str]:
        words = {name: asked[name] for name, choices in self.filters.items() if asked.get(name) in choices}
        if text := asked.get("text", "").strip()[:200]:
            words["text"] = text
        if asked.get("sort", "").removeprefix("-") in self.columns:
            words["sort"] = asked["sort"]
        if (page := asked.get("page", "")).isdecimal() and int(page[:6]) > 1:
            words["page"] = page[:6]
        return words

    def _keeps(self, row: T, words: Mapping[str, str]) -> bool:
        if words.get("text", "").lower() not in self.text(row).lower():
            return False
        return all(self.filters[name][words[name]].keeps(row) for name in self.filters if name in words)
