"""Deliver what is due: claim, sign, send outside any transaction, and write down in one what came of it."""

from __future__ import annotations

import random as random_module
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final
from uuid import UUID

import structlog
from opentelemetry import trace

from mailsift.events.metrics import DISABLED, count_attempt
from mailsift.events.outbox import NoticeKind, notice_after
from mailsift.events.retry import (
    PROBE_S,
    AttemptOutcome,
    DeliveryState,
    DisabledReason,
    ErrorClass,
    disabled_after,
    health_after,
    next_step,
    not_sent_until,
)
from mailsift.events.sender import WebhookSender
from mailsift.events.signing import TEST_MODE, Vault, signed_headers
from mailsift.pipeline.clock import Clock, utc_datetime
from mailsift.storage.database import Connection, Database, Row, from_row
from mailsift.storage.sql import deliveries, outbox
from mailsift.storage.sql.deliveries import ClaimedDelivery, EndpointHealth, EndpointLimits, NewAttempt
from mailsift.storage.sql.outbox import NewNotice

LEASE_S: Final = 60.0  # that a delivery belongs to one worker; longer than a request may take
_LOG_KEPT_S: Final = 30 * 86_400.0  # of attempts; deliveries are kept for as long as their event
_PURGED: Final = 1_000  # attempts forgotten in one go

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Deliverer:
    """Makes the attempts that are due; any number of them may run in any number of processes."""

    database: Database
    sender: WebhookSender
    vault: Vault
    clock: Clock
    random: random_module.Random
    limits: EndpointLimits | None = None

    async def claim(self, limit: int) -> list[ClaimedDelivery]:
        """Lease up to `limit` deliveries that are due, fairly between the endpoints."""
        now = self.clock()
        return await self.database.run(
            deliveries.claim,
            limit=limit,
            limits=self.limits or EndpointLimits(),
            now=utc_datetime(now),
            until=utc_datetime(now + LEASE_S),
            next_probe=utc_datetime(now + PROBE_S),
        )

    async def deliver(self, claimed: ClaimedDelivery) -> None:
        """Make one attempt; a fault of ours is none, and nobody is blamed for it."""
        started = self.clock()
        secrets = self.vault.signing_secrets(
            claimed.endpoint_id,
            claimed.secret,
            claimed.previous_secret,
            until=claimed.previous_until,
            now=utc_datetime(started),
        )
        headers = signed_headers(str(claimed.event_id), int(started), claimed.body, secrets)
        marked = {**headers, **TEST_MODE} if claimed.test_mode else headers
        outcome = await self.sender.post(claimed.url, marked, claimed.body)
        now = self.clock()
        if outcome.error is ErrorClass.NOT_SENT:
            again = not_sent_until(now, self.random)
            await self.database.run(postpone, claimed, until=again, now=now)
        else:
            attempt = attempt_row(claimed.id, claimed.attempts + 1, started, claimed.trigger, outcome)
            await self.database.run(record_attempt, claimed, attempt, outcome, now, self.random)
        count_attempt(outcome)
        trace.get_current_span().set_attributes(
            {"mailsift.status": outcome.status_code, "mailsift.error": outcome.error.value}
        )
        _log.info(
            "webhook.attempt",
            attempt=claimed.attempts + 1,
            status=outcome.status_code,
            error=outcome.error.value,
            ms=outcome.ms,
        )

    async def release(self, tokens: Collection[UUID]) -> None:
        """Give back what was claimed and not sent."""
        await self.database.run(deliveries.release, tokens)

    async def sweep(self) -> int:
        """Make due again what dead workers held; returns how many."""
        return await self.database.run(deliveries.free_expired, now=utc_datetime(self.clock()))

    async def purge(self) -> int:
        """Forget attempts that are too old, some at a time, and what was mailed then; returns how many."""
        before = utc_datetime(self.clock() - _LOG_KEPT_S)
        async with self.database.begin() as connection:
            await outbox.purge_notices(connection, before=before)
            return await deliveries.purge_attempts(connection, before=before, limit=_PURGED)


