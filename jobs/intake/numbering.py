"""The distinct addresses of a list that comes in batches, numbered; memory does not grow with the list."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import polars as pl

from mailsift.jobs.intake.models import BatchSizes
from mailsift.pipeline.frames import ADDRESSES
from mailsift.pipeline.syntax.column import parse_column

_PART_BYTES = 8 << 20  # of a file, for each part of its entries: as many as can be sorted together, and less
_FEWEST, _MOST = 8, 32  # parts; to keep each costs something by itself
_SMALL = 4  # a part that is a smaller one of what may be sorted together
_REPEATED = 2  # a batch in which a cell repeats another one so often, on average, has few entries
_FEW = 200  # texts that Python puts in order at once: an operation on a frame takes as long as some hundred

_ADDRESS, _AT = pl.col("address"), pl.col("at")
_LOCAL = _ADDRESS.str.head(_AT).alias("local")
_DOMAIN = pl.when(_AT > 0).then(_ADDRESS.str.slice(_AT + 1)).otherwise(pl.lit("")).alias("domain")
"""What is cut from an address again when it is numbered: until then a book has half as much to keep. `at` is
the place of its last @, 0 in what is no address."""


class SpillBuffer:
    """Keeps frames until they are asked for: in memory, or as files in a folder, which it leaves empty.

    Args:
        folder: an existing one; None = all stay in memory.
        memory_rows: how many stay in memory all the same.
    """

    def __init__(self, folder: Path | None, *, memory_rows: int = 0) -> None:
        self.folder = folder
        self._memory_rows = memory_rows
        self._files = count()

    def keep(self, frame: pl.DataFrame) -> pl.DataFrame | Path:
        """Keep a frame; returns what to ask for it by."""
        if self.folder is None:
            return frame
        if frame.height <= self._memory_rows:
            self._memory_rows -= frame.height
            return frame
        path = self.folder / f"spool-{next(self._files)}"
        frame.write_ipc(path)
        return path

    @staticmethod
    def scan(kept: list[pl.DataFrame | Path]) -> pl.LazyFrame:
        """Read frames one after another; files stay until the buffer is cleared."""
        return pl.concat(
            [pl.scan_ipc(one, glob=False) if isinstance(one, Path) else one.lazy() for one in kept]
        )

    def pop(self, kept: list[pl.DataFrame | Path]) -> Iterator[pl.DataFrame]:
        """Yield frames and forget them; the list is empty afterwards."""
        kept.reverse()
        while kept:
            one = kept.pop()
            if isinstance(one, Path):
                yield pl.read_ipc(one)
                one.unlink()
            else:
                self._memory_rows += one.height
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
        buffer: keeps the entries.
        max_rows: how many are sorted together.
        file_bytes: size of the list's file, as a hint.
    """

    def __init__(self, buffer: SpillBuffer, *, max_rows: int, file_bytes: int = 0) -> None:
        self._max_rows = max_rows
        self._buffer = buffer
        parts = max(_FEWEST, min(_MOST, file_bytes // _PART_BYTES)) if buffer.folder else 1
        self._parts: list[list[pl.DataFrame | Path]] = [[] for _ in range(parts)]
        self._sizes = [0] * len(self._parts)
        self._entries = 0

    def add(self, parsed: pl.DataFrame) -> pl.Series:
        """Take parsed cells (frames.PARSED); returns the entry of each."""
        places, entries = _entries_of(parsed)
        entries = entries.with_columns(_range(entries.height).alias("entry") + self._entries)
        part = _DOMAIN.hash() % len(self._parts)
        for number, some in _partition(entries, part) if len(self._parts) > 1 else [(0, entries)]:
            self._parts[number].append(self._buffer.keep(some))
            self._sizes[number] += some.height
        first, self._entries = self._entries, self._entries + entries.height
        return places + first

    def number(self) -> tuple[pl.Series, list[pl.DataFrame | Path]]:
        """Number the addresses; the book is empty afterwards.

        Returns:
            The number of each entry, and the addresses in their order, as the buffer keeps them: see
            `scan_addresses`. Those of a domain follow one another, in the list's order unless they are too
            many for that. A list that is kept in memory is sorted by domain throughout.
        """
        numbers = pl.zeros(self._entries, dtype=pl.UInt32, eager=True)
        first, kept = 0, []
        for part in self._groups():
            places, firsts, rows = _distinct(part["address"], part["rows"])
            order = self._order(part.select(_DOMAIN)["domain"].gather(firsts))
            own_numbers = _range(len(order)) + first
            numbers = numbers.scatter(part["entry"], _scatter(order, own_numbers).gather(places))
            addresses = part.select("address", "at", "rule")[firsts.gather(order)].with_columns(
                own_numbers.alias("n"), rows.gather(order).alias("rows")
            )
            kept.append(self._buffer.keep(addresses))
            first += len(order)
        return numbers, kept

    def _order(self, domains: pl.Series) -> pl.Series:
        """Return the order in which addresses with these domains are numbered."""
        if self._buffer.folder is None and len(domains) <= _FEW:
            return pl.Series(sorted(range(len(domains)), key=domains.to_list().__getitem__), dtype=pl.UInt32)
        order, is_repeat = _runs(domains)
        return order if self._buffer.folder else order.gather(_alphabetical(domains.gather(order), is_repeat))

    def _groups(self) -> Iterator[pl.DataFrame]:
        """Yield the entries; equal addresses are in one frame, in the list's order.

        Small parts come together, for each frame costs something by itself.
        """
        frames: list[pl.DataFrame] = []
        for kept, size in zip(self._parts, self._sizes, strict=True):
            for some in self._split_large(kept, size):
                if frames and sum(frame.height for frame in frames) >= self._max_rows // _SMALL:
                    yield _joined(frames)
                frames += self._buffer.pop(some)
        if frames:
            yield _joined(frames)

    def _split_large(self, kept: list[pl.DataFrame | Path], size: int) -> list[list[pl.DataFrame | Path]]:
        """Part what is too much to be sorted together by domain again, and a domain that is by address."""
        if self._buffer.folder is None or size <= self._max_rows:
            return [kept]
        counts = SpillBuffer.scan(kept).group_by(_DOMAIN).len().filter(pl.col("len") > self._max_rows)
        large = counts.collect(engine="streaming")["domain"].to_list()
        parts = -(-size // self._max_rows)
        place = _DOMAIN.replace_strict({name: place for place, name in enumerate(large)}, default=None)
        of_large = place * parts + pl.col("address").hash() % parts
        part = pl.when(place.is_null()).then(len(large) * parts + _DOMAIN.hash(1) % parts).otherwise(of_large)
        smaller: list[list[pl.DataFrame | Path]] = [[] for _ in range((len(large) + 1) * parts)]
        for frame in self._buffer.pop(kept):
            for number, some in _partition(frame, part if large else _DOMAIN.hash(1) % parts):
                smaller[number].append(self._buffer.keep(some))
        return smaller


def scan_addresses(kept: list[pl.DataFrame | Path]) -> pl.LazyFrame:
    """Return what `AddressBook.number` gives as frames.ADDRESSES."""
    return SpillBuffer.scan(kept).with_columns(_LOCAL, _DOMAIN).select(*ADDRESSES)


def number_addresses(raw: pl.Series) -> tuple[pl.Series, pl.DataFrame]:
    """Parse cells, in memory, and number the distinct addresses.

    Returns:
        For each cell the number of its address, and the addresses (frames.ADDRESSES), sorted by domain;
        within a domain they keep the list's order.
    """
    sizes = BatchSizes()
    buffer = SpillBuffer(None)
    book = AddressBook(buffer, max_rows=sizes.addresses)
    entries = [book.add(parse_column(cells.to_series())) for cells in raw.to_frame().iter_slices(sizes.rows)]
    numbers, kept = book.number()
    return numbers.gather(pl.concat(entries)), scan_addresses(kept).collect()


def _joined(frames: list[pl.DataFrame]) -> pl.DataFrame:
    """Return the frames as one that is fast to gather from, and forget them: the list is empty afterwards."""
    joined = pl.concat(frames, rechunk=True)
    frames.clear()
    return joined


def _partition(frame: pl.DataFrame, part: pl.Expr) -> Iterator[tuple[int, pl.DataFrame]]:
    """Part the rows by a number; each part keeps their order."""
    numbered = frame.with_columns(part.cast(pl.UInt32).alias("part"))
    found = numbered.partition_by("part", include_key=False, maintain_order=True, as_dict=True)
    for (number,), some in found.items():
        yield int(number), some


def _entries_of(parsed: pl.DataFrame) -> tuple[pl.Series, pl.DataFrame]:
    """Return the entry of each cell of a batch, and the entries with the number of their `rows`.

    Where few cells repeat another one each is an entry: equal ones meet when all are numbered.
    """
    once = pl.repeat(1, parsed.height, dtype=pl.UInt32, eager=True).alias("rows")
    cut = parsed.select("address", pl.col("local").str.len_chars().cast(pl.UInt16).alias("at"), "rule")
    if parsed["address"].hash().n_unique() * _REPEATED > parsed.height:
        return _range(parsed.height), cut.with_columns(once)
    places, firsts, rows = _distinct(parsed["address"], once)
    return places, cut[firsts].with_columns(rows.alias("rows"))


def _distinct(texts: pl.Series, rows: pl.Series) -> tuple[pl.Series, pl.Series, pl.Series]:
    """Find the distinct texts, in the order in which they are first seen.

    Returns:
        For each text its place among them, where each of them is first, and the sum of the `rows` of all that
        are equal to it.
    """
    here = _range(len(texts))
    if len(texts) <= _FEW and len(set(texts)) == len(texts):
        return here, here, rows
    order, is_repeat = _runs(texts)
    repeats = order.filter(is_repeat)
    if repeats.is_empty():
        return here, here, rows
    leads = order.filter(~is_repeat).gather(_run_numbers(is_repeat).filter(is_repeat))
    is_first = pl.repeat(value=True, n=len(texts), eager=True).scatter(repeats, values=False)
    places = (is_first.cum_sum() - 1).cast(pl.UInt32)
    firsts = is_first.arg_true()
    more = pl.DataFrame({"place": places.gather(leads), "rows": rows.gather(repeats)})
    more = more.group_by("place").agg(pl.col("rows").sum())
    sums = rows.gather(firsts)
    sums = sums.scatter(more["place"], sums.gather(more["place"]) + more["rows"])
    return places.scatter(repeats, places.gather(leads)), firsts, sums


def _runs(texts: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Return an order in which equal texts follow one another as they did, and where one is as that before.

    Sorting hashes is several times faster than sorting or grouping texts. Those that share a hash are
    compared; should two differ (once in some ten million lists of a million), another seed is tried.
    """
    for seed in count():
        hashes = texts.hash(seed).alias("hash")
        order = hashes.to_frame().select(pl.arg_sort_by("hash", maintain_order=True)).to_series()
        is_repeat = _equals_previous(hashes.gather(order))
        alike = texts.gather(order).gather(is_repeat.arg_true())
        before = texts.gather(order.shift(1).filter(is_repeat))
        if (alike == before).all():
            return order, is_repeat
    raise AssertionError  # count() never ends


def _equals_previous(values: pl.Series) -> pl.Series:
    """Say which values are the one before them."""
    return (values == values.shift(1)).fill_null(value=False)


def _run_numbers(is_repeat: pl.Series) -> pl.Series:
    """Number the runs; returns for each value the number of its run."""
    return ((~is_repeat).cum_sum() - 1).cast(pl.UInt32)


def _alphabetical(texts: pl.Series, is_repeat: pl.Series) -> pl.Series:
    """Return the alphabetical order of texts that come in runs, by sorting only the distinct ones."""
    order = texts.filter(~is_repeat).arg_sort()
    ranks = _scatter(order, _range(len(order))).gather(_run_numbers(is_repeat)).alias("rank")
    return ranks.to_frame().select(pl.arg_sort_by("rank", maintain_order=True)).to_series()


def _scatter(places: pl.Series, values: pl.Series) -> pl.Series:
    """Return a series with each value at its place, the later value where places repeat."""
    blank = pl.zeros(len(places), dtype=pl.UInt32, eager=True)
    return blank.scatter(places, values)


def _range(length: int) -> pl.Series:
    return pl.int_range(length, dtype=pl.UInt32, eager=True)
