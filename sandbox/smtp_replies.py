"""What mail servers say: the words of nine families, and which of them RCPT is answered with."""

from __future__ import annotations

import math
import random
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass

from mailsift.sandbox.behaviours import MailHost, OnConnect, RecipientPolicy
from mailsift.sandbox.counters import Counters
from mailsift.sandbox.population import Mailbox
from mailsift.sandbox.world import SandboxConfig, SandboxDomain, SandboxWorld


@dataclass(frozen=True, slots=True)
class ServerWording:
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


WORDINGS: dict[str, ServerWording] = {
    "postfix": ServerWording(
        banner="{host} ESMTP Postfix (Debian/GNU)",
        hello="{host}",
        mail="250 2.1.0 Ok",
        rcpt="250 2.1.5 Ok",
        missing="550 5.1.1 <{address}>: Recipient address rejected: User unknown in virtual mailbox table",
        full="452 4.2.2 <{address}>: Recipient address rejected: mailbox is over quota",
        disabled="550 5.2.1 <{address}>: Recipient address rejected: this account has been disabled",
        bye="221 2.0.0 Bye",
    ),
    "exim": ServerWording(
        banner="{host} ESMTP Exim 4.97.1 Sat, 21 Nov 2026 09:12:44 +0000",
        hello="{host} Hello probe [{client}]",
        mail="250 OK",
        rcpt="250 Accepted",
        missing="550 No Such User Here",
        full="552 The mailbox of this user is full: quota exceeded",
        disabled="550 5.2.1 The account of this user has been suspended",
        bye="221 {host} closing connection",
    ),
    "exchange": ServerWording(
        banner="{host} Microsoft ESMTP MAIL Service ready at Sat, 21 Nov 2026 09:12:44 +0100",
        hello="{host} Hello [{client}]",
        mail="250 2.1.0 Sender OK",
        rcpt="250 2.1.5 Recipient OK",
        missing="550 5.1.1 User unknown",
        full="452 4.2.2 Mailbox full",
        disabled="550 5.2.1 Mailbox disabled, not accepting messages",
        bye="221 2.0.0 Service closing transmission channel",
    ),
    "exchange_online": ServerWording(
        banner="{token}.mail.protection.outlook.com Microsoft ESMTP MAIL Service ready at Sat, 21 Nov 2026",
        hello="{token}.mail.protection.outlook.com Hello [{client}]",
        mail="250 2.1.0 Sender OK",
        rcpt="250 2.1.5 Recipient OK",
        missing="550 5.1.10 RESOLVER.ADR.RecipientNotFound; {address} not found by SMTP address lookup",
        full="554 5.2.2 Mailbox full; the recipient's mailbox has exceeded its storage quota",
        disabled="550 5.2.1 Mailbox disabled for this recipient; the account is inactive",
        bye="221 2.0.0 Service closing transmission channel",
    ),
    "google": ServerWording(
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
    "outlook": ServerWording(
        banner="{token}.olc.protection.outlook.com Microsoft ESMTP MAIL Service ready at Sat, 21 Nov 2026",
        hello="{token}.olc.protection.outlook.com Hello [{client}]",
        mail="250 2.1.0 Sender OK",
        rcpt="250 2.1.5 Recipient OK",
        missing="550 5.5.0 Requested action not taken: mailbox unavailable (S2017062302). [{token}]",
        full="452 4.2.2 The recipient's mailbox is full [{token}]",
        disabled="550 5.2.1 The mailbox of this recipient is disabled [{token}]",
        bye="221 2.0.0 Service closing transmission channel",
    ),
    "sendmail": ServerWording(
        banner="{host} ESMTP Sendmail 8.18.1/8.18.1; Sat, 21 Nov 2026 09:12:44 +0100",
        hello="{host} Hello probe [{client}], pleased to meet you",
        mail="250 2.1.0 <>... Sender ok",
        rcpt="250 2.1.5 <{address}>... Recipient ok",
        missing="550 5.1.1 <{address}>... User unknown",
        full="552 5.2.2 <{address}>... Mailbox full",
        disabled="550 5.2.1 <{address}>... Mailbox disabled for this recipient",
        bye="221 2.0.0 {host} closing connection",
    ),
    "qmail": ServerWording(
        banner="{host} ESMTP",
        hello="{host}",
        mail="250 ok",
        rcpt="250 ok",
        missing="550 sorry, no mailbox here by that name. (#5.1.1)",
        full="552 sorry, the mailbox of this user is over quota (#5.2.2)",
        disabled="550 sorry, this account has been disabled (#5.2.1)",
        bye="221 {host}",
    ),
    "opensmtpd": ServerWording(
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

INSTEAD_OF_BANNER = {
    OnConnect.BLOCKED: (
        "554 5.7.1 Service unavailable; Client host [{client}] blocked using zen.spamhaus.org; "
        "https://www.spamhaus.org/query/ip/{client}"
    ),
    OnConnect.BUSY: "421 4.3.2 {host} Service not available, closing transmission channel",
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
TOO_MANY_A_MINUTE = "451 4.7.1 You have exceeded the limit of recipients per minute. Please try again later"
BANNED = "554 5.7.1 Access denied: your IP [{client}] is banned for 4 hours"
AWAY = "451 4.3.0 <{address}>: Recipient address rejected: directory service is not available"
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

VERIFY_BUSY = (
    "450 4.1.1 <{address}>: Recipient address rejected: unverified address: Address verification in progress"
)
VERIFY_LATER = "450 4.1.1 <{address}>: Recipient address rejected: unverified address: {reason}"
VERIFY = "550 5.1.1 <{address}>: Recipient address rejected: undeliverable address: {reason}"
VERIFY_LOOP = (
    "550 5.1.1 <{address}>: Recipient address rejected: undeliverable address: "
    "mail for {host} loops back to myself"
)
BEHIND = "host 10.0.0.25[10.0.0.25] said: {refusal} (in reply to RCPT TO command)"

_REMEMBERED = 200_000  # greylisted triplets kept; the oldest go first
_BEFORE_AWAY = 8  # recipients before RecipientPolicy.AWAY loses its directory, once
_GATEWAY_UNKNOWN = 5  # unknown mailboxes of a minute for which RecipientPolicy.GATEWAY bans
_BAN_SECONDS = 10_800.0
_MOST_UNKNOWN = 6  # unknown mailboxes after which RecipientPolicy.HARVEST knows nobody any more

# Policies that answer every recipient alike.
_ALIKE = {
    RecipientPolicy.BLANKET: BLANKET,
    RecipientPolicy.STAMPED: STAMPED,
    RecipientPolicy.BLOCK: BLOCKED_RCPT,
    RecipientPolicy.POLICY: NO_REVERSE_NAME,
    RecipientPolicy.TEMPORARY: TEMPORARY,
    RecipientPolicy.UNCLEAR: UNCLEAR,
    RecipientPolicy.BANNED: BANNED,
    RecipientPolicy.VERIFY_LOOP: VERIFY_LOOP,
}
_EARLY = {
    RecipientPolicy.GREYLIST: GREYLIST,
    RecipientPolicy.GREYLIST_NAMED: GREYLIST_NAMED,
    RecipientPolicy.GREYLIST_VAGUE: GREYLIST_VAGUE,
    RecipientPolicy.VERIFY: VERIFY_BUSY,
}


@dataclass(frozen=True, slots=True)
class RcptCommand:
    """One RCPT command.

    Attributes:
        host: the server that was asked.
        client: the asker's IP.
        sender: the address in MAIL FROM, "" for the null sender.
        local, domain: the address in lower case.
    """

    host: MailHost
    client: str
    sender: str
    local: str
    domain: str

    @property
    def address(self) -> str:
        """The address as one text."""
        return f"{self.local}@{self.domain}"


def _refusal(policy: RecipientPolicy, text: str) -> str:
    """Return how a refusal is put."""
    if policy is RecipientPolicy.SOFT_BOUNCE:
        return f"4{text[1:]}"
    if policy not in {RecipientPolicy.VERIFY, RecipientPolicy.VERIFY_LATER}:
        return text
    later = policy is RecipientPolicy.VERIFY_LATER or text.startswith("4")
    outer = VERIFY_LATER if later else VERIFY
    return outer.replace("{reason}", BEHIND.replace("{refusal}", text))


class RecipientReplies:
    """Answers RCPT for all servers of a world.

    Args:
        now: monotonic seconds.
        counters: gets the bans.
    """

    def __init__(
        self, world: SandboxWorld, config: SandboxConfig, now: Callable[[], float], counters: Counters
    ) -> None:
        self._world, self._config, self._now, self._counters = world, config, now, counters
        self._asked: dict[tuple[str, str], deque[float]] = {}
        self._away_since: dict[str, float] = {}
        self._before_away: Counter[str] = Counter()
        self._seen: dict[tuple[str, str, str], float] = {}
        self._unknown: dict[tuple[str, str], list[float]] = {}
        self._tokens = random.Random(world.seed)
        self._fates: dict[tuple[str, str], deque[tuple[float, bool]]] = {}
        self._banned_until: dict[tuple[str, str], float] = {}

    def rcpt(self, recipient: RcptCommand) -> str:
        """Return the reply to RCPT: lines with their codes, without line ends."""
        domain = self._world.find(recipient.domain)
        if domain is None or domain.label != recipient.host.label:
            return self.fill(RELAY, recipient.host, recipient.client, recipient.address)
        text = _ALIKE.get(domain.rcpt) or self._by_mailbox(domain, recipient)
        return self.fill(text, recipient.host, recipient.client, recipient.address)

    def fill(self, text: str, host: MailHost, client: str, address: str = "") -> str:
        """Fill in the placeholders of a wording."""
        if "{" not in text:
            return text
        return text.format(
            host=host.name,
            client=client,
            address=address,
            token=f"{self._tokens.getrandbits(56):014X}",
            seconds=math.ceil(self._config.greylist),
            stamp=f"2026-11-21T09:12:{self._now() % 60:06.3f}Z",
        )

    def _by_mailbox(self, domain: SandboxDomain, recipient: RcptCommand) -> str:
        wording = WORDINGS[recipient.host.policy.mta]
        if domain.rcpt is RecipientPolicy.ACCEPT:
            return wording.rcpt
        if later := self._later(domain.rcpt, recipient):
            return later
        fate = self._world.mailbox(recipient.local, recipient.domain)
        if domain.rcpt is RecipientPolicy.GATEWAY and self._is_banned(recipient, fate):
            return BANNED
        if domain.rcpt is RecipientPolicy.HARVEST and self._is_harvester(recipient, fate):
            return wording.missing
        if fate is Mailbox.EXISTS:
            return wording.rcpt
        return _refusal(domain.rcpt, wording.of(fate))

    def _later(self, policy: RecipientPolicy, recipient: RcptCommand) -> str:
        """Return the reply of a server that does not say now what it knows, else ""."""
        if policy in _EARLY and self._is_early(recipient):
            return _EARLY[policy]
        is_away = policy is RecipientPolicy.AWAY and self._is_away(recipient.host)
        return AWAY if is_away else ""

    def is_over_the_minute(self, host: MailHost, client: str) -> bool:
        """Count a RCPT command, and say whether the client has given too many within a minute."""
        asked, now = self._asked.setdefault((client, host.address), deque()), self._now()
        while asked and now - asked[0] >= self._config.minute:
            asked.popleft()
        asked.append(now)
        return len(asked) > host.policy.per_minute

    def _is_away(self, host: MailHost) -> bool:
        """Say whether the server's directory is away: once, after its first recipients."""
        self._before_away[host.address] += 1
        if self._before_away[host.address] <= _BEFORE_AWAY:
            return False
        now = self._now()
        return now - self._away_since.setdefault(host.address, now) < self._config.minute

    def _is_harvester(self, recipient: RcptCommand, fate: Mailbox) -> bool:
        """Say whether the client has asked this server for too many unknown mailboxes."""
        key, now = (recipient.client, recipient.host.address), self._now()
        unknown = [since for since in self._unknown.get(key, ()) if now - since < self._config.harvest]
        caught = len(unknown) >= _MOST_UNKNOWN
        if fate is Mailbox.MISSING and not caught:
            unknown.append(now)
        self._unknown[key] = unknown
        return caught

    def _is_banned(self, recipient: RcptCommand, fate: Mailbox) -> bool:
        """Say whether the client is banned: for unknown mailboxes that are half of all it asked for."""
        key, now = (recipient.client, recipient.host.label), self._now()
        if self._banned_until.get(key, 0.0) > now:
            return True
        asked = self._fates.setdefault(key, deque())
        while asked and now - asked[0][0] >= self._config.minute:
            asked.popleft()
        asked.append((now, fate is Mailbox.MISSING))
        unknown = sum(missing for _, missing in asked)
        if unknown >= _GATEWAY_UNKNOWN and 2 * unknown >= len(asked):
            self._banned_until[key] = now + _BAN_SECONDS
            self._counters.events["bans"] += 1
        return False

    def _is_early(self, recipient: RcptCommand) -> bool:
        """Say whether client, sender and recipient met too short a time ago, as postgrey does."""
        key = (recipient.client, recipient.sender, recipient.address)
        if key not in self._seen and len(self._seen) >= _REMEMBERED:
            del self._seen[next(iter(self._seen))]
        now = self._now()
        return now - self._seen.setdefault(key, now) < self._config.greylist
