"""Number the distinct addresses of a list."""

from __future__ import annotations

from itertools import count

import polars as pl

from pipeline.frames import ADDRESSES
from pipeline.syntax import parse

_SLICE = 250_000  # cells parsed at a time: bounds the parser's scratch memory


def number_addresses(raw: pl.Series) -> tuple[pl.Series, pl.DataFrame]:
    """Parse the cells of the address column and number the distinct addresses.

    Returns:
        For each cell the number of its address, and the addresses (frames.ADDRESSES), sorted by domain;
        within a domain they keep the list's order.
    """
    slices = raw.to_frame().iter_slices(_SLICE)
    parsed = pl.concat((parse(cells.to_series()) for cells in slices), rechunk=True)  # fast to gather from
    del raw, slices
    codes, bearers = _codes(parsed["address"])
    firsts = bearers.sort()
    ranks = _alphabetical(parsed["domain"].gather(firsts)).to_frame("rank")
    order = firsts.gather(ranks.select(pl.arg_sort_by("rank", maintain_order=True)).to_series())
    numbers = _placed(codes.gather(order), _range(len(order))).gather(codes)
    addresses = parsed[order].with_columns(
        _range(len(order)).alias("n"), numbers.sort().rle().struct.field("len").alias("rows")
    )
    return numbers, addresses.select(pl.col(name).cast(dtype) for name, dtype in ADDRESSES.items())


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
