"""Secrets of webhooks: sealed at rest, and signing what is sent (Standard Webhooks v1, HMAC-SHA256)."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from mailsift.pipeline.errors import MailsiftError

SECRET_BYTES = 32
_PREFIX = "whsec_"
TEST_MODE = {"mailsift-mode": "test"}
"""The header of what a test account is told; its events are those of the contract."""


def write_secret(secret: bytes) -> str:
    """Return a secret as its owner sees it: `whsec_` and base64."""
    return _PREFIX + base64.b64encode(secret).decode()


def signed_headers(message_id: str, timestamp: int, body: bytes, secrets: Sequence[bytes]) -> dict[str, str]:
    """Return the three headers of a signed message.

    Args:
        message_id: the same at every attempt; holds no full stop.
        timestamp: of this attempt, epoch seconds.
        body: the bytes that are sent.
        secrets: every secret the receiver may hold; during a rotation the new one and the one before.
    """
    signed = b"%b.%d.%b" % (message_id.encode(), timestamp, body)
    signatures = (base64.b64encode(hmac.digest(secret, signed, hashlib.sha256)) for secret in secrets)
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(f"v1,{signature.decode()}" for signature in signatures),
    }


if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES = 32
_NONCE_BYTES = 12


class Vault:
    """Seals secrets with AES-256-GCM, bound to what they belong to.

    Args:
        keys: keys of 32 bytes by their id, which holds no colon; the first one seals, all of them open.
        token: returns that many random bytes.
    """

    def __init__(self, keys: Mapping[str, bytes], *, token: Callable[[int], bytes]) -> None:
        self._keys = dict(keys)
        self._current = next(iter(keys))
        self._token = token

    def seal(self, owner: UUID, secret: bytes) -> bytes:
        """Return `key id:nonce ciphertext`; only the same owner's call opens it."""
        nonce = self._token(_NONCE_BYTES)
        sealed = _cipher(self._keys[self._current]).encrypt(nonce, secret, owner.bytes)
        return self._current.encode() + b":" + nonce + sealed

    def open(self, owner: UUID, sealed: bytes) -> bytes:
        """Return the secret.

        Raises:
            MailsiftError: `secret_key_missing` when the key that sealed it is not here, or is another one.
        """
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - see _cipher

        key_id, _, rest = sealed.partition(b":")
        try:
            cipher = _cipher(self._keys[key_id.decode()])
            return cipher.decrypt(rest[:_NONCE_BYTES], rest[_NONCE_BYTES:], owner.bytes)
        except (KeyError, InvalidTag):
            text = "A secret was sealed with a key that is not among MAILSIFT_SECRET_KEYS."
            raise MailsiftError("secret_key_missing", text) from None

    def signing_secrets(
        self, owner: UUID, secret: bytes, previous: bytes | None, *, until: datetime | None, now: datetime
    ) -> list[bytes]:
        """Return the secrets that sign now: the current one, and the one before `until` then.

        Raises:
            MailsiftError: `secret_key_missing`.
        """
        sealed = [secret]
        if previous and until and until > now:
            sealed.append(previous)
        return [self.open(owner, one) for one in sealed]


def _cipher(key: bytes) -> AESGCM:
    # Six megabytes, of no use to a process that takes lists in and never sees a webhook.
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415

    return AESGCM(key)
