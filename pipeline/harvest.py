"""Whether the addresses of one domain look made up by a program instead of collected from people; pure.

A company's own list at its own domain is none: its names are not alphabetical neighbours, nor every first
name with every last name, nor all of the commonest names and nothing but bare words. Numbers without a gap
are no sign: students and members have them. At free-mail domains, where everybody is, nothing is a sign.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection
from enum import StrEnum
from typing import Final

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
