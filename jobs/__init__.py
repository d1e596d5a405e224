"""Do it for a list: intake, states, chunks, claim, work, finish, export; the Celery tasks."""

from __future__ import annotations
