"""A new database gets its tables in one go, and is then what the migrations would have made of it."""

from __future__ import annotations

from typing import LiteralString

import pytest
from sqlalchemy import text

from mailsift.pipeline.errors import MailsiftError
from mailsift.storage.schema import FRESH, connected, migrate, newest_revision, revision, serves
from tests.support.databases import Databases
from tests.support.schema_file import dump, upgrade


def test_a_new_database_is_what_the_migrations_make_of_it(databases: Databases) -> None:
    with databases.empty() as fresh, databases.empty() as grown:
        migrate(fresh)
        upgrade(grown)
        assert dump(fresh) == dump(grown), "python -m tests.support.schema_file"


def test_a_new_database_needs_no_migration() -> None:
    assert f"'{newest_revision()}'" in FRESH.read_text(encoding="utf-8"), (
        "python -m tests.support.schema_file"
    )


def test_a_database_of_another_program_is_not_taken_for_ours(empty_database_url: str) -> None:
    with connected(empty_database_url) as connection, connection.begin():
        connection.execute(text("CREATE TABLE alembic_version AS SELECT 'ae1027a6acf'::text AS version_num"))
    with pytest.raises(MailsiftError) as refused:
        migrate(empty_database_url)
    assert refused.value.code == "database_foreign"
    assert not serves(revision(empty_database_url))


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_a_database_that_does_not_hold_every_text_is_not_taken(
    databases: Databases, encoding: LiteralString
) -> None:
    with databases.encoded(encoding) as url:
        with pytest.raises(MailsiftError, match=f"database_encoding: .*{encoding}"):
            migrate(url)
        assert revision(url) == ""
