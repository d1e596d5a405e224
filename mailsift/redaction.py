"""The last line of defence of the logs: what looks like an address, a key or a secret is replaced."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final, TypeAlias

Plain: TypeAlias = str | int | float | bool | list["Plain"] | dict[str, "Plain"] | None
"""What JSON can hold."""

ADDRESS: Final = "[address]"
SECRET: Final = "[secret]"  # noqa: S105 - it stands for one
LONGEST: Final = 2_000
"""Characters that are kept of a text."""

_DEEPEST: Final = 6
_SECRET: Final = re.compile(r"(?:svc_key_|whsec_)[^\s\"'<>,;]*", re.IGNORECASE)
_AT: Final = re.compile(r"[@\uff20\ufe6b]|%(?:25)*40")
"""The sign, of another width, percent-encoded once or more."""
_SIGNS: Final = ("@", "%", "\uff20", "\ufe6b", "svc_key_", "whsec_")
"""No text without one of these is changed."""
_QUOTED: Final = re.compile(rf'"[^"]{{0,80}}"(?:{_AT.pattern})\S*')
_WORD: Final = re.compile(r"[^\s<>\"]+")


def is_harmless(values: Collection[object]) -> bool:
    """Tell whether redaction would leave these values as they are: plain ones, and no text has a bad sign.

    One look at all of them, for nearly every line of the log is like that.
    """
    together = "\n".join([value for value in values if isinstance(value, str)])
    if len(together) > LONGEST or not all(isinstance(value, str | int | float) for value in values):
        return False
    low = together.lower()
    return not any(map(low.__contains__, _SIGNS))


def redact(text: str) -> str:
    """Replace what looks like an address, an API key or a webhook secret.

    Generous on purpose: every word with an at sign goes, and so do the credentials of a URL.
    """
    text = _SECRET.sub(SECRET, text)
    if _AT.search(text):
        text = _WORD.sub(_without_address, _QUOTED.sub(ADDRESS, text))
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def _without_address(word: re.Match[str]) -> str:
    return ADDRESS if _AT.search(word[0]) else word[0]


def redacted(value: object, depth: int = 0) -> Plain:
    """Return the value as JSON holds it, redacted, keys of mappings too.

    Args:
        value: anything; an exception becomes its class, what JSON does not know becomes text.
        depth: how deep inside another value it lies; what lies too deep is left out.
    """
    if isinstance(value, str):  # first, because most are, and every line of the log passes here
        return redact(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping | list | tuple | set | frozenset):
        return _nested(value, depth + 1)
    if isinstance(value, BaseException):
        return type(value).__qualname__
    if isinstance(value, bytes | bytearray):
        return redact(bytes(value).decode("utf-8", "replace"))
    return redact(str(value))


def _nested(value: Collection[object], depth: int) -> Plain:
    if depth > _DEEPEST:
        return "..."
    if isinstance(value, Mapping):
        return {redact(str(key)): redacted(item, depth) for key, item in value.items()}
    return [redacted(item, depth) for item in value]
