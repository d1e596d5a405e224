"""Which jobs have their results and have still to put them into their place."""

from __future__ import annotations

from alembic import op

revision = "0028"
down_revision = "0027"


def upgrade() -> None:
    """Bring the schema up."""
    op.execute("ALTER TABLE job ADD COLUMN delivers boolean NOT NULL DEFAULT false")
