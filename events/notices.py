"""What the owners of an account are told by mail of their webhooks, once the fact is committed."""

from __future__ import annotations

from datetime import datetime
from email.message import EmailMessage
from enum import StrEnum
from typing import Final
from urllib.parse import urlsplit

from typing_extensions import override

from mailsift.events.outbox import MailRoute, OutboxMailer, new_mail
from mailsift.events.retry import DISABLE_AFTER_S, DisabledReason, failing_s
from mailsift.pipeline.zones import local_text
from mailsift.storage.database import Connection
from mailsift.storage.sql import outbox
from mailsift.storage.sql.deliveries import EndpointHealth
from mailsift.storage.sql.outbox import ClaimedNotice, MailTable

WARN_AFTER_S: Final = DISABLE_AFTER_S / 2


class NoticeKind(StrEnum):
    """What happened."""

    FAILING = "webhook_failing"
    DISABLED = "webhook_disabled"


def notice_after(health: EndpointHealth, disabled: DisabledReason, now: float) -> NoticeKind | None:
    """Decide what the owners are to be told after an attempt: half-way to being disabled, and when it is."""
    if disabled is not DisabledReason.NO:
        return NoticeKind.DISABLED
    if failing_s(health, now) >= WARN_AFTER_S:
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
        subject=_SUBJECT[kind].format(host=host),
        sender=route.sender,
        recipients=claimed.owners,
        name=f"notice-{claimed.id}",
        now=now,
    )
    lines = "\n".join(_LINES[kind if reason is DisabledReason.NO else reason]).format(
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
        """Take a notice that is due."""
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


_SUBJECT: Final = {
    NoticeKind.FAILING: "Your webhook at {host} is failing",
    NoticeKind.DISABLED: "Your webhook at {host} is disabled",
}
_ENABLE: Final = (
    "",
    "Events that waited for it were skipped. Once the receiver is well, enable the webhook",
    "and resend what has failed.",
)
_LINES: Final = {
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
