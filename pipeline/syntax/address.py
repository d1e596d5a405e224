"""One cell becomes one canonical address, or the name of the rule it breaks.

Plain ASCII addresses are taken by a pattern; of all others email-validator judges the local part, and DNS has
the last word on a domain that it can have.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import unquote

import idna

LONGEST = 1_024
"""Characters beyond which a text is too long whatever else it is; bounds the exact parser's work."""

REFUSED_TLDS = ("arpa", "invalid", "local", "localhost", "onion")
"""Special-use names (RFC 3172, RFC 6761, RFC 6762, RFC 7686) that never take mail; email-validator's but one.

`.test` is let through, here and in the fast path: it is the home of the sandbox, and outside of it DNS
says all there is to say about such a domain.
"""

REFUSED_TLD = rf"(?i)\.(?:{'|'.join(REFUSED_TLDS)})$"
"""Searched in a whole address."""

_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LABEL = r"[A-Za-z0-9]+(?:-[A-Za-z0-9]+)*"
_PLAIN_LOCAL = rf"{_ATOM}(?:\.{_ATOM})*"
"""A local part without quotes, in ASCII (RFC 5321 section 4.1.2, Dot-string)."""
PLAIN = rf"{_PLAIN_LOCAL}@(?:{_LABEL}\.)+[A-Za-z]+"
"""A plain ASCII address; with care for lengths and special-use names it is good beyond doubt.

No label has two hyphens in a row (RFC 5890: Punycode and reserved labels).
"""
LONGEST_LOCAL: Final = 64
"""Octets (RFC 5321 section 4.5.3.1.1)."""
LONGEST_PLAIN_DOMAIN: Final = 63
"""Octets of a domain no label of which can be too long (RFC 1035), nor its address (RFC 5321)."""
_LONGEST_ADDRESS: Final = 254
"""Octets (RFC 5321 section 4.5.3.1.3, less the angle brackets)."""
_LONGEST_INTERNATIONAL: Final = 60
"""Octets of an international address that is far from all limits."""

# White space and marks nobody sees, which spreadsheets and web pages leave at the ends of a cell.
UNSEEN = "".join(
    chr(code)
    for first, last in (
        (0x09, 0x0D),
        (0x20, 0x20),
        (0x85, 0x85),
        (0xA0, 0xA0),  # no-break space
        (0xAD, 0xAD),  # soft hyphen
        (0x034F, 0x034F),
        (0x061C, 0x061C),
        (0x1680, 0x1680),
        (0x180E, 0x180E),
        (0x2000, 0x200F),  # spaces, zero-width marks, direction marks
        (0x2028, 0x202F),  # separators, direction embeddings and overrides
        (0x205F, 0x206F),
        (0x3000, 0x3000),
        (0xFEFF, 0xFEFF),  # byte order mark
        (0xFFF9, 0xFFFB),
    )
    for code in range(first, last + 1)
)

_PLAIN = re.compile(PLAIN)
_LOCAL = re.compile(_PLAIN_LOCAL)
_REFUSED = re.compile(REFUSED_TLD)
_MAILTO = re.compile(
    r"\A(?i:mailto):(?://)?(?:\?(?:.*&)?(?i:to)=(?P<header>[^&]*)|\?.*|(?P<path>[^@]*@[^?]*|.*))", re.DOTALL
)
"""A URI (RFC 6068): whom it is to stands before its header fields or is one of them."""
_PICTURES = re.compile("[\u2600-\u27bf\U0001f000-\U0001faff]\u200d?")
JOINERS = re.compile("(?<=[^\x00-\x7f\u200b-\u200f])[\u200c\u200d](?=[^\x00-\x7f\u200b-\u200f])")
"""In words of many scripts and in emoji they are signs like others (RFC 5892 A.1, A.2); elsewhere nobody sees
them."""
_BRACKETS = re.compile(r"\A<([^<>]*)>\Z")
_CUT = ("<", "m", "M")
"""How texts begin that one of these may shorten."""


