"""How mailbox and catch-all facts are remembered: opaque keys, JSON values, and what may be used again."""

from __future__ import annotations

import json
from dataclasses import fields
from hashlib import blake2b
from operator import attrgetter
from typing import Any, Final

from pipeline.facts import Answer, CatchAllFact, Known, MailboxFact

DEFINITE: Final = frozenset({Answer.ACCEPTED, Answer.NOT_FOUND, Answer.DISABLED, Answer.FULL})
"""The answers that may be used again; anything else is asked anew."""

_MAILBOX_FIELDS: Final = tuple(field.name for field in fields(MailboxFact))
_CATCH_ALL_FIELDS: Final = tuple(field.name for field in fields(CatchAllFact))
_mailbox_values: Final = attrgetter(*_MAILBOX_FIELDS)
_catch_all_values: Final = attrgetter(*_CATCH_ALL_FIELDS)
_encode: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def mailbox_key(address: str, owner: str) -> str:
    """Return the key of a mailbox; the address cannot be read from it.

    Args:
        address: the canonical address.
        owner: who may use the fact again: nobody learns from an answer that somebody else has asked before.
            When the owner's random id is forgotten, nobody can find out any more whose mailbox it was.
    """
    key = blake2b(owner.encode(), digest_size=32).digest()
    return blake2b(address.encode(), digest_size=20, key=key).hexdigest()


def pack_mailbox(fact: MailboxFact) -> bytes:
    """Return the bytes to remember."""
    return _encode(dict(zip(_MAILBOX_FIELDS, _mailbox_values(fact), strict=True))).encode()


def unpack_mailbox(value: bytes) -> MailboxFact | None:
    """Return the remembered fact, marked as cached; None for bytes that are none."""
    words = _unpack(value, _MAILBOX_FIELDS)
    if words is None:
        return None
    try:
        return MailboxFact(**words | {"answer": Answer(words["answer"]), "cached": True})
    except ValueError:
        return None


def pack_catch_all(fact: CatchAllFact, probe: str) -> bytes:
    """Return the bytes to remember; the random recipient goes with an unknown outcome, to be asked again."""
    words = dict(zip(_CATCH_ALL_FIELDS, _catch_all_values(fact), strict=True))
    return _encode(words | {"probe": probe if fact.catch_all is Known.UNKNOWN else ""}).encode()


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


def _unpack(value: bytes, names: tuple[str, ...]) -> dict[str, Any] | None:
    """Read bytes another version may have written: anything but the expected fields is not known."""
    try:
        words = json.loads(value)
    except ValueError:
        return None
    return words if isinstance(words, dict) and set(words) == set(names) else None
