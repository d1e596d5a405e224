"""Passwords: argon2id on threads of their own, a few at a time."""

from __future__ import annotations

import asyncio
import base64
import unicodedata
from collections.abc import Callable
from typing import Final

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from mailsift.pipeline.errors import MailsiftError

SHORTEST: Final = 12
"""NIST SP 800-63B asks for 8 and advises 15 where nothing else guards; length is all that is asked."""
LONGEST: Final = 200
_AT_ONCE: Final = 2  # each takes 64 MiB


class Passwords:
    """Hashes and checks.

    Args:
        token: returns that many random bytes.
        hasher: the cost; the default is the second choice of RFC 9106 section 4: 64 MiB, 3 passes.
    """

    def __init__(self, token: Callable[[int], bytes], hasher: PasswordHasher | None = None) -> None:
        self._hasher = hasher or PasswordHasher()
        self._decoy = _decoy(self._hasher, token)
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def hash(self, password: str) -> str:
        """Return what is stored of a password."""
        async with self._turns:
            return await asyncio.to_thread(self._hasher.hash, _prepared(password))

    async def verify(self, stored: str | None, password: str) -> bool:
        """Say whether the password is right; with None, it is not, after the same work."""
        async with self._turns:
            right = False
            for spelled in _spellings(password):
                right = right or await asyncio.to_thread(self._is_right, stored or self._decoy, spelled)
        return right and stored is not None

    def is_outdated(self, stored: str) -> bool:
        """Say whether a password was hashed at another cost than today's."""
        return self._hasher.check_needs_rehash(stored)

    def _is_right(self, stored: str, password: str) -> bool:
        try:
            return self._hasher.verify(stored, password)
        except (VerificationError, InvalidHashError):
            return False


def _prepared(password: str) -> str:
    """Return a password as it is hashed, whichever keyboard it was typed on (RFC 8265, section 4.2).

    One writes an é as one character, another as an e with an accent behind it; or a space of its own.
    """
    spaced = "".join(" " if unicodedata.category(sign) == "Zs" else sign for sign in password)
    return unicodedata.normalize("NFC", spaced)


def _spellings(password: str) -> list[str]:
    """Return what a password may have been hashed as: before it was prepared, as some keyboard wrote it."""
    return list(dict.fromkeys((_prepared(password), password, unicodedata.normalize("NFD", password))))


def check_password(password: str, *, email: str) -> None:
    """Refuse a password that is easily guessed.

    Raises:
        MailsiftError: `password_weak`.
    """
    password = _prepared(password)
    if not SHORTEST <= len(password) <= LONGEST:
        raise MailsiftError("password_weak", f"A password must have {SHORTEST} to {LONGEST} characters.")
    if len(set(password)) < 5 or password.lower() == email:
        raise MailsiftError("password_weak", "This password is too easy to guess. Choose another one.")


def _decoy(hasher: PasswordHasher, token: Callable[[int], bytes]) -> str:
    """Return a hash that no password has, at this hasher's cost."""
    salt, digest = (
        base64.b64encode(token(size)).decode().rstrip("=") for size in (hasher.salt_len, hasher.hash_len)
    )
    cost = f"m={hasher.memory_cost},t={hasher.time_cost},p={hasher.parallelism}"
    return f"$argon2id$v=19${cost}${salt}${digest}"
