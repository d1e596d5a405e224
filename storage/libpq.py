"""What PostgreSQL's own client library knows of its addresses."""

from __future__ import annotations

from psycopg import pq


def options() -> frozenset[str]:
    """Return the names of the options that may stand in an address."""
    return frozenset(option.keyword.decode() for option in pq.Conninfo.get_defaults())
