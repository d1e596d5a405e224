"""What people ask of webhooks: register, look, change, rotate the secret, send again, test."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from mailsift.events import audit
from mailsift.events.delivery import attempt_row
from mailsift.events.payloads import EventType, SimulatedEvent, envelope, simulated_event
from mailsift.events.retry import DeliveryState, DisabledReason, ErrorClass, ReceiverDirective
from mailsift.events.sender import WebhookSender
from mailsift.events.signing import SECRET_BYTES, TEST_MODE, Vault, signed_headers, write_secret
from mailsift.pipeline.clock import Clock, utc_datetime
from mailsift.pipeline.errors import MailsiftError
from mailsift.storage.database import Connection, Database, Row, from_row
from mailsift.storage.sql import accounts, deliveries
from mailsift.storage.sql.deliveries import EndpointHealth, EndpointLimits, EventFilter, EventRow, NewEndpoint

_MAX_ENDPOINTS = 50
MAX_OVERLAP_S = 7 * 86_400
MIN_RATE, MAX_RATE, DEFAULT_RATE = 0.1, 100.0, EndpointLimits().rate
"""Attempts a second that an endpoint may be given at least and at most, and what it has when given none."""

TESTS_A_MINUTE, TESTS_AN_HOUR = 10, 60
"""Tests of one endpoint in a minute, and of one account in an hour."""


@dataclass(frozen=True, slots=True)
class EndpointView:
    """A registered webhook.

    Attributes:
        types: the events it wants; () = all.
        rate_per_second: attempts it takes at most; None = the usual.
        disabled_reason: NO exactly when it is enabled.
        failing_since: since when no attempt has arrived; None when the last one did.
        paused_until: after failures nothing is sent before then.
        previous_secret_until: until when the secret before the last rotation signs too.
    """

    id: UUID
    account_id: UUID
    url: str
    types: tuple[str, ...]
    rate_per_second: float | None
    enabled: bool
    disabled_reason: DisabledReason
    failing_since: datetime | None
    paused_until: datetime | None
    previous_secret_until: datetime | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class DeliveryView:
    """An event on its way to one endpoint; `trigger` is automatic, manual or test."""

    id: UUID
    event_id: UUID
    endpoint_id: UUID
    type: str
    state: DeliveryState
    trigger: str
    attempts: int
    next_attempt_at: datetime | None
    created_at: datetime
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class AttemptView:
    """One HTTP request; `status_code` is 0 when nobody answered, `directive` what was asked for beside."""

    n: int
    at: datetime
    trigger: str
    ms: int
    status_code: int
    error: ErrorClass
    response: str
    directive: ReceiverDirective


@dataclass(frozen=True, slots=True)
class TestOutcome:
    """What came of a test: it arrived exactly when `error` is NONE."""

    delivery_id: UUID
    event_id: UUID
    type: str
    error: ErrorClass
    status_code: int
    ms: int

    @property
    def delivered(self) -> bool:
        """Whether it arrived."""
        return self.error is ErrorClass.NONE


@dataclass(frozen=True, slots=True)
class Rotation:
    """A new secret, which is shown only now, and until when the one before signs too; None: it does not."""

    secret: str
    previous_secret_until: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookService:
    """The webhooks of one installation; every call names the account it speaks for.

    Attributes:
        sender: knows which URLs may be a webhook, and makes the requests of tests.
        token: returns that many random bytes.
        wake: tells the workers that there is work; never raises.
    """

    database: Database
    sender: WebhookSender
    vault: Vault
    clock: Clock
    token: Callable[[int], bytes]
    wake: Callable[[int], Awaitable[None]]

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
        endpoint_id, secret = uuid4(), self.token(SECRET_BYTES)
        new = NewEndpoint(
            id=endpoint_id,
            account_id=account_id,
            url=self.sender.check(url),
            types=_checked_types(types),
            secret=self.vault.seal(endpoint_id, secret),
            created_at=utc_datetime(self.clock()),
            rate_per_second=_checked_rate(rate_per_second),
        )
        async with self.database.begin() as connection:
            await accounts.get(connection, account_id, lock=True)
            if await deliveries.count_endpoints(connection, account_id) >= _MAX_ENDPOINTS:
                raise MailsiftError(
                    "webhook_limit", f"An account can have at most {_MAX_ENDPOINTS} webhooks."
                )
            await deliveries.insert_endpoint(connection, new)
            view = _endpoint_view(await _owned_endpoint(connection, account_id, endpoint_id))
            await audit.record_change(
                connection, account_id, "webhook.create", view.url, events=_event_names(view.types)
            )
        return view, write_secret(secret)

    async def list(self, account_id: UUID) -> Sequence[EndpointView]:
        """Return the account's webhooks, oldest first."""
        return [
            _endpoint_view(row)
            for row in await self.database.run(deliveries.endpoints_of_account, account_id)
        ]

    async def get(self, account_id: UUID, endpoint_id: UUID) -> EndpointView:
        """Return a webhook.

        Raises:
            MailsiftError: `webhook_not_found`, also when it belongs to somebody else.
        """
        return _endpoint_view(await self.database.run(_owned_endpoint, account_id, endpoint_id))

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
        """Change what is not None; disabling skips what waits, enabling and another URL forget past failures.

        A `rate_per_second` of 0 gives the usual one back.

        Raises:
            MailsiftError: `webhook_not_found`, `webhook_url_invalid`, `webhook_url_blocked`,
                `webhook_type_unknown`, `webhook_rate_invalid`.
        """
        values: dict[str, Any] = {}
        if url is not None:
            values["url"] = self.sender.check(url)
        if types is not None:
            values["types"] = _checked_types(types)
        if rate_per_second is not None:
            values["rate_per_second"] = _checked_rate(rate_per_second or None)
        async with self.database.begin() as connection:
            row = await _owned_endpoint(connection, account_id, endpoint_id, lock=True)
            if enabled and not row["enabled"]:
                self.sender.check(values.get("url", row["url"]))
                values |= {"enabled": True, "disabled_reason": DisabledReason.NO.value}
            if "enabled" in values or values.get("url", row["url"]) != row["url"]:
                await deliveries.set_health(connection, endpoint_id, EndpointHealth())
            if values:
                await deliveries.change_endpoint(connection, endpoint_id, **values)
            if enabled is False and row["enabled"]:
                now = utc_datetime(self.clock())
                await deliveries.disable_endpoint(
                    connection, endpoint_id, reason=DisabledReason.BY_OWNER.value, now=now
                )
            view = _endpoint_view(await _owned_endpoint(connection, account_id, endpoint_id))
            await _record_update(connection, row, view)
        return view

    async def delete(self, account_id: UUID, endpoint_id: UUID) -> None:
        """Delete a webhook with its deliveries.

        Raises:
            MailsiftError: `webhook_not_found`.
        """
        async with self.database.begin() as connection:
            row = await _owned_endpoint(connection, account_id, endpoint_id, lock=True)
            await deliveries.delete_endpoint(connection, endpoint_id)
            await audit.record_change(connection, account_id, "webhook.delete", row["url"])

    async def rotate(
        self, account_id: UUID, endpoint_id: UUID, *, overlap_s: int = 86_400, force: bool = False
    ) -> Rotation:
        """Give the webhook a new secret; the one before signs too for `overlap_s` seconds, 0 = not at all.

        `force`: although a secret before the last rotation signs too; that ends now.

        Raises:
            MailsiftError: `webhook_not_found`, `webhook_overlap_invalid`, `webhook_secret_overlap`.
        """
        if not 0 <= overlap_s <= MAX_OVERLAP_S:
            raise MailsiftError(
                "webhook_overlap_invalid", "The overlap must be between 0 seconds and 7 days."
            )
        secret, now = self.token(SECRET_BYTES), utc_datetime(self.clock())
        until = now + timedelta(seconds=overlap_s) if overlap_s else None
        async with self.database.begin() as connection:
            row = await _owned_endpoint(connection, account_id, endpoint_id, lock=True)
            signing = row["previous_until"]
            if signing is not None and signing > now and not force:
                raise _overlaps(signing)
            await deliveries.change_endpoint(
                connection,
                endpoint_id,
                secret=self.vault.seal(endpoint_id, secret),
                previous_secret=row["secret"] if until else None,
                previous_until=until,
            )
            signs = f"for {audit.hours(overlap_s)}" if until else "not at all"
            await audit.record_change(
                connection, account_id, "webhook.rotate", row["url"], old_secret_also_signs=signs
            )
        return Rotation(write_secret(secret), until)

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
        async with self.database.begin() as connection:
            await _owned_endpoint(connection, account_id, endpoint_id)
            rows = await deliveries.of_endpoint(connection, endpoint_id, limit=limit, before=before)
            return [_delivery_view(row) for row in rows]

    async def delivery(self, account_id: UUID, delivery_id: UUID) -> DeliveryView:
        """Return a delivery.

        Raises:
            MailsiftError: `delivery_not_found`, also when it belongs to somebody else.
        """
        return _delivery_view(await self.database.run(_owned_delivery, account_id, delivery_id))

    async def attempts(self, account_id: UUID, delivery_id: UUID) -> Sequence[AttemptView]:
        """Return the attempts of a delivery in order.

        Raises:
            MailsiftError: `delivery_not_found`.
        """
        async with self.database.begin() as connection:
            await _owned_delivery(connection, account_id, delivery_id)
            return [_attempt_view(row) for row in await deliveries.attempts_of(connection, delivery_id)]

    async def redeliver(self, account_id: UUID, delivery_id: UUID) -> DeliveryView:
        """Send an event once more, now, with all the retries of a new one; a queued retry is replaced.

        Raises:
            MailsiftError: `delivery_not_found`, `webhook_disabled`, `delivery_conflict`.
        """
        async with self.database.begin() as connection:
            row = await _owned_delivery(connection, account_id, delivery_id)
            if not row["enabled"]:
                raise _disabled()
            if not await deliveries.redeliver(connection, delivery_id, now=utc_datetime(self.clock())):
                raise MailsiftError(
                    "delivery_conflict", "This delivery was a test or is being sent right now."
                )
            view = _delivery_view(await _owned_delivery(connection, account_id, delivery_id))
            endpoint = await _owned_endpoint(connection, account_id, view.endpoint_id)
            await audit.record_change(
                connection, account_id, "webhook.redeliver", endpoint["url"], event=str(view.event_id)
            )
        await self.wake(1)
        return view

    async def resend(
        self, account_id: UUID, endpoint_id: UUID, *, since: datetime, also_unqueued: bool
    ) -> int:
        """Send again what was given up or skipped since then (with a time zone); returns how many events.

        `also_unqueued`: also what happened while the webhook was disabled, wanted other events or was not
        registered yet.

        Raises:
            MailsiftError: `webhook_not_found`, `webhook_disabled`.
        """
        now = utc_datetime(self.clock())
        async with self.database.begin() as connection:
            row = await _owned_endpoint(connection, account_id, endpoint_id, lock=also_unqueued)
            if not row["enabled"]:
                raise _disabled()
            count = await deliveries.redeliver_failed(connection, endpoint_id, since=since, now=now)
            if also_unqueued:
                count += await deliveries.add_missed(connection, endpoint_id, since=since, now=now)
            since_text = f"{since:%Y-%m-%d %H:%M} UTC"
            await audit.record_change(
                connection, account_id, "webhook.redeliver_failed", row["url"], since=since_text, events=count
            )
        await self.wake(min(count, 1))
        return count

    async def events(self, account_id: UUID, wanted: EventFilter, *, limit: int) -> Sequence[EventRow]:
        """Return the account's events, oldest first."""
        return await self.database.run(deliveries.events_of_account, account_id, wanted, limit)

    async def event(self, account_id: UUID, event_id: UUID) -> EventRow:
        """Return an event of the account.

        Raises:
            MailsiftError: `event_not_found`.
        """
        found = await self.database.run(deliveries.get_event, account_id, event_id)
        if found is None:
            raise MailsiftError("event_not_found", "There is no such event.")
        return found

    async def test(
        self, account_id: UUID, endpoint_id: UUID, kind: SimulatedEvent, *, test_mode: bool = False
    ) -> TestOutcome:
        """Send a simulated event once, now, also to a disabled webhook; it never counts as a failure.

        Raises:
            MailsiftError: `webhook_not_found`, `webhook_test_limit`.
        """
        started = self.clock()
        now = utc_datetime(started)
        event_id = uuid4()
        type_, data = simulated_event(kind, uuid4(), now)
        body = envelope(event_id, type_, now, data)
        event = EventRow(event_id, account_id, None, type_.value, body, now, None)
        async with self.database.begin() as connection:
            row, delivery_id = await _begin_test(connection, endpoint_id, event)
            secrets = self.vault.signing_secrets(
                endpoint_id, row["secret"], row["previous_secret"], until=row["previous_until"], now=now
            )
        headers = signed_headers(str(event_id), int(started), body, secrets)
        marks = {"webhook-test": "true", **(TEST_MODE if test_mode else {})}
        outcome = await self.sender.post(row["url"], headers | marks, body)
        async with self.database.begin() as connection:
            await _owned_endpoint(connection, account_id, endpoint_id, lock=True)
            made = attempt_row(delivery_id, 1, started, "test", outcome)
            await deliveries.record_test(connection, made)
            await audit.record_change(connection, account_id, "webhook.test", row["url"], event=type_.value)
        return TestOutcome(delivery_id, event_id, type_.value, outcome.error, outcome.status_code, outcome.ms)


