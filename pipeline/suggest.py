"""Guess the well-known mail domain a typed domain is probably a slip of."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Final, TypeAlias

from mailsift.pipeline.providers import top_level_domains


def _by_name(domains: str) -> dict[str, tuple[str, ...]]:
    """Return name -> its suffixes, both in the order in which domains are listed."""
    found: dict[str, tuple[str, ...]] = {}
    for name, _, suffix in (domain.partition(".") for domain in domains.split()):
        found[name] = (*found.get(name, ()), suffix)
    return found


# Domains under which people have mailboxes: where a slip fits several, the name listed earlier is meant, and
# of its suffixes the earlier one. Coined names mean nothing else, so a slip inside the name is told by the
# name alone.
_COINED = _by_name("""
gmail.com yahoo.com yahoo.co.uk yahoo.fr yahoo.de yahoo.es yahoo.it yahoo.ca yahoo.in yahoo.co.in
yahoo.com.br yahoo.com.mx yahoo.com.ar yahoo.com.au yahoo.co.jp yahoo.co.id yahoo.com.sg yahoo.com.ph
yahoo.com.hk yahoo.com.tw yahoo.com.my yahoo.com.vn yahoo.com.tr yahoo.co.kr yahoo.co.nz yahoo.co.za
yahoo.co.th yahoo.co.il yahoo.ie yahoo.gr yahoo.se yahoo.dk yahoo.no yahoo.nl yahoo.be yahoo.at yahoo.ch
yahoo.pl yahoo.pt yahoo.ro yahoo.cz yahoo.hu yahoo.fi yahoo.cn yahoo.com.cn yahoo.com.co yahoo.com.pe
yahoo.com.ve yahoo.cl yahoo.co yahoo.jp yahoo.ru yahoo.ae hotmail.com hotmail.co.uk hotmail.fr hotmail.de
hotmail.es hotmail.it hotmail.nl hotmail.be hotmail.ca hotmail.ch hotmail.se hotmail.no hotmail.dk
hotmail.fi hotmail.co hotmail.com.ar hotmail.com.br hotmail.com.au hotmail.com.mx hotmail.com.tr
hotmail.co.jp hotmail.co.nz hotmail.co.za hotmail.co.il hotmail.co.th hotmail.cl hotmail.gr hotmail.hu
hotmail.cz hotmail.my hotmail.ph hotmail.sg hotmail.in hotmail.id hotmail.pt hotmail.ru outlook.com
outlook.fr outlook.de outlook.es outlook.it outlook.com.br outlook.com.au outlook.co.uk outlook.at
outlook.be outlook.cl outlook.co.id outlook.co.il outlook.co.nz outlook.co.th outlook.com.ar outlook.com.gr
outlook.com.pe outlook.com.tr outlook.com.vn outlook.cz outlook.dk outlook.hu outlook.ie outlook.in
outlook.jp outlook.kr outlook.lv outlook.my outlook.nl outlook.ph outlook.pt outlook.sa outlook.sg
outlook.sk icloud.com googlemail.com googlemail.co.uk googlemail.de protonmail.com protonmail.ch
fastmail.com fastmail.fm rocketmail.com rediffmail.com hanmail.net yandex.ru yandex.com yandex.ua yandex.by
yandex.kz comcast.net verizon.net sbcglobal.net bellsouth.net earthlink.net optonline.net btinternet.com
virginmedia.com blueyonder.co.uk ntlworld.com bigpond.com bigpond.net.au bigpond.com.au bigpond.net
optusnet.com.au sympatico.ca videotron.ca t-online.de freenet.de wanadoo.fr wanadoo.es wanadoo.nl
laposte.net virgilio.it tiscali.it tiscali.co.uk tiscali.cz seznam.cz interia.pl bluewin.ch talktalk.net
tutanota.com tutanota.de hushmail.com zohomail.com foxmail.com windowslive.com windstream.net roadrunner.com
globomail.com netscape.net btopenworld.com numericable.fr cegetel.net club-internet.fr aliceadsl.fr
fastwebnet.it arubapec.it kabelmail.de unitybox.de kpnmail.nl xs4all.nl hetnet.nl zeelandnet.nl upcmail.nl
quicknet.nl skynet.be proximus.be citromail.hu freemail.hu zoznam.sk bigmir.net rambler.ru rambler.ua
iinet.net.au westnet.com.au netvision.net.il bezeqint.net netspace.net.au bredband.net broadpark.no
stofanet.dk saunalahti.fi kolumbus.fi luukku.com suomi24.fi fibertel.com.ar telefonica.net movistar.es
singnet.com.sg streamyx.com superonline.com forthnet.gr otenet.gr eircom.net vodamail.co.za telkomsa.net
softbank.ne.jp docomo.ne.jp biglobe.ne.jp mailfence.com runbox.com startmail.com indiatimes.com telenet.be
""")
# Words and short names: other companies bear names just beside them, so only the rest of the domain counts.
_WORDS = _by_name("""
live.com live.co.uk live.fr live.de live.it live.nl live.be live.at live.ca live.se live.no live.dk live.ie
live.in live.jp live.cl live.cn live.ru live.com.ar live.com.au live.com.mx live.com.pt live.com.sg
live.co.za aol.com aol.co.uk aol.de aol.fr aol.it aol.es aol.ca aol.jp aol.in aol.com.au aol.com.br
aol.com.mx msn.com msn.nl msn.cn msn.fr msn.de gmx.de gmx.net gmx.com gmx.at gmx.ch gmx.fr gmx.us gmx.info
gmx.li mail.com mail.ru mail.de mail.bg mail.ua mail.ee email.com email.de ymail.com proton.me zoho.com
zoho.eu zoho.in web.de arcor.de orange.fr sfr.fr libero.it att.net charter.net rogers.com uol.com.br
bol.com.br terra.com.br inbox.ru inbox.lv inbox.com ukr.net onet.pl onet.eu naver.com qq.com 163.com 126.com
ziggo.nl cox.net shaw.ca me.com mac.com aim.com sky.com juno.com frontier.com telus.net bell.net globo.com
ig.com.br oi.com.br r7.com sapo.pt clix.pt ono.com free.fr neuf.fr bbox.fr voila.fr alice.it tin.it tim.it
inwind.it iol.it aruba.it pec.it vodafone.de vodafone.it posteo.de posteo.net mailbox.org online.de
online.no hispeed.ch sunrise.ch chello.at chello.nl aon.at planet.nl home.nl casema.nl kpn.nl pandora.be
scarlet.be wp.pl o2.pl gazeta.pl op.pl tlen.pl centrum.cz centrum.sk post.cz post.sk atlas.cz atlas.sk
volny.cz azet.sk abv.bg dir.bg bk.ru list.ru ya.ru i.ua meta.ua telia.com telenor.no comhem.se spray.se
jubii.dk elisa.fi hot.ee one.lt tpg.com.au xtra.co.nz mweb.co.za walla.co.il walla.com ezweb.ne.jp ocn.ne.jp
nifty.com nate.com daum.net sina.com sina.cn sohu.com 139.com aliyun.com yeah.net mynet.com sify.com hol.gr
""")

# Real domains that look like slips; their owners have been "corrected" often enough.
_REAL_DOMAINS = """
gail.com grail.com gmaik.com cloud.com notmail.com yaboo.com hotmall.com outlock.com fastmall.com icloud.co
sezam.cz
"""
_REAL = frozenset(_REAL_DOMAINS.split())

_TRAPS = """
gmial.com gmai.com gmal.com gmil.com gamil.com gnail.com gmaill.com gmali.com gmaul.com gmaol.com gmsil.com
ggmail.com gmail.co gmail.cm gmail.om gemail.com hotmial.com hotmai.com hotmal.com hotmil.com hotmaill.com
homail.com hotnail.com hotamil.com htmail.com hormail.com hotmail.cm hotmail.om hotmaul.com hitmail.com
yaho.com yahooo.com yhoo.com yaoo.com yahho.com yhaoo.com yahoo.cm yahoo.om outlok.com outloo.com
outloook.com outllook.com outlook.co outlook.cm oulook.com iclod.com icoud.com iclould.com icloud.cm
icloud.om comcas.net comast.net comcat.net verizn.net aol.cm aol.om live.cm msn.cm
"""
TYPO_TRAPS = frozenset(_TRAPS.split())
"""Slips that somebody registered and that take mail: here DNS is no reason to keep a suggestion back."""

# Slips no rule below finds: heard and not mistyped.
_MISHEARD = {
    **dict.fromkeys(("gemail", "gimail", "gmeil", "gmale", "gmaile", "gmails"), "gmail"),
    **dict.fromkeys(("outluk", "autlook"), "outlook"),
    "yahoomail": "yahoo",
    "yandeks": "yandex",
    "hotmale": "hotmail",
}

# Suffixes that exist (RFC 1591 country codes) and are slips all the same.
_SUFFIX_TYPOS: Final[Mapping[str, tuple[str, ...]]] = {"com": ("co", "cm", "om"), "net": ("ne", "et")}

_RESERVED: Final = frozenset({"test", "example"})
"""Top-level names for tests and documents (RFC 2606): nobody's slip."""

