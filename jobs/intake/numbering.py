"""The distinct addresses of a list that comes in batches, numbered; memory does not grow with the list."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import polars as pl

from mailsift.jobs.intake.models import BatchSizes
from mailsift.pipeline.frames import ADDRESSES
from mailsift.pipeline.syntax.column import parse_column

_PARTS = 32


class Spool:
    """Keeps frames until they are asked for: in memory, or as files in a folder, which it leaves empty.

    Args:
        folder: an existing one; None = memory.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._files = count()

    def keep(self, frame: pl.DataFrame) -> pl.DataFrame | Path:
        """Keep a frame; returns what to ask for it by."""
        if self.folder is None:
            return frame
        path = self.folder / f"spool-{next(self._files)}"
        frame.write_ipc(path)
        return path

    @staticmethod
    def scan(kept: list[pl.DataFrame | Path]) -> pl.LazyFrame:
        """Read frames one after another; files stay until the spool is cleared."""
        return pl.concat(
            [pl.scan_ipc(one, glob=False) if isinstance(one, Path) else one.lazy() for one in kept]
        )

    @staticmethod
    def take(kept: list[pl.DataFrame | Path]) -> Iterator[pl.DataFrame]:
        """Yield frames and forget them."""
        for one in kept:
            if isinstance(one, Path):
                yield pl.read_ipc(one)
                one.unlink()
            else:
                yield one

    def clear(self) -> None:
        """Remove what is left."""
        for path in self.folder.glob("spool-*") if self.folder else ():
            path.unlink()


