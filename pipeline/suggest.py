"""Guess the well-known mail domain a typed domain is probably a slip of."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from string import ascii_lowercase

# Name -> suffixes under which people have mailboxes. Where a slip fits several, the earlier one is meant.
# Coined names mean nothing else, so a slip inside the name is told by the name alone.
_COINED = {
    "gmail": "com",
    "yahoo": "com co.uk fr de es it ca in co.in com.br com.mx com.ar com.au co.jp co.id com.sg com.ph com.hk "
    "com.tw com.my com.vn com.tr co.kr co.nz co.za co.th co.il ie gr se dk no nl be at ch pl pt ro cz hu fi "
    "cn com.cn com.co com.pe com.ve cl co jp ru ae",
    "hotmail": "com co.uk fr de es it nl be ca ch se no dk fi co com.ar com.br com.au com.mx com.tr co.jp "
    "co.nz co.za co.il co.th cl gr hu cz my ph sg in id pt ru",
    "outlook": "com fr de es it com.br com.au co.uk at be cl co.id co.il co.nz co.th com.ar com.gr com.pe "
    "com.tr com.vn cz dk hu ie in jp kr lv my nl ph pt sa sg sk",
    "icloud": "com",
    "googlemail": "com co.uk de",
    "protonmail": "com ch",
    "fastmail": "com fm",
    "rocketmail": "com",
    "rediffmail": "com",
    "hanmail": "net",
    "yandex": "ru com ua by kz",
    "comcast": "net",
    "verizon": "net",
    "sbcglobal": "net",
    "bellsouth": "net",
    "earthlink": "net",
    "optonline": "net",
    "btinternet": "com",
    "virginmedia": "com",
    "blueyonder": "co.uk",
    "ntlworld": "com",
    "bigpond": "com net.au com.au net",
    "optusnet": "com.au",
    "sympatico": "ca",
    "videotron": "ca",
    "t-online": "de",
    "freenet": "de",
    "wanadoo": "fr es nl",
    "laposte": "net",
    "virgilio": "it",
    "tiscali": "it co.uk",
    "seznam": "cz",
    "interia": "pl",
    "bluewin": "ch",
}
# Words and short names: other companies bear names just beside them, so only the rest of the domain counts.
_WORDS = {
    "live": "com co.uk fr de it nl be at ca se no dk ie in jp cl cn ru com.ar com.au com.mx com.pt com.sg "
    "co.za",
    "aol": "com co.uk de fr it es ca jp in com.au com.br com.mx",
    "msn": "com nl cn fr de",
    "gmx": "de net com at ch fr us info li",
    "mail": "com ru de",
    "email": "com de",
    "ymail": "com",
    "proton": "me",
    "zoho": "com eu in",
    "web": "de",
    "arcor": "de",
    "orange": "fr",
    "sfr": "fr",
    "libero": "it",
    "att": "net",
    "charter": "net",
    "talktalk": "net",
    "rogers": "com",
    "uol": "com.br",
    "bol": "com.br",
    "terra": "com.br",
    "rambler": "ru",
    "inbox": "ru lv com",
    "ukr": "net",
    "onet": "pl eu",
    "naver": "com",
    "qq": "com",
    "163": "com",
    "126": "com",
    "telenet": "be",
    "ziggo": "nl",
}

# Real domains that look like slips; their owners have been "corrected" often enough.
_REAL = frozenset(
    {
        *("gail.com", "gmaik.com", "notmail.com", "yaboo.com", "yoohoo.com", "hotmall.com", "outlock.com"),
        *(
            "fastmall.com",
            "fastmail.net",
            "icloud.co",
            "tiscali.net",
            "freenet.com",
            "freenet.net",
            "mailw.com",
        ),
        *("comcast.com", "verizon.com", "laposte.fr", "mail.co", "email.co", "live.co", "web.co", "inbox.co"),
        *(
            "zoho.co",
            "charter.com",
            "gmx.co",
            "onet.co",
            "msn.co",
            "aol.net",
            "att.com",
            "qq.co",
            "proton.ms",
        ),
    }
)

TYPO_TRAPS = frozenset(
    {
        *(
            "gmial.com",
            "gmai.com",
            "gmal.com",
            "gmil.com",
            "gamil.com",
            "gnail.com",
            "gmaill.com",
            "gmali.com",
        ),
        *(
            "gmaul.com",
            "gmaol.com",
            "gmsil.com",
            "ggmail.com",
            "gmail.co",
            "gmail.cm",
            "gmail.om",
            "gemail.com",
        ),
        *(
            "hotmial.com",
            "hotmai.com",
            "hotmal.com",
            "hotmil.com",
            "hotmaill.com",
            "homail.com",
            "hotnail.com",
        ),
        *(
            "hotamil.com",
            "htmail.com",
            "hormail.com",
            "hotmail.cm",
            "hotmail.om",
            "hotmaul.com",
            "hitmail.com",
        ),
        *("yaho.com", "yahooo.com", "yhoo.com", "yaoo.com", "yahho.com", "yhaoo.com", "yahoo.cm", "yahoo.om"),
        *(
            "outlok.com",
            "outloo.com",
            "outloook.com",
            "outllook.com",
            "outlook.co",
            "outlook.cm",
            "oulook.com",
        ),
        *("iclod.com", "icoud.com", "iclould.com", "icloud.cm", "icloud.om", "comcas.net", "comast.net"),
        *("comcat.net", "verizn.net", "aol.cm", "aol.om", "live.cm", "msn.cm"),
    }
)
"""Slips that somebody registered and that take mail: here DNS is no reason to keep a suggestion back."""

# Slips no rule below finds: more than a keystroke away, or heard and not mistyped.
_HEARD = {
    **dict.fromkeys(("gemail", "gimail", "gmeil", "gmale", "gmaile", "gmails"), "gmail"),
    **dict.fromkeys(("yahho", "yahooh", "jahoo", "yahoomail"), "yahoo"),
}

# Suffixes that exist (RFC 1591 country codes, .bet, .cam) are slips only where listed here.
_SUFFIX_SLIPS: Mapping[str, tuple[str, ...]] = {"com": ("co", "cm", "om"), "net": ("ne", "et", "nt")}
_EXISTING = frozenset({"bet", "cam", "com", "net", "me"})

_ROWS = ("1234567890-", "qwertyuiop", "asdfghjkl", "zxcvbnm")
_LINKS = frozenset(
    pair
    for upper, lower in (*pairwise(_ROWS), *zip(_ROWS, _ROWS, strict=True))
    for place, key in enumerate(upper)
    for near in lower[max(0, place - 1) : place + 2]
    for pair in ((key, near), (near, key))
    if key != near
)
_NEAR: Mapping[str, str] = {
    key: "".join(sorted(near for near in ascii_lowercase if (key, near) in _LINKS)) for key in "".join(_ROWS)
}


@dataclass(frozen=True, slots=True)
class _Index:
    """Everything suggest looks up.

    Attributes:
        domains: the known domains.
        names: name or slip of a coined name -> name.
        suffixes: name -> suffix or slip of a suffix -> suffix.
        joined: known domain or slip of its suffix, without dots -> domain.
    """

    domains: frozenset[str]
    names: Mapping[str, str]
    suffixes: Mapping[str, Mapping[str, str]]
    joined: Mapping[str, str]


def suggest(domain: str) -> str:
    """Return the well-known domain that `domain` is probably a slip of, or "".

    By the name alone: somebody may own the typed domain. Who knows from DNS that it takes mail should keep
    the suggestion to himself, unless it is in TYPO_TRAPS.

    Args:
        domain: lower-case; what follows the @ even where the syntax is broken (`gmailcom`, `gmail,com`).
    """
    index = _index()
    clean = re.sub(r"[.,;:\s]+", ".", domain).strip(".").removeprefix("www.")
    if clean in index.domains or clean in _REAL:
        return clean if clean != domain and clean in index.domains else ""
    typed, _, rest = clean.partition(".")
    name = index.names.get(typed)
    if name is not None:
        suffix = index.suffixes[name].get(rest)
        if suffix is not None:
            return f"{name}.{suffix}"
    known = index.joined.get(clean.replace(".", ""), "")
    return known if clean.count(".") < known.count(".") or known.partition(".")[0] in _COINED else ""


@cache
def _index() -> _Index:
    """Lay out all slips once; a few tens of thousands of strings."""
    table = {name: tuple(suffixes.split()) for name, suffixes in (_COINED | _WORDS).items()}
    names = {name: name for name in table} | _HEARD
    for name in _COINED:
        for slip in _name_slips(name):
            names.setdefault(slip, name)
    suffixes = {name: _suffix_slips(name, known) for name, known in table.items()}
    joined: dict[str, str] = {}
    for name, slips in suffixes.items():
        for slip, suffix in slips.items():
            if slip:
                joined.setdefault((name + slip).replace(".", ""), f"{name}.{suffix}")
    domains = frozenset(f"{name}.{suffix}" for name, known in table.items() for suffix in known)
    return _Index(domains, names, suffixes, joined)


def _name_slips(name: str) -> Iterator[str]:
    """One slip of the fingers; any letter in long names, near ones in short names; the first letter stays."""
    long = len(name) >= 6
    for slip in _slips(name, anything=long):
        if slip[0] == name[0] or (long and len(slip) == len(name)):
            yield slip


def _suffix_slips(name: str, known: tuple[str, ...]) -> dict[str, str]:
    """Suffixes and their slips -> suffix."""
    found = {suffix: suffix for suffix in known}
    if name in _COINED:
        found[""] = known[0]  # x@gmail
    for suffix in known:
        for slip in (*_SUFFIX_SLIPS.get(suffix, ()), *_slips(suffix, anything=False)):
            real = slip in _EXISTING or len(slip) <= 2
            if slip in _SUFFIX_SLIPS.get(suffix, ()) or not real:
                found.setdefault(slip, suffix)
    return found


def _slips(word: str, *, anything: bool) -> Iterator[str]:
    """All words one keystroke away: left out, swapped, doubled, beside the key (or any letter)."""
    for at, key in enumerate(word):
        before, after = word[:at], word[at + 1 :]
        near = ascii_lowercase if anything else _NEAR.get(key, "")
        yield before + after
        if after:
            yield before + after[0] + key + after[1:]
        for other in near:
            yield before + other + after
        for other in near + key:
            yield before + other + key + after
            yield before + key + other + after
