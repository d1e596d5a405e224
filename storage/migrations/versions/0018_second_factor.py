"""A second factor beside the password: a sealed secret, the last step used, hashes of recovery codes."""

from __future__ import annotations

from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    """Bring the schema up."""
    op.execute("""
        CREATE TABLE second_factor (
            person_id uuid PRIMARY KEY REFERENCES person ON DELETE CASCADE,
            secret bytea NOT NULL,
            recovery bytea[] NOT NULL DEFAULT '{}',
            last_step bigint NOT NULL DEFAULT 0,
            confirmed_at timestamptz
        )
    """)
