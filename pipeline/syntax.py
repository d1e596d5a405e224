"""Turn raw cells into canonical addresses: vectorised for the many, email-validator for the rest."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import polars as pl

from pipeline.frames import PARSED
from pipeline.syntax_exact import PLAIN, PLAIN_LOCAL, REFUSED_TLD, UNSEEN, parse_exact

_PLAIN_LOCAL = rf"^({PLAIN_LOCAL})@([^@\s]*[^\x00-\x7f][^@\s]*)$"
_FAR_FROM_LIMITS = 60  # bytes of the whole address: no part of it can be too long


def parse(raw: pl.Series) -> pl.DataFrame:
    """Parse raw cells, one address each; nulls and blanks break the rule "empty".

    Args:
        raw: the cells as text; may hold anything.

    Returns:
        A frame with the columns frames.PARSED, one row for each cell, in order.
    """
    texts = raw.cast(pl.String).fill_null("")
    return _fast_or(texts, lambda rest: _fast_or(tidy(rest), _by_domain))


def tidy(texts: pl.Series) -> pl.Series:
    """Cut unseen characters at the ends, a leading `mailto:` and a pair of angle brackets around all."""
    ends, scheme = UNSEEN, r"^(?i:mailto):"
    return (
        texts.str.strip_chars(ends)
        .str.replace(scheme, "")
        .str.strip_chars(ends)
        .str.replace(r"^<([^<>]*)>$", "$1")
        .str.strip_chars(ends)
        .str.replace(scheme, "")
        .str.strip_chars(ends)
    )


def fast_path(text: pl.Expr) -> pl.Expr:
    """Say which texts are plain ASCII addresses beyond doubt; the others need the exact parser.

    Accepts only what the exact parser accepts, with the same canonical form. It stays away from domains of
    more than 63 octets (so no label can be too long, RFC 1035, and no address, RFC 5321) and from every
    `--` in a label (RFC 5890: Punycode and reserved labels).
    """
    at = text.str.find("@", literal=True).cast(pl.Int64)
    return (
        text.str.contains(rf"^{PLAIN}$")
        & (at <= 64)
        & (text.str.len_bytes().cast(pl.Int64) - at <= 64)
        & ~text.str.contains(REFUSED_TLD)
    ).fill_null(value=False)


def _fast_or(texts: pl.Series, otherwise: Callable[[pl.Series], pl.DataFrame]) -> pl.DataFrame:
    """Parse what the fast path takes and hand the rest on; rows come back in order."""
    text = pl.col("text")
    frame = texts.alias("text").to_frame().with_columns(fast_path(text).alias("fast"))
    return _merge(
        frame["fast"],
        _plain(frame.filter("fast")),
        lambda: otherwise(frame.filter(~pl.col("fast"))["text"]),
    )


def _merge(mine: pl.Series, taken: pl.DataFrame, otherwise: Callable[[], pl.DataFrame]) -> pl.DataFrame:
    """Put the rows that were taken and the others back in order; `mine` says which is which."""
    if taken.height == len(mine):
        return taken
    rest = otherwise()
    if not taken.height:
        return rest
    one = mine.alias("mine").to_frame()
    is_mine = pl.col("mine")
    row = pl.when(is_mine).then(is_mine.cum_sum() - 1).otherwise((~is_mine).cum_sum() - 1 + taken.height)
    return pl.concat([taken, rest])[one.select(row)["mine"]]


def _plain(texts: pl.DataFrame) -> pl.DataFrame:
    """Cut texts the fast path took; step by step, so that no step is computed twice."""
    address, at = pl.col("address"), pl.col("at")
    return (
        texts.select(pl.col("text").str.to_lowercase().alias("address"))
        .with_columns(address.str.find("@", literal=True).alias("at"))
        .select(
            address,
            address.str.slice(0, at).alias("local"),
            address.str.slice(at + 1).alias("domain"),
            pl.lit("").alias("rule"),
        )
    )


def _by_domain(texts: pl.Series) -> pl.DataFrame:
    """Judge each distinct international domain once for all the plain local parts before it.

    Whatever is not beyond doubt goes to the exact parser as a whole; the length stays far from its limits.
    """
    text = texts.alias("text").to_frame()
    parts = text.with_columns(
        pl.col("text").str.extract(_PLAIN_LOCAL, 1).str.to_lowercase().alias("local"),
        pl.col("text").str.extract(_PLAIN_LOCAL, 2).alias("shown"),
    )
    shown = parts["shown"].drop_nulls().unique()
    names = [(name, _ascii_domain(name)) for name in shown]
    table = pl.DataFrame(names, schema={"shown": pl.String, "domain": pl.String}, orient="row")
    known = parts.join(table, on="shown", how="left", maintain_order="left").with_columns(
        ((pl.col("domain") != "") & (pl.col("text").str.len_bytes() <= _FAR_FROM_LIMITS))
        .fill_null(value=False)
        .alias("known")
    )
    taken = known.filter("known").select(
        pl.format("{}@{}", "local", "domain").alias("address"), "local", "domain", pl.lit("").alias("rule")
    )
    return _merge(known["known"], taken, lambda: _exact(known.filter(~pl.col("known"))["text"]))


@lru_cache(maxsize=16_384)
def _ascii_domain(shown: str) -> str:
    """Return an international domain in ASCII, "" for a bad one; a list comes in slices that share many."""
    return parse_exact(f"a@{shown}").domain


def _exact(texts: pl.Series) -> pl.DataFrame:
    """Judge each distinct text once."""
    rows = [(text, *parse_exact(text)) for text in texts.unique()]
    table = pl.DataFrame(rows, schema={"text": pl.String, **PARSED}, orient="row")
    found = texts.alias("text").to_frame().join(table, on="text", how="left", maintain_order="left")
    return found.select(list(PARSED))