_COMMON_PREFIXES: Final = frozenset({"www", "mail", "email", "e-mail", "webmail"})
"""What people put before a mail domain."""

_KEYBOARD_ROWS = ("1234567890-", "qwertyuiop", "asdfghjkl", "zxcvbnm")
_NEIGHBOUR_KEYS: Final = frozenset(
    pair
    for upper, lower in (*pairwise(_KEYBOARD_ROWS), *zip(_KEYBOARD_ROWS, _KEYBOARD_ROWS, strict=True))
    for place, key in enumerate(upper)
    for near in lower[max(0, place - 1) : place + 2]
    for pair in ((key, near), (near, key))
    if key != near
)
"""Pairs of keys that touch, on the keyboards of most countries."""

_ANY_EDIT, _NEIGHBOUR_KEY, _TRANSPOSITION, _DELETION, _DOUBLED_LETTER = 1.0, 0.7, 0.8, 0.9, 0.5
_MAX_COST: Final = 2.5  # what slips inside a name may cost at most
_SURE_COST: Final = 1.4  # what a slip inside a name may cost where the typed domain may be somebody's
_SURE_COST_LONG: Final = 1.8  # the same, in a name of eight letters and more
_FAMOUS_NAMES: Final = 12
"""So many names of the table are so common that a wrong first letter is a slip and no name of its own."""
_LONG: Final = 8
_MIDDLE: Final = 6
_LONGEST_LABEL: Final = 14
_MAX_EDITS: Final = 2


