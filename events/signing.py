"""Standard Webhooks v1: HMAC-SHA256 over id, time and the bytes that are sent."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Sequence

SECRET_BYTES = 32
_PREFIX = "whsec_"


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
