"""The tables of operators: who works, what was done a minute, and which limits were changed by hand."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Float,
    Index,
    Integer,
    SmallInteger,
    Table,
    Text,
    func,
)

from storage.tables import metadata

_MOMENT = DateTime(timezone=True)

worker = Table(
    "worker",
    metadata,
    Column("owner", Text, primary_key=True),  # names the process in its leases
    Column("crew", Text, nullable=False),  # the worker whose pool it is in; a drained crew stays drained
    Column("host", Text, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("version", Text, nullable=False),
    Column("slots", Integer, nullable=False),
    Column("in_hand", Integer, nullable=False),
    Column("lag_s", Float, nullable=False),  # of its event loop, the longest since the heartbeat before
    Column("rss_bytes", BigInteger, nullable=False),
    Column("beat_s", Float, nullable=False),  # how often it beats
    Column("started_at", _MOMENT, nullable=False, server_default=func.clock_timestamp()),
    Column("beat_at", _MOMENT, nullable=False, server_default=func.clock_timestamp()),
    Column("claimed_at", _MOMENT),
    Column("swept_at", _MOMENT),
    Column("stopped_at", _MOMENT),  # it said goodbye
    Column("drain_since", _MOMENT),  # an operator wants it to claim nothing more
    Index("worker_by_crew", "crew"),
)

throughput = Table(
    "throughput",
    metadata,
    Column("minute", _MOMENT, primary_key=True),
    Column("shard", SmallInteger, primary_key=True),  # so that jobs do not wait for each other's commit
    Column("chunks", Integer, nullable=False, server_default="0"),
    Column("addresses", BigInteger, nullable=False, server_default="0"),  # that got a verdict
    Column("valid", BigInteger, nullable=False, server_default="0"),  # these three count rows
    Column("invalid", BigInteger, nullable=False, server_default="0"),
    Column("risky", BigInteger, nullable=False, server_default="0"),
    Column("leases_expired", Integer, nullable=False, server_default="0"),
)

throttle_edit = Table(
    "throttle_edit",
    metadata,
    Column("provider", Text, primary_key=True),
    Column("source", Text, primary_key=True),  # `*` = every source
    Column("rate", Float),  # none = as in the provider's row
    Column("sessions", Integer),
    Column("held", Boolean, nullable=False, server_default="false"),
    Column("held_until", _MOMENT),  # none = until somebody lets go
    Column("note", Text, nullable=False, server_default=""),
    Column("edited_by", Text, nullable=False),
    Column("edited_at", _MOMENT, nullable=False, server_default=func.clock_timestamp()),
    CheckConstraint("rate > 0", name="throttle_edit_rate"),
    CheckConstraint("sessions > 0", name="throttle_edit_sessions"),
)