class SyntaxRule(StrEnum):
    """The rule a bad address breaks; the values are part of the contract."""

    EMPTY = "empty"
    NO_AT = "no_at"
    TOO_LONG = "too_long"
    LOCAL_EMPTY = "local_empty"
    LOCAL_TOO_LONG = "local_too_long"
    LOCAL_DOT = "local_dot"
    LOCAL_CHARACTER = "local_character"
    QUOTED_UNTERMINATED = "quoted_unterminated"
    DOMAIN_EMPTY = "domain_empty"
    DOMAIN_TOO_LONG = "domain_too_long"
    DOMAIN_LABEL = "domain_label"
    DOMAIN_CHARACTER = "domain_character"
    DOMAIN_NO_DOT = "domain_no_dot"
    DOMAIN_SPECIAL_USE = "domain_special_use"
    DOMAIN_LITERAL = "domain_literal"
    DISPLAY_NAME = "display_name"
    SEVERAL_ADDRESSES = "several_addresses"
    CONTROL_CHARACTER = "control_character"
    UNICODE_INVALID = "unicode_invalid"
    OTHER = "other"


class ParsedAddress(NamedTuple):
    """One row of frames.PARSED."""

    address: str
    local: str
    domain: str
    rule: str


_Rules = tuple[tuple[SyntaxRule, re.Pattern[str]], ...]

# Searched in the parts of a text with exactly one @ and no quotes; first match wins. Those of a local part
# match only what email-validator refuses too (a property test holds them together): they give the refusal its
# name and spare it the plain mistakes. Those of a domain decide, about its ASCII form in the end.
_LOCAL_RULES: _Rules = (
    (SyntaxRule.LOCAL_EMPTY, re.compile(r"\A\Z")),
    (SyntaxRule.LOCAL_TOO_LONG, re.compile(r"\A.{65}", re.DOTALL)),  # RFC 5321 section 4.5.3.1.1
    (SyntaxRule.LOCAL_DOT, re.compile(r"\A\.|\.\.|\.\Z")),  # RFC 5321 section 4.1.2, Dot-string
    (SyntaxRule.LOCAL_CHARACTER, re.compile(r"(?![.\w!#$%&'*+/=?^`{|}~-])[\x00-\x7f]")),
)
_DOMAIN_RULES: _Rules = (
    (SyntaxRule.DOMAIN_EMPTY, re.compile(r"\A\Z")),
    (SyntaxRule.DOMAIN_LITERAL, re.compile(r"\A\[")),
    (SyntaxRule.DOMAIN_TOO_LONG, re.compile(r"\A.{254}", re.DOTALL)),  # RFC 1035 section 2.3.4
    (SyntaxRule.DOMAIN_CHARACTER, re.compile(r"(?![A-Za-z0-9.-])[\x00-\x7f]")),
    (SyntaxRule.DOMAIN_SPECIAL_USE, re.compile(rf"(?i)(?:\A|\.)(?:{'|'.join(REFUSED_TLDS)})\Z")),
    (SyntaxRule.DOMAIN_NO_DOT, re.compile(r"\A[^.\u3002\uff0e\uff61]*\Z")),  # the other three: UTS 46
    # RFC 1123 section 2.1; 63 octets: RFC 1035; a numeric end: RFC 3696. Labels that IDNA reserves or forbids
    # (RFC 5890: "r4--x", what Punycode writes of emoji) are names in DNS like others, which says what exists.
    (SyntaxRule.DOMAIN_LABEL, re.compile(r"\A[.-]|\.\.|-\.|\.-|[.-]\Z|[A-Za-z0-9-]{64}|[0-9]\Z")),
)

