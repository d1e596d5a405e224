"""What operators see and change: workers, holds and edited limits."""

from __future__ import annotations

from alembic import op

revision = "0007"
down_revision = "0006"

_STATEMENTS: tuple[str, ...] = (
    """
    CREATE TABLE worker (
        owner text PRIMARY KEY,
        crew text NOT NULL,
        host text NOT NULL,
        pid integer NOT NULL,
        version text NOT NULL,
        slots integer NOT NULL,
        in_hand integer NOT NULL,
        lag_s double precision NOT NULL,
        rss_bytes bigint NOT NULL,
        beat_s double precision NOT NULL,
        started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
        beat_at timestamptz NOT NULL DEFAULT clock_timestamp(),
        claimed_at timestamptz,
        swept_at timestamptz,
        stopped_at timestamptz,
        drain_since timestamptz
    )
    """,
    "CREATE INDEX worker_by_crew ON worker (crew)",
    """
    CREATE TABLE throughput (
        minute timestamptz NOT NULL,
        shard smallint NOT NULL,
        chunks integer NOT NULL DEFAULT 0,
        addresses bigint NOT NULL DEFAULT 0,
        valid bigint NOT NULL DEFAULT 0,
        invalid bigint NOT NULL DEFAULT 0,
        risky bigint NOT NULL DEFAULT 0,
        leases_expired integer NOT NULL DEFAULT 0,
        PRIMARY KEY (minute, shard)
    )
    """,
    """
    CREATE TABLE throttle_edit (
        provider text NOT NULL,
        source text NOT NULL,
        rate double precision,
        sessions integer,
        held boolean NOT NULL DEFAULT false,
        held_until timestamptz,
        note text NOT NULL DEFAULT '',
        edited_by text NOT NULL,
        edited_at timestamptz NOT NULL DEFAULT clock_timestamp(),
        PRIMARY KEY (provider, source),
        CONSTRAINT throttle_edit_rate CHECK (rate > 0),
        CONSTRAINT throttle_edit_sessions CHECK (sessions > 0)
    )
    """,
    "ALTER TABLE chunk ADD COLUMN leased_at timestamptz",
    "ALTER TABLE chunk ADD COLUMN last_error text NOT NULL DEFAULT ''",
    "ALTER TABLE job ADD COLUMN step_at timestamptz",
    "CREATE INDEX chunk_troubled ON chunk (job_id, n) WHERE attempt > 2",
    "CREATE INDEX job_by_age ON job (created_at, id)",
    "CREATE INDEX audit_by_subject ON audit (subject, id)",
)


def upgrade() -> None:
    """Bring the schema up."""
    for statement in _STATEMENTS:
        op.execute(statement)
