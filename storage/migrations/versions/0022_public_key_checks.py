"""How many checks a minute a public key may be used for; null = the usual."""

from __future__ import annotations

from alembic import op

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    """Bring the schema up; the former release never looks at the column."""
    op.execute("ALTER TABLE api_key ADD COLUMN checks_per_minute integer")
