"""Who asks, whether they may, and how often, under /v1 and at the addresses of receivers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from ipaddress import IPv4Address, IPv6Network
from math import ceil
from typing import Annotated, Final
from uuid import UUID

from fastapi import Depends, Request
from fastapi.security import HTTPBearer

from mailsift.accounts.doors import NAMES, Door
from mailsift.accounts.keys import Caller, KeyService, Scope
from mailsift.api.http.errors import RefusedError
from mailsift.api.http.inputs import Strangers, check_query
from mailsift.api.http.middleware import STILL_MAY
from mailsift.events.audit import act_as
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.guard import read_address
from mailsift.storage.redis.rate_limit import RateLimit, RateLimitDecision, Zone, whole_seconds

_REALM: Final = 'Bearer realm="mailsift"'
_RB_KEY: Final = "X-RB-Key"
_FAILURES: Final = Zone("failures", quota=300, window=60)  # keys nobody has, from one address
_FORGERIES: Final = Zone("forgeries", quota=60, window=60)  # posted to one receiver from one address
_POSTS: Final = Zone("posts", quota=12_000, window=60)  # that one receiver believes
_HELD_BYTES: Final = 64 * 1024**2
"""Of all bodies that are on their way to receivers: a few of the largest, thousands of the usual."""
_UNPROVEN: Final = frozenset({"receiver_refused", "fetch_failed"})
"""What becomes of a forgery; the last where it names a certificate that SNS does not have."""
# Documents the scheme in OpenAPI; reading the header is ours, so that every refusal looks the same.
_SCHEME = HTTPBearer(
    auto_error=False,
    description="An API key: `svc_key_`, in test mode `svc_test_`, and 38 letters or digits.",
)


class Authenticator:
    """Finds the caller of a request and counts the request, so many of one account.

    With `rb_key` the key may come in X-RB-Key, where there is no Authorization.
    """

    def __init__(self, *, keys: KeyService, limit: RateLimit, requests_per_minute: int, rb_key: bool) -> None:
        self._keys = keys
        self._limit = limit
        self._rb_key = rb_key
        self._requests = Zone("requests", quota=requests_per_minute, window=60)

    async def admit_public(self, request: Request, key: str) -> Caller:
        """Return whose public key this is; its checks are counted elsewhere, not as the account's requests.

        Raises:
            MailsiftError: `unauthorized`, `rate_limited`.
        """
        caller = await self._keys.find(key)
        if caller is None or not caller.is_public:
            raise await self._refusal(request, key, None)
        request.scope["caller"] = caller
        return caller

    async def authenticate(self, request: Request, scope: Scope | None = None) -> Caller:
        """Return the caller of an operation under /v1.

        Raises:
            MailsiftError: `unauthorized`, `insufficient_scope`, `rate_limited`, `bad_request`.
        """
        return await self.admit(request, self._secret(request), scope)

    async def admit(
        self, request: Request, secret: str, scope: Scope | None, *, door: Door | None = None
    ) -> Caller:
        """Return who comes with this key; each opens what it is for, /v1 or one door.

        Raises:
            MailsiftError: `unauthorized`, `insufficient_scope`, `rate_limited`.
        """
        caller = await self._identified(request, secret, door)
        if scope and scope.value not in caller.scopes:
            text = f"This key lacks the scope {scope.value}."
            header = f'{_REALM}, error="insufficient_scope", scope="{scope.value}"'
            raise RefusedError("insufficient_scope", text, {"WWW-Authenticate": header})
        return caller

    async def _identified(self, request: Request, secret: str, door: Door | None) -> Caller:
        caller = self._keys.cached_caller(secret)
        decision = await self._count(caller) if caller else None
        if caller is None or decision is None or decision.marked or not _opens(caller, door):
            # without Redis a revoked key's mark cannot be seen, so the database is asked every time
            caller = await self._keys.find(secret)
            if caller is None or not _opens(caller, door):
                raise await self._refusal(request, secret, door)
            decision = await self._count(caller)
        request.scope["caller"] = caller
        request.scope[STILL_MAY] = partial(self._is_open, secret)
        act_as(caller.actor)
        request.state.limit_headers = {"Mailsift-Mode": "test"} if caller.test else {}
        if decision is not None:
            self._apply_limit(request, decision)
        return caller

    async def is_still_open(self, request: Request) -> bool:
        """Say whether the key of a request that was let in would still be; this counts as no request.

        Raises:
            MailsiftError: `database_unavailable`.
        """
        return await self._is_open(self._secret(request))

    async def _is_open(self, secret: str) -> bool:
        return await self._keys.find(secret) is not None

    async def charge(self, request: Request, caller: Caller, units: int) -> None:
        """Count a request as so many more: it asks about several addresses.

        Raises:
            MailsiftError: `rate_limited`; `invalid_request`, of what will be too early for ever.
        """
        if units >= self._requests.quota:
            text = f"Each address counts as a request, and there are {self._requests.quota:,} a minute here."
            raise MailsiftError("invalid_request", text)
        decision = await self._limit.take(self._requests, caller.owner, units=units)
        if decision is not None:
            self._apply_limit(request, decision)

    async def _count(self, caller: Caller) -> RateLimitDecision | None:
        return await self._limit.take(self._requests, caller.owner, mark=caller.mark)

    def _apply_limit(self, request: Request, decision: RateLimitDecision) -> None:
        """Leave the quota for the headers of the answer (draft-ietf-httpapi-ratelimit-headers)."""
        request.state.limit_headers |= limit_headers(self._requests, decision)
        if not decision.allowed:
            raise quota_error(self._requests, decision)

    def _secret(self, request: Request) -> str:
        """Return the key a request carries, "" when it carries none."""
        found = request.headers.getlist(_RB_KEY) if self._rb_key else []
        if not found:
            return _bearer(request)
        if len(found) > 1 or "authorization" in request.headers:
            raise MailsiftError("bad_request", f"Send one key only: in Authorization or in {_RB_KEY}.")
        return found[0].strip()

    async def _refusal(self, request: Request, secret: str, door: Door | None) -> RefusedError:
        """Refuse; the same for keys malformed, unknown, revoked and expired."""
        decision = await self._limit.take(_FAILURES, client_of(request))
        if decision is not None and not decision.allowed:
            return quota_error(_FAILURES, decision)
        which = f"one made for clients of {NAMES[door]}." if door else "Authorization: Bearer svc_key_..."
        text = f"A valid API key is needed: {which}"
        # who brought no key is told no error (RFC 6750, section 3.1)
        challenge = f'{_REALM}, error="invalid_token"' if secret else _REALM
        return RefusedError("unauthorized", text, {"WWW-Authenticate": challenge})


def _opens(caller: Caller, door: Door | None) -> bool:
    """Say whether a key is for this door, or for /v1; a public one is for neither."""
    return caller.door is door and not caller.is_public


def limit_headers(zone: Zone, decision: RateLimitDecision) -> dict[str, str]:
    """Return the headers that tell of a quota: `t` is until it is whole, of a spent one until some is back.

    So `Retry-After` is never earlier than `t` (draft-ietf-httpapi-ratelimit-headers, section 4).
    """
    seconds = ceil(decision.reset) if decision.allowed else whole_seconds(decision.retry_after)
    return {
        "RateLimit-Policy": f'"{zone.name}";q={zone.quota};w={zone.window}',
        "RateLimit": f'"{zone.name}";r={decision.remaining};t={seconds}',
    }


def quota_error(zone: Zone, decision: RateLimitDecision) -> RefusedError:
    """Return the error of a spent quota."""
    headers = {**limit_headers(zone, decision), "Retry-After": str(whole_seconds(decision.retry_after))}
    return RefusedError("rate_limited", "Too many requests. Retry-After says when to try again.", headers)


def _bearer(request: Request) -> str:
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else ""


class RequireScope:
    """A dependency: the caller of an operation that needs this scope."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    async def __call__(self, request: Request, _: Annotated[object, Depends(_SCHEME)]) -> Caller:
        """Return the caller, or raise what Authenticator.authenticate raises."""
        return await self.authenticate(request)

    async def authenticate(self, request: Request) -> Caller:
        """Do the same for who calls it without FastAPI."""
        known: Caller | None = request.scope.get("caller")
        if known is not None:  # with an Idempotency-Key it is asked twice
            return known
        authenticator: Authenticator = request.app.state.parts.authenticator
        caller = await authenticator.authenticate(request, self._scope)
        check_query(request)
        return caller


