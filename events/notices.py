"""What the owners of an account are told by mail, and when it is tried again: pure decisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from email.message import EmailMessage
from email.utils import format_datetime
from enum import StrEnum
from typing import Final
from urllib.parse import urlsplit
from uuid import UUID

from events.moments import moment
from events.retry import DISABLE_AFTER_S, Disabled, Health

WARN_AFTER_S: Final = DISABLE_AFTER_S / 2

RETRY_S: Final = (60.0, 300.0, 1_800.0, 7_200.0, 21_600.0, 43_200.0)
"""Seconds after try 1, 2, … of a mail; after the last of them it is given up."""


class NoticeKind(StrEnum):
    """What happened."""

    FAILING = "webhook_failing"
    DISABLED = "webhook_disabled"


class NoticeState(StrEnum):
    """Where a notice stands; the last three are its ends."""

    PENDING = "pending"
    SENT = "sent"
    SKIPPED = "skipped"  # there is nobody to tell, nothing to tell of, or no way to
    GIVEN_UP = "given_up"


@dataclass(frozen=True, slots=True)
class Notice:
    """What one mail says.

    Attributes:
        since: since when nothing has arrived.
        reason: why it was disabled, NO when it was not.
        at: when it happened.
        link: of the page about the webhook, "" when nobody knows where the pages are.
    """

    id: UUID
    kind: NoticeKind
    account: str
    url: str
    since: datetime
    reason: Disabled
    at: datetime
    link: str = ""


def notice_after(health: Health, disabled: Disabled, now: float) -> NoticeKind | None:
    """Decide what the owners are to be told after an attempt: half-way to being disabled, and when it is."""
    if disabled is not Disabled.NO:
        return NoticeKind.DISABLED
    if health.failing_since is not None and now - health.failing_since >= WARN_AFTER_S:
        return NoticeKind.FAILING
    return None


def retry_at(tries: int, now: float) -> float | None:
    """Return when a mail is tried again of which `tries` have failed; None: it is given up."""
    return now + RETRY_S[tries - 1] if tries <= len(RETRY_S) else None


def compose(notice: Notice, *, sender: str, recipients: Sequence[str], now: float) -> EmailMessage:
    """Write the mail; of the URL it names the host alone: the path of a webhook is often a secret.

    Args:
        notice: what it says.
        sender: a bare address.
        recipients: bare addresses, at least one.
        now: epoch seconds.

    Raises:
        ValueError: an address cannot stand in a header.
    """
    host = urlsplit(notice.url).hostname or ""
    message = EmailMessage()
    message["Subject"] = _SUBJECT[notice.kind].format(host=host)
    message["From"] = sender
    message["To"] = ", ".join(recipients)
    message["Date"] = format_datetime(moment(now))
    message["Message-ID"] = f"<notice-{notice.id}@{sender.rpartition('@')[2]}>"
    message["Auto-Submitted"] = "auto-generated"  # RFC 3834: nobody's holiday is to answer
    lines = _LINES[notice.kind if notice.reason is Disabled.NO else notice.reason]
    text = "\n".join(lines).format(
        host=host, account=notice.account, since=_minute(notice.since), at=_minute(notice.at)
    )
    message.set_content(f"{text}\n\n{notice.link}\n" if notice.link else f"{text}\n", cte="quoted-printable")
    return message


def _minute(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"


_SUBJECT: Final = {
    NoticeKind.FAILING: "Your webhook at {host} is failing",
    NoticeKind.DISABLED: "Your webhook at {host} is disabled",
}
_ENABLE: Final = (
    "",
    "Events that waited for it were skipped. Once the receiver is well, enable the webhook",
    "and send again what has failed.",
)
_LINES: Final = {
    NoticeKind.FAILING: (
        "No attempt to deliver an event to the webhook of {account} at {host} has succeeded since",
        "{since}. Deliveries are tried again and again; after five days of failure the webhook is",
        "disabled.",
    ),
    Disabled.FAILING: (
        "The webhook of {account} at {host} was disabled at {at}: no attempt to deliver an event",
        "has succeeded since {since}.",
        *_ENABLE,
    ),
    Disabled.GONE: (
        "The webhook of {account} at {host} was disabled at {at}: it answered 410, which says that",
        "it is gone for good.",
        *_ENABLE,
    ),
    Disabled.BY_RECEIVER: (
        "The webhook of {account} at {host} was disabled at {at}: the receiver asked for it in an",
        "answer (webhook-delivery: disable).",
        *_ENABLE,
    ),
}
