"""In which time zone an account and a person read times."""

from __future__ import annotations

from alembic import op

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    """Bring the schema up."""
    op.execute("""
        ALTER TABLE account ADD COLUMN zone text NOT NULL DEFAULT 'UTC';  -- IANA name
        ALTER TABLE person ADD COLUMN zone text NOT NULL DEFAULT '';  -- IANA name; "" = as the account
    """)
