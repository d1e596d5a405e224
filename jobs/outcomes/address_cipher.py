"""Addresses of one account, hidden: a digest to look them up, sealed for the account's own exports."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias
from uuid import UUID

from mailsift.events.signing import KEY_BYTES, Vault
from mailsift.storage.database import Connection
from mailsift.storage.sql import outcomes

DIGEST_BYTES: Final = 16


class AddressCipher:
    """Hides the addresses of one account: seals them, and makes the digests they are looked up by."""

    def __init__(self, account_id: UUID, key: bytes, token: Callable[[int], bytes]) -> None:
        self._account_id = account_id
        self._key = key
        self._vault = Vault({"": key}, token=token)

    def digest(self, address: str) -> bytes:
        """Return what an address is looked up by."""
        return hmac.digest(self._key, address.encode(), hashlib.sha256)[:DIGEST_BYTES]

    def seal(self, address: str) -> bytes:
        """Return an address that only this account's key opens."""
        return self._vault.seal(self._account_id, address.encode())

    def open(self, sealed: bytes) -> str:
        """Return a sealed address.

        Raises:
            MailsiftError: `secret_key_missing`.
        """
        return self._vault.open(self._account_id, sealed).decode()


CipherOf: TypeAlias = Callable[[Connection, UUID], Awaitable[AddressCipher]]
"""What gives the cipher of an account."""


async def cipher_of(
    connection: Connection, account_id: UUID, vault: Vault, token: Callable[[int], bytes]
) -> AddressCipher:
    """Return what hides an account's addresses; its key is made at the first time.

    Raises:
        MailsiftError: `secret_key_missing`.
    """
    sealed = await outcomes.secret(connection, account_id)
    if sealed is None:
        await outcomes.keep_secret(connection, account_id, vault.seal(account_id, token(KEY_BYTES)))
        sealed = await outcomes.secret(connection, account_id) or b""
    return AddressCipher(account_id, vault.open(account_id, sealed), token)