_Words: TypeAlias = Mapping[int, Mapping[str, int]]

_SEPARATORS = re.compile(r"[.,;:\s]+")
_WITHOUT_SIGNS = str.maketrans("", "", ".-")


@dataclass(frozen=True, slots=True)
class _KnownDomains:
    """Everything suggest looks up.

    Attributes:
        suffixes: name -> its suffixes, in the order of the table.
        ranks: name -> its place in the table.
        coined: the domains of coined names.
        joined: known domain without its dots -> domain.
        letters, joined_letters: length -> name or joined domain -> the set of its letters, as bits.
        by_first, by_tail: (suffix as it may be typed, first letter or all but that) -> names.
    """

    suffixes: Mapping[str, tuple[str, ...]]
    ranks: Mapping[str, int]
    coined: frozenset[str]
    joined: Mapping[str, str]
    letters: _Words
    joined_letters: _Words
    by_first: Mapping[tuple[str, str], frozenset[str]]
    by_tail: Mapping[tuple[str, str], frozenset[str]]

    def has(self, domain: str) -> bool:
        name, _, suffix = domain.partition(".")
        return suffix in self.suffixes.get(name, ())


@lru_cache(maxsize=8_192)  # the domains of a chunk, which are asked for again by its broken addresses
def suggest(domain: str, *, takes_no_mail: bool = False) -> str:
    """Return the well-known domain that `domain` is probably a slip of, or "".

    By the name alone: somebody may own the typed domain. Who knows from DNS that it takes mail should keep
    the suggestion to himself, unless it is in TYPO_TRAPS.

    Args:
        domain: lower-case; what follows the @ even where the syntax is broken (`gmailcom`, `gmail,com`).
        takes_no_mail: DNS denies it, so that a bold suggestion annoys nobody. A domain whose top-level name
            does not exist takes none either.
    """
    known = _known_domains()
    clean = _SEPARATORS.sub(".", domain).strip(".").removeprefix("www.")
    if known.has(clean) or (clean in _REAL and not takes_no_mail):
        return clean if clean != domain and known.has(clean) else ""
    bold = takes_no_mail or not suffix_exists(clean)
    before, _, top = clean.rpartition(".")  # what nobody has to know: the name of a page, .com twice
    once = before if top.isalpha() and before.endswith(f".{top}") else clean
    without_repeat = once if (once != clean or domain.startswith("www.")) and suffix_exists(once) else ""
    return (
        _embedded_domain(clean)
        or _nearest(clean, bold=bold)
        or without_repeat
        or (_leading_domain(clean) if bold else "")
    )