# Words of email-validator's message about a local part -> rule, for what the table above does not see; first
# match wins.
_MESSAGES: tuple[tuple[str, SyntaxRule], ...] = (
    ("display name", SyntaxRule.DISPLAY_NAME),
    ("angle bracket", SyntaxRule.DISPLAY_NAME),
    ("anything after the email address", SyntaxRule.DISPLAY_NAME),
    ("must have an @-sign", SyntaxRule.QUOTED_UNTERMINATED),
    ("Extra character(s) found after close quote", SyntaxRule.LOCAL_CHARACTER),
    ("something before the @-sign", SyntaxRule.LOCAL_EMPTY),
    ("too long", SyntaxRule.LOCAL_TOO_LONG),
    ("Unicode normalization", SyntaxRule.UNICODE_INVALID),
    ("unsafe characters", SyntaxRule.UNICODE_INVALID),
    ("before the @-sign", SyntaxRule.LOCAL_CHARACTER),
    ("after the @-sign", SyntaxRule.DOMAIN_CHARACTER),
)

_LOOSE_DOTS = re.compile(
    r"\A(?=[^@]*\.[.@])([a-z0-9][\w!#$%&'*+/=?^`{|}~.-]*)@((?:docomo|ezweb)\.ne\.jp|au\.com)\Z",
    re.ASCII | re.IGNORECASE,
)
"""Two dots in a row or one before the @: these carriers gave such addresses out until 2009, and people have
them still. In quotes (RFC 5321 section 4.1.2, Quoted-string) they are addresses like others."""
_BETWEEN = r"\s,;|/<>&()\[\]\\、，；"
_SEPARATOR = re.compile(rf"[{_BETWEEN}]")
_ONE_OF_SEVERAL = re.compile(rf"[^@{_BETWEEN}]@[^@.{_BETWEEN}]+\.[^@.{_BETWEEN}]")
_QUOTED = re.compile(r'"[^"]*"(?=\s*[<@])')
"""A name, or a local part."""


def _holds_several(text: str) -> bool:
    """One address at least, and another @, with something between them that parts addresses."""
    bare = _QUOTED.sub("q", re.sub(r'\\[\\"]', "", text)) if '"' in text else text
    parted = _SEPARATOR.search(bare, bare.find("@") + 1, bare.rfind("@"))
    return bool(parted and _ONE_OF_SEVERAL.search(bare))


# Asked of the whole text, before it is split at the @.
_WHOLE_RULES: tuple[tuple[SyntaxRule, Callable[[str], object]], ...] = (
    (SyntaxRule.EMPTY, lambda text: not text),
    (SyntaxRule.SEVERAL_ADDRESSES, _holds_several),
    (SyntaxRule.TOO_LONG, lambda text: len(text) > LONGEST),
    (SyntaxRule.CONTROL_CHARACTER, re.compile(r"[\x00-\x1f\x7f-\x9f]").search),
    (SyntaxRule.UNICODE_INVALID, re.compile("\ufffd").search),  # stands for what could not be decoded
    (SyntaxRule.NO_AT, lambda text: "@" not in text),
    (SyntaxRule.DISPLAY_NAME, re.compile(r'\A[^"]*<[^"<>]*>\s*\Z').match),
    (SyntaxRule.QUOTED_UNTERMINATED, re.compile(r'\A"(?:[^"\\]|\\.)*\Z', re.DOTALL).match),
)
_ANY_DOMAIN: Final = "example.com"
"""Stands for the domain where only a local part is looked at."""
_ANYBODY: Final = "postmaster"
"""The same the other way round."""
_ONE_AT = re.compile(r'[^\x00-\x1f\x7f-\x9f"<@\ufffd]*@[^\x00-\x1f\x7f-\x9f"<@\ufffd]*')
"""What breaks none of these, unless it is too long."""


_MISREAD_SPACE = re.compile(r"\A(?:\u00c2\s+)+|(?<=[A-Za-z])\u00c2\Z")
"""What Latin-1 makes of a no-break space in UTF-8: its second half is one again, and cut."""
_DECORATION = re.compile(r"\A(?:[^@\uff1a\u2192]{1,30}[\uff1a\u2192]|[^\w\x00-\x7f]+)\s+")
"""A label that ends in a wide colon or an arrow, or bullets, arrows and emoji, each with a space behind it:
without one they may belong to a local part (RFC 6531)."""


