"""Deliver what is due: claim, sign, send outside any transaction, write down what came of it."""

from __future__ import annotations

import random as random_module
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

import structlog

from events.outcome import Outcome
from events.retry import (
    PROBE_S,
    DeliveryState,
    Disabled,
    Health,
    after,
    disabled_after,
    health_after,
)
from events.safe_http import Sender
from events.signing import signed_headers
from events.vault import Vault
from pipeline.clock import Clock
from storage import delivery_rows, endpoint_rows
from storage.database import Connection, Database, Row
from storage.delivery_rows import ClaimedDelivery, NewAttempt
from storage.endpoint_rows import EndpointHealth

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class DeliveryConfig:
    """How deliveries are worked.

    Attributes:
        lease_s: seconds a delivery belongs to one worker; longer than a request may take.
        in_flight: requests to one endpoint at the same time, from all workers together.
    """

    lease_s: float = 60.0
    in_flight: int = 2


class Deliverer:
    """Makes the attempts that are due; any number of them may run in any number of processes."""

    def __init__(
        self,
        *,
        database: Database,
        sender: Sender,
        vault: Vault,
        clock: Clock,
        random: random_module.Random,
        config: DeliveryConfig | None = None,
    ) -> None:
        self._database = database
        self._sender = sender
        self._vault = vault
        self._clock = clock
        self._random = random
        self._config = config or DeliveryConfig()

    async def claim(self, limit: int) -> list[ClaimedDelivery]:
        """Lease up to `limit` deliveries that are due, fairly between the endpoints."""
        now = self._clock()
        return await self._database.run(
            lambda connection: delivery_rows.claim(
                connection,
                limit=limit,
                in_flight=self._config.in_flight,
                now=moment(now),
                until=moment(now + self._config.lease_s),
                next_probe=moment(now + PROBE_S),
            )
        )

    async def deliver(self, claimed: ClaimedDelivery) -> None:
        """Make one attempt."""
        started = self._clock()
        secrets = self._vault.live(
            claimed.endpoint_id,
            claimed.secret,
            claimed.previous_secret,
            until=claimed.previous_until,
            now=moment(started),
        )
        headers = signed_headers(str(claimed.event_id), int(started), claimed.body, secrets)
        outcome = await self._sender.post(claimed.url, headers, claimed.body)
        await self._database.run(lambda connection: self._settle(connection, claimed, started, outcome))
        _log.info(
            "webhook.attempt",
            delivery=str(claimed.id),
            endpoint=str(claimed.endpoint_id),
            attempt=claimed.attempts + 1,
            status=outcome.status_code,
            error=outcome.error.value,
            ms=outcome.ms,
        )

    async def release(self, tokens: Collection[UUID]) -> None:
        """Give back what was claimed and not sent."""
        async with self._database.begin() as connection:
            await delivery_rows.release(connection, tokens)

    async def sweep(self) -> int:
        """Make due again what dead workers held; returns how many."""
        async with self._database.begin() as connection:
            return await delivery_rows.free_expired(connection, now=moment(self._clock()))

    async def _settle(
        self, connection: Connection, claimed: ClaimedDelivery, started: float, outcome: Outcome
    ) -> None:
        endpoint = await endpoint_rows.get(connection, claimed.endpoint_id, lock=True)
        if endpoint is None:  # deleted meanwhile, and its deliveries with it
            return
        now = self._clock()
        following = after(claimed.round + 1, outcome, now, self._random)
        state, again = following.state, following.at
        if state is DeliveryState.PENDING and not endpoint["enabled"]:
            state, again = DeliveryState.SKIPPED, None
        made = NewAttempt(
            delivery_id=claimed.id,
            n=claimed.attempts + 1,
            at=moment(started),
            trigger=claimed.trigger,
            ms=outcome.ms,
            status_code=outcome.status_code,
            error=outcome.error.value,
            response=outcome.response,
        )
        written = await delivery_rows.settle(
            connection, claimed, made, state=state.value, next_attempt_at=moment(again) if again else None
        )
        if not written:
            _log.info("webhook.lease_lost", delivery=str(claimed.id))
            return
        health = health_after(_health(endpoint), outcome, following.state, now)
        await endpoint_rows.set_health(connection, claimed.endpoint_id, _stored(health))
        disabled = disabled_after(health, outcome, now)
        if disabled is not Disabled.NO and endpoint["enabled"]:
            await endpoint_rows.disable(
                connection, claimed.endpoint_id, reason=disabled.value, now=moment(now)
            )
            _log.warning("webhook.disabled", endpoint=str(claimed.endpoint_id), reason=disabled.value)


def moment(epoch: float) -> datetime:
    """Return epoch seconds as a time in UTC."""
    return datetime.fromtimestamp(epoch, UTC)


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
