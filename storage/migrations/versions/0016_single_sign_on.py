"""Who a provider says somebody is, and what asks it again while they are signed in."""

from __future__ import annotations

from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    """Bring the schema up."""
    op.execute("""
        CREATE TABLE sso_identity (
            issuer text NOT NULL,
            subject text NOT NULL,
            person_id uuid NOT NULL REFERENCES person ON DELETE CASCADE,
            created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
            PRIMARY KEY (issuer, subject),
            UNIQUE (issuer, person_id)
        );
        CREATE TABLE sso_session (
            session_id bytea PRIMARY KEY REFERENCES session ON DELETE CASCADE,
            person_id uuid NOT NULL REFERENCES person ON DELETE CASCADE,
            issuer text NOT NULL,
            subject text NOT NULL,
            tokens bytea NOT NULL,
            asked_at timestamptz NOT NULL,
            known_at timestamptz NOT NULL
        );
        CREATE INDEX sso_session_by_person ON sso_session (person_id);
    """)
