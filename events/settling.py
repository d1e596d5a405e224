"""Write down what came of a delivery in one transaction: the attempt, what follows, how the endpoint is."""

from __future__ import annotations

import random as random_module
from dataclasses import dataclass

import structlog

from events.meters import DISABLED
from events.moments import moment
from events.notices import NoticeKind, notice_after
from events.outcome import Outcome
from events.retry import DeliveryState, Disabled, Health, after, disabled_after, health_after
from storage import delivery_rows, endpoint_rows, notice_rows
from storage.attempt_rows import NewAttempt
from storage.database import Connection, Row
from storage.delivery_rows import ClaimedDelivery
from storage.endpoint_rows import EndpointHealth
from storage.notice_rows import NewNotice

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Attempted:
    """A delivery that was attempted; `at` is when, in epoch seconds."""

    claimed: ClaimedDelivery
    at: float
    outcome: Outcome


async def settle(
    connection: Connection, attempted: Attempted, now: float, random: random_module.Random
) -> None:
    """Write down an attempt; nothing is written when the lease was lost or the endpoint deleted meanwhile."""
    claimed, outcome = attempted.claimed, attempted.outcome
    endpoint = await endpoint_rows.get(connection, claimed.endpoint_id, lock=True)
    if endpoint is None:
        return
    following = after(claimed.round + 1, outcome, now, random)
    state, again = following.state, following.at
    if state is DeliveryState.PENDING and not endpoint["enabled"]:
        state, again = DeliveryState.SKIPPED, None
    written = await delivery_rows.settle(
        connection,
        claimed,
        _logged(attempted),
        state=state.value,
        next_attempt_at=moment(again) if again else None,
    )
    if not written:
        _log.info("webhook.lease_lost")
        return
    health = health_after(_health(endpoint), outcome, following.state, now)
    await endpoint_rows.set_health(connection, claimed.endpoint_id, _stored(health))
    if endpoint["enabled"]:
        await _draw_conclusions(connection, endpoint, health, disabled_after(health, outcome, now), now)


async def postpone(connection: Connection, claimed: ClaimedDelivery, *, until: float, now: float) -> None:
    """Let a delivery and its endpoint wait that could not be attempted because of us."""
    endpoint = await endpoint_rows.get(connection, claimed.endpoint_id, lock=True)
    if endpoint is None:
        return
    later = moment(until) if endpoint["enabled"] else None
    if await delivery_rows.postpone(connection, claimed, until=later, now=moment(now)):
        await endpoint_rows.change(connection, claimed.endpoint_id, paced_until=moment(until))
    _log.warning("webhook.not_sent")


async def _draw_conclusions(
    connection: Connection, endpoint: Row, health: Health, disabled: Disabled, now: float
) -> None:
    """Disable the endpoint when it is time to, and remember what its owners are to be told later."""
    endpoint_id = endpoint["id"]
    kind = notice_after(health, disabled, now)
    if kind is not None:
        new = NewNotice(
            account_id=endpoint["account_id"],
            kind=kind.value,
            subject_id=endpoint_id,
            since=moment(now if health.failing_since is None else health.failing_since),
            reason=disabled.value,
            created_at=moment(now),
        )
        if await notice_rows.insert(connection, new) and kind is NoticeKind.FAILING:
            _log.warning("webhook.failing")
    if disabled is not Disabled.NO:
        await endpoint_rows.disable(connection, endpoint_id, reason=disabled.value, now=moment(now))
        DISABLED.add(disabled.value)
        _log.warning("webhook.disabled", reason=disabled.value)


def _logged(attempted: Attempted) -> NewAttempt:
    claimed, outcome = attempted.claimed, attempted.outcome
    return NewAttempt(
        delivery_id=claimed.id,
        n=claimed.attempts + 1,
        at=moment(attempted.at),
        trigger=claimed.trigger,
        ms=outcome.ms,
        status_code=outcome.status_code,
        error=outcome.error.value,
        response=outcome.response,
        wish=outcome.wish.value,
    )


def _health(row: Row) -> Health:
    since, probe = row["failing_since"], row["probe_at"]
    return Health(
        failures=row["failures"],
        failing_since=since.timestamp() if since else None,
        exhausted=row["exhausted"],
        probe_at=probe.timestamp() if probe else None,
    )


def _stored(health: Health) -> EndpointHealth:
    return EndpointHealth(
        failures=health.failures,
        failing_since=None if health.failing_since is None else moment(health.failing_since),
        exhausted=health.exhausted,
        probe_at=None if health.probe_at is None else moment(health.probe_at),
    )
