"""What an account has put away of the first things to do."""

from __future__ import annotations

from alembic import op

revision = "0023"
down_revision = "0022"


def upgrade() -> None:
    """Bring the schema up."""
    op.execute("ALTER TABLE account ADD COLUMN steps_dismissed text[] NOT NULL DEFAULT '{}'")
