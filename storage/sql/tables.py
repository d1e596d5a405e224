"""Every table; the migrations make them, the statements use them."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Date,
    DateTime,
    Float,
    ForeignKey,
    ForeignKeyConstraint,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, UUID

from mailsift.storage.states import SQL_LISTS, ChunkState, JobState, sql_list

metadata = MetaData()

OUTCOME_KINDS = ("delivered", "bounced", "deferred", "complained", "unsubscribed")
DELIVERY_STATES = ("pending", "delivering", "succeeded", "exhausted", "skipped")

_MOMENT = DateTime(timezone=True)


def _in_list(column: str, values: Iterable[str]) -> str:
    return f"{column} IN {sql_list(values)}"


account = Table(
    "account",
    metadata,
    Column("id", UUID, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("vtime", Float, nullable=False, server_default="0"),
    Column("created_at", _MOMENT, nullable=False, server_default=func.clock_timestamp()),
    Column(
        "retention_s", Float, nullable=False, server_default="0"
    ),  # of its jobs that say nothing; 0 = ever
    Column("policy", JSONB, nullable=False, server_default="{}"),  # what it wants done with verdicts
    Column("test_of", UUID, ForeignKey("account.id", ondelete="CASCADE"), unique=True),  # whose test account
    Column("zone", Text, nullable=False, server_default="UTC"),  # IANA name
    Column("steps_dismissed", ARRAY(Text), nullable=False, server_default="{}"),  # of its first steps
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
    Column("send", BigInteger, nullable=False, server_default="0"),  # rows by tier, by the job's policy
    Column("review", BigInteger, nullable=False, server_default="0"),
    Column("remove", BigInteger, nullable=False, server_default="0"),
    Column("chunks", Integer, nullable=False, server_default="0"),
    Column("chunks_open", Integer, nullable=False, server_default="0"),
    Column("small", Boolean, nullable=False, server_default="false"),  # never waits behind big jobs
    Column("vtime", Float, nullable=False, server_default="0"),
    Column("step_token", UUID),  # the lease of intake and of finish
    Column("step_owner", Text),
    Column("step_at", _MOMENT),
    Column("step_until", _MOMENT),
    Column("step_attempt", Integer, nullable=False, server_default="0"),
    Column("warning", Text, nullable=False, server_default=""),  # code of what makes its verdicts poorer
    Column("error_code", Text, nullable=False, server_default=""),
    Column("error_detail", Text, nullable=False, server_default=""),
    Column("created_at", _MOMENT, nullable=False, server_default=func.clock_timestamp()),
    Column("started_at", _MOMENT),
    Column("finished_at", _MOMENT),
    Column("deadline_at", _MOMENT),
    Column("list_rows", BigInteger, nullable=False, server_default="0"),  # of the whole list, for a preview
    Column("list_addresses", BigInteger, nullable=False, server_default="0"),
    Column("expires_at", _MOMENT),  # blobs and row are deleted then
    Column("schedule_id", UUID, ForeignKey("schedule.id", ondelete="SET NULL", use_alter=True)),
    Column("scheduled_for", _MOMENT),  # the slot of the schedule; none when somebody said "now"
    Column("test", Boolean, nullable=False, server_default="false"),  # of a test account: nobody is asked
    Column("measured", Boolean, nullable=False, server_default="false"),  # its verdicts are in `accuracy`
    UniqueConstraint("schedule_id", "scheduled_for", name="job_once_a_slot"),
    CheckConstraint(_in_list("state", JobState), name="job_state"),
    CheckConstraint(f"(state IN {SQL_LISTS['ended']}) = (finished_at IS NOT NULL)", name="job_finished_at"),
    CheckConstraint("processed = valid + invalid + risky AND processed <= total", name="job_counts"),
    CheckConstraint("chunks_open >= 0 AND chunks_open <= chunks", name="job_chunks"),
    Index("job_by_account", "account_id", "created_at", "id"),
    Index("job_by_age", "created_at", "id"),
    Index("job_unmeasured", "finished_at", postgresql_where=text("state = 'completed' AND NOT measured")),
    Index(
        "job_active",
        "state",
        postgresql_where=text(f"state NOT IN {SQL_LISTS['ended']}"),
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
    Column(
        "subnet", Text, nullable=False, server_default=""
    ),  # whom a greylisting server expects; "": anybody
    Column("lease_token", UUID),
    Column("lease_owner", Text),
    Column("lease_sources", ARRAY(Text)),  # identities it is asked from; NULL: a former release, so all
    Column("leased_at", _MOMENT),
    Column("lease_until", _MOMENT),
    Column("last_error", Text, nullable=False, server_default=""),  # why a worker gave it up; no address
    Column("segment_key", Text),  # blob with the verdicts, once done
    Column("free_mail", JSONB),  # its addresses at free-mail domains, by provider; NULL: not counted
    CheckConstraint(_in_list("state", ChunkState), name="chunk_state"),
    CheckConstraint("(state = 'leased') = (lease_token IS NOT NULL)", name="chunk_lease"),
    Index("chunk_ready", "job_id", "ready_at", "n", postgresql_where=text("state = 'ready'")),
    Index("chunk_leased", "lease_until", postgresql_where=text("state = 'leased'")),
    Index("chunk_troubled", "job_id", "n", postgresql_where=text("attempt > 2")),
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
    Index("event_by_account", "account_id", "created_at", "id"),
)

endpoint = Table(
    "endpoint",
    metadata,
    Column("id", UUID, primary_key=True),
    Column("account_id", UUID, ForeignKey("account.id"), nullable=False),
    Column("url", Text, nullable=False),
    Column("types", ARRAY(Text), nullable=False, server_default="{}"),  # empty = all
    Column("enabled", Boolean, nullable=False, server_default="true"),
    Column("disabled_reason", Text, nullable=False, server_default=""),
    Column("secret", LargeBinary, nullable=False),  # sealed, with the id of the key that opens it
    Column("previous_secret", LargeBinary),  # signs too until previous_until
    Column("previous_until", _MOMENT),
    Column("failures", Integer, nullable=False, server_default="0"),  # in a row
    Column("failing_since", _MOMENT),
    Column("exhausted", Integer, nullable=False, server_default="0"),  # deliveries given up since then
    Column("probe_at", _MOMENT),  # the breaker is open: one attempt may be made then
    Column("rate_per_second", Float),  # attempts it takes; none = the usual
    Column("paced_until", _MOMENT),  # no attempt before then: its rate, or a fault of ours
    Column("served_at", _MOMENT),
    Column("created_at", _MOMENT, nullable=False, server_default=func.clock_timestamp()),
    CheckConstraint("enabled = (disabled_reason = '')", name="endpoint_disabled"),
    CheckConstraint("rate_per_second > 0", name="endpoint_rate"),
    Index("endpoint_by_account", "account_id", "created_at", "id"),
)

delivery = Table(
    "delivery",
    metadata,
    Column("id", UUID, primary_key=True, server_default=func.gen_random_uuid()),
    Column("event_id", UUID, ForeignKey("event.id", ondelete="CASCADE"), nullable=False),
    Column("endpoint_id", UUID, ForeignKey("endpoint.id", ondelete="CASCADE"), nullable=False),
    Column("state", Text, nullable=False, server_default="pending"),
    Column("trigger", Text, nullable=False, server_default="automatic"),  # of the next attempt
    Column("attempts", Integer, nullable=False, server_default="0"),
    Column("round", Integer, nullable=False, server_default="0"),  # attempts since it was last asked for
    Column("next_attempt_at", _MOMENT),
    Column("lease_token", UUID),
    Column("lease_until", _MOMENT),
    Column("created_at", _MOMENT, nullable=False, server_default=func.clock_timestamp()),
    Column("finished_at", _MOMENT),
    UniqueConstraint("event_id", "endpoint_id"),
    CheckConstraint(_in_list("state", DELIVERY_STATES), name="delivery_state"),
    CheckConstraint(_in_list("trigger", ("automatic", "manual", "test")), name="delivery_trigger"),
    CheckConstraint("(state = 'pending') <= (next_attempt_at IS NOT NULL)", name="delivery_due"),
    CheckConstraint("(state = 'delivering') = (lease_token IS NOT NULL)", name="delivery_lease"),
    Index("delivery_due", "endpoint_id", "created_at", "id", postgresql_where=text("state = 'pending'")),
    Index("delivery_leased", "endpoint_id", "lease_until", postgresql_where=text("state = 'delivering'")),
    Index("delivery_by_endpoint", "endpoint_id", "created_at", "id"),
)

attempt = Table(
    "attempt",
    metadata,
    Column("delivery_id", UUID, ForeignKey("delivery.id", ondelete="CASCADE"), primary_key=True),
    Column("n", Integer, primary_key=True),
    Column("at", _MOMENT, nullable=False),
    Column("trigger", Text, nullable=False),
    Column("ms", Integer, nullable=False),
    Column("status_code", Integer, nullable=False),  # 0 when nobody answered
    Column("error", Text, nullable=False),  # "" when it arrived
    Column("response", Text, nullable=False),
    Column("wish", Text, nullable=False, server_default="", key="directive"),  # what the receiver asked for
    Index("attempt_by_age", "at"),
)

schedule = Table(
    "schedule",
    metadata,
    Column("id", UUID, primary_key=True),
    Column("account_id", UUID, ForeignKey("account.id"), nullable=False),
    Column("source_job_id", UUID, ForeignKey("job.id", ondelete="SET NULL")),
    Column("name", Text, nullable=False, server_default=""),
    Column("cron", Text, nullable=False),
    Column("zone", Text, nullable=False),
    Column("options", JSONB, nullable=False),
    Column("recheck", Text, nullable=False),
    Column("overlap", Text, nullable=False),
    Column("catch_up", Text, nullable=False),
    Column("enabled", Boolean, nullable=False, server_default="true"),
    Column("next_run_at", _MOMENT, nullable=False),
    Column("jitter_seconds", Integer, nullable=False, server_default="0"),
    Column("starts_at", _MOMENT),  # next_run_at and its share of the jitter
    Column("ends_at", _MOMENT),
    Column("pause_after_failures", Integer, nullable=False, server_default="5"),  # 0 = never
    Column("failures", Integer, nullable=False, server_default="0"),  # failed runs in a row
    Column("last_run_at", _MOMENT),
    Column("last_error", Text, nullable=False, server_default=""),
    Column("lease_token", UUID),
    Column("lease_until", _MOMENT),
    Column("created_at", _MOMENT, nullable=False, server_default=func.clock_timestamp()),
    CheckConstraint(_in_list("recheck", ("all", "stale", "risky")), name="schedule_recheck"),
    CheckConstraint(_in_list("overlap", ("skip", "queue", "cancel_previous")), name="schedule_overlap"),
    CheckConstraint(_in_list("catch_up", ("none", "latest", "all")), name="schedule_catch_up"),
    CheckConstraint("jitter_seconds >= 0", name="schedule_jitter"),
    CheckConstraint("pause_after_failures >= 0 AND failures >= 0", name="schedule_failures"),
    Index("schedule_by_account", "account_id", "created_at", "id"),
    Index("schedule_due", "next_run_at", postgresql_where=text("enabled")),
)


notice = Table(
    "notice",
    metadata,
    Column("id", UUID, primary_key=True, server_default=func.gen_random_uuid()),
    Column("account_id", UUID, ForeignKey("account.id", ondelete="CASCADE"), nullable=False),
    Column("kind", Text, nullable=False),
    Column("subject_id", UUID, nullable=False),  # the endpoint
    Column("since", _MOMENT, nullable=False),  # names the streak of failures: one notice of a kind for each
    Column("reason", Text, nullable=False, server_default=""),  # why it was disabled
    Column("state", Text, nullable=False, server_default="pending"),
    Column("tries", Integer, nullable=False, server_default="0"),
    Column("next_try_at", _MOMENT, nullable=False),
    Column("created_at", _MOMENT, nullable=False),
    UniqueConstraint("subject_id", "kind", "since"),
    CheckConstraint("kind IN ('webhook_failing', 'webhook_disabled')", name="notice_kind"),
    CheckConstraint("state IN ('pending', 'sent', 'skipped', 'given_up')", name="notice_state"),
    Index("notice_due", "next_try_at", postgresql_where=text("state = 'pending'")),
)


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
    Column("health", JSONB, nullable=False, server_default="{}"),  # what it sees of network, disk and store
    Column("sources", ARRAY(Text), nullable=False, server_default="{}"),  # identities it asks from
    Index("worker_by_crew", "crew"),
)

sign_in_try = Table(
    "sign_in_try",
    metadata,
    Column("holder", LargeBinary, nullable=False),  # a hash: of an address or a person
    Column("tried_at", _MOMENT, nullable=False),
    Index("sign_in_try_of", "holder", "tried_at"),
)

source_rest = Table(
    "source_rest",
    metadata,
    Column("provider", Text, primary_key=True),
    Column("source", Text, primary_key=True),  # an identity
    Column("rests_until", _MOMENT, nullable=False),  # until then its budget there is used up
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


ROLES = ("viewer", "member", "owner")
LINK_KINDS = ("first_owner", "invite", "password")


person = Table(
    "person",
    metadata,
    Column("id", UUID, primary_key=True, server_default=func.gen_random_uuid()),
    Column("email", Text, nullable=False, unique=True),  # lower-case
    Column("password", Text, nullable=False),  # argon2id, with its salt and its cost
    Column("operator", Boolean, nullable=False, server_default="false"),
    Column("created_at", _MOMENT, nullable=False, server_default=func.clock_timestamp()),
    Column("last_sign_in", _MOMENT),
    Column("zone", Text, nullable=False, server_default=""),  # IANA name; "" = as the account
    CheckConstraint("email = lower(email)", name="person_email"),
)

member = Table(
    "member",
    metadata,
    Column("account_id", UUID, ForeignKey("account.id", ondelete="CASCADE"), primary_key=True),
    Column("person_id", UUID, ForeignKey("person.id", ondelete="CASCADE"), primary_key=True),
    Column("role", Text, nullable=False),
    Column("created_at", _MOMENT, nullable=False, server_default=func.clock_timestamp()),
    CheckConstraint(f"role IN {ROLES}", name="member_role"),
    Index("member_by_person", "person_id"),
)

# Who is no member any more is signed out by the foreign key.
session = Table(
    "session",
    metadata,
    Column("id", LargeBinary, primary_key=True),  # SHA-256 of what the cookie holds
    Column("person_id", UUID, nullable=False),
    Column("account_id", UUID, nullable=False),
    Column("created_at", _MOMENT, nullable=False),
    Column("seen_at", _MOMENT, nullable=False),
    Column("expires_at", _MOMENT, nullable=False),
    ForeignKeyConstraint(
        ["account_id", "person_id"], ["member.account_id", "member.person_id"], ondelete="CASCADE"
    ),
    Index("session_by_person", "person_id"),
    Index("session_by_age", "expires_at"),
)

link = Table(
    "link",
    metadata,
    Column("id", UUID, primary_key=True, server_default=func.gen_random_uuid()),
    Column("hash", LargeBinary, nullable=False, unique=True),  # SHA-256 of what the link holds
    Column("kind", Text, nullable=False),
    Column("account_id", UUID, ForeignKey("account.id", ondelete="CASCADE")),
    Column("email", Text, nullable=False, server_default=""),  # for whom; of the first owner nothing is known
    Column("role", Text, nullable=False, server_default="viewer"),
    Column("operator", Boolean, nullable=False, server_default="false"),
    Column("made_by", Text, nullable=False, server_default=""),
    Column("created_at", _MOMENT, nullable=False),
    Column("expires_at", _MOMENT, nullable=False),
    CheckConstraint(f"kind IN {LINK_KINDS}", name="link_kind"),
    CheckConstraint(f"role IN {ROLES}", name="link_role"),
    CheckConstraint("(kind = 'invite') = (account_id IS NOT NULL)", name="link_account"),
    Index("link_by_account", "account_id"),
)

account_secret = Table(
    "account_secret",
    metadata,
    Column("account_id", UUID, ForeignKey("account.id", ondelete="CASCADE"), primary_key=True),
    Column("sealed", LargeBinary, nullable=False),
)

outcome = Table(
    "outcome",
    metadata,
    Column("account_id", UUID, ForeignKey("account.id", ondelete="CASCADE"), primary_key=True),
    Column("report", LargeBinary, primary_key=True),  # digest of what makes two reports the same one
    Column("address", LargeBinary, nullable=False),  # digest with the account's key
    Column("sealed", LargeBinary, nullable=False),
    Column("kind", Text, nullable=False),
    Column("answer", Text, nullable=False),
    Column("rule", Text, nullable=False),
    Column("smtp_code", Integer, nullable=False),
    Column("enhanced", Text, nullable=False),
    Column("said", Text, nullable=False),
    Column("origin", Text, nullable=False),
    Column("happened_at", _MOMENT, nullable=False),
    Column("received_at", _MOMENT, nullable=False, server_default=func.clock_timestamp()),
    Column("undated", Boolean, nullable=False, server_default="false"),  # it came without a time of its own
    CheckConstraint(f"kind IN {OUTCOME_KINDS}", name="outcome_kind_check"),
    Index("outcome_of_address", "account_id", "address", "happened_at"),
    Index("outcome_by_age", "happened_at"),
    Index("outcome_by_arrival", "account_id", "received_at"),
)

measured_verdict = Table(
    "measured_verdict",
    metadata,
    Column("account_id", UUID, ForeignKey("account.id", ondelete="CASCADE"), primary_key=True),
    Column("address", LargeBinary, primary_key=True),  # digest with the account's key
    Column("judged_at", _MOMENT, primary_key=True),
    Column("mode", Text, nullable=False),
    Column("provider", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("result", Text, nullable=False),
    Column("score", SmallInteger, nullable=False),
    Column("known", Boolean, nullable=False),  # decided by an outcome itself
    Column("fate", Text, nullable=False, server_default=""),  # what became of the message; "": nobody knows
    Index("measured_verdict_by_age", "judged_at"),
)

accuracy = Table(
    "accuracy",
    metadata,
    Column("account_id", UUID, ForeignKey("account.id", ondelete="CASCADE"), primary_key=True),
    Column("day", Date, primary_key=True),  # UTC, of the verdicts
    Column("mode", Text, primary_key=True),
    Column("provider", Text, primary_key=True),
    Column("status", Text, primary_key=True),
    Column("result", Text, primary_key=True),
    Column("score", SmallInteger, primary_key=True),
    Column("what", Text, primary_key=True),  # judged; same, changed: in a rerun; a fate
    Column("known", Boolean, primary_key=True),
    Column("held_out", Boolean, primary_key=True),  # chances do not rest on these
    Column("n", BigInteger, nullable=False),
    Index("accuracy_by_day", "day"),
)

measurement = Table(
    "measurement",
    metadata,
    Column("account_id", UUID, ForeignKey("account.id", ondelete="CASCADE"), primary_key=True),
    Column("due_at", _MOMENT),  # when its verdicts are to be counted up; none: nothing new
    Column("told_at", _MOMENT, nullable=False, server_default="epoch"),
    Column("counted_at", _MOMENT, nullable=False, server_default="epoch"),
    Column("rest_s", Float, nullable=False, server_default="30"),
    Column("token", UUID),
    Column("until", _MOMENT),
    Index("measurement_due", "due_at", postgresql_where=text("due_at IS NOT NULL")),
)

suppression = Table(
    "suppression",
    metadata,
    Column("account_id", UUID, ForeignKey("account.id", ondelete="CASCADE"), primary_key=True),
    Column("address", LargeBinary, primary_key=True),  # digest with the account's key
    Column("sealed", LargeBinary, nullable=False),
    Column("reason", Text, nullable=False),
    Column("origin", Text, nullable=False, server_default=""),
    Column("since", _MOMENT, nullable=False, server_default=func.clock_timestamp()),
)

receiver = Table(
    "receiver",
    metadata,
    Column("id", UUID, primary_key=True),
    Column("account_id", UUID, ForeignKey("account.id", ondelete="CASCADE"), nullable=False),
    Column("sender", Text, nullable=False),
    Column("name", Text, nullable=False, server_default=""),
    Column("secret", LargeBinary, nullable=False),  # sealed
    Column("topic", Text, nullable=False, server_default=""),
    Column("created_at", _MOMENT, nullable=False, server_default=func.clock_timestamp()),
    Column("heard_at", _MOMENT),
    Column("taken", BigInteger, nullable=False, server_default="0"),
    Column("refused", BigInteger, nullable=False, server_default="0"),
    Column("malformed", BigInteger, nullable=False, server_default="0"),
    Index("receiver_of_account", "account_id"),
)

receiver_token = Table(
    "receiver_token",
    metadata,
    Column("receiver_id", UUID, ForeignKey("receiver.id", ondelete="CASCADE"), primary_key=True),
    Column("token", LargeBinary, primary_key=True),
    Column("used_at", _MOMENT, nullable=False, server_default=func.clock_timestamp()),
    Index("receiver_token_by_age", "used_at"),
)

audit = Table(
    "audit",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("account_id", UUID, ForeignKey("account.id", ondelete="CASCADE")),  # none: of the installation
    Column("actor", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("subject", Text, nullable=False, server_default=""),
    Column("detail", JSONB, nullable=False, server_default="{}"),
    Column("at", _MOMENT, nullable=False, server_default=func.clock_timestamp()),
    Index("audit_by_account", "account_id", "id"),
)

erasure_receipt = Table(
    "erasure_receipt",
    metadata,
    Column("id", UUID, primary_key=True, server_default=func.gen_random_uuid()),
    Column("account_id", UUID, ForeignKey("account.id", ondelete="CASCADE"), nullable=False),
    Column("person_id", UUID, nullable=False),  # who may be gone
    Column("erased", JSONB, nullable=False),  # how many of what
    Column("at", _MOMENT, nullable=False, server_default=func.clock_timestamp()),
    Index("erasure_receipt_by_account", "account_id", "at"),
)

source_ledger = Table(
    "source_ledger",
    metadata,
    Column("hour", _MOMENT, primary_key=True),
    Column("provider", Text, primary_key=True),  # of the table, or "other": never a customer's host
    Column("source", Text, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("count", BigInteger, nullable=False),
)

source_standing = Table(
    "source_standing",
    metadata,
    Column("provider", Text, primary_key=True),
    Column("source", Text, primary_key=True),
    Column("step", Integer, nullable=False, server_default="0"),
    Column("clean", BigInteger, nullable=False, server_default="0"),
    Column("refused", BigInteger, nullable=False, server_default="0"),
    Column("stepped_at", _MOMENT, nullable=False),
    Column("asked_at", _MOMENT, nullable=False),
)

job_asked = Table(
    "job_asked",
    metadata,
    Column("job_id", UUID, ForeignKey("job.id", ondelete="CASCADE"), primary_key=True),
    Column("provider", Text, primary_key=True),
    Column("source", Text, primary_key=True),
    Column("asked", BigInteger, nullable=False, server_default="0"),  # since the last stop
    Column("missing", BigInteger, nullable=False, server_default="0"),
    Column("stops", Integer, nullable=False, server_default="0"),
    Column("stopped_until", _MOMENT),
)

opt_out = Table(
    "opt_out",
    metadata,
    Column("domain", Text, primary_key=True),  # ASCII, lower case; its subdomains, too
    Column("note", Text, nullable=False, server_default=""),
    Column("added_by", Text, nullable=False, server_default=""),
    Column("added_at", _MOMENT, nullable=False, server_default=func.clock_timestamp()),
)

source_listing = Table(
    "source_listing",
    metadata,
    Column("source", Text, primary_key=True),
    Column("zone", Text, primary_key=True),
    Column("listed_since", _MOMENT),  # none: it is not
    Column("detail", Text, nullable=False, server_default=""),
    Column("looked_at", _MOMENT, nullable=False, server_default=func.clock_timestamp()),
)
