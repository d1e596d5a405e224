"""People who sign in: users, members of accounts, sessions and the audit log."""

from __future__ import annotations

from alembic import op

revision = "0006"
down_revision = "0005"

_STATEMENTS: tuple[str, ...] = ()


def upgrade() -> None:
    """Bring the schema up."""
    for statement in _STATEMENTS:
        op.execute(statement)
