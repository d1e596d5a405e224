"""The tables of the house; the migrations make them, the statements use them."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB, UUID

metadata = MetaData()

JOB_STATES = (
    "uploading",
    "intake",
    "queued",
    "running",
    "paused",
    "finalizing",
    "completed",
    "failed",
    "cancelled",
)
CHUNK_STATES = ("ready", "leased", "done", "cancelled")

_MOMENT = DateTime(timezone=True)


def _one_of(column: str, values: tuple[str, ...]) -> str:
    return f"{column} IN ({', '.join(repr(value) for value in values)})"


account = Table(
    "account",
    metadata,
    Column("id", UUID, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("vtime", Float, nullable=False, server_default="0"),
    Column("created_at", _MOMENT, nullable=False, server_default=func.clock_timestamp()),
)

job = Table(
    "job",
    metadata,
    Column("id", UUID, primary_key=True),
    Column("account_id", UUID, ForeignKey("account.id"), nullable=False),
    Column("parent_id", UUID, ForeignKey("job.id", ondelete="SET NULL")),
    Column("name", Text, nullable=False, server_default=""),
    Column("state", Text, nullable=False),
    Column("options", JSONB, nullable=False),
    Column("source_name", Text, nullable=False, server_default=""),
    Column("source_sha256", Text, nullable=False, server_default=""),
    Column("source_bytes", BigInteger, nullable=False, server_default="0"),
    Column("address_column", Text, nullable=False, server_default=""),  # its name in the list
    Column("total", BigInteger, nullable=False, server_default="0"),  # rows of the list
    Column("addresses", BigInteger, nullable=False, server_default="0"),
    Column("processed", BigInteger, nullable=False, server_default="0"),  # rows with a verdict
    Column("valid", BigInteger, nullable=False, server_default="0"),
    Column("invalid", BigInteger, nullable=False, server_default="0"),
    Column("risky", BigInteger, nullable=False, server_default="0"),
    Column("chunks", Integer, nullable=False, server_default="0"),
    Column("chunks_open", Integer, nullable=False, server_default="0"),
    Column("small", Boolean, nullable=False, server_default="false"),  # never waits behind big jobs
    Column("vtime", Float, nullable=False, server_default="0"),
    Column("step_token", UUID),  # the lease of intake and of finish
    Column("step_owner", Text),
    Column("step_until", _MOMENT),
    Column("step_attempt", Integer, nullable=False, server_default="0"),
    Column("error_code", Text, nullable=False, server_default=""),
    Column("error_detail", Text, nullable=False, server_default=""),
    Column("created_at", _MOMENT, nullable=False, server_default=func.clock_timestamp()),
    Column("started_at", _MOMENT),
    Column("finished_at", _MOMENT),
    Column("deadline_at", _MOMENT),
    CheckConstraint(_one_of("state", JOB_STATES), name="job_state"),
    CheckConstraint(
        "(state IN ('completed', 'failed', 'cancelled')) = (finished_at IS NOT NULL)", name="job_finished_at"
    ),
    CheckConstraint("processed = valid + invalid + risky AND processed <= total", name="job_counts"),
    CheckConstraint("chunks_open >= 0 AND chunks_open <= chunks", name="job_chunks"),
    Index("job_by_account", "account_id", "created_at", "id"),
    Index(
        "job_active",
        "state",
        postgresql_where=text("state NOT IN ('completed', 'failed', 'cancelled')"),
    ),
)

chunk = Table(
    "chunk",
    metadata,
    Column("job_id", UUID, ForeignKey("job.id", ondelete="CASCADE"), primary_key=True),
    Column("n", Integer, primary_key=True),
    Column("state", Text, nullable=False, server_default="ready"),
    Column("lane", Text, nullable=False, server_default=""),
    Column("waits_for", Text, nullable=False, server_default=""),  # why ready_at lies in the future
    Column("ready_at", _MOMENT, nullable=False, server_default=func.clock_timestamp()),
    Column("attempt", Integer, nullable=False, server_default="0"),
    Column("addresses", Integer, nullable=False),
    Column("source_key", Text, nullable=False),  # blob with the addresses
    Column("source_offset", Integer, nullable=False, server_default="0"),  # first address in it
    Column("lease_token", UUID),
    Column("lease_owner", Text),
    Column("lease_until", _MOMENT),
    Column("segment_key", Text),  # blob with the verdicts, once done
    CheckConstraint(_one_of("state", CHUNK_STATES), name="chunk_state"),
    CheckConstraint("(state = 'leased') = (lease_token IS NOT NULL)", name="chunk_lease"),
    Index("chunk_ready", "job_id", "ready_at", "n", postgresql_where=text("state = 'ready'")),
    Index("chunk_leased", "lease_until", postgresql_where=text("state = 'leased'")),
)

event = Table(
    "event",
    metadata,
    Column("id", UUID, primary_key=True),
    Column("account_id", UUID, ForeignKey("account.id"), nullable=False),
    Column("job_id", UUID, ForeignKey("job.id", ondelete="CASCADE")),
    Column("type", Text, nullable=False),
    Column("body", LargeBinary, nullable=False),  # the very bytes that are signed and sent
    Column("created_at", _MOMENT, nullable=False),
    Column("once", Text, unique=True),  # what may happen only once, e.g. the end of a job
)
