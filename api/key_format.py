"""What an API key looks like, and how it is turned into what is stored of it."""

from __future__ import annotations

import hashlib
import hmac
import re
import string
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pipeline.errors import MailsiftError

PREFIX = "svc_key_"
_DIGITS = string.digits + string.ascii_uppercase + string.ascii_lowercase
_RANDOM, _CHECK = 32, 6
_SHAPE = re.compile(rf"{PREFIX}[0-9A-Za-z]{{{_RANDOM + _CHECK}}}", re.ASCII)
_SHORTEST_PEPPER = 16


@dataclass(frozen=True, slots=True)
class Pepper:
    """A secret that keys the stored hashes, by name; new keys use the first one there is."""

    id: str
    secret: bytes


def new_key(choose: Callable[[str], str]) -> str:
    """Make a key: prefix, 32 random base62 digits (190 bits) and 6 of CRC-32 over both.

    Args:
        choose: picks one character of a text; `secrets.choice`.
    """
    body = PREFIX + "".join(choose(_DIGITS) for _ in range(_RANDOM))
    return body + _checksum(body)


def is_key(text: str) -> bool:
    """Tell whether the text has a key's shape and checksum; spares the database all garbage."""
    return bool(_SHAPE.fullmatch(text)) and text[-_CHECK:] == _checksum(text[:-_CHECK])


def hint(key: str) -> str:
    """Return what may be shown of a key."""
    body = key[len(PREFIX) : -_CHECK]
    return f"{PREFIX}{body[:4]}…{body[-4:]}"


def hashed(key: str, pepper: Pepper) -> bytes:
    """Return what is stored. Keyed, so that who can only write the database cannot make a key of his own."""
    return hmac.digest(pepper.secret, key.encode("ascii"), hashlib.sha256)


def read_peppers(text: str) -> tuple[Pepper, ...]:
    """Read `name:secret,name:secret`; the first one keys new hashes, all of them are tried.

    Raises:
        MailsiftError: `bad_peppers`.
    """
    peppers = tuple(_pepper(piece.strip()) for piece in text.split(",") if piece.strip())
    if not peppers or len({pepper.id for pepper in peppers}) < len(peppers):
        raise _bad_peppers()
    return peppers


def _pepper(piece: str) -> Pepper:
    name, _, secret = piece.partition(":")
    if not name or len(secret) < _SHORTEST_PEPPER:
        raise _bad_peppers()
    return Pepper(name, secret.encode())


def _bad_peppers() -> MailsiftError:
    text = (
        f"Peppers are name:secret,name:secret with distinct names and {_SHORTEST_PEPPER} characters or more."
    )
    return MailsiftError("bad_peppers", text)


def _checksum(body: str) -> str:
    number, digits = zlib.crc32(body.encode()), ""
    for _ in range(_CHECK):
        number, digit = divmod(number, len(_DIGITS))
        digits = _DIGITS[digit] + digits
    return digits


def hashes(key: str, peppers: Sequence[Pepper]) -> list[bytes]:
    """Return the key's hash under every pepper."""
    return [hashed(key, pepper) for pepper in peppers]
