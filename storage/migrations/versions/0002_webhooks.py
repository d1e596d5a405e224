"""Webhooks and schedules: endpoints, deliveries, attempts, and cron lines that rerun a list."""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"

_STATEMENTS = (
    """
    CREATE TABLE endpoint (
        id uuid PRIMARY KEY,
        account_id uuid NOT NULL REFERENCES account (id),
        url text NOT NULL,
        types text[] NOT NULL DEFAULT '{}',
        enabled boolean NOT NULL DEFAULT true,
        disabled_reason text NOT NULL DEFAULT '',
        secret bytea NOT NULL,
        previous_secret bytea,
        previous_until timestamptz,
        failures integer NOT NULL DEFAULT 0,
        failing_since timestamptz,
        exhausted integer NOT NULL DEFAULT 0,
        probe_at timestamptz,
        served_at timestamptz,
        created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
        CONSTRAINT endpoint_disabled CHECK (enabled = (disabled_reason = ''))
    )
    """,
    "CREATE INDEX endpoint_by_account ON endpoint (account_id, created_at, id)",
    """
    CREATE TABLE delivery (
        id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
        event_id uuid NOT NULL REFERENCES event (id) ON DELETE CASCADE,
        endpoint_id uuid NOT NULL REFERENCES endpoint (id) ON DELETE CASCADE,
        state text NOT NULL DEFAULT 'pending',
        trigger text NOT NULL DEFAULT 'automatic',
        attempts integer NOT NULL DEFAULT 0,
        round integer NOT NULL DEFAULT 0,
        next_attempt_at timestamptz,
        lease_token uuid,
        lease_until timestamptz,
        created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
        finished_at timestamptz,
        UNIQUE (event_id, endpoint_id),
        CONSTRAINT delivery_state CHECK (
            state IN ('pending', 'delivering', 'succeeded', 'exhausted', 'skipped')),
        CONSTRAINT delivery_trigger CHECK (trigger IN ('automatic', 'manual', 'test')),
        CONSTRAINT delivery_due CHECK ((state = 'pending') <= (next_attempt_at IS NOT NULL)),
        CONSTRAINT delivery_lease CHECK ((state = 'delivering') = (lease_token IS NOT NULL))
    )
    """,
    "CREATE INDEX delivery_due ON delivery (endpoint_id, created_at, id) WHERE state = 'pending'",
    "CREATE INDEX delivery_leased ON delivery (endpoint_id, lease_until) WHERE state = 'delivering'",
    "CREATE INDEX delivery_by_endpoint ON delivery (endpoint_id, created_at, id)",
    """
    CREATE TABLE attempt (
        delivery_id uuid NOT NULL REFERENCES delivery (id) ON DELETE CASCADE,
        n integer NOT NULL,
        at timestamptz NOT NULL,
        trigger text NOT NULL,
        ms integer NOT NULL,
        status_code integer NOT NULL,
        error text NOT NULL,
        response text NOT NULL,
        PRIMARY KEY (delivery_id, n)
    )
    """,
    """
    CREATE TABLE schedule (
        id uuid PRIMARY KEY,
        account_id uuid NOT NULL REFERENCES account (id),
        source_job_id uuid REFERENCES job (id) ON DELETE SET NULL,
        name text NOT NULL DEFAULT '',
        cron text NOT NULL,
        zone text NOT NULL,
        options jsonb NOT NULL,
        recheck text NOT NULL,
        overlap text NOT NULL,
        catch_up text NOT NULL,
        enabled boolean NOT NULL DEFAULT true,
        next_run_at timestamptz NOT NULL,
        last_run_at timestamptz,
        last_error text NOT NULL DEFAULT '',
        lease_token uuid,
        lease_until timestamptz,
        created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
        CONSTRAINT schedule_recheck CHECK (recheck IN ('all', 'stale', 'risky')),
        CONSTRAINT schedule_overlap CHECK (overlap IN ('skip', 'queue', 'cancel_previous')),
        CONSTRAINT schedule_catch_up CHECK (catch_up IN ('none', 'latest', 'all'))
    )
    """,
    "CREATE INDEX schedule_by_account ON schedule (account_id, created_at, id)",
    "CREATE INDEX schedule_due ON schedule (next_run_at) WHERE enabled",
    """
    ALTER TABLE job
        ADD COLUMN schedule_id uuid REFERENCES schedule (id) ON DELETE SET NULL,
        ADD COLUMN scheduled_for timestamptz,
        ADD CONSTRAINT job_once_a_slot UNIQUE (schedule_id, scheduled_for)
    """,
)


def upgrade() -> None:
    """Create the tables of the outbox and of the schedules."""
    for statement in _STATEMENTS:
        op.execute(statement)
