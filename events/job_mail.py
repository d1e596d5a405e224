"""Mail to members about their jobs: ended, failed, waiting for more than an hour; each as they chose."""

from __future__ import annotations

from datetime import datetime, timedelta
from email.message import EmailMessage
from enum import StrEnum
from html import escape
from typing import Final

from typing_extensions import override

from mailsift.events.outbox import MailRoute, OutboxMailer, new_mail
from mailsift.pipeline.clock import utc_datetime
from mailsift.pipeline.wording import counted
from mailsift.pipeline.zones import local_text
from mailsift.storage.database import Connection
from mailsift.storage.sql import outbox
from mailsift.storage.sql.outbox import ClaimedJobMail, MailTable

WAITS: Final = timedelta(hours=1)
ENDS_SOON: Final = timedelta(days=3)
"""So long before a list is deleted its members hear of it."""
KEPT_LONG: Final = timedelta(days=6)
"""Of a list that is kept for less nobody needs to be reminded."""
_LONGEST_NAME: Final = 80
_SCHEDULE_PAUSES: Final = ", and its schedule pauses"


class JobMailKind(StrEnum):
    """What a member may want to hear of."""

    ENDED = "ended"
    FAILED = "failed"
    WAITING = "waiting"
    EXPIRING = "expiring"


_SUBJECTS: Final = {
    JobMailKind.ENDED: "{name} is validated",
    JobMailKind.FAILED: "{name} could not be validated",
    JobMailKind.WAITING: "{name} is waiting",
    JobMailKind.EXPIRING: "{name} will be deleted soon",
}
_SENTENCES: Final = {
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
    sentence = _SENTENCES[kind].format(
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
        subject=_SUBJECTS[kind].format(name=name),
        sender=route.sender,
        recipients=[claimed.email],
        name=f"job-mail-{claimed.id}",
        now=now,
    )
    paragraphs = [sentence, link, footer] if link else [sentence, footer]
    message.set_content("\n\n".join(paragraphs) + "\n", cte="quoted-printable")
    message.add_alternative(_html(sentence, link, footer), subtype="html", cte="quoted-printable")
    return message


class JobMailer(OutboxMailer[ClaimedJobMail]):
    """Tells members of their jobs."""

    table = MailTable.JOB_MAIL

    @override
    async def send_due(self) -> int:
        """Look for jobs that wait or go soon, and send what is due; returns how many mails were looked at."""
        now = utc_datetime(self._clock())
        async with self._database.begin() as connection:
            await outbox.remember_waiting(connection, now=now, before=now - WAITS, after=now + WAITS)
            await outbox.remember_expiring(connection, now=now, before=now + ENDS_SOON, kept=KEPT_LONG)
        return await super().send_due()

    @override
    async def claim(self, connection: Connection, *, now: datetime, again: datetime) -> ClaimedJobMail | None:
        """Take a mail that is due."""
        return await outbox.claim_job_mail(
            connection, now=now, again=again, before=now - WAITS, after=now + WAITS / 2
        )

    @override
    def compose(self, claimed: ClaimedJobMail, *, now: float) -> EmailMessage | None:
        """Write it, if its reader still wants it and it is still so."""
        if not claimed.is_wanted:
            return None
        return compose_job_mail(claimed, self._route, now)


def _until_text(ready_at: datetime | None, zone: str) -> str:
    return f", the others wait for their mail servers until {local_text(ready_at, zone)}" if ready_at else ""


def _html(sentence: str, link: str, footer: str) -> str:
    """Return the same as a page without pictures, scripts and anything that is loaded."""
    button = f'<p><a href="{escape(link)}">Open the job</a></p>' if link else ""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Mailsift</title></head>'
        f'<body style="font:16px/1.5 sans-serif"><p>{escape(sentence)}</p>{button}'
        f'<p style="color:#666;font-size:13px">{escape(footer)}</p></body></html>\n'
    )
