"""Mail of our own about what is committed: claimed, tried for about a day, and sent once.

Notices tell the owners of an account of their webhooks. Mail about jobs (ended, failed, waiting for more than
an hour, gone soon) goes to members, each as they chose.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from email.message import EmailMessage
from email.utils import format_datetime
from enum import StrEnum
from html import escape
from typing import ClassVar, Final, Generic, TypeVar
from urllib.parse import urlsplit

import structlog
from typing_extensions import override

from mailsift.events.mail import in_header
from mailsift.events.retry import DISABLE_AFTER_S, DisabledReason, failing_s
from mailsift.pipeline.clock import Clock, utc_datetime
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.wording import counted
from mailsift.pipeline.zones import local_text
from mailsift.storage.database import Connection, Database
from mailsift.storage.sql import outbox
from mailsift.storage.sql.deliveries import EndpointHealth
from mailsift.storage.sql.outbox import (
    MAIL_LEASE_S,
    MAIL_RETRY_S,
    ClaimedJobMail,
    ClaimedMail,
    ClaimedNotice,
    MailTable,
)

_BATCH: Final = 20
_log = structlog.get_logger()


class _MailState(StrEnum):
    """Where a mail stands; the last three are its ends."""

    PENDING = "pending"
    SENT = "sent"
    SKIPPED = "skipped"  # there is nobody to tell, nothing to tell of, or no way to
    GIVEN_UP = "given_up"


_Claimed = TypeVar("_Claimed", bound=ClaimedMail)


@dataclass(frozen=True, slots=True)
class MailRoute:
    """How our own mail goes out.

    Attributes:
        send: hands a mail over, or raises `mail_failed`; None = there is no relay: nothing is sent.
        sender: our address, bare.
        public_url: where people reach the pages, "" when nobody knows.
    """

    send: Callable[[EmailMessage], Awaitable[None]] | None
    sender: str
    public_url: str = ""


class OutboxMailer(ABC, Generic[_Claimed]):
    """Sends what is due from one outbox; any number of them may run in any number of processes."""

    table: ClassVar[MailTable]

    def __init__(self, *, database: Database, route: MailRoute, clock: Clock) -> None:
        self._database = database
        self._route = route
        self._clock = clock

    @abstractmethod
    async def claim(self, connection: Connection, *, now: datetime, again: datetime) -> _Claimed | None:
        """Take a mail that is due; `again` is when another may take it if nothing is heard of it."""

    @abstractmethod
    def compose(self, claimed: _Claimed, *, now: float) -> EmailMessage | None:
        """Write it; None: there is nobody to tell, or nothing to tell of any more.

        Raises:
            ValueError: something cannot stand in a header.
        """

    async def send_due(self) -> int:
        """Send what is due, some at a time; returns how many mails were looked at."""
        for count in range(_BATCH):
            now = utc_datetime(self._clock())
            claimed = await self._database.run(
                self.claim, now=now, again=now + timedelta(seconds=MAIL_LEASE_S)
            )
            if claimed is None:
                return count
            await self._record_try(claimed, *await self._try(claimed))
        return _BATCH

    async def _try(self, claimed: _Claimed) -> tuple[_MailState, datetime | None]:
        """Send a mail; returns what becomes of it, and when it is tried again if it is pending."""
        try:
            message = self.compose(claimed, now=self._clock()) if self._route.send else None
            if message is None or self._route.send is None:
                return _MailState.SKIPPED, None
            await self._route.send(message)
        except Exception as error:  # noqa: BLE001 - whatever it was, the mail has an end
            reason = error.message if isinstance(error, MailsiftError) else type(error).__name__
            _log.warning(f"{self.table}.error", mail=str(claimed.id), error=reason)
            again = mail_retry_at(claimed.tries, self._clock())
            return (_MailState.PENDING, utc_datetime(again)) if again else (_MailState.GIVEN_UP, None)
        return _MailState.SENT, None

    async def _record_try(self, claimed: _Claimed, state: _MailState, again: datetime | None) -> None:
        await self._database.run(outbox.record_try, self.table, claimed, state=state.value, again=again)
        _log.info(f"{self.table}.settled", mail=str(claimed.id), kind=claimed.kind, state=state.value)


def mail_retry_at(tries: int, now: float) -> float | None:
    """Return when a mail is tried again of which `tries` have failed; None: it is given up."""
    return now + MAIL_RETRY_S[tries - 1] if tries <= len(MAIL_RETRY_S) else None


def new_mail(*, subject: str, sender: str, recipients: Sequence[str], name: str, now: float) -> EmailMessage:
    """Return a mail without a text; `name` is its own, for the Message-ID.

    Raises:
        ValueError: an address cannot stand in a header.
    """
    message = EmailMessage()
    message["Subject"] = _in_one_line(subject)
    message["From"] = sender
    message["To"] = ", ".join(map(in_header, recipients))
    message["Date"] = format_datetime(utc_datetime(now))
    message["Message-ID"] = f"<{name}@{sender.rpartition('@')[2]}>"
    message["Auto-Submitted"] = "auto-generated"  # RFC 3834: nobody's holiday is to answer
    return message


def _in_one_line(text: str) -> str:
    """Return what customers have named as it may stand in a header: one line, and no encoded word (RFC 2047).

    Python before 3.11.10 takes "=?utf-8?q?=0aBcc:...?=" for one, and writes what it decodes to, line ends
    included (CVE-2024-6923).
    """
    letters = (letter if letter.isprintable() else " " for letter in text.replace("=?", "= ?"))
    return " ".join("".join(letters).split())


_WARN_AFTER_S: Final = DISABLE_AFTER_S / 2


class NoticeKind(StrEnum):
    """What happened."""

    FAILING = "webhook_failing"
    DISABLED = "webhook_disabled"


_NOTICE_SUBJECTS: Final = {
    NoticeKind.FAILING: "Your webhook at {host} is failing",
    NoticeKind.DISABLED: "Your webhook at {host} is disabled",
}
_ENABLE: Final = (
    "",
    "Events that waited for it were skipped. Once the receiver is well, enable the webhook",
    "and resend what has failed.",
)
_NOTICE_LINES: Final = {
    NoticeKind.FAILING: (
        "No attempt to deliver an event to the webhook of {account} at {host} has succeeded since",
        "{since}. Deliveries are retried; after five days of failure, in which ten were given up,",
        "the webhook is disabled.",
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
        "The webhook of {account} at {host} was disabled at {at}: the receiver asked for this in its",
        "answer (webhook-delivery: disable).",
        *_ENABLE,
    ),
}


def notice_after(health: EndpointHealth, disabled: DisabledReason, now: float) -> NoticeKind | None:
    """Decide what the owners are to be told after an attempt: half-way to being disabled, and when it is."""
    if disabled is not DisabledReason.NO:
        return NoticeKind.DISABLED
    if failing_s(health, now) >= _WARN_AFTER_S:
        return NoticeKind.FAILING
    return None


def compose_notice(claimed: ClaimedNotice, route: MailRoute, now: float) -> EmailMessage:
    """Write the mail; of the URL it names the host alone: the path of a webhook is often a secret.

    Raises:
        ValueError: an address cannot stand in a header.
    """
    host = urlsplit(claimed.url or "").hostname or ""
    kind, reason = NoticeKind(claimed.kind), DisabledReason(claimed.reason)
    message = new_mail(
        subject=_NOTICE_SUBJECTS[kind].format(host=host),
        sender=route.sender,
        recipients=claimed.owners,
        name=f"notice-{claimed.id}",
        now=now,
    )
    lines = "\n".join(_NOTICE_LINES[kind if reason is DisabledReason.NO else reason]).format(
        host=host,
        account=claimed.account,
        since=local_text(claimed.since, claimed.zone),
        at=local_text(claimed.created_at, claimed.zone),
    )
    link = f"\n\n{route.public_url}/webhooks/{claimed.subject_id}" if route.public_url else ""
    message.set_content(f"{lines}{link}\n", cte="quoted-printable")
    return message


class Notifier(OutboxMailer[ClaimedNotice]):
    """Tells owners of their webhooks."""

    table = MailTable.NOTICES

    @override
    async def claim(self, connection: Connection, *, now: datetime, again: datetime) -> ClaimedNotice | None:
        return await outbox.claim_notice(connection, now=now, again=again)

    @override
    def compose(self, claimed: ClaimedNotice, *, now: float) -> EmailMessage | None:
        """Write it to the owners, if there are any and it is news to them."""
        if not claimed.owners or not _is_still_valid(claimed):
            return None
        return compose_notice(claimed, self._route, now)


def _is_still_valid(claimed: ClaimedNotice) -> bool:
    """Say whether the notice is news: nobody wants to hear of a webhook that is well again, or gone."""
    if claimed.enabled is None:
        return False
    if claimed.kind == NoticeKind.DISABLED:
        return not claimed.enabled
    return claimed.enabled and claimed.failing


_JOB_WAITS: Final = timedelta(hours=1)
ENDS_SOON: Final = timedelta(days=3)
"""So long before a list is deleted its members hear of it."""
_KEPT_LONG: Final = timedelta(days=6)
"""Of a list that is kept for less nobody needs to be reminded."""
_LONGEST_NAME: Final = 80
_SCHEDULE_PAUSES: Final = ", and its schedule pauses"


class JobMailKind(StrEnum):
    """What a member may want to hear of."""

    ENDED = "ended"
    FAILED = "failed"
    WAITING = "waiting"
    EXPIRING = "expiring"


_JOB_SUBJECTS: Final = {
    JobMailKind.ENDED: "{name} is validated",
    JobMailKind.FAILED: "{name} could not be validated",
    JobMailKind.WAITING: "{name} is waiting",
    JobMailKind.EXPIRING: "{name} will be deleted soon",
}
_JOB_SENTENCES: Final = {
    JobMailKind.ENDED: "{addresses} of {name} {are} validated: {valid:,} valid, {risky:,} risky, "
    "{invalid:,} invalid.",
    JobMailKind.FAILED: "{name} could not be validated: {error}",
    JobMailKind.WAITING: "{name} waits for an hour or more, with {processed:,} of {addresses} validated"
    "{until}. You do not need to do anything.",
    JobMailKind.EXPIRING: "{name} and its results will be deleted on {end}{pauses}. Download what you want "
    "to keep.",
}


def compose_job_mail(claimed: ClaimedJobMail, route: MailRoute, now: float) -> EmailMessage:
    """Write the mail, as plain text and as HTML.

    Raises:
        ValueError: an address or a name cannot stand in a header.
    """
    kind = JobMailKind(claimed.kind)
    name = (claimed.name or "Your list")[:_LONGEST_NAME]
    sentence = _JOB_SENTENCES[kind].format(
        name=name,
        addresses=counted(claimed.total, "address"),
        are="is" if claimed.total == 1 else "are",
        processed=claimed.processed,
        valid=claimed.valid,
        risky=claimed.risky,
        invalid=claimed.invalid,
        error=claimed.error or "the page of the job says why.",
        until=_until_text(claimed.ready_at, claimed.zone),
        end=local_text(claimed.expires_at, claimed.zone) if claimed.expires_at else "",
        pauses=_SCHEDULE_PAUSES if claimed.repeated else "",
    )
    link = f"{route.public_url}/jobs/{claimed.job_id}" if route.public_url else ""
    settings = f"{route.public_url}/account/you" if route.public_url else "the page Account, You"
    footer = f"You get this email because you asked for it in {claimed.account}. Change that at {settings}."
    message = new_mail(
        subject=_JOB_SUBJECTS[kind].format(name=name),
        sender=route.sender,
        recipients=[claimed.email],
        name=f"job-mail-{claimed.id}",
        now=now,
    )
    paragraphs = [sentence, link, footer] if link else [sentence, footer]
    message.set_content("\n\n".join(paragraphs) + "\n", cte="quoted-printable")
    message.add_alternative(_job_html(sentence, link, footer), subtype="html", cte="quoted-printable")
    return message


def _until_text(ready_at: datetime | None, zone: str) -> str:
    return f", the others wait for their mail servers until {local_text(ready_at, zone)}" if ready_at else ""


def _job_html(sentence: str, link: str, footer: str) -> str:
    """Return the same as a page without pictures, scripts and anything that is loaded."""
    button = f'<p><a href="{escape(link)}">Open the job</a></p>' if link else ""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Mailsift</title></head>'
        f'<body style="font:16px/1.5 sans-serif"><p>{escape(sentence)}</p>{button}'
        f'<p style="color:#666;font-size:13px">{escape(footer)}</p></body></html>\n'
    )


class JobMailer(OutboxMailer[ClaimedJobMail]):
    """Tells members of their jobs."""

    table = MailTable.JOB_MAIL

    @override
    async def send_due(self) -> int:
        """Look for jobs that wait or go soon, and send what is due; returns how many mails were looked at."""
        now = utc_datetime(self._clock())
        async with self._database.begin() as connection:
            await outbox.remember_waiting(
                connection, now=now, before=now - _JOB_WAITS, after=now + _JOB_WAITS
            )
            await outbox.remember_expiring(connection, now=now, before=now + ENDS_SOON, kept=_KEPT_LONG)
        return await super().send_due()

    @override
    async def claim(self, connection: Connection, *, now: datetime, again: datetime) -> ClaimedJobMail | None:
        return await outbox.claim_job_mail(
            connection, now=now, again=again, before=now - _JOB_WAITS, after=now + _JOB_WAITS / 2
        )

    @override
    def compose(self, claimed: ClaimedJobMail, *, now: float) -> EmailMessage | None:
        """Write it, if its reader still wants it and it is still so."""
        if not claimed.is_wanted:
            return None
        return compose_job_mail(claimed, self._route, now)
