"""What an account has erased, when and how much: receipts that name no address."""

from __future__ import annotations

from alembic import op

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    """Bring the schema up."""
    op.execute("""
        CREATE TABLE erasure_receipt (
            id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
            account_id uuid NOT NULL REFERENCES account ON DELETE CASCADE,
            person_id uuid NOT NULL,
            erased jsonb NOT NULL,
            at timestamptz NOT NULL DEFAULT clock_timestamp()
        );
        CREATE INDEX erasure_receipt_by_account ON erasure_receipt (account_id, at);
    """)
