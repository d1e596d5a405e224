"""What somebody probably meant who typed a cell that is no address: offered, never taken without asking.

Every offer is an address that parses, made by taking away what stands around it or by writing its signs as
signs. Where two readings are possible (`jane doe@example.com`) nothing is offered.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from html import unescape
from operator import itemgetter
from typing import Final
from urllib.parse import unquote

from mailsift.pipeline.syntax.address import JOINERS, LONGEST, parse_address

MOST_OFFERS: Final = 5

_BIG = (
    r"(?:gmail|googlemail|hotmail|outlook|yahoo|icloud|aol|gmx|web|t-online|freenet|libero|wanadoo|orange)"
    r"\.[a-z]{2,3}(?:\.[a-z]{2})?"
)
"""Domains of so many people that somebody without an @ before them has lost it."""
_PLAIN_SIGNS = re.compile(
    rf"[a-z0-9_.+,;-]*@[a-z0-9_.,;-]*|(?!.*(?:_(?:at|dot|x0040)_|{_BIG}\Z))[a-z0-9_.+,;:/-]*"
)
"""A cell in which nothing stands for another sign, nor for an @ that it lacks: what most odd cells are."""
_UNSEEN_INSIDE = re.compile(
    f"(?!{JOINERS.pattern})"
    "[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\ufff9-\ufffb]"
)
_PADDING = re.compile(r"\A[\x00-\x1f\x7f]+|(?:[\x00-\x1f\x7f]|\\[rnt])+\Z")
"""What fields of a fixed width are filled up with, and ends of lines as programs write them."""
_HYPERLINK = re.compile(r"\A[^#]*#mailto:([^#]+)(?:#[^#]*)*\Z", re.IGNORECASE)
"""A hyperlink as databases export it: what it shows, where it goes, and a place there."""
_QUOTES = re.compile(r"[\"`´‘’‚‛“”„‟«»‹›″‵]|''")
_AT = (
    "at|ät|@|arr?obas?e?|chiocciola|klammeraffe|apenstaartje|snabel-?a|alfakrøll|kukac|zavin[aá][cč]"
    "|ma[lł]pa|собака"
)
_DOT = "(?:dot|punto|ponto|point|punkt|piste|kropka|tečka|точка)"
_OPEN, _CLOSE = r"[(\[{<]\s*", r"\s*[)\]}>]"
_WRITTEN_OUT: Final[tuple[tuple[re.Pattern[str], str], ...]] = tuple(
    (re.compile(pattern, re.IGNORECASE), sign)
    for pattern, sign in (
        (rf"\s*{_OPEN}(?:{_AT}|a){_CLOSE}\s*", "@"),
        (rf"\s*{_OPEN}(?:{_DOT}|\.){_CLOSE}\s*", "."),
        (r"(?<=\w)(?:\s+-\s?at\s?-\s+|\s?\*\s?at\s?\*\s?)(?=[\w-]+\.\w)", "@"),
        (rf"(?<=\w)\s+(?:{_AT}|chez)\s+(?=(?!www\.)[\w-]+(?:\.|\s+{_DOT}\s+)\w)", "@"),
        (r"(?<=\w)\s+at\s+(?=(?:gmail|yahoo|hotmail|outlook|icloud)\Z)", "@"),
        (rf"(?<=\w)\s+{_DOT}\s+(?=\w)", "."),
        (r"_x0040_|\\u0040", "@"),  # as XML (ISO/IEC 29500, ST_Xstring) and JSON escape it
        (r"(?<=[^\W_])_at_(?=[^\W_][\w.-]*(?:\.|_dot_)[a-z]+\Z)", "@"),
        (r"(?<=[^\W_])_dot_(?=[a-z]+\Z)", "."),
        (rf"\A((?:[^\W\d_]|\+)*[\d_.-][\w.+-]*(?<![\W_2]))(?={_BIG}\Z)", r"\1@"),  # a 2: @ without shift
        (r"\((?!or\s)[^()@?]{1,40}\)", " "),
    )
)
"""Signs written as words, against harvesters."""
_BRACKET_OR_SPACE = re.compile(r"[\s(\[{<*]|\A[^@]*\Z")  # else nothing is written out
_QUOTED_PRINTABLE = re.compile(r"=([2-7][0-9A-Fa-f])")
_LEFT_QUOTED = re.compile(r"\A=3[Cc]|=(?:3[Ee]|20|0[AaDd])+\Z|=40")
"""What quoted-printable (RFC 2045) leaves of brackets, blanks and the @ itself."""
_MASKED = re.compile(r"(?:\.{2,}|…)@|\ufffd.*@", re.DOTALL)
"""How pages hide the end of a local part, and what hides a sign that could not be decoded."""
_TOGETHER = re.compile(r"\{([^{}@]+)\}(@[^\s{}@]+)")
"""How papers write the addresses of colleagues."""
_HYPHENS = re.compile("(?<=\\w)[\u2010-\u2013\u2212](?=\\w)")
_DASHES = re.compile("[\u2014\u2015]")
_BACKSLASHED = re.compile(r"\\([_*.@+~-])")
_AGAINST_ROBOTS = re.compile(
    r"[.-]?(?<![A-Za-z])(?:NO[-_.]?SPAM|ANTI[-_.]?SPAM|(?:REMOVE|DELETE)(?:[-_.]?(?:THIS|ME))?)(?:[-_.]|(?=[a-z@.]))"
)
"""What people write into their address in capitals, to be taken out again."""
_BYTES = re.compile(r"\Ab(['\"])(.*)\1\Z", re.DOTALL)
"""Bytes, as Python shows them."""
_TWICE = re.compile(r"\A([^\s@]+@[^\s@]+)\1\Z")
_MISREAD = re.compile(
    "[\u00c2-\u00df][\u0080-\u00bf]|[\u00e0-\u00ef][\u0080-\u00bf\u20ac-\u2122\u0152-\u017e]{1,2}"
)
"""UTF-8 that was read as Latin-1 or Windows-1252."""
_ESCAPED = re.compile(r"%(?:20|22|27|2b|3c|3e|40)", re.IGNORECASE)
_NEXT_KEY = re.compile(rf"\A([\w.+-]+)[\"#§€](?={_BIG}\Z)", re.IGNORECASE)
"""What a hand finds on other keyboards than its own where it looks for the @."""
_SPACED = re.compile(r"\S(?:\s\S){7,}")

_MARKUP = re.compile(r"<a\s[^>]*>|</a>|\]\(mailto:[^)]*\)", re.IGNORECASE)
_LOOKS = re.compile(r"</?(?:span|b|i|u|em|strong|font|wbr|mark|small)(?:\s[^<>@]*)?/?>", re.IGNORECASE)
"""Markup inside a word."""
_GOES = re.compile(r"mailto:[^\s\"'()<>]+", re.IGNORECASE)
_ORNAMENTS = frozenset({"So", "Sm", "Po", "Ps", "Pe"})
"""Categories of arrows, bullets, brackets and other signs that only decorate, beyond ASCII."""
_SCHEME = re.compile(
    r"(?:\bmailto:(?://)?|\bhttps?://(?=[^\s/@]+@)|(?<=@)https?://(?:www\.)?)", re.IGNORECASE
)
_PAGE = re.compile(r"\b(?:https?://|www\.)[^\s@]*[/=?&](?=[^\s/=?&@]+@)", re.IGNORECASE)
"""A page's address up to the mail address in it."""
_QUERY = re.compile(r"(@[\w.-]+)[?&][\w%&=+.-]*")
_LABEL = re.compile(r"\A[^@:]{1,30}:\s*")
_KEY = re.compile(
    r"\A(?:.*[,;\s])?(?:e-?mail(?:address)?|mail|smtp|upn|userprincipalname)\s*=\s*|\A.*[?&][\w.\[\]-]+=|\Awww\.",
    re.IGNORECASE,
)
"""An attribute's name in a directory entry or a link: `cn=Jane Doe,mail=`, `?to=`."""
_AROUND = " \t\r\n.,;:!?|/\\<>()[]{}*•·‣#=-–—'&"
_BREAKS = re.compile(r"[\s,;|<>()\[\]{}&]+|(?<=\w)/(?=[^@]*@)")
_LABELS = frozenset(
    [
        *("e-mail", "email", "mail", "smtp", "correo", "contact", "kontakt", "address", "adresse"),
        *("at", "to"),
        *("tel", "phone", "telefon", "fax", "mobile"),
        *("new", "old", "neu", "alt", "work", "private", "privat", "personal", "perso"),
        *("please", "hello", "hi"),
    ]
)
_LEADS = frozenset(
    [
        *("at", "to", "is", "on", "via", "email", "mail", "e-mail", "address"),
        *("ist", "lautet", "unter", "adresse", "est", "sur", "es", "correo", "è", "é", "på", "til"),
    ]
)
"""Words of a sentence that come right before an address, and in nobody's name."""
_SENTENCE_END = re.compile(r"[.!?]\s")
_ONE_WORD = re.compile(r"(?!www\.)[\w.+'-]+", re.IGNORECASE)
_BLANK_BEFORE_DOT, _BLANK_AFTER_DOT = re.compile(r"\s+(?=\.)"), re.compile(r"(?<=[^\W\d]\.)\s+(?=[^\W\d])")
_WORD_BREAKS = re.compile(r"[\s<>()\[\]{}|;&]+")
_NO_DOMAIN = re.compile(r"[\w.+'-]+@")
"""One of several names before the same domain: "info@ / sales@nordwind.io"."""
_OTHER_DOT = re.compile(r"\A([\d_.+'-]*[^\W\d_][\w.+'-]*)(?:[:>]|[<(\[{](?=[^>)\]}]*\Z))([\w.+'-]+)@")
"""A single word with what may be a dot of another keyboard (there `:` or `>` are over it), or a bracket that
is not closed."""
_PARTED = re.compile(r"(?:[<>(\[{|:]|\s-)\s*\S+\Z")
"""A sign that keeps the last word apart from those before it."""
_LATIN = re.compile("[A-Za-z\u00c0-\u024f]")
_DOTS = re.compile(r"\.{2,}")
_DOMAIN_END = re.compile(r"[<>()\[\]{}|]|\s[-–&/]\s")
_DOT_AND_BLANKS, _LABEL_BREAKS = re.compile(r"\s*\.\s*"), re.compile(r"[\s,;:]+")
_MOST_LABELS = 3
_SHORTEST_NAME = 3

