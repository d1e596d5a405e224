"""How verdicts held: those whose addresses were sent to, what became of them, and sums without addresses."""

from __future__ import annotations

from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Bring the schema up."""
    op.execute("""
        ALTER TABLE job ADD COLUMN measured boolean NOT NULL DEFAULT false;  -- its verdicts are in `accuracy`
        CREATE INDEX job_unmeasured ON job (finished_at) WHERE state = 'completed' AND NOT measured;
        CREATE INDEX outcome_by_arrival ON outcome (account_id, received_at);
        CREATE TABLE measured_verdict (
            account_id uuid NOT NULL REFERENCES account ON DELETE CASCADE,
            address bytea NOT NULL,
            judged_at timestamptz NOT NULL,
            mode text NOT NULL,
            provider text NOT NULL,
            status text NOT NULL,
            result text NOT NULL,
            score smallint NOT NULL,
            known boolean NOT NULL,
            fate text NOT NULL DEFAULT '',
            PRIMARY KEY (account_id, address, judged_at)
        );
        CREATE INDEX measured_verdict_by_age ON measured_verdict (judged_at);
        CREATE TABLE accuracy (
            account_id uuid NOT NULL REFERENCES account ON DELETE CASCADE,
            day date NOT NULL,
            mode text NOT NULL,
            provider text NOT NULL,
            status text NOT NULL,
            result text NOT NULL,
            score smallint NOT NULL,
            what text NOT NULL,
            known boolean NOT NULL,
            held_out boolean NOT NULL,
            n bigint NOT NULL,
            PRIMARY KEY (account_id, day, mode, provider, status, result, score, what, known, held_out)
        );
        CREATE INDEX accuracy_by_day ON accuracy (day);
        CREATE TABLE measurement (
            account_id uuid PRIMARY KEY REFERENCES account ON DELETE CASCADE,
            due_at timestamptz,
            told_at timestamptz NOT NULL DEFAULT 'epoch',
            counted_at timestamptz NOT NULL DEFAULT 'epoch',
            rest_s float NOT NULL DEFAULT 30,
            token uuid,
            until timestamptz
        );
        CREATE INDEX measurement_due ON measurement (due_at) WHERE due_at IS NOT NULL;
        -- What was told before this release is counted once, too.
        INSERT INTO measurement (account_id, due_at, told_at)
        SELECT DISTINCT account_id, clock_timestamp(), clock_timestamp() FROM outcome;
    """)