async def _record_update(connection: Connection, before: Row, view: EndpointView) -> None:
    """Write down what has been changed of a webhook: whether it is sent to, or anything else, or both."""
    if view.enabled != before["enabled"]:
        action = "webhook.enable" if view.enabled else "webhook.disable"
        await audit.record_change(connection, before["account_id"], action, view.url)
    old = _endpoint_view(before)
    if (view.url, view.types, view.rate_per_second) != (old.url, old.types, old.rate_per_second):
        await audit.record_change(
            connection, before["account_id"], "webhook.update", view.url, events=_event_names(view.types)
        )


def _event_names(types: Sequence[str]) -> Sequence[str] | str:
    return list(types) or "all"


def _checked_types(types: Sequence[str]) -> list[str]:
    if not set(types) <= set(EventType):
        raise MailsiftError("webhook_type_unknown", "Known events: " + ", ".join(EventType) + ".")
    return sorted(set(types))


def _checked_rate(rate: float | None) -> float | None:
    if rate is not None and not MIN_RATE <= rate <= MAX_RATE:
        text = f"A webhook takes {MIN_RATE} to {MAX_RATE:g} attempts a second."
        raise MailsiftError("webhook_rate_invalid", text)
    return rate


def _overlaps(until: datetime) -> MailsiftError:
    text = (
        f"The secret before the last rotation signs too until {until:%Y-%m-%dT%H:%M:%SZ}."
        " Rotate after that, or with `force`, which ends it now."
    )
    return MailsiftError("webhook_secret_overlap", text)