_inside = itemgetter(1)
"""Returns what a match puts in brackets; as a template, `\\1`, it is looked up where nothing matches, too."""


def repair_candidates(cell: str, *, domain_of: Callable[[str], str]) -> tuple[str, ...]:
    """Return the addresses a cell probably means, in its order; () when it is anybody's guess.

    Their domains are in canonical form, their local parts as they were typed.

    Args:
        cell: a text that is no address.
        domain_of: returns the domain that was probably meant by one that does not exist or is a slip of a
            well-known one, the domain itself where nothing is wrong with it, "" when it cannot exist.
    """
    if len(cell) > LONGEST:
        return ()
    text = _plain_signs(cell)
    if "@" not in text or any(map(_MASKED.search, {text, cell})):
        return ()
    if people := _TOGETHER.fullmatch(text.strip()):
        text = " ".join(name.strip() + people[2] for name in re.split(r"[,;|]", people[1]))
    if text.count("@") == 1:
        found = [_one_address(text, domain_of)]
    else:
        pieces = [piece for piece in _BREAKS.split(text) if "@" in piece]
        if any(map(_NO_DOMAIN.fullmatch, pieces)):
            return ()
        found = [_one_address(piece, domain_of) for piece in pieces]
    return tuple(dict.fromkeys(filter(None, found)))[:MOST_OFFERS]


