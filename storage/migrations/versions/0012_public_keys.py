"""Public keys are bound to the origins of the pages they stand in."""

from __future__ import annotations

from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Bring the schema up."""
    op.execute("ALTER TABLE api_key ADD COLUMN origins text[] NOT NULL DEFAULT '{}'")
