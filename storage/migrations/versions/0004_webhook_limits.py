"""What a webhook endpoint may take and what its owner is told."""

from __future__ import annotations

from alembic import op

revision = "0004"
down_revision = "0003"

_STATEMENTS: tuple[str, ...] = ()


def upgrade() -> None:
    """Bring the schema up."""
    for statement in _STATEMENTS:
        op.execute(statement)