def _plain_signs(cell: str) -> str:
    """Return a cell with plain signs for signs that look or read like them, and without marks nobody sees."""
    if _PLAIN_SIGNS.fullmatch(cell):
        return cell
    text = _HYPERLINK.sub(_inside, cell)
    text = _TWICE.sub(_inside, _BYTES.sub(itemgetter(2), _PADDING.sub("", text)))
    if _LEFT_QUOTED.search(text) and not ("=40" in text and "@" in text):
        text = _QUOTED_PRINTABLE.sub(lambda octet: chr(int(octet[1], 16)), text)
    text = _AGAINST_ROBOTS.sub("", _BACKSLASHED.sub(_inside, text))
    if not text.isascii():
        text = _redecode(text) if _MISREAD.search(text) else text
        text = re.sub(r"(?<=\w)[’´](?=\w)", "'", text).replace("´", " ")  # NFKC parts it into two
        text = _DASHES.sub(" ", _HYPHENS.sub("-", text))
        text = _UNSEEN_INSIDE.sub("", unicodedata.normalize("NFKC", text)).replace("。", ".")
        text = "".join(" " if _is_ornament(sign) else sign for sign in text)
    text = _NEXT_KEY.sub(lambda typed: f"{typed[1]}@", text)
    text = _QUOTES.sub(" ", _without_markup(unescape(text) if "&" in text else text)).replace("\\n", " ")
    text = re.sub(r"\s", "", text) if _SPACED.fullmatch(text.strip()) else text
    text = unquote(text) if _ESCAPED.search(text) else text
    text = _SCHEME.sub("", _PAGE.sub("", text) if "/" in text or "www." in text else text)
    for pattern, sign in _WRITTEN_OUT if _BRACKET_OR_SPACE.search(text) else ():
        text = pattern.sub(sign, text)
    return re.sub(r"@(?:\s*@)+", "@", _QUERY.sub(_inside, text))


