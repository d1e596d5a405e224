"""The tables whose statements are put together from columns. The migrations make them, and all others."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    Select,
    Table,
    Text,
    tuple_,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, UUID

S = TypeVar("S", bound=Select[Any])

_metadata = MetaData()
_MOMENT = DateTime(timezone=True)

account = Table(
    "account",
    _metadata,
    Column("id", UUID),
    Column("name", Text),
    Column("vtime", Float),
    Column("created_at", _MOMENT),
    Column("retention_s", Float),  # of its jobs that say nothing; 0 = ever
    Column("policy", JSONB),  # what it wants done with verdicts
    Column("test_of", UUID),  # whose test account
    Column("zone", Text),  # IANA name
    Column("steps_dismissed", ARRAY(Text)),  # of its first steps
)

job = Table(
    "job",
    _metadata,
    Column("id", UUID),
    Column("account_id", UUID),
    Column("parent_id", UUID),
    Column("name", Text),
    Column("state", Text),
    Column("options", JSONB),
    Column("source_name", Text),
    Column("source_sha256", Text),
    Column("source_bytes", BigInteger),
    Column("address_column", Text),  # its name in the list
    Column("total", BigInteger),  # rows of the list
    Column("addresses", BigInteger),
    Column("processed", BigInteger),  # rows with a verdict
    Column("valid", BigInteger),
    Column("invalid", BigInteger),
    Column("risky", BigInteger),
    Column("send", BigInteger),  # rows by tier, by the job's policy
    Column("review", BigInteger),
    Column("remove", BigInteger),
    Column("chunks", Integer),
    Column("chunks_open", Integer),
    Column("small", Boolean),  # never waits behind big jobs
    Column("vtime", Float),
    Column("step_token", UUID),  # the lease of intake and of finish
    Column("step_owner", Text),
    Column("step_at", _MOMENT),
    Column("step_until", _MOMENT),
    Column("step_attempt", Integer),
    Column("delivers", Boolean),  # its results are written, and are still to be put into their place
    Column("step_waits_for", Text),  # why it was given back until `step_until`
    Column("warning", Text),  # code of what makes its verdicts poorer
    Column("error_code", Text),
    Column("error_detail", Text),
    Column("created_at", _MOMENT),
    Column("started_at", _MOMENT),
    Column("finished_at", _MOMENT),
    Column("deadline_at", _MOMENT),
    Column("list_rows", BigInteger),  # of the whole list, for a preview
    Column("list_addresses", BigInteger),
    Column("expires_at", _MOMENT),  # blobs and row are deleted then
    Column("schedule_id", UUID),
    Column("scheduled_for", _MOMENT),  # the slot of the schedule; none when somebody said "now"
    Column("test", Boolean),  # of a test account: nobody is asked
    Column("measured", Boolean),  # its verdicts are in `accuracy`
)

event = Table(
    "event",
    _metadata,
    Column("id", UUID),
    Column("account_id", UUID),
    Column("job_id", UUID),
    Column("type", Text),
    Column("body", LargeBinary),  # the very bytes that are signed and sent
    Column("created_at", _MOMENT),
    Column("once", Text),  # what may happen only once, e.g. the end of a job
)

endpoint = Table(
    "endpoint",
    _metadata,
    Column("id", UUID),
    Column("account_id", UUID),
    Column("url", Text),
    Column("types", ARRAY(Text)),  # empty = all
    Column("enabled", Boolean),
    Column("disabled_reason", Text),
    Column("secret", LargeBinary),  # sealed, with the id of the key that opens it
    Column("previous_secret", LargeBinary),  # signs too until previous_until
    Column("previous_until", _MOMENT),
    Column("failures", Integer),  # in a row
    Column("failing_since", _MOMENT),
    Column("exhausted", Integer),  # deliveries given up since then
    Column("probe_at", _MOMENT),  # the breaker is open: one attempt may be made then
    Column("rate_per_second", Float),  # attempts it takes; none = the usual
    Column("paced_until", _MOMENT),  # no attempt before then: its rate, or a fault of ours
    Column("served_at", _MOMENT),
    Column("created_at", _MOMENT),
)

delivery = Table(
    "delivery",
    _metadata,
    Column("id", UUID),
    Column("event_id", UUID),
    Column("endpoint_id", UUID),
    Column("state", Text),
    Column("trigger", Text),  # of the next attempt
    Column("attempts", Integer),
    Column("round", Integer),  # attempts since it was last asked for
    Column("next_attempt_at", _MOMENT),
    Column("lease_token", UUID),
    Column("lease_until", _MOMENT),
    Column("created_at", _MOMENT),
    Column("finished_at", _MOMENT),
)

attempt = Table(
    "attempt",
    _metadata,
    Column("delivery_id", UUID),
    Column("n", Integer),
    Column("at", _MOMENT),
    Column("trigger", Text),
    Column("ms", Integer),
    Column("status_code", Integer),  # 0 when nobody answered
    Column("error", Text),  # "" when it arrived
    Column("response", Text),
    Column("wish", Text, key="directive"),  # what the receiver asked for
)

schedule = Table(
    "schedule",
    _metadata,
    Column("id", UUID),
    Column("account_id", UUID),
    Column("source_job_id", UUID),
    Column("name", Text),
    Column("cron", Text),
    Column("zone", Text),
    Column("options", JSONB),
    Column("recheck", Text),
    Column("overlap", Text),
    Column("catch_up", Text),
    Column("enabled", Boolean),
    Column("next_run_at", _MOMENT),
    Column("jitter_seconds", Integer),
    Column("starts_at", _MOMENT),  # next_run_at and its share of the jitter
    Column("ends_at", _MOMENT),
    Column("fetches", Boolean),  # its list from a place, for every run
    Column("pause_after_failures", Integer),  # 0 = never
    Column("failures", Integer),  # failed runs in a row
    Column("last_run_at", _MOMENT),
    Column("last_error", Text),
    Column("lease_token", UUID),
    Column("lease_until", _MOMENT),
    Column("created_at", _MOMENT),
)

notice = Table(
    "notice",
    _metadata,
    Column("id", UUID),
    Column("account_id", UUID),
    Column("kind", Text),
    Column("subject_id", UUID),  # the endpoint
    Column("since", _MOMENT),  # names the streak of failures: one notice of a kind for each
    Column("reason", Text),  # why it was disabled
    Column("state", Text),
    Column("tries", Integer),
    Column("next_try_at", _MOMENT),
    Column("created_at", _MOMENT),
)

person = Table(
    "person",
    _metadata,
    Column("id", UUID),
    Column("email", Text),  # lower-case
    Column("password", Text),  # argon2id, with its salt and its cost
    Column("operator", Boolean),
    Column("created_at", _MOMENT),
    Column("last_sign_in", _MOMENT),
    Column("zone", Text),  # IANA name; "" = as the account
)

member = Table(
    "member",
    _metadata,
    Column("account_id", UUID),
    Column("person_id", UUID),
    Column("role", Text),
    Column("created_at", _MOMENT),
)

# Who is no member any more is signed out by the foreign key.
session = Table(
    "session",
    _metadata,
    Column("id", LargeBinary),  # SHA-256 of what the cookie holds
    Column("person_id", UUID),
    Column("account_id", UUID),
    Column("created_at", _MOMENT),
    Column("seen_at", _MOMENT),
    Column("expires_at", _MOMENT),
)

link = Table(
    "link",
    _metadata,
    Column("id", UUID),
    Column("hash", LargeBinary),  # SHA-256 of what the link holds
    Column("kind", Text),
    Column("account_id", UUID),
    Column("email", Text),  # for whom; of the first owner nothing is known
    Column("role", Text),
    Column("operator", Boolean),
    Column("made_by", Text),
    Column("created_at", _MOMENT),
    Column("expires_at", _MOMENT),
)

audit = Table(
    "audit",
    _metadata,
    Column("id", BigInteger),
    Column("account_id", UUID),  # none: of the installation
    Column("actor", Text),
    Column("action", Text),
    Column("subject", Text),
    Column("detail", JSONB),
    Column("at", _MOMENT),
)


def newest_first(
    statement: S, table: Table, limit: int, before: tuple[datetime, uuid.UUID] | None = None
) -> S:
    """Return a page of a statement: rows of a table, newest first.

    Args:
        statement: selects them.
        table: has the columns `created_at` and `id`.
        limit: how many.
        before: only those older than this row (created_at, id): new ones do not shift the pages.
    """
    if before is not None:
        statement = statement.where(tuple_(table.c.created_at, table.c.id) < before)
    return statement.order_by(table.c.created_at.desc(), table.c.id.desc()).limit(limit)
