"""Whose turn it is at a provider: accounts take turns there, whatever they have done elsewhere."""

from __future__ import annotations

from alembic import op

revision = "0030"
down_revision = "0029"


def upgrade() -> None:
    """Bring the schema up; the former release goes by the virtual times of accounts and jobs alone."""
    op.execute("""
        CREATE TABLE provider_turn (
            lane text NOT NULL,
            account_id uuid NOT NULL REFERENCES account ON DELETE CASCADE,
            starts double precision NOT NULL,
            ends double precision NOT NULL,
            taken_at timestamptz NOT NULL DEFAULT clock_timestamp(),
            PRIMARY KEY (lane, account_id)
        )
    """)
    op.execute("CREATE INDEX provider_turn_by_account ON provider_turn (account_id)")
    op.execute("CREATE INDEX chunk_in_line ON chunk (lane, job_id) WHERE state = 'ready' AND lane <> ''")
