"""What operators see and change: workers, holds and edited limits."""

from __future__ import annotations

from alembic import op

revision = "0007"
down_revision = "0006"

_STATEMENTS: tuple[str, ...] = ()


def upgrade() -> None:
    """Bring the schema up."""
    for statement in _STATEMENTS:
        op.execute(statement)
