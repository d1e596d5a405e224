"""What a webhook endpoint may take, what it asked for, and what its owners are told."""

from __future__ import annotations

from alembic import op

revision = "0004"
down_revision = "0003"

_STATEMENTS: tuple[str, ...] = (
    """
    ALTER TABLE endpoint
        ADD COLUMN rate_per_second double precision,
        ADD COLUMN paced_until timestamptz,
        ADD CONSTRAINT endpoint_rate CHECK (rate_per_second > 0)
    """,
    "ALTER TABLE attempt ADD COLUMN wish text NOT NULL DEFAULT ''",
    "CREATE INDEX attempt_by_age ON attempt (at)",
    """
    CREATE TABLE notice (
        id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
        account_id uuid NOT NULL REFERENCES account (id) ON DELETE CASCADE,
        kind text NOT NULL,
        subject_id uuid NOT NULL,
        since timestamptz NOT NULL,
        reason text NOT NULL DEFAULT '',
        state text NOT NULL DEFAULT 'pending',
        tries integer NOT NULL DEFAULT 0,
        next_try_at timestamptz NOT NULL,
        created_at timestamptz NOT NULL,
        UNIQUE (subject_id, kind, since),
        CONSTRAINT notice_kind CHECK (kind IN ('webhook_failing', 'webhook_disabled')),
        CONSTRAINT notice_state CHECK (state IN ('pending', 'sent', 'skipped', 'given_up'))
    )
    """,
    "CREATE INDEX notice_due ON notice (next_try_at) WHERE state = 'pending'",
)


def upgrade() -> None:
    """Bring the schema up."""
    for statement in _STATEMENTS:
        op.execute(statement)
