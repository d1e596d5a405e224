"""A draft becomes a job, once."""

from __future__ import annotations

from sqlalchemy.exc import IntegrityError

from storage import job_rows
from storage.database import Connection
from storage.job_rows import NewJob


async def start(connection: Connection, new: NewJob) -> bool:
    """Insert the job; False when a job with this id exists."""
    savepoint = await connection.begin_nested()
    try:
        await job_rows.insert(connection, new)
    except IntegrityError:
        await savepoint.rollback()
        return False
    await savepoint.commit()
    return True
