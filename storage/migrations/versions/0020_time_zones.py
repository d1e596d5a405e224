"""In which time zone an account and a person read times."""

from __future__ import annotations

from alembic import op

revision = "0020"
down_revision = "0019"

_STATEMENTS: tuple[str, ...] = (
    "ALTER TABLE account ADD COLUMN zone text NOT NULL DEFAULT 'UTC'",
    "ALTER TABLE person ADD COLUMN zone text NOT NULL DEFAULT ''",
)


def upgrade() -> None:
    """Bring the schema up."""
    for statement in _STATEMENTS:
        op.execute(statement)
