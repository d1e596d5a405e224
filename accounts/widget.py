"""What a form's visitor may ask without a secret: tokens for one page load, and how often anybody may ask.

A public key stands in a page for everybody to read, so nothing hangs on it: what a check tells is no secret
(docs/widget.md has the table of attacks).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from mailsift.accounts.keys import Caller, Pepper
from mailsift.accounts.sessions import RateLimitedError
from mailsift.pipeline.clock import Clock
from mailsift.pipeline.errors import MailsiftError
from mailsift.storage.redis.connection import redis_unavailable
from mailsift.storage.redis.rate_limit import RateLimit, RateLimitDecision, Zone, whole_seconds

TOKEN_SECONDS: Final = 600
"""Seconds a page may check addresses before it fetches another token."""
MOST_CHECKS: Final = 40
"""Checks with one token."""
_LOADS: Final = Zone("widget_load", quota=20, window=60)  # tokens of one visitor
_CHECKS: Final = Zone("widget_check", quota=40, window=60)  # checks of one visitor
_ONCE: Final = Zone("widget_once", quota=1, window=2 * TOKEN_SECONDS)  # one check of one token
_NONCE_BYTES, _TIME_BYTES, _MAC_BYTES = 12, 6, 32


@dataclass(frozen=True, slots=True)
class FormVisit:
    """A form in somebody's browser."""

    caller: Caller  # whose public key stands in the page
    origin: str  # where the page is from, as the browser says
    address: str  # what limits know the browser by: its network


class WidgetGate:
    """Lets visitors of forms in, a few checks at a time.

    What signs tokens is derived from the peppers; the first one signs, all of them open.
    """

    def __init__(
        self, *, peppers: Sequence[Pepper], limit: RateLimit, clock: Clock, token: Callable[[int], bytes]
    ) -> None:
        self._secrets = [hmac.digest(pepper.secret, b"mailsift widget", "sha256") for pepper in peppers]
        self._limit = limit
        self._clock = clock
        self._token = token

    async def open(self, visit: FormVisit) -> str:
        """Return a token for one page load.

        Raises:
            MailsiftError: `origin_refused`, `rate_limited`, `redis_unavailable`.
        """
        check_origin(visit)
        await self._spend(_LOADS, self._visitor(visit))
        ends = int(self._clock()) + TOKEN_SECONDS
        head = self._token(_NONCE_BYTES) + ends.to_bytes(_TIME_BYTES, "big")
        return base64.urlsafe_b64encode(head + self._signature(self._secrets[0], head, visit)).decode()

    async def admit(self, visit: FormVisit, token: str, number: int) -> None:
        """Let one check through: the `number`-th with this token, which goes through once.

        Raises:
            MailsiftError: `origin_refused`; `widget_token_refused`: forged, over, somebody else's, or used;
                `rate_limited`, `redis_unavailable`.
        """
        check_origin(visit)
        nonce = self._nonce(visit, token)
        if not 1 <= number <= MOST_CHECKS:
            raise _token_refused()
        await self._spend(_CHECKS, self._visitor(visit))
        all_visitors = Zone("widget_key", quota=visit.caller.checks_per_minute, window=60)
        await self._spend(all_visitors, str(visit.caller.key_id))
        if not (await self._decide(_ONCE, f"{nonce.hex()}:{number}")).allowed:
            raise _token_refused()

    def _nonce(self, visit: FormVisit, token: str) -> bytes:
        try:
            found = base64.b64decode(token.encode("ascii"), b"-_", validate=True)
        except (UnicodeEncodeError, binascii.Error):
            raise _token_refused() from None
        head, mac = found[:-_MAC_BYTES], found[-_MAC_BYTES:]
        signed = [self._signature(secret, head, visit) for secret in self._secrets]
        if not any(hmac.compare_digest(mac, one) for one in signed):
            raise _token_refused()
        if int.from_bytes(head[_NONCE_BYTES:], "big") <= self._clock():
            raise _token_refused()
        return head[:_NONCE_BYTES]

    def _signature(self, secret: bytes, head: bytes, visit: FormVisit) -> bytes:
        """Tie a token to the key, the origin and the visitor it is for."""
        bound = (head, visit.caller.key_id.bytes, visit.origin.encode(), self._visitor(visit).encode())
        return hmac.digest(secret, b"".join(len(one).to_bytes(2, "big") + one for one in bound), "sha256")

    def _visitor(self, visit: FormVisit) -> str:
        """Return what a visitor is counted by: nobody who reads it learns the address it is made of."""
        name = visit.caller.key_id.bytes + visit.address.encode()
        return hmac.digest(self._secrets[0], name, hashlib.sha256)[:16].hex()

    async def _spend(self, zone: Zone, holder: str) -> None:
        decision = await self._decide(zone, holder)
        if not decision.allowed:
            text = "Too many checks from this visitor. Try again later."
            raise RateLimitedError(text, retry_after=whole_seconds(decision.retry_after))

    async def _decide(self, zone: Zone, holder: str) -> RateLimitDecision:
        """Ask the limiter; where nobody counts nobody comes in: the form goes on without."""
        decision = await self._limit.take(zone, holder)
        if decision is None:
            raise redis_unavailable()
        return decision


def check_origin(visit: FormVisit) -> None:
    """Refuse a page that is not from where the key may stand.

    Raises:
        MailsiftError: `origin_refused`.
    """
    if visit.origin not in visit.caller.origins:
        raise MailsiftError("origin_refused", "This key can’t be used on pages from this origin.")


def _token_refused() -> MailsiftError:
    return MailsiftError("widget_token_refused", "This token has expired or been used. Reload the page.")
