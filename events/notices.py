"""What the owners of an account are told by mail of their webhooks, once the fact is committed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from email.message import EmailMessage
from email.utils import format_datetime
from enum import StrEnum
from typing import Final
from urllib.parse import urlsplit
from uuid import UUID

import structlog

from mailsift.events.retry import DISABLE_AFTER_S, DisabledReason, failing_s
from mailsift.pipeline.clock import Clock, utc_datetime
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.zones import DEFAULT, local_text
from mailsift.storage.database import Database
from mailsift.storage.sql import notices, people
from mailsift.storage.sql.endpoints import EndpointHealth
from mailsift.storage.sql.notices import ClaimedNotice

WARN_AFTER_S: Final = DISABLE_AFTER_S / 2

NOTICE_RETRY_S: Final = (60.0, 300.0, 1_800.0, 7_200.0, 21_600.0, 43_200.0)
"""Seconds after try 1, 2, … of a mail; after the last of them it is given up."""

NOTICE_LEASE_S: Final = 600.0
"""A notice whose sender died is sent by another after so long; sending takes less."""

_BATCH: Final = 10

_log = structlog.get_logger()


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
        zone: in which its times are told.
    """

    id: UUID
    kind: NoticeKind
    account: str
    url: str
    since: datetime
    reason: DisabledReason
    at: datetime
    link: str = ""
    zone: str = DEFAULT


def notice_after(health: EndpointHealth, disabled: DisabledReason, now: float) -> NoticeKind | None:
    """Decide what the owners are to be told after an attempt: half-way to being disabled, and when it is."""
    if disabled is not DisabledReason.NO:
        return NoticeKind.DISABLED
    if failing_s(health, now) >= WARN_AFTER_S:
        return NoticeKind.FAILING
    return None


def notice_retry_at(tries: int, now: float) -> float | None:
    """Return when a mail is tried again of which `tries` have failed; None: it is given up."""
    return now + NOTICE_RETRY_S[tries - 1] if tries <= len(NOTICE_RETRY_S) else None


def compose_notice(notice: Notice, *, sender: str, recipients: Sequence[str], now: float) -> EmailMessage:
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
    message["Date"] = format_datetime(utc_datetime(now))
    message["Message-ID"] = f"<notice-{notice.id}@{sender.rpartition('@')[2]}>"
    message["Auto-Submitted"] = "auto-generated"  # RFC 3834: nobody's holiday is to answer
    lines = _LINES[notice.kind if notice.reason is DisabledReason.NO else notice.reason]
    text = "\n".join(lines).format(
        host=host,
        account=notice.account,
        since=local_text(notice.since, notice.zone),
        at=local_text(notice.at, notice.zone),
    )
    message.set_content(f"{text}\n\n{notice.link}\n" if notice.link else f"{text}\n", cte="quoted-printable")
    return message


class Notifier:
    """Sends the notices that are due; any number of them may run in any number of processes.

    Args:
        database: the outbox.
        send: hands a mail over, or raises `mail_failed`; None = there is no relay: notices are logged only.
        sender: our address.
        public_url: where people reach the pages, "" when nobody knows.
        clock: the time.
    """

    def __init__(
        self,
        *,
        database: Database,
        send: Callable[[EmailMessage], Awaitable[None]] | None,
        sender: str,
        public_url: str,
        clock: Clock,
    ) -> None:
        self._database = database
        self._send = send
        self._sender = sender
        self._public_url = public_url
        self._clock = clock

    async def send_due(self) -> int:
        """Send what is due, some at a time; returns how many notices were looked at."""
        for count in range(_BATCH):
            now = self._clock()
            async with self._database.begin() as connection:
                claimed = await notices.claim(
                    connection, now=utc_datetime(now), again=utc_datetime(now + NOTICE_LEASE_S)
                )
            if claimed is None:
                return count
            await self._send_and_settle(claimed)
        return _BATCH

    async def _send_and_settle(self, claimed: ClaimedNotice) -> None:
        state, at = await self._send_one(claimed)
        again = None if at is None else utc_datetime(at)
        async with self._database.begin() as connection:
            await notices.settle(connection, claimed, state=state.value, again=again)
        _log.info("notice.settled", notice=str(claimed.id), kind=claimed.kind, state=state.value)

    async def _send_one(self, claimed: ClaimedNotice) -> tuple[NoticeState, float | None]:
        """Return what becomes of the notice, and when it is tried again if it is pending."""
        async with self._database.begin() as connection:
            owners = await people.owners(connection, claimed.account_id)
        if self._send is None or not owners or not _is_still_so(claimed):
            return NoticeState.SKIPPED, None
        try:
            message = compose_notice(
                self._notice(claimed), sender=self._sender, recipients=owners, now=self._clock()
            )
            await self._send(message)
        except (MailsiftError, ValueError) as error:
            reason = error.message if isinstance(error, MailsiftError) else type(error).__name__
            _log.warning("notice.error", notice=str(claimed.id), error=reason)
            again = notice_retry_at(claimed.tries, self._clock())
            return (NoticeState.GIVEN_UP, None) if again is None else (NoticeState.PENDING, again)
        return NoticeState.SENT, None

    def _notice(self, claimed: ClaimedNotice) -> Notice:
        return Notice(
            id=claimed.id,
            kind=NoticeKind(claimed.kind),
            account=claimed.account,
            url=claimed.url or "",
            since=claimed.since,
            reason=DisabledReason(claimed.reason),
            at=claimed.created_at,
            zone=claimed.zone,
            link=f"{self._public_url}/webhooks/{claimed.subject_id}" if self._public_url else "",
        )


def _is_still_so(claimed: ClaimedNotice) -> bool:
    """Say whether the notice is news: nobody wants to hear of a webhook that is well again, or gone."""
    if claimed.enabled is None:
        return False
    if claimed.kind == NoticeKind.DISABLED:
        return not claimed.enabled
    return claimed.enabled and claimed.failing


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
    DisabledReason.FAILING: (
        "The webhook of {account} at {host} was disabled at {at}: no attempt to deliver an event",
        "has succeeded since {since}.",
        *_ENABLE,
    ),
    DisabledReason.GONE: (
        "The webhook of {account} at {host} was disabled at {at}: it answered 410, which says that",
        "it is gone for good.",
        *_ENABLE,
    ),
    DisabledReason.BY_RECEIVER: (
        "The webhook of {account} at {host} was disabled at {at}: the receiver asked for it in an",
        "answer (webhook-delivery: disable).",
        *_ENABLE,
    ),
}
