"""What happened when lists were sent to: outcomes by account, and the key that hides their addresses."""

from __future__ import annotations

from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Bring the schema up."""
    op.execute("""
        CREATE TABLE account_secret (
            account_id uuid PRIMARY KEY REFERENCES account ON DELETE CASCADE,
            sealed bytea NOT NULL
        );
        CREATE TABLE outcome (
            account_id uuid NOT NULL REFERENCES account ON DELETE CASCADE,
            report bytea NOT NULL,
            address bytea NOT NULL,
            sealed bytea NOT NULL,
            kind text NOT NULL CHECK (
                kind IN ('delivered', 'bounced', 'deferred', 'complained', 'unsubscribed')),
            answer text NOT NULL,
            rule text NOT NULL,
            smtp_code int NOT NULL,
            enhanced text NOT NULL,
            said text NOT NULL,
            origin text NOT NULL,
            happened_at timestamptz NOT NULL,
            received_at timestamptz NOT NULL DEFAULT clock_timestamp(),
            PRIMARY KEY (account_id, report)
        );
        CREATE INDEX outcome_of_address ON outcome (account_id, address, happened_at);
        CREATE INDEX outcome_by_age ON outcome (happened_at);
        CREATE TABLE receiver (
            id uuid PRIMARY KEY,
            account_id uuid NOT NULL REFERENCES account ON DELETE CASCADE,
            sender text NOT NULL,
            name text NOT NULL DEFAULT '',
            secret bytea NOT NULL,
            topic text NOT NULL DEFAULT '',
            created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
            heard_at timestamptz,
            taken bigint NOT NULL DEFAULT 0,
            refused bigint NOT NULL DEFAULT 0,
            malformed bigint NOT NULL DEFAULT 0
        );
        CREATE INDEX receiver_of_account ON receiver (account_id);
        CREATE TABLE receiver_token (
            receiver_id uuid NOT NULL REFERENCES receiver ON DELETE CASCADE,
            token bytea NOT NULL,
            used_at timestamptz NOT NULL DEFAULT clock_timestamp(),
            PRIMARY KEY (receiver_id, token)
        );
        CREATE INDEX receiver_token_by_age ON receiver_token (used_at);
    """)