class AddressBook:
    """Numbers the distinct addresses of a list.

    Each batch leaves its own distinct addresses, its entries. On disk they are parted by domain, so that
    equal ones meet in a part; a part that one domain makes too large is parted again, by address.

    Args:
        spool: keeps the entries.
        together: how many are sorted together.
    """

    def __init__(self, spool: Spool, *, together: int) -> None:
        self._together = together
        self._spool = spool
        self._parts: list[list[pl.DataFrame | Path]] = [[] for _ in range(_PARTS if spool.folder else 1)]
        self._sizes = [0] * len(self._parts)
        self._entries = 0

    def take(self, parsed: pl.DataFrame) -> pl.Series:
        """Take parsed cells (frames.PARSED); returns the entry of each."""
        places, firsts, rows = _distinct(
            parsed["address"], pl.repeat(1, parsed.height, dtype=pl.UInt32, eager=True)
        )
        entry = _range(len(firsts)).alias("entry") + self._entries
        entries = parsed[firsts].with_columns(rows.alias("rows"), entry)
        part = pl.col("domain").hash() % len(self._parts)
        for number, some in _parted(entries, part):
            self._parts[number].append(self._spool.keep(some))
            self._sizes[number] += some.height
        first, self._entries = self._entries, self._entries + len(firsts)
        return places + first

    def number(self) -> tuple[pl.Series, list[pl.DataFrame | Path]]:
        """Number the addresses; the book is empty afterwards.

        Returns:
            The number of each entry, and the addresses (frames.ADDRESSES) in their order, as the spool keeps
            them. Those of a domain follow one another, in the list's order unless they are too many for that.
            A list that is kept in memory is sorted by domain throughout.
        """
        numbers = pl.zeros(self._entries, dtype=pl.UInt32, eager=True)
        first, kept = 0, []
        for part in self._gathered():
            places, firsts, rows = _distinct(part["address"], part["rows"])
            order = _by_domain(part["domain"].gather(firsts))
            mine = _range(len(order)) + first
            numbers = numbers.scatter(part["entry"], _placed(order, mine).gather(places))
            addresses = part[firsts.gather(order)].with_columns(
                mine.alias("n"), rows.gather(order).alias("rows")
            )
            kept.append(self._spool.keep(addresses.select(list(ADDRESSES))))
            first += len(order)
        return numbers, kept

    def _gathered(self) -> Iterator[pl.DataFrame]:
        """Yield the entries; equal addresses are in one frame, in the list's order."""
        for kept, size in zip(self._parts, self._sizes, strict=True):
            for some in self._smaller(kept, size):
                if some:
                    yield pl.concat(Spool.take(some), rechunk=True)  # fast to gather from

    def _smaller(self, kept: list[pl.DataFrame | Path], size: int) -> list[list[pl.DataFrame | Path]]:
        """Part what is too much to be sorted together by domain again, and a domain that is by address."""
        if self._spool.folder is None or size <= self._together:
            return [kept]
        counts = Spool.scan(kept).group_by("domain").len().filter(pl.col("len") > self._together)
        large = counts.collect(engine="streaming")["domain"].to_list()
        parts = -(-size // self._together)
        domain = pl.col("domain")
        place = domain.replace_strict({name: place for place, name in enumerate(large)}, default=None)
        of_large = place * parts + pl.col("address").hash() % parts
        part = pl.when(place.is_null()).then(len(large) * parts + domain.hash(1) % parts).otherwise(of_large)
        smaller: list[list[pl.DataFrame | Path]] = [[] for _ in range((len(large) + 1) * parts)]
        for frame in Spool.take(kept):
            for number, some in _parted(frame, part if large else domain.hash(1) % parts):
                smaller[number].append(self._spool.keep(some))
        return smaller


def number_addresses(raw: pl.Series) -> tuple[pl.Series, pl.DataFrame]:
    """Parse cells, in memory, and number the distinct addresses.

    Returns:
        For each cell the number of its address, and the addresses (frames.ADDRESSES), sorted by domain;
        within a domain they keep the list's order.
    """
    sizes = BatchSizes()
    book = AddressBook(Spool(None), together=sizes.addresses)
    entries = [book.take(parse_column(cells.to_series())) for cells in raw.to_frame().iter_slices(sizes.rows)]
    numbers, kept = book.number()
    return numbers.gather(pl.concat(entries)), pl.concat(Spool.take(kept))


def _parted(frame: pl.DataFrame, part: pl.Expr) -> Iterator[tuple[int, pl.DataFrame]]:
    """Part the rows by a number; each part keeps their order."""
    numbered = frame.with_columns(part.cast(pl.UInt32).alias("part"))
    found = numbered.partition_by("part", include_key=False, maintain_order=True, as_dict=True)
    for (number,), some in found.items():
        yield int(number), some


def _distinct(texts: pl.Series, rows: pl.Series) -> tuple[pl.Series, pl.Series, pl.Series]:
    """Find the distinct texts, in the order in which they are first seen.

    Returns:
        For each text its place among them, where each of them is first, and the sum of the `rows` of all that
        are equal to it.
    """
    codes, bearers = _codes(texts)
    if len(bearers) == len(texts):
        return _range(len(texts)), _range(len(texts)), rows
    firsts = bearers.sort()
    places = _placed(codes.gather(firsts), _range(len(firsts))).gather(codes)
    again = (firsts.gather(places) != _range(len(texts))).arg_true()
    repeats = pl.DataFrame({"place": places.gather(again), "rows": rows.gather(again)})
    more = repeats.group_by("place").agg(pl.col("rows").sum())
    sums = rows.gather(firsts)
    return places, firsts, sums.scatter(more["place"], sums.gather(more["place"]) + more["rows"])


def _by_domain(domains: pl.Series) -> pl.Series:
    """Return the order of the domains' alphabet; equal ones keep theirs."""
    ranks = _alphabetical(domains).to_frame("rank")
    return ranks.select(pl.arg_sort_by("rank", maintain_order=True)).to_series()


def _codes(texts: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Give equal texts equal codes, dense from 0 in no order; return them and the first row of each code.

    Ranking hashes is several times faster than grouping texts. The rows that repeat a hash are compared with
    its first; should two differ (once in some ten million lists of a million), another seed is tried.
    """
    rows = _range(len(texts))
    for seed in count():
        codes = (texts.hash(seed).rank("dense") - 1).cast(pl.UInt32)
        firsts = _placed(codes.reverse(), rows.reverse())[: _greatest(codes) + 1]
        again = (firsts.gather(codes) != rows).arg_true()
        if (texts.gather(again) == texts.gather(firsts.gather(codes.gather(again)))).all():
            return codes, firsts
    raise AssertionError  # count() never ends


def _alphabetical(texts: pl.Series) -> pl.Series:
    """Rank equal texts equally, dense from 0 in alphabetical order, by sorting only the distinct ones."""
    codes, firsts = _codes(texts)
    order = texts.gather(firsts).arg_sort()
    return _placed(order, _range(len(order))).gather(codes)


def _placed(places: pl.Series, values: pl.Series) -> pl.Series:
    """Return a series with each value at its place, the later value where places repeat."""
    blank = pl.zeros(len(places), dtype=pl.UInt32, eager=True)
    return blank.scatter(places, values)


def _greatest(numbers: pl.Series) -> int:
    return int(numbers.to_frame().select(pl.all().max()).item())


def _range(length: int) -> pl.Series:
    return pl.int_range(length, dtype=pl.UInt32, eager=True)
