"""Writes realistic lists with the mistakes people make, and beside them the truth about every row."""

from __future__ import annotations

import csv
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from mailsift.sandbox.behaviours import TRUTH_OF_SYNTAX_ERROR, Truth
from mailsift.sandbox.population import ROLES, UNICODE, Mailbox, invent_local
from mailsift.sandbox.world import DISPOSABLE_DOMAINS, PROVIDERS, TYPOS, SandboxDomain, SandboxWorld

HEADER = ("id", "first_name", "last_name", "email", "company", "signup_date", "country")
TRUTH_HEADER = ("row", "email", "fast", "medium", "deep", "deep_result")

_COUNTRIES = ("US", "US", "US", "DE", "GB", "FR", "ES", "IT", "NL", "BR", "IN", "PL", "CH", "JP", "")
_ENDINGS = ("Ltd", "Inc.", "GmbH", "& Sons, LLC", "S.A.", "Group", "")

# Shares of the rows in 1/10,000; what is left goes to the business domains.
_SHARES = {"again": 600, "mistake": 300, "blank": 30, "typo": 70, "disposable": 90}
_ROLE_SHARE, _UNICODE_SHARE = 0.03, 0.003  # of the business rows

_RESERVOIR = 20_000  # earlier rows that may come again
_BLOCK = 10_000  # rows whose domains are drawn at once
_HEAD, _LAW = 100, 0.75  # the long tail: weight = 1 / (rank + _HEAD) ** _LAW


class _Row(NamedTuple):
    """A row in the making.

    Attributes:
        cell: what the list says; address: the canonical address, or the text when it is none.
        good: whether it is an address.
    """

    first: str
    last: str
    cell: str
    address: str
    company: str = ""
    good: bool = True


def write_list(world: SandboxWorld, path: Path, *, rows: int) -> Path:
    """Write a list and its truth; both are a pure function of the world and the number of rows.

    Args:
        world: where the addresses live.
        path: of the list; columns HEADER, UTF-8.
        rows: rows without the header.

    Returns:
        The path of the truth: `<name>.truth.csv` beside it, with columns TRUTH_HEADER. `row` counts from 1,
        `email` is the canonical address, empty for a blank cell; `deep_result` is empty where more than one
        result is defensible.

    Raises:
        OSError: a file cannot be written.
    """
    truth_path = path.with_name(f"{path.stem}.truth.csv")
    with ExitStack() as stack:
        listed = csv.writer(stack.enter_context(path.open("w", encoding="utf-8", newline="")))
        true = csv.writer(stack.enter_context(truth_path.open("w", encoding="utf-8", newline="")))
        listed.writerow(HEADER)
        true.writerow(TRUTH_HEADER)
        rng = random.Random(f"{world.seed}/list/{rows}")
        known = _Truths(world)
        for number, row in enumerate(_Lister(world, rng).rows(rows), 1):
            day = f"20{15 + number % 11}-{1 + number % 12:02}-{1 + number % 28:02}"
            country = _COUNTRIES[number * 7 % len(_COUNTRIES)]
            listed.writerow((number, row.first, row.last, row.cell, row.company, day, country))
            true.writerow((number, row.address, *known.columns(row)))
    return truth_path


_Columns = tuple[str, str, str, str]


class _Truths:
    """Knows the last four columns of the truth."""

    def __init__(self, world: SandboxWorld) -> None:
        self._world = world
        self._wrong = self._format(TRUTH_OF_SYNTAX_ERROR)
        self._known: dict[tuple[str, Mailbox, bool], _Columns] = {}

    def columns(self, row: _Row) -> _Columns:
        """Return the columns of a row."""
        if not row.good:
            return self._wrong
        local, _, domain = row.address.rpartition("@")
        key = (domain, self._world.mailbox(local, domain), local.isascii())
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._format(self._world.truth(row.address))
        return found

    @staticmethod
    def _format(verdicts: Truth) -> _Columns:
        deep = verdicts.deep
        return verdicts.fast.status, verdicts.medium.status, deep.status, deep.result


