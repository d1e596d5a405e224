"""When a schedule ends, spreads and pauses itself."""

from __future__ import annotations

from alembic import op

revision = "0005"
down_revision = "0004"

_STATEMENTS: tuple[str, ...] = ()


def upgrade() -> None:
    """Bring the schema up."""
    for statement in _STATEMENTS:
        op.execute(statement)
