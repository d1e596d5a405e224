"""A database that a test gets was perhaps another's before; nobody can tell."""

from __future__ import annotations

import psycopg
import pytest

from tests.support.databases import Databases

ACCOUNT = "INSERT INTO account (id, name) VALUES (gen_random_uuid(), 'left behind')"
AUDIT = "SELECT nextval('audit_id_seq'), (SELECT count(*) FROM account)"


def connect(url: str) -> psycopg.Connection:
    return psycopg.connect(url.replace("+psycopg", ""), autocommit=True)


def test_rows_sequences_and_connections_are_gone(databases: Databases) -> None:
    with databases.migrated() as first:
        lingering = connect(first)
        lingering.execute(ACCOUNT)
        lingering.execute(AUDIT)
    with databases.migrated() as second, connect(second) as connection:
        assert second == first
        assert connection.execute(AUDIT).fetchone() == (1, 0)
    with pytest.raises(psycopg.OperationalError):
        lingering.execute("SELECT 1")
    lingering.close()


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE job ADD COLUMN more text",
        "ALTER TABLE job ALTER COLUMN name DROP NOT NULL",
        "ALTER TABLE job ADD CONSTRAINT few CHECK (total < 9)",
        "CREATE INDEX more ON job (total)",
        "CREATE TABLE more (id int)",
    ],
)
def test_one_whose_tables_were_changed_is_not_used_again(databases: Databases, change: str) -> None:
    with databases.migrated() as first, connect(first) as connection:
        connection.execute(change)
    with databases.migrated() as second:
        assert second != first
