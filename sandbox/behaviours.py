"""How domains and their mail servers behave: the vocabulary, a table with a row a behaviour, the truth.

The sandbox says itself what the right verdict is, and asks nobody whose verdicts it judges.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from mailsift.sandbox.population import Mailbox

# The vocabulary.


class DnsBehaviour(StrEnum):
    """How a domain answers DNS queries."""

    MX = "mx"
    IMPLICIT = "implicit"  # no MX, an A record (RFC 5321 section 5.1)
    CNAME = "cname"  # the domain is an alias; the target has the MX
    MX_CNAME = "mx_cname"  # the exchanger's name is an alias
    TRUNCATED = "truncated"  # over UDP always TC
    SLOW = "slow"
    FLAKY = "flaky"  # the first query over UDP is lost
    MANY_MX = "many_mx"  # 1,000 MX records
    MIXED = "mixed"  # first MX at private addresses only, second is good
    NXDOMAIN = "nxdomain"
    NODATA = "nodata"  # exists, but no MX and no address
    NULL_MX = "null_mx"  # RFC 7505
    PRIVATE = "private"  # MX at 10.11.12.13
    SPECIAL = "special"  # MX at link-local, multicast, IPv4-mapped, NAT64 and 6to4 addresses
    LITERAL = "literal"  # the exchanger's name is an IP address
    DANGLING = "dangling"  # the exchanger's name does not exist
    SERVFAIL = "servfail"
    REFUSED = "refused"
    SILENT = "silent"


class OnConnect(StrEnum):
    """What happens to a connection."""

    OPEN = "open"
    RESET = "reset"  # the connection is reset before a banner
    REFUSED = "refused"  # the only address is ::1, where nobody listens
    BLACKHOLE = "blackhole"  # the connection is never established
    MUTE = "mute"  # established, but no banner ever comes
    BUSY = "busy"  # 421 instead of a banner
    BLOCKED = "blocked"  # 554 instead of a banner


class ReplyPace(StrEnum):
    """How fast replies come."""

    PROMPT = "prompt"
    TARPIT = "tarpit"  # each reply takes seconds, one after the other
    DRIP = "drip"  # one byte a second


class Starttls(StrEnum):
    """What STARTTLS does (RFC 3207)."""

    NONE = "none"
    OFFERED = "offered"
    REQUIRED = "required"  # MAIL is refused without
    BROKEN = "broken"  # offered, but refused with 454 when asked for


class HostileReply(StrEnum):
    """Hostile replies."""

    NONE = "none"
    ENDLESS = "endless"  # the reply to EHLO has no last line
    GIANT = "giant"  # the banner is a line without an end
    CONTROL = "control"  # control bytes and a forged line in the banner


class RecipientPolicy(StrEnum):
    """What RCPT is answered with."""

    MAILBOXES = "mailboxes"  # known mailboxes only
    ACCEPT = "accept"  # every recipient
    BLANKET = "blanket"  # the same refusal to every recipient
    STAMPED = "stamped"  # the same, with a time stamp and a token in it
    GREYLIST = "greylist"  # the first contact is deferred
    GREYLIST_NAMED = "greylist_named"  # deferred, saying for how long
    GREYLIST_VAGUE = "greylist_vague"  # deferred in words that do not speak of greylisting
    BLOCK = "block"  # refused because of the client's address
    POLICY = "policy"  # refused because of the client's reverse name
    TEMPORARY = "temporary"  # 451 for ever
    UNCLEAR = "unclear"  # a permanent refusal that says nothing
    SOFT_BOUNCE = "soft_bounce"  # known mailboxes only, but every refusal is temporary
    VERIFY_LATER = "verify_later"  # asks the server behind, and answers 450 with its refusal
    VERIFY = "verify"  # asks the server behind; 450 until it knows, then 550 with its refusal
    VERIFY_LOOP = "verify_loop"  # could not ask the server behind, and says so with 550
    HARVEST = "harvest"  # known mailboxes only, and after six unknown ones nobody for a while
    AWAY = "away"  # known mailboxes only, and after eight recipients for a while 451 to everybody
    GATEWAY = "gateway"  # known mailboxes only; bans who asks for five unknown ones in a minute, half of all
    BANNED = "banned"  # refused for hours, for having asked too much


@dataclass(frozen=True, slots=True)
class HostPolicy:
    """How a mail server treats its clients.

    Attributes:
        mta: the family whose wordings it uses (mailsift.sandbox.smtp_replies).
        refuses: the command (ehlo, mail) that is refused permanently; HELO goes with EHLO.
        recipients: RCPT commands taken in one transaction, 0 = any number.
        goodbye: what comes after them is 421 and the end of the session, else 452 4.5.3.
        connections: sessions at a time, 0 = any number; one more is sent away with 421.
        rate: RCPT commands a second, 0 = any number; more are answered with 450.
        per_minute: RCPT commands of a client a minute, 0 = any number; more are answered with 451.
        drops: the command (mail, rcpt) at which the connection is dropped.
        drops_once: only the first session is.
    """

    mta: str = "postfix"
    on_connect: OnConnect = OnConnect.OPEN
    pace: ReplyPace = ReplyPace.PROMPT
    refuses: str = ""
    recipients: int = 0
    goodbye: bool = False
    connections: int = 0
    rate: int = 0
    per_minute: int = 0
    drops: str = ""
    drops_once: bool = False
    pipelining: bool = True
    esmtp: bool = True
    smtputf8: bool = True
    tls: Starttls = Starttls.NONE
    reply: HostileReply = HostileReply.NONE


@dataclass(frozen=True, slots=True)
class MailHost:
    """One mail server: a name, its loopback address and what it is like.

    Attributes:
        name: ASCII host name; other names may share the address.
        address: IPv4 address in 127.0.0.0/8; ::1 for OnConnect.REFUSED.
        label: the world's name for who runs it; the registrable domain of the name, or a provider's key.
    """

    name: str
    address: str
    label: str
    policy: HostPolicy


@dataclass(frozen=True, slots=True)
class ExpectedVerdict:
    """The right verdict; result is "" where more than one is defensible."""

    status: str
    result: str = ""


_PASSED = ExpectedVerdict("valid", "passed")
DISPOSABLE_VERDICT = ExpectedVerdict("risky", "disposable")
_CATCH_ALL = ExpectedVerdict("risky", "catch_all")
UNVERIFIABLE = ExpectedVerdict("risky", "unverifiable")
_BLOCKED = ExpectedVerdict("risky", "probe_blocked")
_UNREACHABLE = ExpectedVerdict("risky", "unreachable")
_DEFERRED = ExpectedVerdict("risky", "deferred")
_RISKY = ExpectedVerdict("risky")


# The table.

_SCENARIOS = "sandbox.test"
"""The zone of the scenario domains (RFC 2606): `<behaviour>.sandbox.test` exists in every world."""

_PLAIN = HostPolicy()
"""Postfix with PIPELINING and SMTPUTF8, without STARTTLS."""


@dataclass(frozen=True, slots=True)
class Behaviour:
    """One behaviour of a domain and its mail servers.

    Attributes:
        name: of the scenario: `<name>.sandbox.test`.
        deep: the verdict on every address in mode deep; None: the mailboxes decide.
        rcpt: what RCPT is answered with.
        policy: of the mail server; of the second one when there is a `first`.
        first: policy of a better exchanger before it.
        plain, hostile: share of the business domains of a world, in 1/10,000; at least one domain each
            unless 0.
        slow: an address costs seconds, so such domains get few rows in a list.
    """

    name: str
    deep: ExpectedVerdict | None = None
    dns: DnsBehaviour = DnsBehaviour.MX
    rcpt: RecipientPolicy = RecipientPolicy.MAILBOXES
    policy: HostPolicy = _PLAIN
    first: HostPolicy | None = None
    plain: int = 0
    hostile: int = 0
    slow: bool = False

    @property
    def domain(self) -> str:
        """The scenario domain."""
        return f"{self.name}.{_SCENARIOS}"


_B = Behaviour

_ORDINARY = (
    _B("ordinary"),  # what a domain is when no other row claims it: Postfix, known mailboxes only
    _B("exim", policy=HostPolicy(mta="exim", smtputf8=False), plain=700, hostile=400),
    _B("exchange", policy=HostPolicy(mta="exchange"), plain=400, hostile=300),
    _B("exchange-online", policy=HostPolicy(mta="exchange_online"), plain=100, hostile=100),
    _B("google-like", policy=HostPolicy(mta="google"), plain=50, hostile=50),
    _B("outlook-like", policy=HostPolicy(mta="outlook"), plain=50, hostile=50),
    _B("sendmail", policy=HostPolicy(mta="sendmail", smtputf8=False), plain=100, hostile=100),
    _B("qmail", policy=HostPolicy(mta="qmail", smtputf8=False), plain=100, hostile=100),
    _B("opensmtpd", policy=HostPolicy(mta="opensmtpd"), plain=50, hostile=50),
    _B("catch-all", _CATCH_ALL, rcpt=RecipientPolicy.ACCEPT, plain=800, hostile=600),
    _B("blanket", UNVERIFIABLE, rcpt=RecipientPolicy.BLANKET, plain=100, hostile=150),
    _B("blanket-stamped", UNVERIFIABLE, rcpt=RecipientPolicy.STAMPED, hostile=50),
)

_DNS = (
    _B("implicit-mx", dns=DnsBehaviour.IMPLICIT, plain=150, hostile=150),
    _B("cname", dns=DnsBehaviour.CNAME, plain=50, hostile=50),
    _B("mx-cname", dns=DnsBehaviour.MX_CNAME, plain=50, hostile=50),
    _B("truncated", dns=DnsBehaviour.TRUNCATED, plain=20, hostile=50),
    _B("dns-slow", dns=DnsBehaviour.SLOW, plain=5, hostile=50),
    _B("dns-flaky", dns=DnsBehaviour.FLAKY, plain=5, hostile=50),
    _B("many-mx", dns=DnsBehaviour.MANY_MX, hostile=10),
    _B("mx-mixed", dns=DnsBehaviour.MIXED, plain=10, hostile=50),
    _B("nxdomain", dns=DnsBehaviour.NXDOMAIN, plain=250, hostile=200),
    _B("no-mail", dns=DnsBehaviour.NODATA, plain=80, hostile=100),
    _B("null-mx", dns=DnsBehaviour.NULL_MX, plain=80, hostile=100),
    _B("mx-private", dns=DnsBehaviour.PRIVATE, plain=20, hostile=50),
    _B("mx-special", dns=DnsBehaviour.SPECIAL, plain=5, hostile=50),
    _B("mx-literal", dns=DnsBehaviour.LITERAL, plain=10, hostile=50),
    _B("mx-dangling", dns=DnsBehaviour.DANGLING, plain=20, hostile=50),
    _B("servfail", dns=DnsBehaviour.SERVFAIL, plain=20, hostile=50),
    _B("dns-refused", dns=DnsBehaviour.REFUSED, plain=10, hostile=50),
    _B("dns-silent", dns=DnsBehaviour.SILENT, plain=2, hostile=20),
    _B("flood"),  # every name below it exists too: a1.flood.sandbox.test …
    _B("victim"),  # victim-1.test, victim-2.test … use its server too
)

_ABOUT_US = (
    _B("blocked-banner", _BLOCKED, policy=HostPolicy(on_connect=OnConnect.BLOCKED), hostile=50),
    _B("blocked-ehlo", _BLOCKED, policy=HostPolicy(mta="exim", refuses="ehlo"), hostile=50),
    _B("blocked-mail", _BLOCKED, policy=HostPolicy(refuses="mail"), hostile=50),
    _B("blocked-rcpt", _BLOCKED, rcpt=RecipientPolicy.BLOCK, hostile=50),
    _B("blocked-policy", _BLOCKED, rcpt=RecipientPolicy.POLICY, hostile=50),
    _B("greylist", rcpt=RecipientPolicy.GREYLIST, hostile=100),
    _B("greylist-named", rcpt=RecipientPolicy.GREYLIST_NAMED, hostile=100),
    _B("greylist-vague", rcpt=RecipientPolicy.GREYLIST_VAGUE, hostile=50),
    _B("tempfail", _DEFERRED, rcpt=RecipientPolicy.TEMPORARY, hostile=30),
    _B("soft-bounce", _RISKY, rcpt=RecipientPolicy.SOFT_BOUNCE, hostile=30),
    _B("verify-450", _RISKY, rcpt=RecipientPolicy.VERIFY_LATER, hostile=30),
    _B("verify-550", rcpt=RecipientPolicy.VERIFY, hostile=50),
    _B("verify-loop", _RISKY, rcpt=RecipientPolicy.VERIFY_LOOP, hostile=30),
    _B("directory-away", rcpt=RecipientPolicy.AWAY, hostile=1),
    _B("banned", _BLOCKED, rcpt=RecipientPolicy.BANNED, hostile=1),
    _B("busy", _RISKY, policy=HostPolicy(on_connect=OnConnect.BUSY), hostile=30),
    _B("unclear", _RISKY, rcpt=RecipientPolicy.UNCLEAR, hostile=30),
)

_LIMITS = (
    _B("harvest-defence", rcpt=RecipientPolicy.HARVEST, hostile=50),
    _B("recipients-421", policy=HostPolicy(recipients=5, goodbye=True), hostile=50),
    _B("recipients-452", policy=HostPolicy(recipients=5), hostile=50),
    _B("connections", policy=HostPolicy(connections=1), hostile=50),
    _B("rate", policy=HostPolicy(rate=5), hostile=30, slow=True),
    _B("rate-minute", policy=HostPolicy(mta="exchange", per_minute=10), hostile=1, slow=True),
    _B("no-pipelining", policy=HostPolicy(pipelining=False), hostile=100),
    _B(
        "helo-only",
        policy=HostPolicy(mta="qmail", esmtp=False, pipelining=False, smtputf8=False),
        hostile=50,
    ),
    _B("no-smtputf8", policy=HostPolicy(smtputf8=False), hostile=50),
    _B("starttls", policy=HostPolicy(tls=Starttls.OFFERED), hostile=100),
    _B("starttls-required", policy=HostPolicy(tls=Starttls.REQUIRED), hostile=50),
    _B("starttls-broken", policy=HostPolicy(tls=Starttls.BROKEN), hostile=50),
)

_TROUBLE = (
    _B("tarpit", policy=HostPolicy(pace=ReplyPace.TARPIT), hostile=20, slow=True),
    _B("drip", _UNREACHABLE, policy=HostPolicy(pace=ReplyPace.DRIP), hostile=20, slow=True),
    _B("drop-mail", _RISKY, policy=HostPolicy(drops="mail"), hostile=30),
    _B("drop-rcpt", _RISKY, policy=HostPolicy(drops="rcpt"), hostile=30),
    _B("drop-once", policy=HostPolicy(drops="rcpt", drops_once=True), hostile=30),
    _B("reset", _UNREACHABLE, policy=HostPolicy(on_connect=OnConnect.RESET), hostile=30),
    _B("refused", _UNREACHABLE, policy=HostPolicy(on_connect=OnConnect.REFUSED), hostile=30),
    _B(
        "blackhole",
        _UNREACHABLE,
        policy=HostPolicy(on_connect=OnConnect.BLACKHOLE),
        hostile=20,
        slow=True,
    ),
    _B("mute", _UNREACHABLE, policy=HostPolicy(on_connect=OnConnect.MUTE), hostile=20, slow=True),
    _B("next-mx-refused", first=HostPolicy(on_connect=OnConnect.REFUSED), hostile=50),
    _B("next-mx-reset", first=HostPolicy(on_connect=OnConnect.RESET), hostile=50),
    _B("next-mx-blackhole", first=HostPolicy(on_connect=OnConnect.BLACKHOLE), hostile=20, slow=True),
    _B("next-mx-busy", first=HostPolicy(on_connect=OnConnect.BUSY), hostile=50),
    _B("endless-reply", _RISKY, policy=HostPolicy(reply=HostileReply.ENDLESS), hostile=20, slow=True),
    _B("giant-line", _RISKY, policy=HostPolicy(reply=HostileReply.GIANT), hostile=20, slow=True),
    _B("control-banner", policy=HostPolicy(reply=HostileReply.CONTROL), hostile=30),
)

BEHAVIOURS: tuple[Behaviour, ...] = (*_ORDINARY, *_DNS, *_ABOUT_US, *_LIMITS, *_TROUBLE)
"""Every behaviour there is."""

BY_NAME = {behaviour.name: behaviour for behaviour in BEHAVIOURS}


# The truth.

_NO_DNS = ExpectedVerdict("risky", "dns_unavailable")
_UNROUTABLE = ExpectedVerdict("invalid", "unroutable")

VERDICT_BY_DNS: dict[DnsBehaviour, ExpectedVerdict] = {
    DnsBehaviour.NXDOMAIN: ExpectedVerdict("invalid", "domain_not_found"),
    DnsBehaviour.NODATA: ExpectedVerdict("invalid", "no_mail_server"),
    DnsBehaviour.NULL_MX: ExpectedVerdict("invalid", "null_mx"),
    DnsBehaviour.PRIVATE: _UNROUTABLE,
    DnsBehaviour.SPECIAL: _UNROUTABLE,
    DnsBehaviour.LITERAL: _UNROUTABLE,
    DnsBehaviour.DANGLING: ExpectedVerdict("invalid"),
    DnsBehaviour.SERVFAIL: _NO_DNS,
    DnsBehaviour.REFUSED: _NO_DNS,
    DnsBehaviour.SILENT: _NO_DNS,
}
"""The states that already decide in mode medium; all others are routed."""

_VERDICT_BY_MAILBOX: dict[Mailbox, ExpectedVerdict] = {
    Mailbox.EXISTS: ExpectedVerdict("valid", "deliverable"),
    Mailbox.MISSING: ExpectedVerdict("invalid", "mailbox_not_found"),
    Mailbox.FULL: ExpectedVerdict("risky", "mailbox_full"),
    Mailbox.DISABLED: ExpectedVerdict("invalid", "mailbox_disabled"),
}
"""What a server that looks at mailboxes makes of them, once it has been asked properly."""


@dataclass(frozen=True, slots=True)
class Truth:
    """The right verdict in each mode."""

    fast: ExpectedVerdict
    medium: ExpectedVerdict
    deep: ExpectedVerdict


_SYNTAX_ERROR = ExpectedVerdict("invalid", "syntax_error")

TRUTH_OF_SYNTAX_ERROR = Truth(_SYNTAX_ERROR, _SYNTAX_ERROR, _SYNTAX_ERROR)
"""About text that is no address."""

TRUTH_OF_DISPOSABLE = Truth(DISPOSABLE_VERDICT, DISPOSABLE_VERDICT, DISPOSABLE_VERDICT)
"""About an address at a throw-away domain that works."""


def truth_of_address(
    dns: DnsBehaviour, deep: ExpectedVerdict | None, mailbox: Mailbox, *, askable: bool
) -> Truth:
    """Return the truth about an address of a domain.

    Args:
        dns: how the domain answers DNS.
        deep: the verdict on every address of the domain, None when its mailboxes decide.
        mailbox: what there is behind the address.
        askable: whether the server can be asked about it (RFC 6531: non-ASCII needs SMTPUTF8).
    """
    if dns in VERDICT_BY_DNS:
        return Truth(_PASSED, VERDICT_BY_DNS[dns], VERDICT_BY_DNS[dns])
    if askable:
        return Truth(_PASSED, _PASSED, deep or _VERDICT_BY_MAILBOX[mailbox])
    return Truth(_PASSED, _PASSED, _RISKY if deep else UNVERIFIABLE)
