"""What Postfix, Exim and OpenSMTPD said when this was written: data only."""

from __future__ import annotations

from dataclasses import dataclass

from mailsift.pipeline.facts import Answer
from mailsift.pipeline.replies.table import Stage
from tests.external.mta import exim, opensmtpd, postfix
from tests.external.mta.domains import CLEAN, CROWD, HELO, SHADY, STRANGER_HELO, Site

_SERVERS = {"postfix": postfix.SITES, "exim": exim.SITES, "opensmtpd": opensmtpd.SITES}


@dataclass(frozen=True, slots=True)
class Case:
    """What a server says to a recipient, or before it comes to that.

    Attributes:
        server, habit: where.
        box: local part of the recipient.
        code, text: the reply; `{box}` is the recipient's address.
        answer: what it means.
        source, helo: who we are.
        stage: what it replies to.
        after: recipients to ask first.
    """

    server: str
    habit: str
    box: str
    code: int
    text: str
    answer: Answer
    source: str = CLEAN
    helo: str = HELO
    stage: Stage = Stage.RCPT
    after: tuple[str, ...] = ()

    @property
    def site(self) -> Site:
        return _SERVERS[self.server][self.habit]

    @property
    def name(self) -> str:
        return f"{self.habit}-{self.box}"


_REJECTED = "<{box}>: Recipient address rejected: "
_NO_NAME = "Client host rejected: cannot find your reverse hostname, [127.0.5.201]"
_NO_HELO = "<no-such.test>: Helo command rejected: Host not found"
POSTFIX = [
    Case("postfix", "plain", "ann", 250, "2.1.5 Ok", Answer.ACCEPTED),
    Case(
        "postfix",
        "plain",
        "ghost",
        550,
        f"5.1.1 {_REJECTED}User unknown in virtual mailbox table",
        Answer.NOT_FOUND,
    ),
    Case(
        "postfix",
        "local",
        "ghost",
        550,
        f"5.1.1 {_REJECTED}User unknown in local recipient table",
        Answer.NOT_FOUND,
    ),
    Case(
        "postfix",
        "relay",
        "ghost",
        550,
        f"5.1.1 {_REJECTED}User unknown in relay recipient table",
        Answer.NOT_FOUND,
    ),
    Case(
        "postfix",
        "alias",
        "ghost",
        550,
        f"5.1.1 {_REJECTED}User unknown in virtual alias table",
        Answer.NOT_FOUND,
    ),
    Case("postfix", "silent", "ghost", 550, f"5.1.1 {_REJECTED}User unknown", Answer.NOT_FOUND),
    Case("postfix", "plain", "members", 554, f"5.7.1 {_REJECTED}Access denied", Answer.REFUSED_US),
    Case("postfix", "plain", "closed", 554, f"5.2.1 {_REJECTED}Account disabled", Answer.DISABLED),
    Case(
        "postfix",
        "plain",
        "full",
        552,
        f"5.2.2 {_REJECTED}Quota exceeded (mailbox for user is full)",
        Answer.FULL,
    ),
    Case("postfix", "elsewhere", "ann", 554, "5.7.1 <{box}>: Relay access denied", Answer.REFUSED_US),
    Case(
        "postfix",
        "grey",
        "user1",
        450,
        f"4.2.0 {_REJECTED}Greylisted, see http://postgrey.schweikert.ch/help/grey.postfix.test.html",
        Answer.GREYLISTED,
    ),
    Case("postfix", "reverse", "ann", 450, f"4.7.1 {_NO_NAME}", Answer.REFUSED_US, source=SHADY),
    Case("postfix", "reverse-550", "ann", 550, f"5.7.1 {_NO_NAME}", Answer.REFUSED_US, source=SHADY),
    Case(
        "postfix",
        "reverse-at-once",
        "ann",
        450,
        f"4.7.1 {_NO_NAME}",
        Answer.REFUSED_US,
        source=SHADY,
        stage=Stage.BANNER,
    ),
    Case(
        "postfix",
        "confirmed",
        "ann",
        450,
        "4.7.25 Client host rejected: cannot find your hostname, [127.0.5.201]",
        Answer.REFUSED_US,
        source=SHADY,
    ),
    Case("postfix", "helo", "ann", 450, f"4.7.1 {_NO_HELO}", Answer.REFUSED_US, helo=STRANGER_HELO),
    Case("postfix", "helo-550", "ann", 550, f"5.7.1 {_NO_HELO}", Answer.REFUSED_US, helo=STRANGER_HELO),
    Case(
        "postfix",
        "listed",
        "ann",
        554,
        "5.7.1 Service unavailable; Client host [127.0.5.201] blocked using bl.test;"
        " This address has sent spam",
        Answer.REFUSED_US,
        source=SHADY,
    ),
    Case(
        "postfix", "sender", "ann", 554, "5.7.1 <>: Sender address rejected: Access denied", Answer.REFUSED_US
    ),
    Case(
        "postfix",
        "tls-only",
        "ann",
        530,
        "5.7.0 Must issue a STARTTLS command first",
        Answer.REFUSED_US,
        stage=Stage.MAIL,
    ),
    Case(
        "postfix",
        "few-recipients",
        "ann",
        452,
        "4.5.3 Error: too many recipients",
        Answer.RATE_LIMITED,
        after=CROWD[: postfix.RECIPIENTS],
    ),
    Case(
        "postfix",
        "few-errors",
        "ann",
        421,
        "4.7.0 mx.postfix.test Error: too many errors",
        Answer.RATE_LIMITED,
        after=("ghost1", "ghost2", "ghost3", "ghost4"),
    ),
    Case(
        "postfix",
        "slow-recipients",
        "ann",
        450,
        "4.7.1 Error: too many recipients from 127.0.5.201",
        Answer.RATE_LIMITED,
        source=SHADY,
        after=CROWD[: postfix.RECIPIENTS],
    ),
]
EXIM = [
    Case(
        "exim",
        "callout",
        "ghost",
        550,
        "Callout verification failed: 550 Unrouteable address",
        Answer.NOT_FOUND,
    ),
    Case(
        "exim",
        "callout-refused",
        "ann",
        550,
        "Callout verification failed: 550 relay not permitted",
        Answer.REFUSED_US,
    ),
    Case("exim", "callout-down", "ann", 451, "Could not complete recipient verify callout", Answer.TEMPORARY),
    Case("exim", "plain", "ann", 250, "Accepted", Answer.ACCEPTED),
    Case("exim", "plain", "ghost", 550, "Unrouteable address", Answer.NOT_FOUND),
    Case("exim", "plain", "closed", 550, "this account has been disabled", Answer.DISABLED),
    Case("exim", "plain", "later", 451, "the directory is being moved", Answer.TEMPORARY),
    Case("exim", "elsewhere", "ann", 550, "relay not permitted", Answer.REFUSED_US),
    Case(
        "exim",
        "listed",
        "ann",
        550,
        "JunkMail rejected - (probe.test) [127.0.5.201] is in an RBL: This address has sent spam",
        Answer.REFUSED_US,
        source=SHADY,
    ),
    Case("exim", "reverse", "ann", 550, "Administrative prohibition", Answer.REFUSED_US, source=SHADY),
    Case(
        "exim",
        "helo",
        "ann",
        550,
        "Access denied - Invalid HELO name (See RFC2821 4.1.1.1)",
        Answer.REFUSED_US,
        helo=STRANGER_HELO,
        stage=Stage.EHLO,
    ),
    Case("exim", "defer", "ann", 451, "Temporary local problem - please try later", Answer.TEMPORARY),
    Case(
        "exim",
        "defer-helo",
        "ann",
        451,
        "Temporary local problem - please try later",
        Answer.TEMPORARY,
        stage=Stage.EHLO,
    ),
    Case(
        "exim",
        "few-recipients",
        "ann",
        452,
        "too many recipients",
        Answer.RATE_LIMITED,
        after=CROWD[: exim.RECIPIENTS],
    ),
]
OPENSMTPD = [
    Case("opensmtpd", "plain", "ann", 250, "2.1.5 Destination address valid: Recipient ok", Answer.ACCEPTED),
    Case(
        "opensmtpd", "plain", "ghost", 524, "5.2.4 Mailing list expansion problem: <{box}>", Answer.NOT_FOUND
    ),
    Case("opensmtpd", "system", "ghost", 550, "Invalid recipient: <{box}>", Answer.NOT_FOUND),
    Case("opensmtpd", "elsewhere", "ann", 550, "Invalid recipient: <{box}>", Answer.NOT_FOUND),
    Case(
        "opensmtpd",
        "reverse",
        "ann",
        550,
        "no rDNS is so 80s",
        Answer.REFUSED_US,
        source=SHADY,
        stage=Stage.BANNER,
    ),
    Case("opensmtpd", "helo", "ann", 550, "go away", Answer.REFUSED_US, helo=STRANGER_HELO, stage=Stage.EHLO),
    Case("opensmtpd", "later", "ann", 421, "try again later", Answer.TEMPORARY),
    Case(
        "opensmtpd",
        "few-recipients",
        "ann",
        451,
        "4.5.3 Too many recipients: Too many recipients",
        Answer.RATE_LIMITED,
        after=CROWD[: opensmtpd.RECIPIENTS],
    ),
]