def _disabled() -> MailsiftError:
    return MailsiftError("webhook_disabled", "This webhook is disabled. Enable it first.")


async def _owned_endpoint(
    connection: Connection, account_id: UUID, endpoint_id: UUID, *, lock: bool = False
) -> Row:
    """Return the endpoint's row; `lock` keeps others from changing it until the transaction ends."""
    row = await deliveries.get_endpoint(connection, endpoint_id, lock=lock)
    if row is None or row["account_id"] != account_id:
        raise MailsiftError("webhook_not_found", "There is no such webhook.")
    return row


async def _owned_delivery(connection: Connection, account_id: UUID, delivery_id: UUID) -> Row:
    """Return the delivery's row with its event's type and whether its endpoint is enabled."""
    row = await deliveries.get(connection, delivery_id)
    if row is None or row["account_id"] != account_id:
        raise MailsiftError("delivery_not_found", "There is no such delivery.")
    return row


async def _check_test_limit(
    connection: Connection, *, account_id: UUID, endpoint_id: UUID, now: datetime
) -> None:
    of_endpoint, of_account = await deliveries.tests_made(
        connection,
        account_id=account_id,
        endpoint_id=endpoint_id,
        minute_ago=now - timedelta(minutes=1),
        hour_ago=now - timedelta(hours=1),
    )
    if of_endpoint >= TESTS_A_MINUTE or of_account >= TESTS_AN_HOUR:
        text = f"At most {TESTS_A_MINUTE} tests of a webhook a minute and {TESTS_AN_HOUR} an hour."
        raise MailsiftError("webhook_test_limit", text, retryable=True)