def _redecode(text: str) -> str:
    """Return a text as UTF-8 that was taken for Windows-1252; as it is where it is none."""
    try:
        return text.encode("cp1252").decode()
    except UnicodeError:
        return text


def _is_ornament(sign: str) -> bool:
    return not sign.isascii() and unicodedata.category(sign) in _ORNAMENTS


def _without_markup(text: str) -> str:
    """Return what a link shows, and where it goes, when that is another address or it shows none."""
    visible = _MARKUP.sub(" ", _LOOKS.sub("", text))
    goes = _GOES.search(text)
    if goes is None or goes[0].partition(":")[2].partition("?")[0].lower() in visible.lower():
        return visible
    return f"{visible} {goes[0]}" if "@" in visible else goes[0]


def _one_address(text: str, domain_of: Callable[[str], str]) -> str:
    """Return the address in a text with one @, "" when it is not clear which it is."""
    slip = _OTHER_DOT.match(text.strip())
    if slip and not _is_label(slip[1].lower(), slip[2].lower()):
        return ""
    before, _, after = text.partition("@")
    local, after = _local_part(before.rstrip()), after.lstrip()
    read = map(_domain, (after, _SENTENCE_END.split(after)[0])) if local else ()
    domain = next(filter(None, (domain_of(typed) for typed in read if typed)), "")
    for name in dict.fromkeys((_with_its_dots(local, before), local)) if domain else ():
        parsed = parse_address(f"{name}@{domain}")
        if not parsed.rule:
            return f"{name}@{parsed.domain}"
    return ""


def _is_label(word: str, local: str) -> bool:
    """Say whether a word only names what follows: it is such a word, a part of it, or of another script."""
    return word in _LABELS or word in local or (local.isascii() and not _LATIN.search(word))


def _with_its_dots(local: str, before: str) -> str:
    """Return a local part with all dots that stand there: some carriers have given such ones out."""
    typed = before.rstrip()
    if ".." not in typed and not typed.endswith("."):
        return local
    start = len(typed)
    for label in reversed(local.split(".")):
        start = len(typed[:start].rstrip(".")) - len(label)
    dotted = typed[start:]
    return dotted if _DOTS.sub(".", dotted).rstrip(".") == local else local


def _local_part(before: str) -> str:
    """Return the word that ends at the @, "" where the words before it may be a part of it."""
    if _ONE_WORD.fullmatch(before):
        return _DOTS.sub(".", before.strip(_AROUND))
    text = _BLANK_AFTER_DOT.sub("", _BLANK_BEFORE_DOT.sub("", _LABEL.sub("", _KEY.sub("", before))))
    words = [word for word in _WORD_BREAKS.split(text.strip(_AROUND)) if word.strip(_AROUND)]
    if not words or "," in (local := words[-1].rpartition(":")[2].strip(_AROUND)):
        return ""
    others = [word.strip(_AROUND).lower() for word in words[:-1]]
    parted = _PARTED.search(text)
    foreign = local.isascii() and not any(map(_LATIN.search, _words(others)))
    named = foreign or any(len(word) >= _SHORTEST_NAME and word in local.lower() for word in others)
    led = others[-1:] and others[-1] in _LEADS
    clear = parted or named or led or _LABELS.issuperset(_words(others))
    return _DOTS.sub(".", local) if clear else ""


def _words(others: list[str]) -> set[str]:
    """Return the words that have letters: not the numbers of a list, or of a telephone."""
    return {word for word in others if any(map(str.isalpha, word))}


def _domain(after: str) -> str:
    """Return what follows the @ as a domain: the first word, or labels with other signs for dots."""
    text = _DOMAIN_END.split(after.lower())[0].strip(_AROUND)
    words = _LABEL_BREAKS.split(_DOT_AND_BLANKS.sub(".", text))
    if "." not in words[0]:
        labels = len(words) <= _MOST_LABELS and not any("." in word for word in words)
        return ".".join(words) if labels else ""
    return _DOTS.sub(".", words[0].strip(_AROUND))
