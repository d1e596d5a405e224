"""What a step waits for that was given back."""

from __future__ import annotations

from alembic import op

revision = "0026"
down_revision = "0025"


def upgrade() -> None:
    """Bring the schema up."""
    op.execute("ALTER TABLE job ADD COLUMN step_waits_for text NOT NULL DEFAULT ''")