async def _begin_test(connection: Connection, endpoint_id: UUID, event: EventRow) -> tuple[Row, UUID]:
    """Write down a test that may be sent now; returns the endpoint's row and the delivery's id."""
    account_id, now, delivery_id = event.account_id, event.created_at, uuid4()
    await accounts.get(connection, account_id, lock=True)  # of two tests at once the second counts the first
    row = await _owned_endpoint(connection, account_id, endpoint_id, lock=True)
    await _check_test_limit(connection, account_id=account_id, endpoint_id=endpoint_id, now=now)
    await deliveries.remember_event(connection, event)
    await deliveries.insert_test(
        connection, delivery_id=delivery_id, event_id=event.id, endpoint_id=endpoint_id, at=now
    )
    return row, delivery_id


def _endpoint_view(row: Row) -> EndpointView:
    return from_row(
        EndpointView,
        row,
        types=tuple(row["types"]),
        disabled_reason=DisabledReason(row["disabled_reason"]),
        paused_until=row["probe_at"],
        previous_secret_until=row["previous_until"],
    )


def _delivery_view(row: Row) -> DeliveryView:
    return from_row(DeliveryView, row, state=DeliveryState(row["state"]))


def _attempt_view(row: Row) -> AttemptView:
    directive = ReceiverDirective(row["directive"])
    return from_row(AttemptView, row, error=ErrorClass(row["error"]), directive=directive)
