"""Which outcomes came without a time of their own."""

from __future__ import annotations

from alembic import op

revision = "0025"
down_revision = "0024"


def upgrade() -> None:
    """Bring the schema up."""
    op.execute("ALTER TABLE outcome ADD COLUMN undated boolean NOT NULL DEFAULT false")
