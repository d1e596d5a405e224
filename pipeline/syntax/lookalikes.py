"""Letters of other scripts that look like plain ones, in names that are meant to be read as plain ones.

The pairs and the scripts are Unicode's (UTS 39, UAX 24), from the package confusable-homoglyphs. Its tables
are read when the first name that is not ASCII is looked at: most lists have none.
"""

from __future__ import annotations

import unicodedata
from functools import cache
from typing import Final

import idna

_READ_AS: Final = {"ӏ": "l", "ω": "w", "ɢ": "g", "ʟ": "l"}
"""Letters that names are forged with and that Unicode pairs with none of a to z, or with another one."""

_TOGETHER: Final = (
    frozenset({"LATIN", "HAN", "HIRAGANA", "KATAKANA"}),
    frozenset({"LATIN", "HAN", "BOPOMOFO"}),
    frozenset({"LATIN", "HAN", "HANGUL"}),
)
"""Scripts that are written together (UTS 39 section 5.2, "highly restrictive")."""

_OF_ALL: Final = frozenset({"COMMON", "INHERITED", "UNKNOWN"})


def read_as_plain(text: str) -> str:
    """Return the ASCII text that a text looks like, "" when some of its letters look like no plain ones."""
    if text.isascii():
        return text
    letters = [_plain_letter(letter) for letter in _without_marks(text)]
    return "".join(letters) if all(letters) else ""


def mixes_scripts(text: str) -> bool:
    """Whether a name has letters of scripts that no language writes together (UTS 39)."""
    if text.isascii():
        return False
    from confusable_homoglyphs.categories import unique_aliases  # noqa: PLC0415 - see the module

    scripts = frozenset(unique_aliases(unicodedata.normalize("NFC", text))) - _OF_ALL
    return len(scripts) > 1 and not any(scripts <= together for together in _TOGETHER)


def differs_by_accents(text: str, plain: str) -> bool:
    """Whether a text is a plain one but for marks above or below its letters."""
    return _without_marks(text) == plain


def _without_marks(text: str) -> str:
    return "".join(
        letter for letter in unicodedata.normalize("NFKD", text) if not unicodedata.combining(letter)
    )


@cache
def _plain_letter(letter: str) -> str:
    """Return the plain letter or sign that one looks like, itself or in capitals; "" for none."""
    if letter.isascii() or letter in _READ_AS:
        return _READ_AS.get(letter, letter)
    from confusable_homoglyphs.confusables import confusables_data  # noqa: PLC0415 - see the module

    alike = (pair["c"] for form in (letter, letter.upper()) for pair in confusables_data.get(form, ()))
    plain = (_without_marks(text).rstrip("'").lower() for text in alike)
    return next((text for text in plain if len(text) == 1 and text.isascii() and text.isalnum()), "")


def unicode_domain(domain: str) -> str:
    """Return an ASCII domain as people see it; itself where it is not international or cannot be decoded."""
    if "xn--" not in domain:
        return domain
    try:
        return idna.decode(domain)
    except (idna.IDNAError, UnicodeError):
        return domain
