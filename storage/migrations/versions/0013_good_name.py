"""What keeps a source's name good: the ledger, and what the name is worth at each provider."""

from __future__ import annotations

from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Bring the schema up."""
    op.execute("""
        CREATE TABLE source_ledger (
            hour timestamptz NOT NULL,
            provider text NOT NULL,
            source text NOT NULL,
            kind text NOT NULL,
            count bigint NOT NULL,
            PRIMARY KEY (hour, provider, source, kind)
        );
        CREATE TABLE source_standing (
            provider text NOT NULL,
            source text NOT NULL,
            step int NOT NULL DEFAULT 0,
            clean bigint NOT NULL DEFAULT 0,
            refused bigint NOT NULL DEFAULT 0,
            stepped_at timestamptz NOT NULL,
            asked_at timestamptz NOT NULL,
            PRIMARY KEY (provider, source)
        );
    """)
