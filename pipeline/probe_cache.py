"""How mailbox and catch-all facts are remembered: opaque keys, JSON values, and what may be used again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from hashlib import blake2b
from typing import Any, Final

from pipeline.facts import Answer, CatchAllFact, Known, MailboxFact

DEFINITE: Final = frozenset({Answer.ACCEPTED, Answer.NOT_FOUND, Answer.DISABLED, Answer.FULL})
"""The answers that may be used again; anything else is asked anew."""

_MAILBOX_FIELDS: Final = tuple(field.name for field in fields(MailboxFact))
_CATCH_ALL_FIELDS: Final = tuple(field.name for field in fields(CatchAllFact))


def mailbox_key(address: str) -> str:
    """Return the key of a mailbox; the address cannot be read from it."""
    return blake2b(address.encode(), digest_size=20).hexdigest()


def pack_mailbox(fact: MailboxFact) -> bytes:
    """Return the bytes to remember."""
    return _pack({name: getattr(fact, name) for name in _MAILBOX_FIELDS})


def unpack_mailbox(value: bytes) -> MailboxFact | None:
    """Return the remembered fact, marked as cached; None for bytes that are none."""
    words = _unpack(value, _MAILBOX_FIELDS)
    try:
        return (
            None
            if words is None
            else MailboxFact(**words | {"answer": Answer(words["answer"]), "cached": True})
        )
    except ValueError:
        return None


def pack_catch_all(fact: CatchAllFact, probe: str) -> bytes:
    """Return the bytes to remember; the random recipient goes with an unknown outcome, to be asked again."""
    words = {name: getattr(fact, name) for name in _CATCH_ALL_FIELDS}
    return _pack(words | {"probe": probe if fact.catch_all is Known.UNKNOWN else ""})


def unpack_catch_all(value: bytes) -> tuple[CatchAllFact, str] | None:
    """Return the remembered fact and random recipient; None for bytes that are none."""
    words = _unpack(value, (*_CATCH_ALL_FIELDS, "probe"))
    if words is None:
        return None
    probe = words.pop("probe")
    try:
        return CatchAllFact(**words | {"catch_all": Known(words["catch_all"])}), probe
    except ValueError:
        return None


def _pack(words: Mapping[str, Any]) -> bytes:
    return json.dumps(words, ensure_ascii=False, separators=(",", ":")).encode()


def _unpack(value: bytes, names: tuple[str, ...]) -> dict[str, Any] | None:
    """Read bytes another version may have written: anything but the expected fields is not known."""
    try:
        words = json.loads(value)
    except ValueError:
        return None
    return words if isinstance(words, dict) and set(words) == set(names) else None
