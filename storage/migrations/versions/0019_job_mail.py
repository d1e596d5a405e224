"""Mail to members about their jobs: what each wants to hear of, and the outbox."""

from __future__ import annotations

from alembic import op

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    """Bring the schema up."""
    op.execute("""
        ALTER TABLE member ADD COLUMN mail text[] NOT NULL DEFAULT '{}';
        CREATE TABLE job_mail (
            id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
            job_id uuid NOT NULL REFERENCES job ON DELETE CASCADE,
            person_id uuid NOT NULL REFERENCES person ON DELETE CASCADE,
            kind text NOT NULL,
            state text NOT NULL DEFAULT 'pending',
            tries int NOT NULL DEFAULT 0,
            next_try_at timestamptz NOT NULL,
            UNIQUE (job_id, person_id, kind)
        );
        CREATE INDEX job_mail_due ON job_mail (next_try_at) WHERE state = 'pending';
        CREATE INDEX job_mail_by_person ON job_mail (person_id);
    """)
