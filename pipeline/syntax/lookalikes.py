"""Letters of other scripts that look like plain ones, in names that are meant to be read as plain ones."""

from __future__ import annotations

import unicodedata
from typing import Final

import idna

_LIKE: Final = str.maketrans(
    {
        # Cyrillic
        **dict(zip("асеорухіјѕһԁԛԝкмтнвѵԍьӏґ", "aceopyxijshdqwkmthbvgblr", strict=True)),
        # Greek
        **dict(zip("αοορνυικτχγηωε", "aoopvuiktxynwe", strict=True)),
        # Latin letters that are hard to tell from plain ones
        **dict(zip("ıɩɡɑɢʟᴏʀꜱᴜᴠᴡᴢł", "iigaglorsuvwzl", strict=True)),
    }
)
"""The most frequent pairs of Unicode's confusables (UTS 39) in lower case."""

_SCRIPTS: Final = ("LATIN", "CYRILLIC", "GREEK")


def read_as_plain(text: str) -> str:
    """Return the ASCII text that a text looks like, "" when some of its letters look like no plain ones."""
    plain = unicodedata.normalize("NFKD", text.translate(_LIKE))
    plain = "".join(letter for letter in plain if not unicodedata.combining(letter)).translate(_LIKE)
    return plain if plain.isascii() else ""


def mixes_scripts(text: str) -> bool:
    """Whether a name has Latin letters beside Cyrillic or Greek ones, which no language does."""
    if text.isascii():
        return False
    names = (unicodedata.name(letter, "") for letter in text if letter.isalpha())
    return len({name.partition(" ")[0] for name in names} & set(_SCRIPTS)) > 1


def unicode_domain(domain: str) -> str:
    """Return an ASCII domain as people see it; itself where it is not international or cannot be decoded."""
    if "xn--" not in domain:
        return domain
    try:
        return idna.decode(domain)
    except (idna.IDNAError, UnicodeError):
        return domain
