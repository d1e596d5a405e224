"""What a request that is sent twice is answered, what accounts use by day, and test accounts."""

from __future__ import annotations

from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Bring the schema up."""
    op.execute("""
        ALTER TABLE idempotency ALTER COLUMN job_id DROP NOT NULL;
        ALTER TABLE idempotency ADD COLUMN token uuid;
        ALTER TABLE idempotency ADD COLUMN lease_until timestamptz;
        ALTER TABLE idempotency ADD COLUMN answer bytea;
        -- Whose test account it is.
        ALTER TABLE account ADD COLUMN test_of uuid UNIQUE REFERENCES account (id) ON DELETE CASCADE;
        ALTER TABLE job ADD COLUMN test boolean NOT NULL DEFAULT false;  -- of a test account: nobody is asked
        CREATE TABLE usage (
            account_id uuid NOT NULL REFERENCES account (id) ON DELETE CASCADE,
            day date NOT NULL,
            mode text NOT NULL,
            rows bigint NOT NULL DEFAULT 0,
            addresses bigint NOT NULL DEFAULT 0,
            probes bigint NOT NULL DEFAULT 0,
            PRIMARY KEY (account_id, day, mode)
        );
        CREATE INDEX event_by_account ON event (account_id, created_at, id);
    """)
