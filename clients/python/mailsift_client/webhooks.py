"""Webhooks are what they say they are (https://www.standardwebhooks.com/)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

_HEADERS: Final = ("webhook-id", "webhook-timestamp", "webhook-signature")
TOLERANCE: Final = 300.0
"""Seconds a webhook may be old, or early."""


class WebhookError(ValueError):
    """This is no webhook of the installation that has the secret, or it is too old."""


@dataclass(frozen=True, slots=True)
class Event:
    """A thing that happened; the same `id` may come twice."""

    id: UUID
    type: str
    created_at: datetime
    data: Mapping[str, Any]


def verify_webhook(
    secret: str,
    headers: Mapping[str, str],
    body: bytes,
    *,
    tolerance: float = TOLERANCE,
    now: float | None = None,
) -> Event:
    """Return the event of a webhook.

    Args:
        secret: of the webhook, `whsec_` and base64.
        headers: of the request; case does not matter.
        body: as it came; parsed and written anew it is another.
        tolerance: seconds the timestamp may differ from now.
        now: seconds since the epoch, if not the clock's.

    Raises:
        WebhookError: the signature, the time or the body is wrong.
    """
    found = {name.lower(): value for name, value in headers.items()}
    try:
        id_, at, signatures = (found[name] for name in _HEADERS)
    except KeyError as error:
        raise WebhookError(f"The header {error} is missing.") from None
    if not (at.isascii() and at.isdecimal() and len(at) <= 12):
        raise WebhookError("The timestamp is no number.")
    if abs((time.time() if now is None else now) - int(at)) > tolerance:
        raise WebhookError("The timestamp is too far from now.")
    signed = _bytes(f"{id_}.{at}.") + body
    if not any(hmac.compare_digest(_sign(secret, signed), given) for given in _given(signatures)):
        raise WebhookError("No signature is right.")
    return _event(body)


def _sign(secret: str, signed: bytes) -> bytes:
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except ValueError:
        raise WebhookError("The secret is not base64.") from None
    if not key:  # a setting that was forgotten: everybody could sign with it
        raise WebhookError("The secret is empty.")
    return base64.b64encode(hmac.digest(key, signed, hashlib.sha256))


def _given(signatures: str) -> Iterable[bytes]:
    """Yield what was signed with a shared secret; other versions are other people's."""
    for one in signatures.split(" "):
        version, _, signature = one.partition(",")
        if version == "v1":
            yield _bytes(signature)


def _bytes(text: str) -> bytes:
    """Encode what a server has decoded, lone surrogates too, for which some stand for what is no UTF-8."""
    return text.encode(errors="replace")


def _event(body: bytes) -> Event:
    try:
        found = json.loads(body)
        at = datetime.fromisoformat(found["created_at"])
        return Event(UUID(found["id"]), str(found["type"]), at, dict(found["data"]))
    except (ValueError, TypeError, KeyError):
        raise WebhookError("The body is no event.") from None