async def record_attempt(
    connection: Connection,
    claimed: ClaimedDelivery,
    attempt: NewAttempt,
    outcome: AttemptOutcome,
    now: float,
    random: random_module.Random,
) -> None:
    """Write down an attempt; nothing is written when the lease was lost or the endpoint deleted meanwhile.

    What a place says that the endpoint has left meanwhile counts for the delivery, which goes to the new one.
    """
    endpoint = await deliveries.get_endpoint(connection, claimed.endpoint_id, lock=True)
    if endpoint is None:
        return
    has_moved = endpoint["url"] != claimed.url
    outcome_here = AttemptOutcome(outcome.error) if has_moved else outcome
    step = next_step(claimed.round + 1, outcome_here, now, random)
    state, again = step.state, step.at
    if state is DeliveryState.PENDING and not endpoint["enabled"]:
        state, again = DeliveryState.SKIPPED, None
    written = await deliveries.record_attempt(
        connection,
        claimed,
        attempt,
        state=state.value,
        next_attempt_at=utc_datetime(again) if again else None,
    )
    if not written:
        _log.info("webhook.lease_lost")
    elif not has_moved:
        await _update_health(connection, endpoint, outcome, step.state, now)


async def _update_health(
    connection: Connection, endpoint: Row, outcome: AttemptOutcome, state: DeliveryState, now: float
) -> None:
    health = health_after(from_row(EndpointHealth, endpoint), outcome, state, now)
    await deliveries.set_health(connection, endpoint["id"], health)
    if endpoint["enabled"]:
        await _warn_or_disable(connection, endpoint, health, disabled_after(health, outcome, now), now)


async def postpone(connection: Connection, claimed: ClaimedDelivery, *, until: float, now: float) -> None:
    """Let a delivery and its endpoint wait that could not be attempted because of us."""
    endpoint = await deliveries.get_endpoint(connection, claimed.endpoint_id, lock=True)
    if endpoint is None:
        return
    later = utc_datetime(until) if endpoint["enabled"] else None
    if await deliveries.postpone(connection, claimed, until=later, now=utc_datetime(now)):
        await deliveries.change_endpoint(connection, claimed.endpoint_id, paced_until=utc_datetime(until))
    _log.warning("webhook.not_sent")


async def _warn_or_disable(
    connection: Connection, endpoint: Row, health: EndpointHealth, disabled: DisabledReason, now: float
) -> None:
    """Disable the endpoint when it is time to, and remember what its owners are to be told later."""
    endpoint_id = endpoint["id"]
    kind = notice_after(health, disabled, now)
    if kind is not None:
        new = NewNotice(
            account_id=endpoint["account_id"],
            kind=kind.value,
            subject_id=endpoint_id,
            since=health.failing_since or utc_datetime(now),
            reason=disabled.value,
            created_at=utc_datetime(now),
        )
        if await outbox.insert_notice(connection, new) and kind is NoticeKind.FAILING:
            _log.warning("webhook.failing")
    if disabled is not DisabledReason.NO:
        await deliveries.disable_endpoint(
            connection, endpoint_id, reason=disabled.value, now=utc_datetime(now)
        )
        DISABLED.labels(disabled.value).inc()
        _log.warning("webhook.disabled", reason=disabled.value)


def attempt_row(delivery_id: UUID, n: int, at: float, trigger: str, outcome: AttemptOutcome) -> NewAttempt:
    """Return an attempt as it is written down; `at` is when it began, in epoch seconds."""
    return NewAttempt(
        delivery_id=delivery_id,
        n=n,
        at=utc_datetime(at),
        trigger=trigger,
        ms=outcome.ms,
        status_code=outcome.status_code,
        error=outcome.error.value,
        response=outcome.response,
        directive=outcome.directive.value,
    )