def well_known_domains() -> frozenset[str]:
    """Return the domains that slips are told by: where many people have mailboxes."""
    return frozenset(
        f"{name}.{suffix}" for name, suffixes in (_COINED | _WORDS).items() for suffix in suffixes
    )


def is_well_known(domain: str) -> bool:
    """Whether a domain is one of those that slips are told by."""
    return _known_domains().has(domain)


def suffix_exists(domain: str) -> bool:
    """Whether a domain lies below a top-level domain that exists, by the package publicsuffixlist."""
    _, dot, top = domain.rpartition(".")
    return bool(dot) and (top in _WORLD or top in _RESERVED or top in top_level_domains())


@cache
def _known_domains() -> _KnownDomains:
    """Lay the tables out once."""
    table = _COINED | _WORDS
    joined: dict[str, str] = {}
    for name, suffixes in table.items():
        for suffix in suffixes:
            joined.setdefault((name + suffix).translate(_WITHOUT_SIGNS), f"{name}.{suffix}")
    return _KnownDomains(
        table,
        {name: rank for rank, name in enumerate(table)},
        frozenset(f"{name}.{suffix}" for name in _COINED for suffix in table[name]),
        joined,
        _by_length(table),
        _by_length(text for text in joined if len(text) > _MIDDLE),
        _index_names(lambda name: name[0]),
        _index_names(lambda name: name[1:]),
    )


_WORLD: Final = frozenset({"com", "net", "org"})
"""Suffixes for everybody: under them a word beside a known one is somebody else's."""


def _index_names(part: Callable[[str], str]) -> Mapping[tuple[str, str], frozenset[str]]:
    """Index by the suffixes that may be typed for a name's and a part of it: short names only at home."""
    found: dict[tuple[str, str], frozenset[str]] = {}
    typed = [(name, list(_spellings(suffixes))) for name, suffixes in _COINED.items()]
    typed += [(name, sorted(set(suffixes) - _WORLD)) for name, suffixes in _WORDS.items()]
    for name, spellings in typed:
        for suffix in spellings:
            key = (suffix, part(name))
            found[key] = found.get(key, frozenset()) | {name}
    return found


