"""How many addresses of a chunk are at free-mail domains, for the time left."""

from __future__ import annotations

from alembic import op

revision = "0024"
down_revision = "0023"


def upgrade() -> None:
    """Bring the schema up."""
    op.execute("ALTER TABLE chunk ADD COLUMN free_mail jsonb")
