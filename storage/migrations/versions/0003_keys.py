"""API keys, idempotency keys, and what a job keeps of a preview and of its retention."""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"

_STATEMENTS = (
    """
    CREATE TABLE api_key (
        id uuid PRIMARY KEY,
        account_id uuid NOT NULL REFERENCES account (id),
        name text NOT NULL DEFAULT '',
        hash bytea NOT NULL UNIQUE,
        pepper_id text NOT NULL,
        hint text NOT NULL,
        scopes text[] NOT NULL,
        created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
        expires_at timestamptz,
        last_used_at timestamptz,
        revoked_at timestamptz,
        rotated_to uuid REFERENCES api_key (id)
    )
    """,
    "CREATE INDEX api_key_by_account ON api_key (account_id, created_at)",
    """
    CREATE TABLE idempotency (
        account_id uuid NOT NULL REFERENCES account (id),
        key text NOT NULL,
        fingerprint text NOT NULL,
        job_id uuid NOT NULL REFERENCES job (id) ON DELETE CASCADE,
        created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
        PRIMARY KEY (account_id, key)
    )
    """,
    "CREATE INDEX idempotency_by_job ON idempotency (job_id)",
    "CREATE INDEX idempotency_by_age ON idempotency (created_at)",
    "ALTER TABLE job ADD COLUMN list_rows bigint NOT NULL DEFAULT 0",
    "ALTER TABLE job ADD COLUMN list_addresses bigint NOT NULL DEFAULT 0",
    "ALTER TABLE job ADD COLUMN expires_at timestamptz",
    "CREATE INDEX job_expired ON job (expires_at) WHERE expires_at IS NOT NULL",
    "CREATE INDEX job_by_parent ON job (parent_id) WHERE parent_id IS NOT NULL",
)


def upgrade() -> None:
    """Create the tables of the API."""
    for statement in _STATEMENTS:
        op.execute(statement)
