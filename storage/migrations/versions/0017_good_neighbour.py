"""What a job asked of a provider, domains that do not want to be asked, and sources that are listed."""

from __future__ import annotations

from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    """Bring the schema up."""
    op.execute("""
        CREATE TABLE job_asked (
            job_id uuid NOT NULL REFERENCES job ON DELETE CASCADE,
            provider text NOT NULL,
            source text NOT NULL,
            asked bigint NOT NULL DEFAULT 0,
            missing bigint NOT NULL DEFAULT 0,
            stops int NOT NULL DEFAULT 0,
            stopped_until timestamptz,
            PRIMARY KEY (job_id, provider, source)
        );
        CREATE TABLE opt_out (
            domain text PRIMARY KEY,
            note text NOT NULL DEFAULT '',
            added_by text NOT NULL DEFAULT '',
            added_at timestamptz NOT NULL DEFAULT clock_timestamp()
        );
        CREATE TABLE source_listing (
            source text NOT NULL,
            zone text NOT NULL,
            listed_since timestamptz,
            detail text NOT NULL DEFAULT '',
            looked_at timestamptz NOT NULL DEFAULT clock_timestamp(),
            PRIMARY KEY (source, zone)
        );
    """)
