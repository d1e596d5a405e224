"""The table of notices: mail to the owners of an account, on its way or over."""

from __future__ import annotations

from sqlalchemy import (
    CheckConstraint,
    Column,
    DateTime,
    ForeignKey,
    Index,
    Integer,
    Table,
    Text,
    UniqueConstraint,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import UUID

from storage.tables import metadata

_MOMENT = DateTime(timezone=True)

notice = Table(
    "notice",
    metadata,
    Column("id", UUID, primary_key=True, server_default=func.gen_random_uuid()),
    Column("account_id", UUID, ForeignKey("account.id", ondelete="CASCADE"), nullable=False),
    Column("kind", Text, nullable=False),
    Column("subject_id", UUID, nullable=False),  # the endpoint
    Column("since", _MOMENT, nullable=False),  # names the streak of failures: one notice of a kind for each
    Column("reason", Text, nullable=False, server_default=""),  # why it was disabled
    Column("state", Text, nullable=False, server_default="pending"),
    Column("tries", Integer, nullable=False, server_default="0"),
    Column("next_try_at", _MOMENT, nullable=False),
    Column("created_at", _MOMENT, nullable=False),
    UniqueConstraint("subject_id", "kind", "since"),
    CheckConstraint("kind IN ('webhook_failing', 'webhook_disabled')", name="notice_kind"),
    CheckConstraint("state IN ('pending', 'sent', 'skipped', 'given_up')", name="notice_state"),
    Index("notice_due", "next_try_at", postgresql_where=text("state = 'pending'")),
)
