"""Every migration only adds, so a release works with the schemas that come after its own."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from alembic.script import ScriptDirectory

from mailsift.pipeline.errors import MailsiftError
from mailsift.storage import schema
from mailsift.storage.database import Database
from mailsift.storage.schema import current_revision, migrate, newest_revision, revision, serves
from tests.support.next_release import REVISION, migrate_to_next
from tests.support.schema_file import upgrade

REVISIONS = [
    found.revision
    for found in reversed(list(ScriptDirectory.from_config(schema.alembic_config("")).walk_revisions()))
]
_COLUMNS = """
    SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
           a.atthasdef OR a.attidentity <> '' OR a.attgenerated <> ''
    FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
    WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped
"""
_RULES = """
    SELECT c.relname, k.conname || pg_get_constraintdef(k.oid),
           array(SELECT attname::text FROM pg_attribute WHERE attrelid = c.oid AND attnum = ANY(k.conkey))
    FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
    WHERE k.connamespace = 'public'::regnamespace AND k.contype <> 'n'
    UNION ALL
    SELECT c.relname, pg_get_indexdef(i.indexrelid),
           array(SELECT attname::text FROM pg_attribute WHERE attrelid = c.oid AND attnum = ANY(i.indkey))
    FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
    WHERE c.relnamespace = 'public'::regnamespace AND i.indisunique
    UNION ALL
    SELECT c.relname, t.tgname, ARRAY[]::text[]
    FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
    WHERE c.relnamespace = 'public'::regnamespace AND NOT t.tgisinternal
