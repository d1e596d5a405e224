"""Makes a mail server's words fit to be shown: one printable line without addresses or ids."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

_MAX_TEXT = 2_000
_MAX_CHARS = 300
_MAX_WORD = 60
_MAX_NUMBERED = 19
_ID_DIGITS = 4

_ESCAPE = re.compile(r"[\x1b\x9b]\[?[0-?]{0,20}[ -/]{0,4}[@-~]?")
_URL = r"(?P<url>\bhttps?://[^\s<>\"']{1,2000})"
_ADDRESS = (
    r"(?P<address><[^<>@＠]{0,128}[@＠][^<>]{1,255}>|\"[^\"]{0,64}\"[@＠][^\s<>]{1,255}"
    r"|[^\s<>@＠()\[\],;\"]{1,128}(?:[@＠]|%40)[^\s<>@＠()\[\],;:\"]{1,255})"
)
_IPV4 = r"(?:\d{1,3}\.){3}\d{1,3}(?![\d.]*\d)"
_IPV6 = (
    r"(?=[0-9A-Fa-f:]{0,40}::|(?:[0-9A-Fa-f]{0,4}:){3})"  # a time of day has two colons and is no address
    r"[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}(?:(?<=:)(?:\d{1,3}\.){3}\d{1,3})?(?![\w:])"
)
_NAME = r"(?:[\w-]{1,63}(?:\.[\w-]{1,63}){0,8} ?)?"
_HOST = rf"(?P<host>(?<![\w.-]){_NAME}[\[(](?:IPv6:)?(?:{_IPV4}|{_IPV6})[\])])"
_IP = rf"(?P<ip>(?<![\w.:])(?:IPv6:)?(?:{_IPV4}|{_IPV6}))"
_WORD = r"(?P<word>[A-Za-z0-9_+/=.\-]{12,2000})"
_HIDDEN = re.compile(f"{_URL}|{_ADDRESS}|{_HOST}|{_IP}|{_WORD}")
_TELLING_HOST = re.compile(rf".*@.*|{_IPV4}(?::\d{{1,5}})?|\[.*")
_TELLING_PATH = re.compile(rf"[@%=]|{_IPV4}")


def redact(text: str, *, own: Sequence[str] = ()) -> str:
    """Return a reply's words as evidence that may be shown and kept.

    Email addresses, IP addresses (with the host name before them), ids and every name in `own` are replaced
    by placeholders; URLs lose their queries. The result is one printable line of at most 300 characters.

    Args:
        text: as received; may be hostile and of any length.
        own: our IP addresses and HELO name.
    """
    line = _one_line(text)
    for name in filter(None, own):
        line = _name_pattern(name).sub("<us>", line)
    redacted = _HIDDEN.sub(_placeholder, line)
    return redacted if len(redacted) <= _MAX_CHARS else redacted[: _MAX_CHARS - 1].rstrip() + "…"


@lru_cache(maxsize=64)
def _name_pattern(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", re.IGNORECASE)


def _one_line(text: str) -> str:
    """Return printable words with single spaces; a word cut at the length limit is left out."""
    head = text if len(text) <= _MAX_TEXT else text[:_MAX_TEXT].rpartition(" ")[0]
    plain = _ESCAPE.sub("", head)
    if not plain.isprintable():
        plain = "".join(char if char.isprintable() else " " for char in plain)
    return " ".join(plain.split())


def _placeholder(match: re.Match[str]) -> str:
    kind = match.lastgroup or ""
    return _REPLACEMENTS[kind](match[kind])


def _redact_url(url: str) -> str:
    """Return a URL without its query, and without its path where that holds an id or an address."""
    bare = re.split(r"[?#]", url, maxsplit=1)[0]
    scheme, _, rest = bare.partition("//")
    host, _, path = rest.partition("/")
    if _TELLING_HOST.fullmatch(host):
        return f"{scheme}//<host>"
    return bare if _is_harmless(path) else f"{scheme}//{host}/<id>"


def _is_harmless(path: str) -> bool:
    return not _TELLING_PATH.search(path) and all(_redact_word(part) == part for part in path.split("/"))


def _redact_word(word: str) -> str:
    """Return a long word unless it looks like an id: many digits, or longer than words are."""
    digits = sum(char.isdecimal() for char in word)
    limit = _MAX_NUMBERED if digits else _MAX_WORD
    return "<id>" if digits >= _ID_DIGITS or len(word) > limit else word


_REPLACEMENTS: dict[str, Callable[[str], str]] = {
    "url": _redact_url,
    "address": lambda _: "<address>",
    "host": lambda _: "<host>",
    "ip": lambda _: "<ip>",
    "word": _redact_word,
}
