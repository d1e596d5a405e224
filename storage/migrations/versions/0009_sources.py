"""Sources are the fleet's: workers tell theirs, chunks know whom a greylisting server expects."""

from __future__ import annotations

from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Bring the schema up."""
    op.execute("""
        -- A chunk that the former release has leased occupies every source: NULL.
        ALTER TABLE worker ADD COLUMN sources text[] NOT NULL DEFAULT '{}';
        ALTER TABLE chunk ADD COLUMN subnet text NOT NULL DEFAULT '';
        ALTER TABLE chunk ADD COLUMN lease_sources text[];
        CREATE TABLE source_rest (
            provider text NOT NULL,
            source text NOT NULL,
            rests_until timestamptz NOT NULL,
            PRIMARY KEY (provider, source)
        );
    """)