def parse_cell(cell: str) -> ParsedAddress:
    """Parse one cell, a text without lone surrogates: what stands around its address is cut off."""
    plain = parse_plain(cell)
    if plain is not None:
        return plain
    text = tidy(cell)
    return _parse_unusual(text) if text == cell else parse_address(text)


def canonical_of(cell: str) -> str:
    """Return the canonical address of a cell, "" where it holds none."""
    parsed = parse_cell(cell)
    return "" if parsed.rule else parsed.address


def read_domain(text: str) -> str:
    """Return the canonical form of a domain that somebody wrote down, "" where it is none.

    It may stand behind an @ and end in the dot of the root (RFC 1034 section 3.1).
    """
    name = tidy(text).rpartition("@")[2].removesuffix(".")
    return parse_address(f"{_ANYBODY}@{name}").domain


def tidy(cell: str) -> str:
    """Cut unseen characters at the ends and a pair of angle brackets around all, and read a `mailto:` URI.

    Labels and signs in front that only decorate are no part of an address either.
    """
    text = cell.strip(UNSEEN)
    if not text.isascii():
        text = _DECORATION.sub("", _MISREAD_SPACE.sub("", text)).strip(UNSEEN)
    if not text.startswith(_CUT):
        return text
    return _without_mailto(_BRACKETS.sub(r"\1", _without_mailto(text)).strip(UNSEEN))


def _without_mailto(text: str) -> str:
    """Return whom a `mailto:` URI is to, without its escapes; any other text as it is."""
    found = _MAILTO.match(text)
    return unquote((found["header"] or found["path"] or "").strip(UNSEEN)).strip(UNSEEN) if found else text


def parse_address(text: str) -> ParsedAddress:
    """Parse one text that is nothing but an address and give its canonical form or the rule it breaks.

    The canonical form is lower-cased as a whole: RFC 5321 section 2.4 lets a server tell upper from lower
    case in local parts, none in practice does, and without it every list has duplicates. It is in NFC
    (RFC 6532 section 3.1) and its domain is ASCII (IDNA 2008). Canonical forms are their own canonical form.
    """
    return parse_plain(text) or _parse_unusual(text)


def _parse_unusual(text: str) -> ParsedAddress:
    """Do what parse_address does for a text that is no plain address."""
    return _parse_international(text) or parse_exact(text)


def parse_plain(text: str) -> ParsedAddress | None:
    """Parse what is a plain ASCII address beyond doubt; None leaves the judgement to the exact parser."""
    if not _PLAIN.fullmatch(text) or _REFUSED.search(text):
        return None
    address = text.lower()
    local, _, domain = address.partition("@")
    if len(local) > LONGEST_LOCAL or len(domain) > LONGEST_PLAIN_DOMAIN:
        return None
    return ParsedAddress(address, local, domain, "")


def _parse_international(text: str) -> ParsedAddress | None:
    """Parse a plain local part at an international domain that is known to be good from another address."""
    local, _, domain_text = text.partition("@")
    if domain_text.isascii() or len(text.encode()) > _LONGEST_INTERNATIONAL or not _LOCAL.fullmatch(local):
        return None
    domain = _ascii_domain(domain_text)
    return ParsedAddress(f"{local.lower()}@{domain}", local.lower(), domain, "") if domain else None


@lru_cache(maxsize=16_384)
def _ascii_domain(domain_text: str) -> str:
    """Return an international domain in ASCII, "" for a bad one."""
    return parse_exact(f"{_ANYBODY}@{domain_text}").domain


