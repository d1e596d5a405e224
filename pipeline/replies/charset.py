"""Turns the bytes of a reply into text where its server does not write UTF-8."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple
from functools import cache
from itertools import islice
from typing import Final

from mailsift.pipeline.replies.languages import CHINESE, JAPANESE, KOREAN, LANGUAGES, fold

_CHARSETS: Final = (
    *("gb18030", "big5", "shift_jis", "euc_jp", "euc_kr", "koi8_u", "cp1251", "cp1253", "cp1252"),
    "iso8859_2",
)
_SHIFTED: Final = b"\x1b$"
"""How ISO-2022-JP begins, which has no other octets than ASCII."""

_MIN_KNOWN: Final = 0.5
_MOST_READ: Final = 200


def decode(raw: bytes) -> str:
    """Return the text of a reply: UTF-8, or else the charset in which it has the letters of our words.

    In a wrong one, octets become letters that no word of ours is written with, capitals, or letters of two
    scripts in one word. Where none fits, what is no UTF-8 is replaced.
    """
    try:
        return raw.decode("iso2022_jp" if _SHIFTED in raw else "utf-8")
    except UnicodeDecodeError:
        readings = [text for charset in _CHARSETS if (text := _decode_as(charset, raw))]
        best = max(readings, key=_known_share, default="")
        return best if _known_share(best) >= _MIN_KNOWN else raw.decode("utf-8", "replace")


def _decode_as(charset: str, raw: bytes) -> str:
    try:
        return raw.decode(charset)
    except UnicodeDecodeError:
        return ""


def _known_share(text: str) -> float:
    """Return how many of the first characters beyond ASCII our words have, too, of 1."""
    known = list(islice(_are_known(text), _MOST_READ))
    return sum(known) / len(known) if known else 0.0


def _are_known(text: str) -> Iterator[bool]:
    """Tell of each character beyond ASCII whether it belongs where it stands."""
    beside = f" {text} "
    for place, char in enumerate(text):
        if char.isascii():
            continue
        letter = fold(char)
        in_latin = any(other.isascii() and other.isalpha() for other in beside[place : place + 3 : 2])
        if letter.isascii():
            yield in_latin and char.isalpha()
        elif char.islower():
            yield letter in _letters() and not in_latin
        else:
            yield char in _letters()


@cache
def _letters() -> frozenset[str]:
    """Return the letters beyond ASCII that words for mailboxes are written with; no capital is among them."""
    languages = (*LANGUAGES, CHINESE, JAPANESE, KOREAN)
    text = "".join(words for language in languages for words in astuple(language) if isinstance(words, str))
    return frozenset(char for char in text if not char.isascii())
