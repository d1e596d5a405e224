"""What tests of a webhook leave behind, and how many there may be: each is a request where anybody likes."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID, uuid4

from events.outcome import ErrorClass, Outcome
from events.retry import DeliveryState
from pipeline.errors import MailsiftError
from storage import attempt_rows, delivery_rows, endpoint_rows, event_rows
from storage.attempt_rows import NewAttempt
from storage.database import Connection
from storage.event_rows import EventRow

TESTS_A_MINUTE, TESTS_AN_HOUR = 10, 60
"""Tests of one endpoint in a minute, and of one account in an hour."""


async def check_limit(connection: Connection, *, account_id: UUID, endpoint_id: UUID, now: datetime) -> None:
    """Refuse a test that is one too many.

    Raises:
        MailsiftError: `webhook_test_limit`.
    """
    of_endpoint, of_account = await endpoint_rows.tests_made(
        connection,
        account_id=account_id,
        endpoint_id=endpoint_id,
        minute_ago=now - timedelta(minutes=1),
        hour_ago=now - timedelta(hours=1),
    )
    if of_endpoint >= TESTS_A_MINUTE or of_account >= TESTS_AN_HOUR:
        text = f"At most {TESTS_A_MINUTE} tests of a webhook a minute and {TESTS_AN_HOUR} an hour."
        raise MailsiftError("webhook_test_limit", text, retryable=True)


async def remember(connection: Connection, endpoint_id: UUID, event: EventRow, outcome: Outcome) -> UUID:
    """Log a test as a delivery that is over; returns the delivery's id."""
    delivery_id = uuid4()
    state = DeliveryState.SUCCEEDED if outcome.error is ErrorClass.NONE else DeliveryState.EXHAUSTED
    await event_rows.remember(connection, event)
    await delivery_rows.insert_test(
        connection,
        delivery_id=delivery_id,
        event_id=event.id,
        endpoint_id=endpoint_id,
        state=state.value,
        at=event.created_at,
    )
    made = NewAttempt(
        delivery_id=delivery_id,
        n=1,
        at=event.created_at,
        trigger="test",
        ms=outcome.ms,
        status_code=outcome.status_code,
        error=outcome.error.value,
        response=outcome.response,
        wish=outcome.wish.value,
    )
    await attempt_rows.add(connection, made)
    return delivery_id
