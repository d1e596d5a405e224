"""Which schedules fetch their list for every run."""

from __future__ import annotations

from alembic import op

revision = "0027"
down_revision = "0026"


def upgrade() -> None:
    """Bring the schema up; the list of a job that was fetched had no size until now."""
    op.execute("ALTER TABLE schedule ADD COLUMN fetches boolean NOT NULL DEFAULT false")
    op.execute(
        "UPDATE schedule SET fetches = true FROM job WHERE job.id = source_job_id AND job.source_bytes = 0"
    )
