"""Mail to members about their jobs: ended, failed, waiting for more than an hour; each as they chose."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from email.message import EmailMessage
from email.utils import format_datetime
from enum import StrEnum
from html import escape
from typing import Final

import structlog

from mailsift.events.notices import NOTICE_LEASE_S, NoticeState, notice_retry_at
from mailsift.pipeline.clock import Clock, utc_datetime
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.zones import local_text
from mailsift.storage.database import Database
from mailsift.storage.sql import job_mail
from mailsift.storage.sql.job_mail import ClaimedJobMail

WAITS: Final = timedelta(hours=1)
_BATCH: Final = 20
_LONGEST_NAME: Final = 80
_log = structlog.get_logger()


class JobMailKind(StrEnum):
    """What a member may want to hear of."""

    ENDED = "ended"
    FAILED = "failed"
    WAITING = "waiting"


_SUBJECTS: Final = {
    JobMailKind.ENDED: "{name} is validated",
    JobMailKind.FAILED: "{name} could not be validated",
    JobMailKind.WAITING: "{name} is waiting",
}
_SENTENCES: Final = {
    JobMailKind.ENDED: "{total:,} addresses of {name} are validated: {valid:,} valid, {risky:,} risky, "
    "{invalid:,} invalid.",
    JobMailKind.FAILED: "{name} could not be validated: {error}",
    JobMailKind.WAITING: "{name} has waited for an hour or will: {processed:,} of {total:,} addresses have a "
    "verdict{until}. You need not do anything.",
}


def compose_job_mail(claimed: ClaimedJobMail, *, sender: str, public_url: str, now: float) -> EmailMessage:
    """Write the mail, as plain text and as HTML.

    Args:
        claimed: what it tells of.
        sender: a bare address.
        public_url: where people reach the pages, "" when nobody knows.
        now: epoch seconds.

    Raises:
        ValueError: an address or a name cannot stand in a header.
    """
    kind = JobMailKind(claimed.kind)
    name = (claimed.name or "Your list")[:_LONGEST_NAME]
    sentence = _SENTENCES[kind].format(
        name=name,
        total=claimed.total,
        processed=claimed.processed,
        valid=claimed.valid,
        risky=claimed.risky,
        invalid=claimed.invalid,
        error=claimed.error or "the page of the job says why.",
        until=_until(claimed.ready_at, claimed.zone),
    )
    link = f"{public_url}/jobs/{claimed.job_id}" if public_url else ""
    settings = f"{public_url}/account/you" if public_url else "the page Account, You"
    footer = f"You get this because you chose to, for {claimed.account}. Change it at {settings}."
    message = EmailMessage()
    message["Subject"] = _SUBJECTS[kind].format(name=name)
    message["From"] = sender
    message["To"] = claimed.email
    message["Date"] = format_datetime(utc_datetime(now))
    message["Message-ID"] = f"<job-mail-{claimed.id}@{sender.rpartition('@')[2]}>"
    message["Auto-Submitted"] = "auto-generated"  # RFC 3834: nobody's holiday is to answer
    paragraphs = [sentence, link, footer] if link else [sentence, footer]
    message.set_content("\n\n".join(paragraphs) + "\n", cte="quoted-printable")
    message.add_alternative(_html(sentence, link, footer), subtype="html", cte="quoted-printable")
    return message


class JobMailer:
    """Sends mail about jobs; any number of them may run in any number of processes.

    Args:
        database: the outbox.
        send: hands a mail over, or raises `mail_failed`; None = there is no relay: nothing is sent.
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
        """Look for jobs that wait, and send what is due, some at a time; returns how many were looked at."""
        now = utc_datetime(self._clock())
        async with self._database.begin() as connection:
            await job_mail.remember_waiting(connection, now=now, before=now - WAITS, after=now + WAITS)
        for count in range(_BATCH):
            claimed = await self._claim()
            if claimed is None:
                return count
            state, again = await self._send_one(claimed)
            async with self._database.begin() as connection:
                await job_mail.settle(connection, claimed, state=state.value, again=again)
            _log.info("job_mail.settled", mail=str(claimed.id), kind=claimed.kind, state=state.value)
        return _BATCH

    async def _claim(self) -> ClaimedJobMail | None:
        now = utc_datetime(self._clock())
        again = now + timedelta(seconds=NOTICE_LEASE_S)
        async with self._database.begin() as connection:
            return await job_mail.claim(
                connection, now=now, again=again, before=now - WAITS, after=now + WAITS / 2
            )

    async def _send_one(self, claimed: ClaimedJobMail) -> tuple[NoticeState, datetime | None]:
        """Return what becomes of a mail, and when it is tried again if it is pending."""
        if self._send is None or not claimed.is_wanted:
            return NoticeState.SKIPPED, None
        try:
            message = compose_job_mail(
                claimed, sender=self._sender, public_url=self._public_url, now=self._clock()
            )
            await self._send(message)
        except (MailsiftError, ValueError) as error:
            reason = error.message if isinstance(error, MailsiftError) else type(error).__name__
            _log.warning("job_mail.error", mail=str(claimed.id), error=reason)
            again = notice_retry_at(claimed.tries, self._clock())
            return (
                (NoticeState.GIVEN_UP, None) if again is None else (NoticeState.PENDING, utc_datetime(again))
            )
        return NoticeState.SENT, None


def _until(ready_at: datetime | None, zone: str) -> str:
    return f", the others wait for their mail servers until {local_text(ready_at, zone)}" if ready_at else ""


def _html(sentence: str, link: str, footer: str) -> str:
    """Return the same as a page without pictures, scripts and anything that is loaded."""
    button = f'<p><a href="{escape(link)}">Open the job</a></p>' if link else ""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Mailsift</title></head>'
        f'<body style="font:16px/1.5 sans-serif"><p>{escape(sentence)}</p>{button}'
        f'<p style="color:#666;font-size:13px">{escape(footer)}</p></body></html>\n'
    )
