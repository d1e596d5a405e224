"""What processes say of their own health, and tries to sign in while Redis does not count them."""

from __future__ import annotations

from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Bring the schema up."""
    op.execute("""
        ALTER TABLE worker ADD COLUMN health jsonb NOT NULL DEFAULT '{}';
        CREATE TABLE sign_in_try (
            holder bytea NOT NULL,
            tried_at timestamptz NOT NULL
        );
        CREATE INDEX sign_in_try_of ON sign_in_try (holder, tried_at);
    """)
