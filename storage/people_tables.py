"""The tables of people: who signs in, where they are members, their sessions, and what was done."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKey,
    ForeignKeyConstraint,
    Identity,
    Index,
    LargeBinary,
    Table,
    Text,
    func,
)
from sqlalchemy.dialects.postgresql import JSONB, UUID

from storage.tables import metadata

ROLES = ("viewer", "member", "owner")
LINK_KINDS = ("first_owner", "invite", "password")

_MOMENT = DateTime(timezone=True)

person = Table(
    "person",
    metadata,
    Column("id", UUID, primary_key=True, server_default=func.gen_random_uuid()),
    Column("email", Text, nullable=False, unique=True),  # lower-case
    Column("password", Text, nullable=False),  # argon2id, with its salt and its cost
    Column("operator", Boolean, nullable=False, server_default="false"),
    Column("created_at", _MOMENT, nullable=False, server_default=func.clock_timestamp()),
    Column("last_sign_in", _MOMENT),
    CheckConstraint("email = lower(email)", name="person_email"),
)

member = Table(
    "member",
    metadata,
    Column("account_id", UUID, ForeignKey("account.id", ondelete="CASCADE"), primary_key=True),
    Column("person_id", UUID, ForeignKey("person.id", ondelete="CASCADE"), primary_key=True),
    Column("role", Text, nullable=False),
    Column("created_at", _MOMENT, nullable=False, server_default=func.clock_timestamp()),
    CheckConstraint(f"role IN {ROLES}", name="member_role"),
    Index("member_by_person", "person_id"),
)

# Who is no member any more is signed out by the foreign key.
session = Table(
    "session",
    metadata,
    Column("id", LargeBinary, primary_key=True),  # SHA-256 of what the cookie holds
    Column("person_id", UUID, nullable=False),
    Column("account_id", UUID, nullable=False),
    Column("created_at", _MOMENT, nullable=False),
    Column("seen_at", _MOMENT, nullable=False),
    Column("expires_at", _MOMENT, nullable=False),
    ForeignKeyConstraint(
        ["account_id", "person_id"], ["member.account_id", "member.person_id"], ondelete="CASCADE"
    ),
    Index("session_by_person", "person_id"),
    Index("session_by_age", "expires_at"),
)

link = Table(
    "link",
    metadata,
    Column("id", UUID, primary_key=True, server_default=func.gen_random_uuid()),
    Column("hash", LargeBinary, nullable=False, unique=True),  # SHA-256 of what the link holds
    Column("kind", Text, nullable=False),
    Column("account_id", UUID, ForeignKey("account.id", ondelete="CASCADE")),
    Column("email", Text, nullable=False, server_default=""),  # for whom; of the first owner nothing is known
    Column("role", Text, nullable=False, server_default="viewer"),
    Column("operator", Boolean, nullable=False, server_default="false"),
    Column("made_by", Text, nullable=False, server_default=""),
    Column("created_at", _MOMENT, nullable=False),
    Column("expires_at", _MOMENT, nullable=False),
    CheckConstraint(f"kind IN {LINK_KINDS}", name="link_kind"),
    CheckConstraint(f"role IN {ROLES}", name="link_role"),
    CheckConstraint("(kind = 'invite') = (account_id IS NOT NULL)", name="link_account"),
    Index("link_by_account", "account_id"),
)

audit = Table(
    "audit",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("account_id", UUID, ForeignKey("account.id", ondelete="CASCADE")),  # none: of the installation
    Column("actor", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("subject", Text, nullable=False, server_default=""),
    Column("detail", JSONB, nullable=False, server_default="{}"),
    Column("at", _MOMENT, nullable=False, server_default=func.clock_timestamp()),
    Index("audit_by_account", "account_id", "id"),
)