"""
"""What may refuse a row: constraints, unique indexes and triggers, with the columns they look at."""


@dataclass(frozen=True, slots=True)
class Column:
    """What somebody who writes a row must know of a column."""

    kind: str
    not_null: bool
    has_default: bool


@dataclass(frozen=True, slots=True)
class Catalog:
    """A schema as PostgreSQL itself tells it."""

    columns: dict[tuple[str, str], Column]
    rules: dict[tuple[str, str], frozenset[str]]


def catalog(url: str) -> Catalog:
    with psycopg.connect(url.replace("+psycopg", "")) as connection:
        columns = {
            (table, name): Column(*rest) for table, name, *rest in connection.execute(_COLUMNS).fetchall()
        }
        rules = {
            (table, rule): frozenset(names) for table, rule, names in connection.execute(_RULES).fetchall()
        }
    return Catalog(columns, rules)


def faults(before: Catalog, after: Catalog) -> list[str]:
    """Say what somebody who knows only the schema before would trip over."""
    tables = {table for table, _ in before.columns}
    found = [
        f"{table}.{name} is gone" for table, name in before.columns if (table, name) not in after.columns
    ]
    for (table, name), column in after.columns.items():
        was = before.columns.get((table, name))
        where = f"{table}.{name}"
        if was is None and table in tables and column.not_null and not column.has_default:
            found.append(f"{where} must be written")
        if was is not None and was.kind != column.kind:
            found.append(f"{where} is another type")
        if was is not None and column.not_null and not was.not_null:
            found.append(f"{where} may no longer be null")
        if was is not None and was.has_default and not column.has_default:
            found.append(f"{where} has lost its default")
    known = {table: {name for of, name in before.columns if of == table} for table in tables}
    found += [
        f"{table} has a new rule: {rule}"
        for (table, rule), names in after.rules.items()
        if table in tables and (table, rule) not in before.rules and names <= known[table]
    ]
    return found


def test_revisions_are_numbered_one_after_the_other() -> None:
    assert sorted(REVISIONS) == REVISIONS
    assert all(len(number) == 4 and number.isdecimal() for number in REVISIONS)
    assert newest_revision() == REVISIONS[-1] < REVISION


def test_every_migration_after_the_first_only_adds(empty_database_url: str) -> None:
    upgrade(empty_database_url, REVISIONS[0])
    for number in REVISIONS[1:]:
        before = catalog(empty_database_url)
        upgrade(empty_database_url, number)
        after = catalog(empty_database_url)
        assert after != before, number
        assert faults(before, after) == [], number


@pytest.mark.parametrize(
    ("statement", "fault"),
    [
        ("ALTER TABLE job DROP COLUMN name", "job.name is gone"),
        ("ALTER TABLE job RENAME COLUMN name TO title", "job.name is gone"),
        ("DROP TABLE idempotency", "idempotency.key is gone"),
        ("ALTER TABLE job ADD COLUMN must text NOT NULL", "job.must must be written"),
        ("ALTER TABLE job ALTER COLUMN list_rows TYPE integer", "job.list_rows is another type"),
        ("ALTER TABLE job ALTER COLUMN parent_id SET NOT NULL", "job.parent_id may no longer be null"),
        ("ALTER TABLE job ALTER COLUMN total DROP DEFAULT", "job.total has lost its default"),
        ("CREATE UNIQUE INDEX one_name ON job (name)", "job has a new rule: CREATE UNIQUE INDEX one_name"),
        ("ALTER TABLE job ADD CONSTRAINT few CHECK (total < 9)", "job has a new rule: few"),
        (
            "CREATE TRIGGER slow BEFORE UPDATE ON job EXECUTE FUNCTION suppress_redundant_updates_trigger()",
            "job has a new rule: slow",
        ),
    ],
)
def test_what_would_break_the_release_before_is_seen(database_url: str, statement: str, fault: str) -> None:
    before = catalog(database_url)
    with psycopg.connect(database_url.replace("+psycopg", "")) as connection:
        connection.execute(statement)
    found = faults(before, catalog(database_url))
    assert [one for one in found if one.startswith(fault)]


def test_a_database_of_a_later_release_is_served_and_left_as_it_is(database_url: str, tmp_path: Path) -> None:
    assert migrate_to_next(database_url, tmp_path / "next") == REVISION
    before = catalog(database_url)
    assert migrate(database_url) == REVISION
    assert catalog(database_url) == before
    assert (serves(REVISION), serves(newest_revision()), serves(REVISIONS[-2]), serves("")) == (
        *(True, True),
        *(False, False),
    )


async def test_the_revision_is_told_alike_to_those_who_wait_and_those_who_do_not(
    database_url: str, empty_database_url: str
) -> None:
    for url, known in ((database_url, newest_revision()), (empty_database_url, "")):
        database = Database(url)
        async with database.begin() as connection:
            assert await current_revision(connection) == known
        await database.aclose()
        assert await asyncio.to_thread(revision, url) == known


@pytest.fixture
def reader(database_url: str) -> Callable[[], psycopg.Connection[tuple[object, ...]]]:
    def connect() -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(database_url.replace("+psycopg", ""))

    return connect


def test_a_migration_lets_the_others_pass_while_a_backup_reads_the_table(
    database_url: str, tmp_path: Path, reader: Callable[[], psycopg.Connection[tuple[object, ...]]]
) -> None:
    with reader() as backup, reader() as writer:
        backup.execute("SELECT count(*) FROM job").fetchone()  # and its transaction stays open
        migrating = threading.Thread(target=migrate_to_next, args=(database_url, tmp_path / "next"))
        migrating.start()
        waited = 0.0
        while waited < 0.5:  # until it wants the table, and the writer waits behind it
            assert migrating.is_alive()
            began = time.monotonic()
            writer.execute("UPDATE job SET name = 'x'")
            writer.commit()
            waited = time.monotonic() - began
        assert waited < 2 * schema.LOCK_SECONDS
        assert migrating.is_alive()
        backup.rollback()
        migrating.join(60)
    assert revision(database_url) == REVISION


def test_a_migration_that_never_gets_its_turn_says_so(
    database_url: str, tmp_path: Path, reader: Callable[[], psycopg.Connection[tuple[object, ...]]]
) -> None:
    with reader() as backup:
        backup.execute("SELECT count(*) FROM job").fetchone()
        with pytest.raises(MailsiftError) as refused:
            migrate_to_next(database_url, tmp_path / "next", patience=0)
        assert refused.value.code == "database_busy"
        backup.rollback()
    assert revision(database_url) == newest_revision()


def test_a_migration_that_stands_in_a_circle_with_a_worker_steps_back(
    database_url: str, tmp_path: Path, reader: Callable[[], psycopg.Connection[tuple[object, ...]]]
) -> None:
    with reader() as worker, reader() as onlooker:
        onlooker.autocommit = True
        worker.execute("SET deadlock_timeout = '1min'")  # so that it is not the one to step back
        worker.execute("LOCK TABLE chunk IN ROW EXCLUSIVE MODE")  # as a commit takes it, the chunk first
        migrating = threading.Thread(target=migrate_to_next, args=(database_url, tmp_path / "next"))
        migrating.start()
        waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'chunk'::regclass"
        while onlooker.execute(waits).fetchone() == (0,):
            assert migrating.is_alive()
        worker.execute("LOCK TABLE job IN ROW EXCLUSIVE MODE")  # which the migration holds
        worker.commit()
        migrating.join(60)
    assert revision(database_url) == REVISION