class _Lister:
    """Draws rows."""

    def __init__(self, world: SandboxWorld, rng: random.Random) -> None:
        self._world, self._rng = world, rng
        self._earlier: list[_Row] = []
        free = [(name, share) for provider in PROVIDERS for name, share in provider.free]
        business = 10_000 - sum(_SHARES.values()) - sum(share for _, share in free)
        self._kinds: dict[str, Callable[[], _Row]] = {
            "again": self._repeated_row,
            "mistake": self._mistyped_row,
            "blank": self._blank_row,
            "typo": lambda: self._person(rng.choice(tuple(TYPOS))),
            "disposable": lambda: self._person(rng.choice(DISPOSABLE_DOMAINS)),
            "business": self._business,
        }
        self._names = [*self._kinds, *(name for name, _ in free)]
        self._weights = [*_SHARES.values(), business, *(share for _, share in free)]
        self._tail = list(accumulate(_weight(domain, rank) for rank, domain in enumerate(world.ranked)))
        self._drawn: list[SandboxDomain] = []

    def rows(self, count: int) -> Iterator[_Row]:
        """Yield this many rows."""
        while count > 0:
            for kind in self._rng.choices(self._names, self._weights, k=min(count, _BLOCK)):
                draw = self._kinds.get(kind)
                row = draw() if draw else self._person(kind)
                self._remember(row)
                yield row
            count -= _BLOCK

    def _remember(self, row: _Row) -> None:
        if len(self._earlier) < _RESERVOIR:
            self._earlier.append(row)
        elif self._rng.random() < 0.05:
            self._earlier[int(self._rng.random() * _RESERVOIR)] = row

    def _person(self, domain: str) -> _Row:
        first, last, local = invent_local(self._rng, crowded=True)
        address = f"{local}@{domain}"
        return _Row(first.title(), last.title(), address, address)

    def _business(self) -> _Row:
        if not self._drawn:
            self._drawn = self._rng.choices(self._world.ranked, cum_weights=self._tail, k=_BLOCK)
        domain = self._drawn.pop()
        first, last, local = invent_local(self._rng)
        draw = self._rng.random()
        if draw < _ROLE_SHARE:
            first, last, local = "", "", self._rng.choice(ROLES)
        elif draw < _ROLE_SHARE + _UNICODE_SHARE:
            first, last, local = "", "", self._rng.choice(UNICODE)
        company = (
            f"{domain.unicode.partition('.')[0].title()} {_ENDINGS[len(local) % len(_ENDINGS)]}".rstrip()
        )
        return _Row(
            first.title(), last.title(), f"{local}@{domain.unicode}", f"{local}@{domain.name}", company
        )

    def _repeated_row(self) -> _Row:
        """An earlier row in other clothes."""
        if not self._earlier:
            return self._business()
        row = self._earlier[int(self._rng.random() * len(self._earlier))]
        if row.good and row.cell.isascii() and row.cell == row.address:
            return row._replace(cell=self._rng.choice(DECORATIONS)(row.cell))
        return row

    def _mistyped_row(self) -> _Row:
        row = self._business()
        local, _, domain = row.cell.rpartition("@")
        text = self._rng.choice(MISTAKES)(local, domain)
        return row._replace(cell=text, address=text, good=False)

    def _blank_row(self) -> _Row:
        return self._business()._replace(cell=self._rng.choice(("", "", " ")), address="", good=False)


def _weight(domain: SandboxDomain, rank: int) -> float:
    share: float = (rank + _HEAD) ** -_LAW
    return share / 10 if domain.behaviour.slow else share


MISTAKES: tuple[Callable[[str, str], str], ...] = (
    lambda local, domain: f"{local}{domain}",
    lambda local, _domain: f"{local}@",
    lambda _local, domain: f"@{domain}",
    lambda local, domain: f"{local}@@{domain}",
    lambda local, domain: f"{local}@{domain}@{domain}",
    lambda local, domain: f".{local}@{domain}",
    lambda local, domain: f"{local}.@{domain}",
    lambda local, domain: f"{local[:1]}..{local[1:]}@{domain}",
    lambda local, domain: f"{local} x@{domain}",
    lambda local, domain: f"{local}@{domain.partition('.')[0]}",
    lambda local, domain: f"{local}@{domain.replace('.', '..', 1)}",
    lambda local, domain: f"{local}@.{domain}",
    lambda local, domain: f"{local}@-{domain}",
    lambda local, domain: f"{local}@www_{domain}",
    lambda local, domain: f"{local}@{domain.replace('.', ',', 1)}",
    lambda local, domain: f"{local},x@{domain}",
    lambda local, domain: f"{local};x@{domain}",
    lambda local, domain: f"{local}(at){domain}",
    lambda local, _domain: f"{local}@[192.0.2.25]",
    lambda local, _domain: f"{local}@192.0.2.25",
    lambda local, domain: f"{local}@{'x' * 64}.{domain}",
    lambda local, domain: f"{local}@{domain}; {local}2@{domain}",
    lambda _local, domain: f"https://{domain}/",
    lambda _local, _domain: "n/a",
    lambda _local, _domain: "unknown",
    lambda _local, _domain: "+49 30 1234567",
)
"""From local part and domain to text that is no address by RFC 5321 and email-validator alike."""

DECORATIONS: tuple[Callable[[str], str], ...] = (
    str.upper,
    str.upper,
    str.title,
    lambda cell: f" {cell}",
    lambda cell: f"{cell} ",
    lambda cell: f"  {cell.upper()}\t",
    lambda cell: f"\u00a0{cell}",
    lambda cell: f"<{cell}>",
    lambda cell: f"mailto:{cell}",
    str,
)
"""From a good address to the same address in other clothes."""
