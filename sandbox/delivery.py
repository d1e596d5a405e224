"""What becomes of a message that a server has taken: it arrives, comes back later, is complained about."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from enum import StrEnum
from hashlib import blake2b

from mailsift.sandbox.behaviours import RecipientPolicy
from mailsift.sandbox.population import Mailbox
from mailsift.sandbox.smtp_replies import WORDINGS, RcptCommand
from mailsift.sandbox.world import SandboxDomain, SandboxWorld

_ARRIVED = "250 2.0.0 Ok: queued as {}"
_TRY_AGAIN = "451 4.3.0 Error: queue file write error"
_DELAYED_DAYS = 2
_CATCH_ALLS_THAT_RETURN = 3  # one in so many

_REPORT = """From: MAILER-DAEMON@{{host}}
To: {{to}}
Subject: {subject}
Date: {{at}}
Auto-Submitted: auto-replied
MIME-Version: 1.0
Content-Type: multipart/report; report-type={kind}; boundary="report"

--report
Content-Type: text/plain; charset=utf-8

{words}

--report
Content-Type: message/{kind}

{fields}

--report
Content-Type: text/rfc822-headers

From: {{to}}
To: {{address}}
Subject: News

--report--
"""
_STATUS = _REPORT.format(
    subject="Undelivered Mail Returned to Sender",
    kind="delivery-status",
    words="This is the mail system at {host}.\n\n<{address}>: {said}",
    fields="Reporting-MTA: dns; {host}\n\nFinal-Recipient: {kind}; {address}\nAction: {action}\n"
    "Status: {status}\nDiagnostic-Code: smtp; {said}\nLast-Attempt-Date: {at}",
)
_COMPLAINT = _REPORT.format(
    subject="Complaint",
    kind="feedback-report",
    words="This was called spam.",
    fields="Feedback-Type: abuse\nUser-Agent: Sandbox/1.0\nVersion: 1\n"
    "Original-Rcpt-To: {address}\nArrival-Date: {at}",
)


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

    Local part and name, an ASCII domain, are in lower case.
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
            Destiny.RETURNS: self._bounce_text,
            Destiny.LATE: self._delayed,
            Destiny.COMPLAINT: self._complaint,
        }.get(what)
        if report and recipient.sender:  # RFC 5321 section 6.1: none to the null sender
            self._reports.append(report(recipient).encode())
        return _ARRIVED.format(f"{_draw(self._world, recipient.address, 1 << 32):08X}")

    def collect(self) -> list[bytes]:
        """Return the reports that came since the last time."""
        found, self._reports = self._reports, []
        return found

    def _bounce_text(self, recipient: RcptCommand) -> str:
        box = self._world.mailbox(recipient.local, recipient.domain)
        words = WORDINGS[recipient.host.policy.mta].of(Mailbox.MISSING if box is Mailbox.EXISTS else box)
        reply = words.format(address=recipient.address, client=recipient.client, host="", token="0")  # noqa: S106 - a server's number
        late = _draw(self._world, recipient.address, 2)
        return self._status(recipient, "failed", reply, days=late * _DELAYED_DAYS)

    def _delayed(self, recipient: RcptCommand) -> str:
        return self._status(recipient, "delayed", "451 4.4.1 connection timed out", days=0)

    def _status(self, recipient: RcptCommand, action: str, reply: str, *, days: int) -> str:
        """Return a delivery status notification (RFC 3464, and RFC 6533 for who needs SMTPUTF8)."""
        one_line = " ".join(reply.split())
        codes = [word for word in one_line.replace("(#", " ").replace(")", " ").split() if word[1:2] == "."]
        values = {
            "action": action,
            "status": codes[0] if codes else ("5.0.0" if action == "failed" else "4.0.0"),
            "said": one_line,
            "kind": "rfc822" if recipient.address.isascii() else "utf-8",
        }
        return self._filled(_STATUS, recipient, days, **values)

    def _complaint(self, recipient: RcptCommand) -> str:
        """Return a complaint (RFC 5965)."""
        return self._filled(_COMPLAINT, recipient, days=0)

    def _filled(self, text: str, recipient: RcptCommand, days: int, **more: str) -> str:
        at = format_datetime(datetime.fromtimestamp(self._now(), UTC) + timedelta(days=days))
        host, to = recipient.host.name, recipient.sender
        return text.format(host=host, to=to, address=recipient.address, at=at, **more)
