"""A new database gets its tables in one go, and is then what the migrations would have made of it."""

from __future__ import annotations

from mailsift.storage.schema import FRESH, migrate, newest_revision
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
