"""A new database gets its tables in one go, and is then what the migrations would have made of it."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import LiteralString

import pytest
from sqlalchemy import make_url, text

from mailsift.pipeline.errors import MailsiftError
from mailsift.storage.schema import FRESH, connected, migrate, newest_revision, revision, serves
from tests.support.databases import Databases
from tests.support.schema_file import dump, upgrade


def test_a_new_database_is_what_the_migrations_make_of_it(databases: Databases) -> None:
    with databases.empty() as fresh, databases.empty() as grown:
        migrate(fresh)
        upgrade(grown)
        assert dump(fresh) == dump(grown), "python -m tests.support.schema_file"


def test_a_database_of_the_first_release_keeps_its_rows(empty_database_url: str) -> None:
    upgrade(empty_database_url, "0007")
    account, fetched, sent = "00000000-0000-0000-0000-00000000000a", uuid.uuid4(), uuid.uuid4()
    with connected(empty_database_url) as connection, connection.begin():
        connection.execute(text("INSERT INTO account (id, name) VALUES (:id, 'acme')"), {"id": account})
        for number, size in ((fetched, 0), (sent, 9)):
            connection.execute(
                text("""
                    WITH source AS (
                        INSERT INTO job (id, account_id, state, options, source_bytes, name)
                        VALUES (:id, :account, 'queued', '{}', :size, 'spring') RETURNING id
                    )
                    INSERT INTO schedule (id, account_id, source_job_id, cron, zone, options,
                        recheck, overlap, catch_up, next_run_at)
                    SELECT id, :account, id, '@daily', 'UTC', '{}', 'all', 'skip', 'none', now() FROM source
                """),
                {"id": number, "account": account, "size": size},
            )
    assert migrate(empty_database_url) == newest_revision()
    with connected(empty_database_url) as connection:
        rows = connection.execute(
            text("""
                SELECT job.id, job.name, account.name, account.zone, job.delivers, schedule.fetches
                FROM job JOIN account ON account.id = account_id JOIN schedule ON source_job_id = job.id
                ORDER BY source_bytes
            """)
        ).all()
    assert rows == [
        (fetched, "spring", "acme", "UTC", False, True),
        (sent, "spring", "acme", "UTC", False, False),
    ]


def test_a_database_from_between_two_releases_is_told_so(empty_database_url: str) -> None:
    upgrade(empty_database_url, "0007")
    with connected(empty_database_url) as connection, connection.begin():
        connection.execute(text("UPDATE alembic_version SET version_num = '0015'"))
    with pytest.raises(MailsiftError, match="database_foreign: It is at revision 0015"):
        migrate(empty_database_url)


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


def _with_habit(url: str, habit: str) -> str:
    """Return the address with something that a server, a database or a role may say, too."""
    return (
        make_url(url)
        .update_query_dict({"options": f"-csearch_path=public -c{habit}"})
        .render_as_string(hide_password=False)
    )


@pytest.mark.parametrize(
    ("habit", "expected"),
    [
        ("role=pg_monitor", "permission denied for schema public"),  # one that owns nothing here
        ("default_transaction_read_only=on", "in a read-only transaction"),
    ],
)
def test_a_database_that_takes_no_tables_says_why_in_one_sentence(
    empty_database_url: str, habit: str, expected: str
) -> None:
    with pytest.raises(MailsiftError, match=expected) as refused:
        migrate(_with_habit(empty_database_url, habit))
    assert (refused.value.code, refused.value.message.count("\n")) == ("database_refused", 0)
    assert revision(empty_database_url) == ""


def test_a_migration_may_take_longer_than_a_question(empty_database_url: str) -> None:
    waited = """
        SELECT clock_timestamp() - query_start > interval '600 ms' FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'
    """
    upgrade(empty_database_url, "0007")
    with connected(empty_database_url) as reader, connected(empty_database_url) as onlooker:
        reader.execute(text("LOCK TABLE job IN ACCESS SHARE MODE"))
        onlooker.execution_options(isolation_level="AUTOCOMMIT")
        with ThreadPoolExecutor(1) as pool:
            migrating = pool.submit(migrate, _with_habit(empty_database_url, "statement_timeout=300"))
            while not migrating.done() and onlooker.execute(text(waited)).scalar() is not True:
                pass
            reader.rollback()
            assert migrating.result(60) == newest_revision()


def test_a_server_that_ends_while_it_is_migrated_is_told_in_one_sentence(empty_database_url: str) -> None:
    ended = """
        SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'
    """
    upgrade(empty_database_url, "0007")
    with connected(empty_database_url) as reader, connected(empty_database_url) as operator:
        reader.execute(text("LOCK TABLE job IN ACCESS SHARE MODE"))
        with ThreadPoolExecutor(1) as pool:
            migrating = pool.submit(migrate, empty_database_url)
            while not migrating.done() and operator.execute(text(ended)).scalar() is not True:
                operator.rollback()
            with pytest.raises(MailsiftError) as refused:
                migrating.result(60)
    assert refused.value.code == "database_unavailable"
    assert revision(empty_database_url) == "0007"
