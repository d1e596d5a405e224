"""At how many domains a chunk's addresses are, for the time left: each is asked for a random recipient."""

from __future__ import annotations

from alembic import op

revision = "0029"
down_revision = "0028"


def upgrade() -> None:
    """Bring the schema up."""
    op.execute("ALTER TABLE chunk ADD COLUMN domains integer NOT NULL DEFAULT 0")
