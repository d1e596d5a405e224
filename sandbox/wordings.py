"""What mail servers say: the words of nine families, written for the sandbox."""

from __future__ import annotations

from dataclasses import dataclass

from sandbox.habits import Door
from sandbox.people import Mailbox


@dataclass(frozen=True, slots=True)
class Wording:
    """The replies of one family; `{host}`, `{address}`, `{client}` and `{token}` are filled in.

    Attributes:
        banner: after "220 ".
        hello: the first line of the reply to EHLO, after its code.
        mail, rcpt: when accepted.
        missing, full, disabled: refusals, with their codes.
        bye: to QUIT.
    """

    banner: str
    hello: str
    mail: str
    rcpt: str
    missing: str
    full: str
    disabled: str
    bye: str

    def of(self, mailbox: Mailbox) -> str:
        """Return the reply to RCPT for a mailbox."""
        return {
            Mailbox.EXISTS: self.rcpt,
            Mailbox.MISSING: self.missing,
            Mailbox.FULL: self.full,
            Mailbox.DISABLED: self.disabled,
        }[mailbox]


WORDINGS: dict[str, Wording] = {
    "postfix": Wording(
        banner="{host} ESMTP Postfix (Debian/GNU)",
        hello="{host}",
        mail="250 2.1.0 Ok",
        rcpt="250 2.1.5 Ok",
        missing="550 5.1.1 <{address}>: Recipient address rejected: User unknown in virtual mailbox table",
        full="452 4.2.2 <{address}>: Recipient address rejected: mailbox is over quota",
        disabled="550 5.2.1 <{address}>: Recipient address rejected: this account has been disabled",
        bye="221 2.0.0 Bye",
    ),
    "exim": Wording(
        banner="{host} ESMTP Exim 4.97.1 Sat, 21 Nov 2026 09:12:44 +0000",
        hello="{host} Hello probe [{client}]",
        mail="250 OK",
        rcpt="250 Accepted",
        missing="550 No Such User Here",
        full="552 The mailbox of this user is full: quota exceeded",
        disabled="550 5.2.1 The account of this user has been suspended",
        bye="221 {host} closing connection",
    ),
    "exchange": Wording(
        banner="{host} Microsoft ESMTP MAIL Service ready at Sat, 21 Nov 2026 09:12:44 +0100",
        hello="{host} Hello [{client}]",
        mail="250 2.1.0 Sender OK",
        rcpt="250 2.1.5 Recipient OK",
        missing="550 5.1.1 User unknown",
        full="452 4.2.2 Mailbox full",
        disabled="550 5.2.1 Mailbox disabled, not accepting messages",
        bye="221 2.0.0 Service closing transmission channel",
    ),
    "exchange_online": Wording(
        banner="{token}.mail.protection.outlook.com Microsoft ESMTP MAIL Service ready at Sat, 21 Nov 2026",
        hello="{token}.mail.protection.outlook.com Hello [{client}]",
        mail="250 2.1.0 Sender OK",
        rcpt="250 2.1.5 Recipient OK",
        missing="550 5.1.10 RESOLVER.ADR.RecipientNotFound; {address} not found by SMTP address lookup",
        full="554 5.2.2 Mailbox full; the recipient's mailbox has exceeded its storage quota",
        disabled="550 5.2.1 Mailbox disabled for this recipient; the account is inactive",
        bye="221 2.0.0 Service closing transmission channel",
    ),
    "google": Wording(
        banner="mx.google.com ESMTP {token} - gsmtp",
        hello="mx.google.com at your service, [{client}]",
        mail="250 2.1.0 OK {token} - gsmtp",
        rcpt="250 2.1.5 OK {token} - gsmtp",
        missing=(
            "550-5.1.1 The email account that you tried to reach does not exist. Please try\n"
            "550-5.1.1 double-checking the recipient's email address for typos or\n"
            "550-5.1.1 unnecessary spaces. For more information, go to\n"
            "550 5.1.1  https://support.google.com/mail/?p=NoSuchUser {token} - gsmtp"
        ),
        full=(
            "452-4.2.2 The recipient's inbox is out of storage space. Please direct the\n"
            "452-4.2.2 recipient to\n"
            "452 4.2.2  https://support.google.com/mail/?p=OverQuotaTemp {token} - gsmtp"
        ),
        disabled=(
            "550-5.2.1 The email account that you tried to reach is inactive. For more\n"
            "550-5.2.1 information, go to\n"
            "550 5.2.1  https://support.google.com/mail/?p=DisabledUser {token} - gsmtp"
        ),
        bye="221 2.0.0 closing connection {token} - gsmtp",
    ),
    "outlook": Wording(
        banner="{token}.olc.protection.outlook.com Microsoft ESMTP MAIL Service ready at Sat, 21 Nov 2026",
        hello="{token}.olc.protection.outlook.com Hello [{client}]",
        mail="250 2.1.0 Sender OK",
        rcpt="250 2.1.5 Recipient OK",
        missing="550 5.5.0 Requested action not taken: mailbox unavailable (S2017062302). [{token}]",
        full="452 4.2.2 The recipient's mailbox is full [{token}]",
        disabled="550 5.2.1 The mailbox of this recipient is disabled [{token}]",
        bye="221 2.0.0 Service closing transmission channel",
    ),
    "sendmail": Wording(
        banner="{host} ESMTP Sendmail 8.18.1/8.18.1; Sat, 21 Nov 2026 09:12:44 +0100",
        hello="{host} Hello probe [{client}], pleased to meet you",
        mail="250 2.1.0 <>... Sender ok",
        rcpt="250 2.1.5 <{address}>... Recipient ok",
        missing="550 5.1.1 <{address}>... User unknown",
        full="552 5.2.2 <{address}>... Mailbox full",
        disabled="550 5.2.1 <{address}>... Mailbox disabled for this recipient",
        bye="221 2.0.0 {host} closing connection",
    ),
    "qmail": Wording(
        banner="{host} ESMTP",
        hello="{host}",
        mail="250 ok",
        rcpt="250 ok",
        missing="550 sorry, no mailbox here by that name. (#5.1.1)",
        full="552 sorry, the mailbox of this user is over quota (#5.2.2)",
        disabled="550 sorry, this account has been disabled (#5.2.1)",
        bye="221 {host}",
    ),
    "opensmtpd": Wording(
        banner="{host} ESMTP OpenSMTPD",
        hello="{host} Hello probe [{client}], pleased to meet you",
        mail="250 2.0.0 Ok",
        rcpt="250 2.1.5 Destination address valid: Recipient ok",
        missing="550 Invalid recipient: <{address}>",
        full="452 4.2.2 Mailbox full: <{address}>",
        disabled="550 5.2.1 Mailbox disabled: <{address}>",
        bye="221 2.0.0 Bye",
    ),
}