def _letters(word: str) -> int:
    """Return the set of a word's letters and digits as bits."""
    bits = 0
    for letter in word:
        bits |= 1 << (ord(letter) & 63)
    return bits


_NO_WORDS: Final[Mapping[str, int]] = {}


def _by_length(words: Iterable[str]) -> _Words:
    """Index by length, for slips change that by two at most."""
    found: dict[int, dict[str, int]] = {}
    for word in words:
        found.setdefault(len(word), {})[word] = _letters(word)
    return found


def _candidates(text: str, words: _Words) -> list[str]:
    """Return the words two slips or fewer away, perhaps: a slip changes the set of letters by two at most."""
    size, letters = len(text), _letters(text)
    return [
        word
        for length in range(size - _MAX_EDITS, size + _MAX_EDITS + 1)
        for word, others in words.get(length, _NO_WORDS).items()
        if (letters ^ others).bit_count() <= 2 * _MAX_EDITS
    ]


_COINED_INSIDE: Final = re.compile(
    "|".join(
        f"{first}(?:{'|'.join(name[1:] for name in names)})"
        for first, names in groupby(sorted(_COINED), key=itemgetter(0))
    )
)
"""Told in a sixth of the time that it takes to look for one name after the other."""


def _embedded_domain(clean: str) -> str:
    """Return the known domain in a text that says nothing else: a dot too many, its suffix again."""
    known = _known_domains()
    label, _, rest = clean.partition(".")
    if again := _repeated_domain(clean):
        return again
    whole = known.joined.get(clean.translate(_WITHOUT_SIGNS), "")
    if whole and (clean.count(".") < whole.count(".") or whole.partition(".")[0] in _COINED):
        return whole
    inside = known.joined.get(label.replace("-", ""), "")
    if inside and rest == inside.partition(".")[2]:
        return inside
    names = [name for name in _COINED if name in clean] if _COINED_INSIDE.search(clean) else []
    return next(filter(None, (_single_known_domain(name, clean) for name in names)), "")


