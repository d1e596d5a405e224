"""The release after this one, as far as its schema goes: one more migration, which only adds."""

from __future__ import annotations

from pathlib import Path

from mailsift.storage import schema

REVISION = "9999"
_MIGRATION = '''\
"""What the next release adds."""

from alembic import op

revision = "{revision}"
down_revision = "{newest}"


def upgrade() -> None:
    op.execute("ALTER TABLE job ADD COLUMN of_the_next text NOT NULL DEFAULT ''")
    op.execute("ALTER TABLE event ADD COLUMN of_the_next text")
    op.execute("ALTER TABLE chunk ADD COLUMN of_the_next timestamptz")
    op.execute("CREATE INDEX chunk_of_the_next ON chunk (of_the_next)")
    op.execute("CREATE TABLE of_the_next (id uuid PRIMARY KEY, job_id uuid REFERENCES job (id))")
'''


def migrate_to_next(url: str, folder: Path, *, patience: float = 60.0) -> str:
    """Do what `mailsift migrate` of the next release would do; the code around us stays this release's."""
    folder.mkdir(parents=True, exist_ok=True)
    newest = schema.newest_revision()
    (folder / f"{REVISION}_next.py").write_text(_MIGRATION.format(revision=REVISION, newest=newest))
    return schema.migrate(url, patience=patience, more=[folder])