DOORS = {
    Door.BLOCKED: (
        "554 5.7.1 Service unavailable; Client host [{client}] blocked using zen.spamhaus.org; "
        "https://www.spamhaus.org/query/ip/{client}"
    ),
    Door.BUSY: "421 4.3.2 {host} Service not available, closing transmission channel",
}
"""What is said instead of a banner."""

TOO_MANY_CONNECTIONS = "421 4.7.0 {host} Error: too many connections from {client}"
REFUSED_EHLO = "550 Access denied - Invalid HELO name (See RFC2821 4.1.1.1)"
REFUSED_MAIL = "553 5.1.8 <>: Sender address rejected: we do not accept mail from your network"
TLS_FIRST = "530 5.7.0 Must issue a STARTTLS command first"
TLS_BROKEN = "454 4.7.0 TLS not available due to local problem"
TOO_MANY_RECIPIENTS = "452 4.5.3 Error: too many recipients"
GOODBYE = "421 4.7.0 {host} Error: too many recipients, closing transmission channel"
TOO_FAST = "450 4.7.1 Error: too many recipients from {client}, rate limit exceeded, slow down"
RELAY = "554 5.7.1 <{address}>: Relay access denied"
UTF8_NOT_OFFERED = "553 5.6.7 <>: Recipient address rejected: non-ASCII addresses are not permitted here"

BLOCKED_RCPT = "554 5.7.1 Service unavailable; Client host [{client}] blocked using bl.spamcop.net"
NO_REVERSE_NAME = "550 5.7.25 Client host rejected: cannot find your reverse hostname, [{client}]"
BLANKET = "550 5.4.1 Recipient address rejected: Access denied"
STAMPED = (
    "550 5.4.1 Recipient address rejected: Access denied. For more information see "
    "https://aka.ms/EXOSmtpErrors [{token}.eop-EUR05.prod.protection.outlook.com {stamp} {token}]"
)
TEMPORARY = "451 4.3.0 <{address}>: Temporary lookup failure"
UNCLEAR = "554 Transaction failed"
GREYLIST = (
    "450 4.2.0 <{address}>: Recipient address rejected: Greylisted, "
    "see http://postgrey.schweikert.ch/help/{host}.html"
)
GREYLIST_NAMED = (
    "450 4.2.0 <{address}>: Recipient address rejected: Greylisted, please try again in {seconds} seconds"
)
GREYLIST_VAGUE = (
    "451 Internal resources are temporarily unavailable - https://community.mimecast.com/docs/DOC-1369#451"
)
