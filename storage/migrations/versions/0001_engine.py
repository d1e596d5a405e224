"""The job engine: accounts, jobs, chunks, events."""

from __future__ import annotations

from alembic import op

revision = "0001"
down_revision = None

_STATEMENTS = (
    """
    CREATE TABLE account (
        id uuid PRIMARY KEY,
        name text NOT NULL UNIQUE,
        vtime double precision NOT NULL DEFAULT 0,
        created_at timestamptz NOT NULL DEFAULT clock_timestamp()
    )
    """,
    """
    CREATE TABLE job (
        id uuid PRIMARY KEY,
        account_id uuid NOT NULL REFERENCES account (id),
        parent_id uuid REFERENCES job (id) ON DELETE SET NULL,
        name text NOT NULL DEFAULT '',
        state text NOT NULL,
        options jsonb NOT NULL,
        source_name text NOT NULL DEFAULT '',
        source_sha256 text NOT NULL DEFAULT '',
        source_bytes bigint NOT NULL DEFAULT 0,
        address_column text NOT NULL DEFAULT '',
        total bigint NOT NULL DEFAULT 0,
        addresses bigint NOT NULL DEFAULT 0,
        processed bigint NOT NULL DEFAULT 0,
        valid bigint NOT NULL DEFAULT 0,
        invalid bigint NOT NULL DEFAULT 0,
        risky bigint NOT NULL DEFAULT 0,
        chunks integer NOT NULL DEFAULT 0,
        chunks_open integer NOT NULL DEFAULT 0,
        small boolean NOT NULL DEFAULT false,
        vtime double precision NOT NULL DEFAULT 0,
        step_token uuid,
        step_owner text,
        step_until timestamptz,
        step_attempt integer NOT NULL DEFAULT 0,
        warning text NOT NULL DEFAULT '',
        error_code text NOT NULL DEFAULT '',
        error_detail text NOT NULL DEFAULT '',
        created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
        started_at timestamptz,
        finished_at timestamptz,
        deadline_at timestamptz,
        CONSTRAINT job_state CHECK (state IN ('uploading', 'intake', 'queued', 'running', 'paused',
            'finalizing', 'completed', 'failed', 'cancelled')),
        CONSTRAINT job_finished_at CHECK (
            (state IN ('completed', 'failed', 'cancelled')) = (finished_at IS NOT NULL)),
        CONSTRAINT job_counts CHECK (processed = valid + invalid + risky AND processed <= total),
        CONSTRAINT job_chunks CHECK (chunks_open >= 0 AND chunks_open <= chunks)
    )
    """,
    "CREATE INDEX job_by_account ON job (account_id, created_at, id)",
    """
    CREATE INDEX job_active ON job (state) WHERE state NOT IN ('completed', 'failed', 'cancelled')
    """,
    """
    CREATE TABLE chunk (
        job_id uuid NOT NULL REFERENCES job (id) ON DELETE CASCADE,
        n integer NOT NULL,
        state text NOT NULL DEFAULT 'ready',
        lane text NOT NULL DEFAULT '',
        waits_for text NOT NULL DEFAULT '',
        ready_at timestamptz NOT NULL DEFAULT clock_timestamp(),
        attempt integer NOT NULL DEFAULT 0,
        addresses integer NOT NULL,
        source_key text NOT NULL,
        source_offset integer NOT NULL DEFAULT 0,
        lease_token uuid,
        lease_owner text,
        lease_until timestamptz,
        segment_key text,
        PRIMARY KEY (job_id, n),
        CONSTRAINT chunk_state CHECK (state IN ('ready', 'leased', 'done', 'cancelled')),
        CONSTRAINT chunk_lease CHECK ((state = 'leased') = (lease_token IS NOT NULL))
    )
    """,
    "CREATE INDEX chunk_ready ON chunk (job_id, ready_at, n) WHERE state = 'ready'",
    "CREATE INDEX chunk_leased ON chunk (lease_until) WHERE state = 'leased'",
    """
    CREATE TABLE event (
        id uuid PRIMARY KEY,
        account_id uuid NOT NULL REFERENCES account (id),
        job_id uuid REFERENCES job (id) ON DELETE CASCADE,
        type text NOT NULL,
        body bytea NOT NULL,
        created_at timestamptz NOT NULL,
        once text UNIQUE
    )
    """,
)


def upgrade() -> None:
    """Create the tables and the indexes of the hot statements."""
    for statement in _STATEMENTS:
        op.execute(statement)
