"""Which of the encodings with Latin letters a text is in, by the letters of the names in it.

A reading of a word is worth as much as its letters are frequent in names of one language that is written in
that encoding. The octets of Dvořák are Dvoøák in Windows-1252: hardly a language of Western Europe has both
of ø and á, and Czech has both of ř and á.
"""

from __future__ import annotations

import math
import re
import sys
from collections import Counter
from collections.abc import Mapping
from typing import Final

_USUAL: Final = "cp1252"


def _languages(*letters: str) -> tuple[Mapping[str, float], ...]:
    return tuple(map(_shares, letters))


def _shares(letters: str) -> Mapping[str, float]:
    often, seldom = letters.split()
    weights = Counter({letter: 10 * times for letter, times in Counter(often).items()})
    weights.update(seldom)
    return {letter: weight / weights.total() for letter, weight in weights.items()}


def _in_usual(shares: Mapping[str, float]) -> Mapping[str, float]:
    """Return what Windows-1252 can write of a language's names: they may be guests in a Western list."""
    return {letter: share for letter, share in shares.items() if letter.encode(_USUAL, "ignore")}


# Letters beyond ASCII of a language's names: frequent ones about as often as they come, then seldom ones.
_WESTERN: Final = _languages(
    "äööüüüß é",  # German
    "éééèêëàâîïôçœ ûùæÿü",  # French
    "ááéíííóóññ úüàèçôâ",  # Spanish
    "ãããááââçççéíóú àêôõü",  # Portuguese
    "àèéìòù îâ",  # Italian
    "ëë éèïöüçêáûâú",  # Dutch
    "ååääööö éü",  # Swedish, Finnish
    "æåøøø éöüä",  # Danish, Norwegian
    "ááéííóóúðððöþþæ ý",  # Icelandic
    "ààèèéííòóúç ïüñ",  # Catalan
    "äääõõõüüö šž",  # Estonian
    "ëëë ç",  # Albanian
)
_CENTRAL: Final = _languages(
    "ááááííííéřřěěčččšššžžý úůňďťüóö",  # Czech
    "ááááčččšššééííľžý ňúďťôóäŕĺüö",  # Slovak
    "ááááééééíóóöööőőü úű",  # Hungarian
    "łłłłśńńóóżąęć źüö",  # Polish
    "ćććččšššžđ ö",  # Croatian, Slovenian, Bosnian, Serbian
    "ăăăţţşşâî öé",  # Romanian
)
_TURKISH: Final = _languages("üüüşşşııııççöğğ İâîû")
_BALTIC: Final = _languages(
    "ėėėėžžžšššūūčč ąęįųö",  # Lithuanian
    "īīīāāāņņņēēšššū ķžģļčö",  # Latvian
    "äääõõõüüö šž",  # Estonian
)
_READINGS: Final = {
    _USUAL: (*_WESTERN, *map(_in_usual, (*_CENTRAL, *_TURKISH, *_BALTIC))),
    "cp1250": _CENTRAL,
    "iso8859-2": _CENTRAL,
    "cp1254": _TURKISH,  # ISO 8859-9, too: their letters are the same
    "cp1257": _BALTIC,  # ISO 8859-13, too
    "mac-roman": _WESTERN,
    "iso8859-15": _WESTERN,
    "cp858": _WESTERN,  # of DOS: 850 with a euro
    "cp852": _CENTRAL,
}

_WORD: Final = re.compile(rb"[A-Za-z\x80-\xff]{2,}")
_SMALL, _CAPITALS = re.compile(rb"[a-z]+"), re.compile(rb"[A-Z]+")
_IN_NAMES: Final = "\u2019\xa0"
"""An apostrophe, and a blank that breaks no line."""
_NO_LETTERS: Final = "ªºµ"
_NOTHING: Final = "\ufffd"
"""What is read for an octet that an encoding does not know."""

# What is worth as much as a letter that is so frequent:
_COMMON: Final = 0.3
_AT_EDGE: Final = 0.03  # a sign where a word begins or ends, like a quotation mark
_FOREIGN: Final = 1e-3  # a letter that the language's names do not have
_SMALL_FIRST: Final = 0.1  # besides what the letter is worth: names begin with capitals
_STRANGE: Final = 1e-4  # a sign inside a word, a capital behind a small letter, an octet that means nothing

_GUESTS: Final = 0.1
"""So many names of a list are of another language than most."""
_SURER: Final = 50
"""So many times likelier than Windows-1252 must another encoding be."""


def latin_encoding(text: bytes) -> str:
    """Name the likeliest encoding of a text in Latin letters, Windows-1252 where others are no likelier."""
    shapes = Counter(_shape(word) for word in set(_WORD.findall(text)) if not word.isascii())
    rated = {encoding: _log_likelihood(shapes, encoding) for encoding in _READINGS}
    best = max(rated, key=rated.__getitem__)
    return best if rated[best] > rated[_USUAL] + math.log(_SURER) else _USUAL


def _shape(word: bytes) -> bytes:
    """Return what counts of a word: the octets beyond ASCII, and the kind of letters between them."""
    return _CAPITALS.sub(b"A", _SMALL.sub(b"a", word))


def _log_likelihood(shapes: Mapping[bytes, int], encoding: str) -> float:
    """Rate what the words read as: names of one language, with some guests."""
    words = [shape.decode(encoding, "replace") for shape in shapes]
    by_language = [[_worth(word, shares) for word in words] for shares in _READINGS[encoding]]
    best = [max(worths) for worths in zip(*by_language, strict=True)]
    return max(
        sum(
            count * math.log((1 - _GUESTS) * worth + _GUESTS * most)
            for count, worth, most in zip(shapes.values(), worths, best, strict=True)
        )
        for worths in by_language
    )


def _worth(word: str, shares: Mapping[str, float]) -> float:
    worth = 1.0
    for before, letter, behind in zip(" " + word, word, word[1:] + " ", strict=False):
        if letter.isascii():
            continue
        if not letter.isalpha() or letter in _NO_LETTERS:
            worth *= _sign_worth(letter, is_inside=before != " " and behind != " ")
        else:
            worth *= shares.get(letter, shares.get(letter.lower(), _FOREIGN))
            worth *= _case_worth(letter, before)
    return max(worth, sys.float_info.min)  # a word may be long


def _case_worth(letter: str, before: str) -> float:
    if letter.isupper():
        return _STRANGE if before.islower() else 1
    return _SMALL_FIRST if before == " " else 1


def _sign_worth(sign: str, *, is_inside: bool) -> float:
    if sign in _IN_NAMES:
        return _COMMON
    is_control = not sign.isprintable() or sign == _NOTHING
    return _STRANGE if is_inside or is_control else _AT_EDGE
