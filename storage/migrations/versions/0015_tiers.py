"""What accounts want done: their policy, the tiers of their jobs' rows, and to whom they may not send."""

from __future__ import annotations

from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    """Bring the schema up."""
    op.execute("""
        ALTER TABLE account ADD COLUMN policy jsonb NOT NULL DEFAULT '{}';  -- what is done with verdicts
        -- Rows by tier, by the job's policy.
        ALTER TABLE job ADD COLUMN send bigint NOT NULL DEFAULT 0;
        ALTER TABLE job ADD COLUMN review bigint NOT NULL DEFAULT 0;
        ALTER TABLE job ADD COLUMN remove bigint NOT NULL DEFAULT 0;
        CREATE TABLE suppression (
            account_id uuid NOT NULL REFERENCES account ON DELETE CASCADE,
            address bytea NOT NULL,
            sealed bytea NOT NULL,
            reason text NOT NULL,
            origin text NOT NULL DEFAULT '',
            since timestamptz NOT NULL DEFAULT clock_timestamp(),
            PRIMARY KEY (account_id, address)
        );
        INSERT INTO suppression (account_id, address, sealed, reason, origin, since)
        SELECT DISTINCT ON (account_id, address) account_id, address, sealed, kind, origin, happened_at
        FROM outcome WHERE kind IN ('complained', 'unsubscribed')
        ORDER BY account_id, address, kind, happened_at;
    """)
