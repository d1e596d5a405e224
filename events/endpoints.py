"""What people ask of webhooks: register, look, change, rotate the secret, send again, test."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from events.moments import moment
from events.owned import owned_delivery, owned_endpoint
from events.payloads import EventType, envelope
from events.retry import Disabled
from events.safe_http import Sender
from events.samples import Sample, sample
from events.signing import SECRET_BYTES, signed_headers, write_secret
from events.trial import check_limit, remember
from events.vault import Vault
from events.views import (
    AttemptView,
    DeliveryView,
    EndpointView,
    TestOutcome,
    attempt_view,
    delivery_view,
    endpoint_view,
)
from pipeline.clock import Clock
from pipeline.errors import MailsiftError
from storage import attempt_rows, delivery_rows, endpoint_rows
from storage.database import Database
from storage.delivery_rows import Pace
from storage.endpoint_rows import EndpointHealth, NewEndpoint
from storage.event_rows import EventRow

MAX_ENDPOINTS = 50
MAX_OVERLAP_S = 7 * 86_400
SLOWEST, FASTEST, USUAL = 0.1, 100.0, Pace().rate
"""Attempts a second that an endpoint may be given at least and at most, and what it has when given none."""


class WebhookService:
    """The webhooks of one installation; every call names the account it speaks for.

    Args:
        database: the truth.
        sender: knows which URLs may be a webhook, and makes the requests of tests.
        vault: seals the secrets.
        clock: the time.
        token: returns that many random bytes.
        wake: tells the workers that there is work; never raises.
    """

    def __init__(
        self,
        *,
        database: Database,
        sender: Sender,
        vault: Vault,
        clock: Clock,
        token: Callable[[int], bytes],
        wake: Callable[[int], Awaitable[None]],
    ) -> None:
        self._database = database
        self._sender = sender
        self._vault = vault
        self._clock = clock
        self._token = token
        self._wake = wake

    async def create(
        self,
        account_id: UUID,
        url: str,
        types: Sequence[str] = (),
        *,
        rate_per_second: float | None = None,
    ) -> tuple[EndpointView, str]:
        """Register a webhook; returns it and its secret, which is shown only now.

        Raises:
            MailsiftError: `webhook_url_invalid`, `webhook_url_blocked`, `webhook_type_unknown`,
                `webhook_rate_invalid`, `webhook_limit`.
        """
        endpoint_id, secret = uuid4(), self._token(SECRET_BYTES)
        new = NewEndpoint(
            id=endpoint_id,
            account_id=account_id,
            url=self._sender.check(url),
            types=_checked_types(types),
            secret=self._vault.seal(endpoint_id, secret),
            created_at=moment(self._clock()),
            rate_per_second=_checked_rate(rate_per_second),
        )
        async with self._database.begin() as connection:
            if await endpoint_rows.count(connection, account_id) >= MAX_ENDPOINTS:
                raise MailsiftError("webhook_limit", f"An account has at most {MAX_ENDPOINTS} webhooks.")
            await endpoint_rows.insert(connection, new)
            row = await owned_endpoint(connection, account_id, endpoint_id)
        return endpoint_view(row), write_secret(secret)

    async def list(self, account_id: UUID) -> Sequence[EndpointView]:
        """Return the account's webhooks, oldest first."""
        async with self._database.begin() as connection:
            return [endpoint_view(row) for row in await endpoint_rows.of_account(connection, account_id)]

    async def get(self, account_id: UUID, endpoint_id: UUID) -> EndpointView:
        """Return a webhook.

        Raises:
            MailsiftError: `webhook_not_found`, also when it belongs to somebody else.
        """
        async with self._database.begin() as connection:
            return endpoint_view(await owned_endpoint(connection, account_id, endpoint_id))

    async def update(
        self,
        account_id: UUID,
        endpoint_id: UUID,
        *,
        url: str | None = None,
        types: Sequence[str] | None = None,
        enabled: bool | None = None,
        rate_per_second: float | None = None,
    ) -> EndpointView:
        """Change what is not None; disabling skips what waits, enabling forgets past failures.

        A `rate_per_second` of 0 gives the usual one back.

        Raises:
            MailsiftError: `webhook_not_found`, `webhook_url_invalid`, `webhook_url_blocked`,
                `webhook_type_unknown`, `webhook_rate_invalid`.
        """
        values: dict[str, Any] = {}
        if url is not None:
            values["url"] = self._sender.check(url)
        if types is not None:
            values["types"] = _checked_types(types)
        if rate_per_second is not None:
            values["rate_per_second"] = _checked_rate(rate_per_second or None)
        async with self._database.begin() as connection:
            row = await owned_endpoint(connection, account_id, endpoint_id, lock=True)
            if enabled and not row["enabled"]:
                self._sender.check(values.get("url", row["url"]))
                values |= {"enabled": True, "disabled_reason": Disabled.NO.value}
                await endpoint_rows.set_health(connection, endpoint_id, EndpointHealth())
            if values:
                await endpoint_rows.change(connection, endpoint_id, **values)
            if enabled is False and row["enabled"]:
                now = moment(self._clock())
                await endpoint_rows.disable(connection, endpoint_id, reason=Disabled.BY_OWNER.value, now=now)
            return endpoint_view(await owned_endpoint(connection, account_id, endpoint_id))

    async def delete(self, account_id: UUID, endpoint_id: UUID) -> None:
        """Delete a webhook with its deliveries.

        Raises:
            MailsiftError: `webhook_not_found`.
        """
        async with self._database.begin() as connection:
            await owned_endpoint(connection, account_id, endpoint_id, lock=True)
            await endpoint_rows.delete(connection, endpoint_id)

    async def rotate(self, account_id: UUID, endpoint_id: UUID, *, overlap_s: int = 86_400) -> str:
        """Give the webhook a new secret; the one before signs too for `overlap_s` seconds.

        Returns:
            The new secret, which is shown only now.

        Raises:
            MailsiftError: `webhook_not_found`, `webhook_overlap_invalid`.
        """
        if not 0 <= overlap_s <= MAX_OVERLAP_S:
            raise MailsiftError("webhook_overlap_invalid", "The overlap is 0 seconds to 7 days.")
        secret = self._token(SECRET_BYTES)
        until = moment(self._clock()) + timedelta(seconds=overlap_s)
        async with self._database.begin() as connection:
            row = await owned_endpoint(connection, account_id, endpoint_id, lock=True)
            await endpoint_rows.change(
                connection,
                endpoint_id,
                secret=self._vault.seal(endpoint_id, secret),
                previous_secret=row["secret"] if overlap_s else None,
                previous_until=until if overlap_s else None,
            )
        return write_secret(secret)

    async def deliveries(
        self,
        account_id: UUID,
        endpoint_id: UUID,
        *,
        limit: int = 20,
        before: tuple[datetime, UUID] | None = None,
    ) -> Sequence[DeliveryView]:
        """Return the webhook's deliveries, newest first; `before` is (created_at, id) of the last one seen.

        Raises:
            MailsiftError: `webhook_not_found`.
        """
        async with self._database.begin() as connection:
            await owned_endpoint(connection, account_id, endpoint_id)
            rows = await delivery_rows.of_endpoint(connection, endpoint_id, limit=limit, before=before)
            return [delivery_view(row) for row in rows]

    async def delivery(self, account_id: UUID, delivery_id: UUID) -> DeliveryView:
        """Return a delivery.

        Raises:
            MailsiftError: `delivery_not_found`, also when it belongs to somebody else.
        """
        async with self._database.begin() as connection:
            return delivery_view(await owned_delivery(connection, account_id, delivery_id))

    async def attempts(self, account_id: UUID, delivery_id: UUID) -> Sequence[AttemptView]:
        """Return the attempts of a delivery in order.

        Raises:
            MailsiftError: `delivery_not_found`.
        """
        async with self._database.begin() as connection:
            await owned_delivery(connection, account_id, delivery_id)
            return [attempt_view(row) for row in await attempt_rows.of_delivery(connection, delivery_id)]

    async def redeliver(self, account_id: UUID, delivery_id: UUID) -> DeliveryView:
        """Send an event once more, now, with all the retries of a new one; a queued retry is replaced.

        Raises:
            MailsiftError: `delivery_not_found`, `webhook_disabled`, `delivery_conflict`.
        """
        async with self._database.begin() as connection:
            row = await owned_delivery(connection, account_id, delivery_id)
            if not row["enabled"]:
                raise _disabled()
            if not await delivery_rows.again(connection, delivery_id, now=moment(self._clock())):
                raise MailsiftError("delivery_conflict", "It was a test, or is being sent at this moment.")
            view = delivery_view(await owned_delivery(connection, account_id, delivery_id))
        await self._wake(1)
        return view

    async def redeliver_failed(self, account_id: UUID, endpoint_id: UUID, *, since: datetime) -> int:
        """Send again what was given up or skipped since then; returns how many.

        Raises:
            MailsiftError: `webhook_not_found`, `webhook_disabled`.
        """
        async with self._database.begin() as connection:
            row = await owned_endpoint(connection, account_id, endpoint_id)
            if not row["enabled"]:
                raise _disabled()
            count = await delivery_rows.failed_again(
                connection, endpoint_id, since=since, now=moment(self._clock())
            )
        await self._wake(min(count, 1))
        return count

    async def test(self, account_id: UUID, endpoint_id: UUID, kind: Sample) -> TestOutcome:
        """Send a simulated event once, now, also to a disabled webhook; it never counts as a failure.

        Raises:
            MailsiftError: `webhook_not_found`, `webhook_test_limit`.
        """
        started = self._clock()
        now = moment(started)
        async with self._database.begin() as connection:
            row = await owned_endpoint(connection, account_id, endpoint_id)
            await check_limit(connection, account_id=account_id, endpoint_id=endpoint_id, now=now)
        event_id = uuid4()
        type_, data = sample(kind, uuid4(), now)
        body = envelope(event_id, type_, now, data)
        secrets = self._vault.live(
            endpoint_id, row["secret"], row["previous_secret"], until=row["previous_until"], now=now
        )
        headers = signed_headers(str(event_id), int(started), body, secrets)
        outcome = await self._sender.post(row["url"], {**headers, "webhook-test": "true"}, body)
        event = EventRow(event_id, account_id, None, type_.value, body, now, None)
        async with self._database.begin() as connection:
            await owned_endpoint(connection, account_id, endpoint_id, lock=True)
            delivery_id = await remember(connection, endpoint_id, event, outcome)
        return TestOutcome(delivery_id, event_id, type_.value, outcome.error, outcome.status_code, outcome.ms)


def _checked_types(types: Sequence[str]) -> list[str]:
    if not set(types) <= set(EventType):
        raise MailsiftError("webhook_type_unknown", "Known events: " + ", ".join(EventType) + ".")
    return sorted(set(types))


def _checked_rate(rate: float | None) -> float | None:
    if rate is not None and not SLOWEST <= rate <= FASTEST:
        text = f"A webhook takes {SLOWEST} to {FASTEST:g} attempts a second."
        raise MailsiftError("webhook_rate_invalid", text)
    return rate


def _disabled() -> MailsiftError:
    return MailsiftError("webhook_disabled", "This webhook is disabled: enable it first.")
