"""The audit log in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from storage.people_rows import AuditRow

_WORDS: Final[Mapping[str, str]] = {
    "session.create": "signed in",
    "session.end_all": "signed out everywhere",
    "password.change": "changed their password",
    "password.reset": "set a new password for",
    "member.invite": "invited",
    "member.uninvite": "withdrew the invitation of",
    "member.join": "joined",
    "member.role": "changed the role of",
    "member.remove": "removed",
    "person.remove": "deleted the person",
    "account.retention": "changed how long jobs are kept",
    "key.create": "made the key",
    "key.roll": "rolled the key",
    "key.revoke": "revoked the key",
    "webhook.create": "registered the webhook",
    "webhook.update": "changed the webhook",
    "webhook.enable": "enabled the webhook",
    "webhook.disable": "disabled the webhook",
    "webhook.rotate": "rotated the secret of the webhook",
    "webhook.delete": "deleted the webhook",
    "webhook.test": "tested the webhook",
    "webhook.redeliver": "sent again an event to the webhook",
    "webhook.redeliver_failed": "sent again what had failed to the webhook",
    "schedule.create": "made the schedule",
    "schedule.update": "changed the schedule",
    "schedule.pause": "paused the schedule",
    "schedule.resume": "resumed the schedule",
    "schedule.run": "ran the schedule",
    "schedule.delete": "deleted the schedule",
    "job.pause": "paused the job",
    "job.resume": "resumed the job",
    "job.cancel": "cancelled the job",
    "job.retry": "retried the job",
    "job.priority_high": "raised the priority of the job",
    "job.priority_normal": "set to normal the priority of the job",
    "job.priority_low": "lowered the priority of the job",
    "jobs.pause": "paused all jobs that match",
    "jobs.resume": "resumed all jobs that match",
    "jobs.cancel": "cancelled all jobs that match",
    "jobs.retry": "retried all jobs that match",
    "jobs.priority_high": "raised the priority of all jobs that match",
    "jobs.priority_normal": "set to normal the priority of all jobs that match",
    "jobs.priority_low": "lowered the priority of all jobs that match",
    "worker.drain": "drained the worker",
    "worker.undrain": "let claim again the worker",
    "worker.wake": "woke the workers",
    "lease.take_back": "took back a lease of the job",
    "chunk.start_afresh": "started afresh a chunk of the job",
    "throttle.edit": "changed the limits of",
    "throttle.hold": "held",
    "throttle.let_go": "let go of",
    "throttle.reset": "reset what was learned of",
    "facts.forget": "forgot the domain",
    "delivery.replay": "sent again what had failed to the webhook",
}


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the log: who did what to what, and the particulars."""

    at: datetime
    actor: str
    words: str
    subject: str
    particulars: str


def told(row: AuditRow) -> Line:
    """Return a line in words; an action nobody has found words for is shown as it is."""
    actor = "The command line" if row.actor == "cli" else row.actor
    subject = "" if row.action == "member.join" and row.subject == row.actor else row.subject
    particulars = ", ".join(
        f"{name.replace('_', ' ')}: {_shown(value)}" for name, value in row.detail.items()
    )
    return Line(row.at, actor, _WORDS.get(row.action, row.action), subject, particulars)


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
