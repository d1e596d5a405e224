"""Keeps off who floods the addresses of receivers: anybody may post there, and no key says who does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from uuid import UUID

from fastapi import Request

from mailsift.api.http.auth import client_of, quota_error
from mailsift.pipeline.errors import MailsiftError
from mailsift.storage.redis.rate_limit import RateLimit, Zone

_FORGERIES: Final = Zone("forgeries", quota=60, window=60)  # posted to one receiver from one address
_POSTS: Final = Zone("posts", quota=12_000, window=60)  # that one receiver believes
_UNPROVEN: Final = frozenset({"receiver_refused", "fetch_failed"})
"""What becomes of a forgery; the last where it names a certificate that SNS does not have."""


class FloodGuard:
    """Counts what is posted to receivers; while Redis is away everybody comes in, and signatures decide.

    Forgeries count for the receiver and the address they come from: mail senders post for many accounts from
    the same addresses, and one receiver with a wrong key closes none of the others. What is posted to
    receivers that do not exist counts for the address alone, and only such posts hear that it was too much.
    """

    def __init__(self, limit: RateLimit) -> None:
        self._limit = limit

    @asynccontextmanager
    async def admit(self, request: Request, receiver_id: UUID) -> AsyncIterator[None]:
        """Let a request in unless too many were refused before it; whose block raises is counted.

        Raises:
            MailsiftError: `rate_limited`.
        """
        host = client_of(request)
        forger = f"{receiver_id}:{host}"
        forgeries, posts = (_FORGERIES, forger), (_POSTS, str(receiver_id))
        for zone, holder in (forgeries, posts):
            await self._refuse_spent(zone, holder)
        counted = posts
        try:
            yield
        except MailsiftError as error:
            if error.code == "receiver_not_found":
                counted = (_FORGERIES, f"unknown:{host}")
                await self._refuse_spent(*counted)
            else:
                counted = forgeries if error.code in _UNPROVEN else posts
            raise
        finally:
            await self._limit.take(*counted)

    async def _refuse_spent(self, zone: Zone, holder: str) -> None:
        left = await self._limit.take(zone, holder, units=0)
        if left is not None and left.remaining < 1:
            raise quota_error(zone, left)