def parse_exact(text: str) -> ParsedAddress:
    """Do what parse_address does, by email-validator for the local part and IDNA for the domain."""
    text = _LOOSE_DOTS.sub(r'"\1"@\2', text)
    rule = obvious_rule(text)
    if rule is not None:
        return _rejected(text, rule)
    typed, _, domain_text = text.rpartition("@")
    try:
        local = _normal_local(typed.lower())
        domain = _domain_in_ascii(domain_text)
    except idna.IDNAError as error:
        return _rejected(text, _rule_of_idna(error))
    except ValueError as error:  # EmailNotValidError is one
        return _rejected(text, _rule_of(str(error)))
    rule = _rule_of_canonical(local, domain)
    return _rejected(text, rule) if rule else ParsedAddress(f"{local}@{domain}", local, domain, "")


def _rule_of_canonical(local: str, domain: str) -> SyntaxRule | None:
    """Return the rule a canonical form breaks: it is sent and stored, so what holds for any address does."""
    if rule := _search(_DOMAIN_RULES, domain):
        return rule
    if len(f"{local}@{domain}".encode()) > _LONGEST_ADDRESS:
        return SyntaxRule.TOO_LONG
    # RFC 5321 section 4.5.3.1.1, RFC 6531 section 3.3
    return SyntaxRule.LOCAL_TOO_LONG if len(local.encode()) > LONGEST_LOCAL else None


def _normal_local(local: str) -> str:
    """Return email-validator's normal form of a local part of an envelope address (RFC 5321, RFC 6531).

    Raises:
        ValueError: the syntax is bad.
    """
    if _LOCAL.fullmatch(local) and len(local) <= LONGEST_LOCAL:
        return local
    from email_validator import validate_email  # noqa: PLC0415 - most addresses are plain and need none of it

    seen = JOINERS.sub("", local) if '"' not in local else local
    found = validate_email(
        f"{seen}@{_ANY_DOMAIN}",
        allow_smtputf8=True,
        allow_quoted_local=True,
        allow_domain_literal=False,
        allow_display_name=False,
        strict=True,  # local parts of more than 64 characters are refused, RFC 5321 section 4.5.3.1.1
        check_deliverability=False,
    )
    return found.local_part if seen == local else unicodedata.normalize("NFC", local)


def _domain_in_ascii(domain: str) -> str:
    """Return a domain as DNS knows it, lower-case: UTS 46 maps its signs, RFC 5891 says what a label may be.

    Pictures may stand in a label, too, though IDNA 2008 forbids them: some registries sell such names.

    Raises:
        idna.IDNAError: a label cannot be one.
    """
    if domain.isascii():
        return domain.lower()
    labels = idna.uts46_remap(domain, std3_rules=True).split(".")
    for words in (*(_PICTURES.sub("", label) for label in labels[:-1]), labels[-1]):
        if not words.isascii():
            idna.check_label(words)
    return ".".join(
        label if label.isascii() else f"xn--{label.encode('punycode').decode()}" for label in labels
    )


def _rule_of_idna(error: idna.IDNAError) -> SyntaxRule:
    forbidden = isinstance(error, idna.InvalidCodepoint)
    return SyntaxRule.DOMAIN_CHARACTER if forbidden else SyntaxRule.UNICODE_INVALID


def obvious_rule(text: str) -> SyntaxRule | None:
    """Return the rule a plainly bad text breaks; None leaves the judgement to the exact parser."""
    if not _ONE_AT.fullmatch(text) or len(text) > LONGEST:
        whole = next((rule for rule, broken in _WHOLE_RULES if broken(text)), None)
        if whole is not None or '"' in text:
            return whole
    local, _, domain = text.partition("@")
    rule = _search(_LOCAL_RULES, local) or _search(_DOMAIN_RULES, domain)
    if rule is None and text.isascii() and len(text) > _LONGEST_ADDRESS:
        return SyntaxRule.TOO_LONG
    return rule


def _search(rules: _Rules, text: str) -> SyntaxRule | None:
    for rule, pattern in rules:
        if pattern.search(text):
            return rule
    return None


def _rule_of(message: str) -> SyntaxRule:
    return next((rule for words, rule in _MESSAGES if words in message), SyntaxRule.OTHER)


def _rejected(text: str, rule: SyntaxRule) -> ParsedAddress:
    return ParsedAddress(text, "", "", rule.value)
