"""Rows of webhooks that belong to the account that asks; what is another's does not exist."""

from __future__ import annotations

from uuid import UUID

from pipeline.errors import MailsiftError
from storage import delivery_rows, endpoint_rows
from storage.database import Connection, Row


async def owned_endpoint(
    connection: Connection, account_id: UUID, endpoint_id: UUID, *, lock: bool = False
) -> Row:
    """Return the endpoint's row; `lock` keeps others from changing it until the transaction ends.

    Raises:
        MailsiftError: `webhook_not_found`.
    """
    row = await endpoint_rows.get(connection, endpoint_id, lock=lock)
    if row is None or row["account_id"] != account_id:
        raise MailsiftError("webhook_not_found", "There is no such webhook.")
    return row


async def owned_delivery(connection: Connection, account_id: UUID, delivery_id: UUID) -> Row:
    """Return the delivery's row with its event's type and whether its endpoint is enabled.

    Raises:
        MailsiftError: `delivery_not_found`.
    """
    row = await delivery_rows.get(connection, delivery_id)
    if row is None or row["account_id"] != account_id:
        raise MailsiftError("delivery_not_found", "There is no such delivery.")
    return row
