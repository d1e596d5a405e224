"""An API is ready on a database that has its schema or a later one, and on no other."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from mailsift.pipeline.errors import MailsiftError
from mailsift.storage.schema import newest_revision
from tests.support.installation import open_parts, settings_for


@pytest.mark.parametrize(("found", "good"), [("9999", True), (newest_revision(), True), ("0001", False)])
async def test_it_depends_on_the_revision(
    found: str, good: bool, tmp_path: Path, database_url: str, redis_url: str
) -> None:
    settings = settings_for(tmp_path, database_url=database_url, redis_url=redis_url, sandbox={})
    with psycopg.connect(database_url.replace("+psycopg", "")) as connection:
        connection.execute("UPDATE alembic_version SET version_num = %s", [found])
    async with open_parts(settings) as parts:
        if good:
            await parts.ready()
            return
        with pytest.raises(MailsiftError) as refused:
            await parts.ready()
    assert refused.value.code == "database_not_migrated"
