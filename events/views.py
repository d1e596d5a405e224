"""What others may see of webhooks; times are UTC."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from events.outcome import ErrorClass, Wish
from events.retry import DeliveryState, Disabled
from storage.database import Row


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
    disabled_reason: Disabled
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
    """One HTTP request; `status_code` is 0 when nobody answered, `wish` what was asked for beside."""

    n: int
    at: datetime
    trigger: str
    ms: int
    status_code: int
    error: ErrorClass
    response: str
    wish: Wish


@dataclass(frozen=True, slots=True)
class TestOutcome:
    """What came of a test: it arrived exactly when `error` is NONE."""

    delivery_id: UUID
    event_id: UUID
    type: str
    error: ErrorClass
    status_code: int
    ms: int


def endpoint_view(row: Row) -> EndpointView:
    """Return an endpoint's row without its secrets."""
    return EndpointView(
        id=row["id"],
        account_id=row["account_id"],
        url=row["url"],
        types=tuple(row["types"]),
        rate_per_second=row["rate_per_second"],
        enabled=row["enabled"],
        disabled_reason=Disabled(row["disabled_reason"]),
        failing_since=row["failing_since"],
        paused_until=row["probe_at"],
        previous_secret_until=row["previous_until"],
        created_at=row["created_at"],
    )


def delivery_view(row: Row) -> DeliveryView:
    """Return a delivery's row."""
    return DeliveryView(
        id=row["id"],
        event_id=row["event_id"],
        endpoint_id=row["endpoint_id"],
        type=row["type"],
        state=DeliveryState(row["state"]),
        trigger=row["trigger"],
        attempts=row["attempts"],
        next_attempt_at=row["next_attempt_at"],
        created_at=row["created_at"],
        finished_at=row["finished_at"],
    )


def attempt_view(row: Row) -> AttemptView:
    """Return an attempt's row."""
    return AttemptView(
        n=row["n"],
        at=row["at"],
        trigger=row["trigger"],
        ms=row["ms"],
        status_code=row["status_code"],
        error=ErrorClass(row["error"]),
        response=row["response"],
        wish=Wish(row["wish"]),
    )