def _repeated_domain(clean: str) -> str:
    """Return the known domain that a text is with itself, its name or the end of its suffix again."""
    labels = clean.split(".")
    if len(set(labels)) == len(labels):
        return ""
    half = ".".join(labels[: len(labels) // 2])
    shorter = ".".join(labels[:-1]) if labels[-1:] == labels[-2:-1] else ""
    inner = ".".join(labels[1:]) if labels[:1] == labels[1:2] else ""
    twice = half if clean == f"{half}.{half}" else ""
    return next(filter(_known_domains().has, filter(None, (twice, shorter, inner))), "")


def _single_known_domain(name: str, clean: str) -> str:
    """Return the domain of a coined name where nothing but itself or its like stands around it."""
    for suffix in _known_domains().suffixes[name]:
        domain = f"{name}.{suffix}"
        before, found, after = clean.rpartition(domain)
        front = before.strip(".")
        harmless = front in _COMMON_PREFIXES | {"", name, suffix, domain} or front.isdecimal()
        if found and harmless and after.strip(".") in {"", suffix, name}:
            return domain
    return ""


def _leading_domain(clean: str) -> str:
    """Return the known domain a text begins with."""
    beginnings = (clean[:end] for end in range(len(clean), 0, -1))
    return next(filter(_known_domains().coined.__contains__, beginnings), "")


def _nearest(clean: str, *, bold: bool) -> str:
    """Return the known domain the fewest slips away, "" where none is near enough."""
    known = _known_domains()
    label, dot, rest = clean.partition(".")
    if len(label) > _LONGEST_LABEL:
        return ""
    if not dot:
        return _nearest_without_dots(label)
    if not (words := known.letters if bold else _by_length(_plausible_names(label, rest))):
        return ""
    misheard = _MISHEARD.get(label)
    names = (
        [name for name in _candidates(misheard, words) if name == misheard]
        if misheard
        else _candidates(label, words)
    )
    found = [
        (cost + suffix_cost, known.ranks[name], f"{name}.{suffix}")
        for name in names
        if (cost := _name_cost(label, name, bold=bold)) is not None
        for suffix_cost, suffix in _suffix_costs(rest, known.suffixes[name], bold=bold, sure=not cost)
        if name in _COINED
        or (
            cost + suffix_cost <= (_SURE_COST if suffix_exists(clean) else _SURE_COST_LONG)
            and (bold or rest != "co")
        )
    ]
    return min(found, default=(0, 0, ""))[2]


def _nearest_without_dots(text: str) -> str:
    """Return the known domain that a text without a dot is one slip away from, or the one of a bare name."""
    known = _known_domains()
    near = _candidates(text, known.joined_letters)
    costs = [(_edit_cost(text, name, max_cost=_ANY_EDIT), known.joined[name]) for name in near]
    cost, domain = min(costs, default=(_MAX_EDITS, ""))
    if cost <= _ANY_EDIT:
        return domain
    return f"{text}.{known.suffixes[text][0]}" if text in _COINED else ""


def _plausible_names(label: str, rest: str) -> frozenset[str]:
    """Return the names worth measuring a typed domain against that may be somebody's."""
    known = _known_domains()
    none: frozenset[str] = frozenset()
    names = known.by_first.get((rest, label[:1]), none) | known.by_tail.get((rest, label[1:]), none)
    names |= known.by_tail.get((rest, label), none)
    return names | {label} if label in known.suffixes else names


def _spellings(suffixes: tuple[str, ...]) -> Iterator[str]:
    for suffix in suffixes:
        yield suffix
        yield from _SUFFIX_TYPOS.get(suffix, ())


def _name_cost(typed: str, name: str, *, bold: bool) -> float | None:
    """Return what it costs to read a typed label as a name, None where that is too much."""
    if typed == name or _MISHEARD.get(typed) == name:
        return 0.0
    cost = _edit_cost(typed, name, max_cost=_MAX_COST)
    if name not in _COINED:
        return cost if cost <= _DELETION and (bold or _is_typing_error(typed, name)) else None
    if bold:
        return cost if cost <= (2.0 if len(name) < _MIDDLE else _MAX_COST) else None
    return cost if _is_sure(typed, name, cost) else None


_VOWELS: Final = frozenset("aeiouy")
_DOUBLES = re.compile(r"(.)\1+")


def _is_typing_error(typed: str, name: str) -> bool:
    """Whether a name was meant under its country's suffix: letters doubled or swapped make no other."""
    if len(name) > _MIDDLE:
        return typed[0] == name[0]
    return len(name) > len("o2") and (
        sorted(typed) == sorted(name) or _DOUBLES.sub(r"\1", typed) == _DOUBLES.sub(r"\1", name)
    )


def _is_another_name(typed: str, name: str) -> bool:
    """Whether a letter differs that neither finger nor ear takes for the other: laporte is no laposte."""
    wrong = [pair for pair in zip(typed, name, strict=False) if pair[0] != pair[1]]
    if len(typed) != len(name) or len(wrong) != 1 or _known_domains().ranks[name] < _FAMOUS_NAMES:
        return False
    return wrong[0] not in _NEIGHBOUR_KEYS and not _VOWELS.issuperset(wrong[0])


def _is_sure(typed: str, name: str, cost: float) -> bool:
    """Whether a slip is beyond doubt even if somebody may own the typed domain.

    Most people get the first letter right; where it is wrong or missing, nothing else may be.
    """
    if typed[:1] == name[0]:
        # One wrong letter is enough for any coined name; two only if each is of the kind that fingers make.
        return cost <= (_SURE_COST_LONG if len(name) >= _LONG else _SURE_COST) and not _is_another_name(
            typed, name
        )
    if _known_domains().ranks[name] >= _FAMOUS_NAMES:
        return False
    if typed[:2] == name[1::-1] and typed[2:] == name[2:]:
        return True
    if typed[1:] == name and (typed[0], name[0]) in _NEIGHBOUR_KEYS:
        return True
    if len(name) < _MIDDLE:
        return name == "yahoo" and (typed == name[1:] or (typed[1:] == name[1:] and typed[0] in "tuz"))
    return typed == name[1:] or ((typed[:1], name[0]) in _NEIGHBOUR_KEYS and typed[1:] == name[1:])


def _suffix_costs(
    typed: str, suffixes: tuple[str, ...], *, bold: bool, sure: bool
) -> Iterator[tuple[float, str]]:
    """Return the suffixes a typed one may stand for, each with its cost; `sure`: the name is right."""
    for rank, suffix in enumerate(suffixes):
        rank_cost = rank / 1_000
        if typed == suffix:
            yield 0.0, suffix
        elif typed in _SUFFIX_TYPOS.get(suffix, ()):
            yield 0.3 + rank_cost, suffix
        elif sure and _is_same_country(typed, suffix):
            yield _TRANSPOSITION + rank_cost, suffix
        elif bold and not suffix_exists(f"x.{typed}"):
            cost = _DOUBLED_LETTER if typed == suffix[::-1] else _edit_cost(typed, suffix)
            if cost <= max(1.0, 0.65 * len(suffix)) or (sure and len(suffixes) == 1):
                yield cost + rank_cost, suffix
        elif bold and rank == 0:
            yield 1.5, suffix  # a suffix that exists, under which the name takes no mail


def _is_same_country(typed: str, suffix: str) -> bool:
    """Return whether a suffix of two labels was meant by one with a slip in its first: "cm.br"."""
    inner, dot, country = suffix.partition(".")
    label, _, typed_country = typed.partition(".")
    return bool(dot) and typed_country == country and _edit_cost(label, inner) <= _ANY_EDIT


@cache
def _substitution_cost(one: str, other: str) -> float:
    if one == other:
        return 0.0
    return (
        _NEIGHBOUR_KEY
        if (one, other) in _NEIGHBOUR_KEYS or {one, other} in ({"0", "o"}, {"1", "l"}, {"1", "i"})
        else _ANY_EDIT
    )


def _edit_cost(typed: str, target: str, *, max_cost: float = math.inf) -> float:
    """Return the weighted distance of two words (optimal string alignment), infinity beyond `max_cost`.

    A key beside the right one, a letter twice or two letters swapped cost less than any other slip.
    """
    previous: list[float] = []
    current = [float(column) * _DELETION for column in range(len(target) + 1)]
    for row_number, key in enumerate(typed, start=1):
        insertion = _insertion_cost(typed, row_number)
        following = [current[0] + insertion]
        for column, wanted in enumerate(target, start=1):
            deletion = _DOUBLED_LETTER if column > 1 and wanted == target[column - 2] else _DELETION
            cost = min(
                current[column - 1] + _substitution_cost(key, wanted),
                current[column] + insertion,
                following[column - 1] + deletion,
            )
            if (
                row_number > 1
                and column > 1
                and key == target[column - 2]
                and typed[row_number - 2] == wanted
                and key != wanted
            ):
                cost = min(cost, previous[column - 2] + _TRANSPOSITION)
            following.append(cost)
        previous, current = current, following
        if min(current) > max_cost and min(previous) > max_cost:  # whatever follows builds on one of these
            return math.inf
    return current[-1]


def _insertion_cost(typed: str, at: int) -> float:
    """Return what a letter too many costs: little when it is the one beside it, or a key beside that one."""
    key, others = typed[at - 1], typed[max(0, at - 2) : at - 1] + typed[at : at + 1]
    if key in others or key == "-":
        return _DOUBLED_LETTER
    near = key.isdecimal() or any((key, other) in _NEIGHBOUR_KEYS for other in others)
    return _NEIGHBOUR_KEY if near else _ANY_EDIT
