"""Who runs an MX host, how politely to ask there and whether the answers mean something."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pipeline.overrides import bad_overrides, read_overrides
from pipeline.provider_table import DEFAULT, PROVIDERS, Provider
from pipeline.public_suffixes import public_suffixes


@dataclass(frozen=True, slots=True)
class _Check:
    """What a field of the overrides file must hold."""

    wanted: str
    accepts: Callable[[Any], bool]


def _is_words(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(word, str) and word for word in value)


_WORD = _Check("a word", lambda value: isinstance(value, str))
_COUNT = _Check("a whole number from 1 to 100000", lambda value: type(value) is int and 1 <= value <= 100_000)
_LIMITS = {
    "sessions": _COUNT,
    "rate": _Check(
        "a number above 0, at most 1000000", lambda value: type(value) in {int, float} and 0 < value <= 1e6
    ),
    "burst": _COUNT,
    "recipients": _COUNT,
}
_FIELDS = {
    "key": _WORD,
    "suffixes": _Check("a list of words", _is_words),
    "informative": _Check("true or false", lambda value: isinstance(value, bool)),
    **_LIMITS,
    "note": _WORD,
}


class Providers:
    """The provider table with the operator's changes."""

    def __init__(self, rows: Sequence[Provider] = PROVIDERS, default: Provider = DEFAULT) -> None:
        """Build the table; of two rows with the same key or suffix the later one wins."""
        self._default = default
        self._rows = {row.key: row for row in rows}
        self._keys = {suffix: row.key for row in self._rows.values() for suffix in row.suffixes}
        self._public = public_suffixes()

    @classmethod
    def load(cls, overrides: Path | None = None) -> Providers:
        """Build the table from the built-in rows and an overrides file.

        `[[provider]]` changes the named fields of the row with that `key` (`default` is the row for everybody
        else) or adds a row; `[limits]` then sets `sessions`, `rate`, `burst`, `recipients` of all rows.

        Raises:
            MailsiftError: `bad_overrides`.
        """
        changes = read_overrides(overrides)
        limits = _checked(changes.limits, known=_LIMITS, where="[limits]")
        rows = {row.key: row for row in (DEFAULT, *PROVIDERS)}
        for raw in changes.providers:
            named = _checked(raw, known=_FIELDS, where="[[provider]]")
            if not named.get("key"):
                raise bad_overrides("[[provider]] needs a `key`")
            fresh = replace(rows[DEFAULT.key], suffixes=(), note="")
            rows[named["key"]] = replace(rows.pop(named["key"], fresh), **named)  # last, so its suffixes win
        default = replace(rows.pop(DEFAULT.key), **limits)
        return cls([replace(row, **limits) for row in rows.values()], default)

    def key_of(self, mx_names: Sequence[str]) -> str:
        """Return the throttle key of exchangers given in order of preference, "" when there are none.

        The best exchanger decides: the provider with the longest matching suffix (whole labels), else the
        registrable domain of the host, else (a public suffix, an IP literal) the host itself.
        """
        if not mx_names:
            return ""
        host = mx_names[0].rstrip(".").lower()
        labels = host.split(".")
        for start in range(len(labels)):
            key = self._keys.get(".".join(labels[start:]))
            if key is not None:
                return key
        registrable = None if labels[-1].isdigit() else self._public.privatesuffix(host)
        return registrable or host

    def row(self, key: str) -> Provider:
        """Return the provider's row; for keys outside the table the default row under that key."""
        return self._rows.get(key) or replace(self._default, key=key)


def _checked(raw: Mapping[str, Any], *, known: Mapping[str, _Check], where: str) -> dict[str, Any]:
    """Return the table when every value is what its name asks for."""
    for name, value in raw.items():
        if name not in known:
            raise bad_overrides(f"{where} does not know `{name}`; it knows {', '.join(known)}")
        if not known[name].accepts(value):
            raise bad_overrides(f"{where} `{name}` must be {known[name].wanted}")
    if "suffixes" in raw:
        return {**raw, "suffixes": tuple(suffix.lower().strip(".") for suffix in raw["suffixes"])}
    return dict(raw)
