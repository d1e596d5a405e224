"""Tables as programs print them: between drawn lines, in columns that blanks part, or with a blank between.

So write shells of databases (lines in DuckDB and sqlite3, blanks in sqlcmd and SQL*Plus), PowerShell, pandas
and R's write.table.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from itertools import islice, pairwise
from operator import or_
from pathlib import Path

from mailsift.jobs.intake.sniff import is_bare_address
from mailsift.jobs.intake.table import COUNT, MOST_NOTES, is_address_name

_Cut = Callable[[str], list[str]]
"""Cuts a line into cells; one that is no row is one cell."""

_DRAWN = re.compile("[\u2502\u2503\u2506\u2507\u250a\u250b\u254e\u254f\u2551]")
"""Vertical lines, whole and broken."""
_BAR = re.compile(r"\|")
"""What shells draw in ASCII, where a rule tells that it is no delimiter."""
_RULE = re.compile(r"(?=.*[-=\u2500-\u257f]{2})[\s+|=:\-\u2500-\u257f]+")
_RUNS = re.compile(r"\s*-+(?: +-+)+\s*")
_NO_ROW = re.compile(COUNT)
_WITHIN = re.compile(r"\s*[\u251c-\u2523\u255e-\u2560]")
_MOST_TYPES = 3  # lines, with the rule below them


def print_as_csv(path: Path, lines: Sequence[str], target: Path, *, drawn: bool) -> bool:
    """Write the table that a text prints as CSV, and return True, where it prints one.

    Its header names an address column, and rows with an @ have their addresses there. What fits in no columns
    is a row of one cell, but for rules and counts of rows.

    Args:
        path: the text, which is UTF-8.
        lines: its first ones.
        target: what is written.
        drawn: only lines may part the cells, for the text has addresses without a table, too.
    """
    for place, header in enumerate(lines[: MOST_NOTES + 1]):
        if "@" in header:
            break
        below = lines[place + 1 :]
        is_ruled = bool(below and _RULE.fullmatch(below[0]) and "|" in header and '"' not in header)
        cut, skipped = _between_lines(header, _BAR if is_ruled else _DRAWN), _types_below(below)
        if not (cut or drawn):
            cut = _in_columns(header, below, path, place) or _between_blanks(header, path, place)
        if cut:
            notes = [[line.strip()] for line in lines[:place] if not _RULE.fullmatch(line)]
            with target.open("w", encoding="utf-8", newline="") as out:
                write = csv.writer(out)
                write.writerows((*filter(any, notes), cut(header)))
                write.writerows(map(cut, _rows(path, place + skipped)))
            return True
    return False


def _types_below(below: Sequence[str]) -> int:
    """Return how many lines below the names of a box belong to them: types, above a rule within the box."""
    place = next((n for n, line in enumerate(below[:_MOST_TYPES]) if _RULE.fullmatch(line)), 0)
    is_within = below[place : place + 1] and _WITHIN.match(below[place])
    return place if is_within and not any("@" in line for line in below[:place]) else 0


def _rows(path: Path, place: int) -> Iterator[str]:
    """Yield the lines below a header that may be rows."""
    with path.open(encoding="utf-8") as file:
        for line in islice(file, place + 1, None):
            is_none = _RULE.fullmatch(line) or _NO_ROW.match(_DRAWN.sub("", line).strip())
            if line.strip() and not is_none:
                yield line.rstrip("\n")


def _between_lines(header: str, drawn: re.Pattern[str]) -> _Cut | None:
    """Cut at vertical lines, of which the outer ones may be missing."""
    first, *others = drawn.split(header.strip())
    outer = slice(not first, len(others) + 1 - (others[-1:] == [""]))
    names = list(map(str.strip, (first, *others)[outer]))

    def cut(line: str) -> list[str]:
        cells = list(map(str.strip, drawn.split(line)))
        return cells[outer.start : len(cells) - (len(others) + 1 - outer.stop)] if cells[1:] else cells

    return cut if others and any(map(is_address_name, names)) else None


def _in_columns(header: str, below: Sequence[str], path: Path, place: int) -> _Cut | None:
    """Cut where rules below the names end, or where the names and all rows with an address have blanks."""
    if below and _RUNS.fullmatch(below[0]):
        spans = _spans(_ink(below[0]))
        starts = dict(spans)
    elif any(map(is_address_name, {*header.split(), *re.split(r"\s\s+", header.strip())})):
        spans = _spans(reduce(or_, map(_ink, _with_address(path, place)), _ink(header)))
        starts = {start: end for start, end in spans if start == spans[0][0] or header[start:end].strip()}
    else:
        return None
    gaps = sum(2**start - 2**end for (_, end), (start, _) in pairwise(spans) if start in starts)
    places = [slice(*pair) for pair in pairwise((0, *list(starts)[1:], None))]

    def cut(line: str) -> list[str]:
        return [line[place].strip() for place in places] if not _ink(line) & gaps else [line.strip()]

    is_table = len(places) > 1 and "\t" not in header and _holds(cut, header, _with_address(path, place))
    return cut if is_table else None


def _with_address(path: Path, place: int) -> Iterator[str]:
    return (line for line in _rows(path, place) if "@" in line)


def _ink(line: str) -> int:
    """Return a number with a bit for each character that is no blank, the first one lowest."""
    return int(re.sub(r"\s", "0", re.sub(r"\S", "1", line))[::-1] or "0", base=2)


def _spans(inked: int) -> list[tuple[int, int]]:
    """Return where bits stand together: the first, and the one behind the last."""
    return [found.span() for found in re.finditer("1+", f"{inked:b}"[::-1])]


def _holds(cut: _Cut, header: str, rows: Iterable[str]) -> bool:
    """Say whether rows, which have an address, fit below the header and most have it below its name."""
    names = cut(header)
    named = [place for place, name in enumerate(names) if is_address_name(name)]
    balance = 0
    for cells in map(cut, rows):
        if len(cells) != len(names):
            return False
        balance += 1 if any(is_bare_address(cells[place]) for place in named) else -1
    return balance > 0


def _between_blanks(header: str, path: Path, place: int) -> _Cut | None:
    """Cut at each blank that stands in no quotes; R gives the column of row names no name."""
    names = _words(header)
    if not names[1:] or not any(map(is_address_name, names)):
        return None
    width = next((len(_words(line)) for line in _rows(path, place)), 0)
    unnamed = [""] * (width - len(names))

    def cut(line: str) -> list[str]:
        return [*unnamed, *names] if line == header else _words(line)

    is_table = len(unnamed) <= 1 and all(len(_words(line)) == width for line in _rows(path, place))
    return cut if is_table and _holds(cut, header, _with_address(path, place)) else None


def _words(line: str) -> list[str]:
    try:
        return next(csv.reader([line.rstrip()], delimiter=" ", strict=True), [])
    except csv.Error:  # a quote that is none
        return []
