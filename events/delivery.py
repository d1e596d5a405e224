"""Deliver what is due: claim, sign, send outside any transaction, write down what came of it."""

from __future__ import annotations

import random as random_module
from collections.abc import Collection
from dataclasses import dataclass, field
from uuid import UUID

import structlog

from events.meters import count_attempt
from events.moments import moment
from events.outcome import ErrorClass
from events.retry import PROBE_S, not_sent_until
from events.safe_http import Sender
from events.settling import Attempted, postpone, settle
from events.signing import signed_headers
from events.vault import Vault
from pipeline import spans
from pipeline.clock import Clock
from storage import attempt_rows, delivery_rows, notice_rows
from storage.database import Database
from storage.delivery_rows import ClaimedDelivery, Pace

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class DeliveryConfig:
    """How deliveries are worked.

    Attributes:
        lease_s: seconds a delivery belongs to one worker; longer than a request may take.
        pace: what one endpoint takes.
        log_kept_s: how long attempts are remembered; deliveries are for as long as their event.
        purged: attempts that are forgotten in one go.
    """

    lease_s: float = 60.0
    pace: Pace = field(default_factory=Pace)
    log_kept_s: float = 30 * 86_400.0
    purged: int = 1_000


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
                pace=self._config.pace,
                now=moment(now),
                until=moment(now + self._config.lease_s),
                next_probe=moment(now + PROBE_S),
            )
        )

    async def deliver(self, claimed: ClaimedDelivery) -> None:
        """Make one attempt; a fault of ours is none, and nobody is blamed for it."""
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
        now = self._clock()
        if outcome.error is ErrorClass.NOT_SENT:
            again = not_sent_until(now, self._random)
            await self._database.run(lambda connection: postpone(connection, claimed, until=again, now=now))
        else:
            attempted = Attempted(claimed, started, outcome)
            await self._database.run(lambda connection: settle(connection, attempted, now, self._random))
        count_attempt(outcome)
        spans.current().tell(status=outcome.status_code, error=outcome.error.value)
        _log.info(
            "webhook.attempt",
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

    async def purge(self) -> int:
        """Forget attempts that are too old, some at a time, and what was mailed then; returns how many."""
        before = moment(self._clock() - self._config.log_kept_s)
        async with self._database.begin() as connection:
            await notice_rows.purge(connection, before=before)
            return await attempt_rows.purge(connection, before=before, limit=self._config.purged)
