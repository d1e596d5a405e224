"""How many of something there are, in words that fit one of it, too; and words that people have typed."""

from __future__ import annotations

from typing import Final
from unicodedata import category


def counted(count: int, one: str, many: str = "") -> str:
    """Write "1 row" or "2,000 rows"; `many` where the plural has another end ("1 row is", "2 rows are")."""
    return f"{count:,} {one if count == 1 else many or _plural(one)}"


def _plural(noun: str) -> str:
    return f"{noun}es" if noun.endswith("s") else f"{noun}s"


def visible_name(text: str) -> str:
    """Return what somebody typed as a name without spaces around it, "" where nothing of it is to be seen."""
    return text.strip() if any(map(_is_visible, text)) else ""


def _is_visible(letter: str) -> bool:
    return letter not in _BLANK and category(letter) not in _INVISIBLE


_INVISIBLE: Final = frozenset({"Cc", "Cf", "Mn", "Zl", "Zp", "Zs"})
"""General categories (Unicode 4.5) that leave no ink by themselves."""
_BLANK: Final = frozenset("\u115f\u1160\u2800\u3164\uffa0")
"""Letters and symbols that leave none either: Hangul fillers, the Braille pattern without dots."""