class FloodGuard:
    """Counts what is posted to receivers, where anybody may; while Redis is away, signatures decide alone.

    Forgeries count for the receiver and the address they come from: mail senders post for many accounts from
    the same addresses, and one receiver with a wrong key closes none of the others. What is posted to
    receivers that do not exist counts for the address alone, and only such posts hear that it was too much.
    """

    def __init__(self, limit: RateLimit) -> None:
        self._limit = limit
        self._bodies = Strangers(_HELD_BYTES)

    @asynccontextmanager
    async def admit(self, request: Request, receiver_id: UUID) -> AsyncIterator[Callable[[int], None]]:
        """Let a request in unless too many were refused before it; whose block raises is counted.

        Gives what is to be called with the size of each piece of its body.

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
            with self._bodies.one() as take:
                yield take
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


def client_of(request: Request) -> str:
    """Return what limits know a client by; a proxy's word counts where uvicorn is told to trust it."""
    return network_of(request.client.host) if request.client else ""


def network_of(address: str) -> str:
    """Return an IPv4 address, or the /64 of an IPv6 one: what one household has, and may change at will.

    What is no address is counted as it is written.
    """
    found = read_address(address)
    if found is None:
        return address
    if isinstance(found, IPv4Address):
        return str(found)
    return str(found.ipv4_mapped or IPv6Network((int(found) >> 64 << 64, 64)))
