"""The audit log: every line is a sentence, and is told to webhooks that ask for it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import UUID, uuid4

from mailsift.events.payloads import EventType, envelope
from mailsift.pipeline.wording import counted
from mailsift.storage.database import Connection
from mailsift.storage.sql import deliveries, people
from mailsift.storage.sql.deliveries import EventRow
from mailsift.storage.sql.people import AuditRow

_ADDRESS: Final = re.compile(r"[^\s@,;<>]+@[^\s@,;<>]+")
_ID: Final = 36
_KEY: Final = re.compile(r"key:(?:([0-9a-f]{8}):)?(.*)", re.DOTALL)
COMMAND_LINE: Final = "cli"
"""The actor of what is typed in a terminal."""

_ACTOR: Final[ContextVar[str]] = ContextVar("actor", default="")
_ORDERS: Final[Mapping[str, str]] = {
    "pause": "paused",
    "resume": "resumed",
    "cancel": "cancelled",
    "retry": "retried",
    "restart": "restarted",
    "priority_high": "raised the priority of",
    "priority_normal": "set to normal the priority of",
    "priority_low": "lowered the priority of",
}
"""What is done to a job, or to all that match."""
_ACTIONS: Final[Mapping[str, str]] = {
    "session.create": "signed in",
    "session.end_all": "signed out everywhere",
    "password.change": "changed their password",
    "password.reset": "set a new password for",
    "factor.on": "turned on the code at sign-in",
    "factor.off": "turned off the code at sign-in",
    "factor.reset": "reset the second factor of",
    "member.invite": "invited",
    "member.uninvite": "withdrew the invitation of",
    "member.join": "joined",
    "member.role": "changed the role of",
    "member.remove": "removed",
    "person.remove": "deleted the person",
    "account.retention": "changed how long jobs are kept",
    "key.create": "created the key",
    "key.roll": "rolled the key",
    "key.revoke": "revoked the key",
    "webhook.create": "registered the webhook",
    "webhook.update": "changed the webhook",
    "webhook.enable": "enabled the webhook",
    "webhook.disable": "disabled the webhook",
    "webhook.rotate": "rotated the secret of the webhook",
    "webhook.delete": "deleted the webhook",
    "webhook.test": "tested the webhook",
    "webhook.redeliver": "resent an event to the webhook",
    "webhook.redeliver_failed": "resent what had failed to the webhook",
    "suppression.add": "suppressed",
    "suppression.remove": "allowed mail again to",
    "key.change": "changed the key",
    "job.policy": "changed the policy of",
    "receiver.create": "created the receiver of",
    "receiver.rotate": "changed the key of the receiver of",
    "receiver.delete": "removed the receiver of",
    "policy.set": "changed the policy",
    "schedule.create": "created the schedule",
    "schedule.update": "changed the schedule",
    "schedule.pause": "paused the schedule",
    "schedule.resume": "resumed the schedule",
    "schedule.run": "ran the schedule",
    "schedule.delete": "deleted the schedule",
    **{f"job.{order}": words for order, words in _ORDERS.items()},
    **{f"jobs.{order}": f"{words} all jobs that match" for order, words in _ORDERS.items()},
    "worker.drain": "drained the worker",
    "worker.undrain": "undrained the worker",
    "worker.wake": "woke the workers",
    "lease.take_back": "took back a lease of",
    "chunk.start_afresh": "restarted a chunk of",
    "throttle.edit": "changed the limits of",
    "throttle.hold": "held",
    "throttle.let_go": "let go of",
    "throttle.reset": "reset what was learned of",
    "facts.forget": "forgot the domain",
    "delivery.replay": "resent what had failed to the webhook",
    "job.create": "started",
    "job.rerun": "ran again",
    "job.promote": "started the whole of",
    "job.delete": "deleted",
    "account.zone": "changed the account’s time zone",
    "account.erase": "erased",
    "opt_out.add": "recorded the opt-out of the domain",
    "opt_out.remove": "lifted the opt-out of the domain",
}


@dataclass(frozen=True, slots=True)
class AuditLine:
    """One line of the log: who did what to what, and the particulars; no address of a list, key or secret."""

    id: int
    at: datetime
    actor: str
    action: str
    words: str
    subject: str
    particulars: str

    @property
    def sentence(self) -> str:
        """All of it but when."""
        words = f"{self.actor} {self.words} {self.subject}".rstrip()
        return f"{words} ({self.particulars})" if self.particulars else words


def audit_line(row: AuditRow) -> AuditLine:
    """Return a line in words; an action nobody has found words for is shown as it is."""
    subject, detail = _subject(row), dict(row.detail)
    particulars = []
    if row.action.startswith("job."):
        count, mode = detail.pop("addresses", 0), detail.pop("mode", "")
        particulars = [mode] if mode else []
        particulars += [counted(count, "address")] if count else []
        detail.pop("list", "")
    if row.action.startswith("key."):
        detail = {name: value for name, value in detail.items() if name not in {"name", "successor"}}
    particulars += [f"{name.replace('_', ' ')}: {_detail_text(value)}" for name, value in detail.items()]
    return AuditLine(
        id=row.id,
        at=row.at,
        actor=actor_words(row.actor),
        action=row.action,
        words="added" if _is_added(row) else _ACTIONS.get(row.action, row.action),
        subject=subject,
        particulars=", ".join(particulars),
    )


def act_as(actor: str) -> None:
    """Let what services change from now on, until this task ends, be recorded as done by somebody.

    Args:
        actor: the address of a person, what `key_actor` returns, COMMAND_LINE, or "" for nobody: then nothing
            is recorded.
    """
    _ACTOR.set(actor)


def key_actor(key_id: UUID, name: str) -> str:
    """Return the actor that stands for an API key; two keys of one name are two."""
    return f"key:{key_id.hex[:8]}:{name}"


def actor_words(actor: str, *, exactly: bool = False) -> str:
    """Return an actor as sentences begin with them; `exactly`: a key with the beginning of its id, too."""
    if actor == COMMAND_LINE:
        return "The command line"
    key = _KEY.fullmatch(actor)
    if key is None:
        return actor
    words = f"The key “{key[2]}”" if key[2] else "A key without a name"
    return f"{words} ({key[1]}…)" if exactly and key[1] else words


def hours(seconds: float) -> str:
    """Return a time in words, for the particulars of a line."""
    count = seconds / 3_600
    return f"{count:g} {'hour' if count == 1 else 'hours'}"


async def record_change(
    connection: Connection, account_id: UUID, action: str, subject: str = "", /, **detail: Any
) -> None:
    """Write down what a service changes for a person or a key; what we do of ourselves is not written down.

    The arguments are those of `record`.
    """
    if actor := _ACTOR.get():
        await record(connection, account_id, actor, action, subject, **detail)


async def record(
    connection: Connection, account_id: UUID, actor: str, action: str, subject: str = "", /, **detail: Any
) -> None:
    """Write down what somebody did in an account, in the transaction of the change, and tell webhooks of it.

    What is done to a list is written with its name, so that the line can be read when the list is gone. The
    arguments are those of `mailsift.storage.sql.people.audit`.
    """
    if action.startswith("webhook."):
        subject = urlsplit(subject).hostname or subject  # the path of its address is often a secret
    if action.startswith("schedule."):
        subject = _ADDRESS.sub("…", subject)  # it is mostly called as its list
    if action.startswith("job.") and "list" not in detail:
        detail |= await people.list_named(connection, account_id, subject)
    if "list" in detail:
        detail["list"] = _ADDRESS.sub("…", str(detail["list"]))
    row = await people.audit(connection, account_id, actor, action, subject, **detail)
    if await deliveries.is_asked_for(connection, account_id, EventType.AUDIT):
        event_id = uuid4()
        body = envelope(event_id, EventType.AUDIT, row.at, audit_event(row))
        event = EventRow(event_id, account_id, None, EventType.AUDIT.value, body, row.at, None)
        await deliveries.insert_event(connection, event, asked_only=True)


def audit_event(row: AuditRow) -> dict[str, str]:
    """Return the data of the event that tells of a line."""
    line = audit_line(row)
    return {
        "action": line.action,
        "actor": line.actor,
        "subject": line.subject,
        "sentence": line.sentence,
    }


def _is_added(row: AuditRow) -> bool:
    return row.action == "member.join" and row.subject != row.actor


def _subject(row: AuditRow) -> str:
    if row.action == "member.join" and not _is_added(row):
        return ""
    write = _SUBJECTS.get(row.action.partition(".")[0])
    return write(row) if write else row.subject


def _list(row: AuditRow) -> str:
    if row.detail.get("list"):
        return f"“{row.detail['list']}”"
    return f"the list {row.subject[:8]}" if len(row.subject) == _ID else row.subject


def _schedule(row: AuditRow) -> str:
    return f"“{_ADDRESS.sub('…', row.subject)}”" if row.subject else ""  # older lines have it whole


def _key(row: AuditRow) -> str:
    """Return its name: what may be seen of a key itself belongs to the page of keys."""
    return f"“{row.detail['name']}”" if row.detail.get("name") else "without a name"


def _webhook(row: AuditRow) -> str:
    """Return its host: the path of its address is often a secret."""
    return urlsplit(row.subject).hostname or row.subject


_SUBJECTS: Final[Mapping[str, Callable[[AuditRow], str]]] = {
    "job": _list,
    "lease": _list,
    "chunk": _list,
    "schedule": _schedule,
    "key": _key,
    "webhook": _webhook,
}


def _detail_text(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
