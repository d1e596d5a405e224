"""What becomes of a message that a server has taken: it arrives, comes back later, is complained about."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage, Message
from email.utils import format_datetime, make_msgid
from enum import StrEnum
from hashlib import blake2b

from mailsift.sandbox.behaviours import RecipientPolicy
from mailsift.sandbox.population import Mailbox
from mailsift.sandbox.smtp_replies import WORDINGS, RcptCommand
from mailsift.sandbox.world import SandboxDomain, SandboxWorld

ARRIVED = "250 2.0.0 Ok: queued as {}"
_TRY_AGAIN = "451 4.3.0 Error: queue file write error"
_DELAYED_DAYS = 2
_CATCH_ALLS_THAT_RETURN = 3  # one in so many


class Destiny(StrEnum):
    """What becomes of a message."""

    ARRIVES = "arrives"
    RETURNS = "returns"  # it is taken, and comes back with a report
    SECOND_TRY = "second_try"  # it is put off once
    LATE = "late"  # it is taken, reported as delayed, and arrives
    COMPLAINT = "complaint"  # it arrives, and its reader calls it spam


# Thousandths of the mailboxes that exist, cumulated: 2 % are aliases that lead nowhere, 10 % have bad days.
_DESTINIES = (
    (20, Destiny.RETURNS),
    (120, Destiny.SECOND_TRY),
    (140, Destiny.LATE),
    (145, Destiny.COMPLAINT),
)


def destiny(world: SandboxWorld, local: str, name: str) -> Destiny:
    """Say what becomes of a message whose recipient was accepted; a pure function of the world's seed.

    Args:
        world: where the mailbox is.
        local: local part in lower case.
        name: ASCII domain in lower case.
    """
    domain = world.find(name)
    if domain is None:
        return Destiny.RETURNS
    if world.mailbox(local, name) is not Mailbox.EXISTS and domain.rcpt is RecipientPolicy.ACCEPT:
        return Destiny.RETURNS if _returns(world, domain) else Destiny.ARRIVES
    draw = _draw(world, f"{local}@{name}", 1000)
    return next((what for limit, what in _DESTINIES if draw < limit), Destiny.ARRIVES)


def _returns(world: SandboxWorld, domain: SandboxDomain) -> bool:
    """Say whether a domain that accepts everybody sends back what it has no mailbox for."""
    known_later = domain.deep is not None and domain.deep.result == "unverifiable"
    return known_later or _draw(world, domain.name, _CATCH_ALLS_THAT_RETURN) == 0


def _draw(world: SandboxWorld, text: str, sides: int) -> int:
    key = world.seed.to_bytes(8, "big", signed=True)
    digest = blake2b(text.encode(), digest_size=4, key=key, person=b"delivery")
    return int.from_bytes(digest.digest(), "big") % sides


class Deliveries:
    """Takes messages for all servers of a world, and writes the reports that go back to their senders.

    Args:
        world: where the mailboxes are.
        now: seconds since the epoch.
    """

    def __init__(self, world: SandboxWorld, now: Callable[[], float]) -> None:
        self._world, self._now = world, now
        self._put_off: set[str] = set()
        self._reports: list[bytes] = []

    def take(self, recipient: RcptCommand) -> str:
        """Return the reply to the end of a message for one recipient."""
        what = destiny(self._world, recipient.local, recipient.domain)
        if what is Destiny.SECOND_TRY and recipient.address not in self._put_off:
            self._put_off.add(recipient.address)
            return _TRY_AGAIN
        report = {
            Destiny.RETURNS: self._returned,
            Destiny.LATE: self._delayed,
            Destiny.COMPLAINT: self._complaint,
        }.get(what)
        if report and recipient.sender:  # RFC 5321 section 6.1: none to the null sender
            self._reports.append(report(recipient).as_bytes())
        return ARRIVED.format(f"{_draw(self._world, recipient.address, 1 << 32):08X}")

    def collect(self) -> list[bytes]:
        """Return the reports that came since the last time."""
        found, self._reports = self._reports, []
        return found

    def _returned(self, recipient: RcptCommand) -> Message:
        box = self._world.mailbox(recipient.local, recipient.domain)
        words = WORDINGS[recipient.host.policy.mta].of(Mailbox.MISSING if box is Mailbox.EXISTS else box)
        said = words.format(address=recipient.address, client=recipient.client, host="", token="0")  # noqa: S106 - a server's number
        late = _draw(self._world, recipient.address, 2)
        return self._status(recipient, "failed", said, days=late * _DELAYED_DAYS)

    def _delayed(self, recipient: RcptCommand) -> Message:
        return self._status(recipient, "delayed", "451 4.4.1 connection timed out", days=0)

    def _status(self, recipient: RcptCommand, action: str, said: str, *, days: int) -> Message:
        """Return a delivery status notification (RFC 3464)."""
        at = datetime.fromtimestamp(self._now(), UTC) + timedelta(days=days)
        one_line = " ".join(said.split())
        words = f"This is the mail system at {recipient.host.name}.\n\n<{recipient.address}>: {one_line}\n"
        codes = [word for word in said.replace("(#", " ").replace(")", " ").split() if word[1:2] == "."]
        status = Message()
        status["Reporting-MTA"] = f"dns; {recipient.host.name}"
        rows = Message()
        rows["Final-Recipient"] = f"rfc822; {recipient.address}"
        rows["Action"] = action
        rows["Status"] = codes[0] if codes else ("5.0.0" if action == "failed" else "4.0.0")
        rows["Diagnostic-Code"] = f"smtp; {one_line}"
        rows["Last-Attempt-Date"] = format_datetime(at)
        part = Message()
        part["Content-Type"] = "message/delivery-status"
        part.set_payload([status, rows])
        return self._report(
            recipient, "delivery-status", "Undelivered Mail Returned to Sender", words, part, at
        )

    def _complaint(self, recipient: RcptCommand) -> Message:
        """Return a complaint (RFC 5965)."""
        at = datetime.fromtimestamp(self._now(), UTC)
        part = Message()
        part["Content-Type"] = "message/feedback-report"
        part.set_payload(
            "Feedback-Type: abuse\r\nUser-Agent: Sandbox/1.0\r\nVersion: 1\r\n"
            f"Original-Rcpt-To: {recipient.address}\r\nArrival-Date: {format_datetime(at)}\r\n"
        )
        return self._report(recipient, "feedback-report", "Complaint", "This was called spam.\n", part, at)

    def _report(
        self, recipient: RcptCommand, kind: str, subject: str, words: str, part: Message, at: datetime
    ) -> Message:
        message = EmailMessage()
        message["From"] = f"MAILER-DAEMON@{recipient.host.name}"
        message["To"] = recipient.sender
        message["Subject"] = subject
        message["Date"] = format_datetime(at)
        message["Message-ID"] = make_msgid(domain=recipient.host.name)
        message["Auto-Submitted"] = "auto-replied"
        message["Content-Type"] = f'multipart/report; report-type={kind}; boundary="=_report"'
        text = EmailMessage()
        text.set_content(words)
        sent = Message()
        sent["Content-Type"] = "text/rfc822-headers"
        sent.set_payload(f"From: {recipient.sender}\r\nTo: {recipient.address}\r\nSubject: News\r\n")
        message.set_payload([text, part, sent])
        return message
