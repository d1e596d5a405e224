"""When a schedule ends, spreads and pauses itself; blobs that no job points to."""

from __future__ import annotations

from alembic import op

revision = "0005"
down_revision = "0004"

# A worker of the release before leaves starts_at behind, in the past: both moments have to be due.
_STATEMENTS: tuple[str, ...] = (
    """
    ALTER TABLE schedule
        ADD COLUMN jitter_seconds integer NOT NULL DEFAULT 0,
        ADD COLUMN starts_at timestamptz,
        ADD COLUMN ends_at timestamptz,
        ADD COLUMN pause_after_failures integer NOT NULL DEFAULT 5,
        ADD COLUMN failures integer NOT NULL DEFAULT 0,
        ADD CONSTRAINT schedule_jitter CHECK (jitter_seconds >= 0),
        ADD CONSTRAINT schedule_failures CHECK (pause_after_failures >= 0 AND failures >= 0)
    """,
    """
    CREATE TABLE leftover (
        job_id uuid PRIMARY KEY,
        due_at timestamptz NOT NULL,
        sealed boolean NOT NULL DEFAULT false
    )
    """,
    "CREATE INDEX leftover_due ON leftover (due_at)",
)


def upgrade() -> None:
    """Bring the schema up."""
    for statement in _STATEMENTS:
        op.execute(statement)
