"""How many of something there are, in words that fit one of it, too."""

from __future__ import annotations


def counted(count: int, one: str, many: str = "") -> str:
    """Write "1 row" or "2,000 rows"; `many` where the plural has another end ("1 row is", "2 rows are")."""
    return f"{count:,} {one if count == 1 else many or _plural(one)}"


def _plural(noun: str) -> str:
    return f"{noun}es" if noun.endswith("s") else f"{noun}s"
