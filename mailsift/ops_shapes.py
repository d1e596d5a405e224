"""What `mailsift ops` prints as JSON: stable names, JSON types."""

from __future__ import annotations

from typing import Any

from jobs.operations.looks import Overview, SeenJob, ThrottleRow
from storage.worker_rows import Worker


def overview_shape(seen: Overview) -> dict[str, Any]:
    """Return the overview; ages and spans in seconds."""
    backlog, broker = seen.numbers.backlog, seen.numbers.broker
    valid, invalid, risky = seen.today
    return {
        "rate": round(seen.rate, 2),
        "empty_s": None if seen.empty_s is None else round(seen.empty_s),
        "backlog": {
            "ready": backlog.ready_addresses,
            "waiting": backlog.waiting_addresses,
            "leased": backlog.leased_addresses,
            "ready_chunks": backlog.ready_chunks,
            "oldest_ready_s": round(backlog.oldest_ready_s, 1),
            "steps": backlog.steps,
        },
        "today": {"valid": valid, "invalid": invalid, "risky": risky},
        "minutes": [
            {"minute": one.minute.isoformat(), "addresses": one.addresses} for one in seen.numbers.minutes
        ],
        "jobs": dict(seen.jobs),
        "slots": {
            "all": sum(one.slots for one in seen.numbers.live),
            "free": seen.numbers.free_slots,
        },
        "broker": None if broker is None else {"queued": broker.queued, "unacked": broker.unacked},
        "deliveries": {
            "pending": seen.numbers.outbox.pending,
            "oldest_due_s": round(seen.numbers.outbox.oldest_due_s, 1),
        },
        "troubled_chunks": seen.troubled,
        "alarms": [
            {"code": alarm.code, "level": alarm.level.value, "text": alarm.text} for alarm in seen.alarms
        ],
    }


def job_shape(seen: SeenJob) -> dict[str, Any]:
    """Return a job."""
    view = seen.view
    return {
        "id": str(view.id),
        "account": seen.account,
        "name": view.name,
        "state": view.state.value,
        "priority": view.options.priority.value,
        "total": view.total,
        "processed": view.processed,
        "valid": view.valid,
        "invalid": view.invalid,
        "risky": view.risky,
        "chunks": view.chunks,
        "chunks_open": view.chunks_open,
        "created_at": view.created_at.isoformat(),
        "finished_at": view.finished_at.isoformat() if view.finished_at else None,
        "error": view.error_code,
    }


def worker_shape(worker: Worker) -> dict[str, Any]:
    """Return a worker process."""
    return {
        "owner": worker.owner,
        "host": worker.host,
        "pid": worker.pid,
        "state": worker.state,
        "version": worker.version,
        "slots": worker.slots,
        "in_hand": worker.in_hand,
        "chunks": worker.chunks,
        "lag_s": round(worker.lag_s, 3),
        "rss_bytes": worker.rss_bytes,
        "started_at": worker.started_at.isoformat(),
        "beat_age_s": round(worker.beat_age, 1),
        "claim_age_s": None if worker.claim_age is None else round(worker.claim_age, 1),
    }


def throttle_shape(row: ThrottleRow) -> dict[str, Any]:
    """Return a provider at one source."""
    return {
        "provider": row.learned.provider,
        "source": row.learned.source,
        "state": row.state,
        "rate": round(row.rate, 4),
        "edited_rate": row.now.rate,
        "table_rate": row.base.rate,
        "sessions": row.now.sessions,
        "in_use": row.learned.in_use,
        "closed_s": round(row.learned.closed_s, 1),
        "strikes": row.learned.strikes,
        "blocks": row.learned.blocks,
        "waiting": row.waiting,
        "mix": {outcome.value: count for outcome, count in row.learned.mix.items()},
        "edited_by": row.edit.edited_by if row.edit else "",
    }
