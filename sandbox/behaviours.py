"""The one table of behaviours: every row is a scenario domain and a share of the domains of a world."""

from __future__ import annotations

from dataclasses import dataclass

from sandbox import truth
from sandbox.habits import Door, Habits, Pace, Policy, Tls, Trick
from sandbox.truth import Dns, Expected

SCENARIOS = "sandbox.test"
"""The zone of the scenario domains (RFC 2606): `<behaviour>.sandbox.test` exists in every world."""


PLAIN = Habits()
"""Postfix with PIPELINING and SMTPUTF8, without STARTTLS."""


@dataclass(frozen=True, slots=True)
class Behaviour:
    """One behaviour of a domain and its mail servers.

    Attributes:
        name: of the scenario: `<name>.sandbox.test`.
        deep: the verdict on every address in mode deep; None: the mailboxes decide.
        habits: of the mail server; of the second one when there is a `first`.
        first: habits of a better exchanger before it.
        plain, hostile: share of the business domains of a world, in 1/10,000; at least one domain each
            unless 0.
        slow: an address costs seconds, so such domains get few rows in a list.
    """

    name: str
    deep: Expected | None = None
    dns: Dns = Dns.MX
    policy: Policy = Policy.MAILBOXES
    habits: Habits = PLAIN
    first: Habits | None = None
    plain: int = 0
    hostile: int = 0
    slow: bool = False

    @property
    def domain(self) -> str:
        """The scenario domain."""
        return f"{self.name}.{SCENARIOS}"


_B = Behaviour

_ORDINARY = (
    _B("ordinary"),  # what a domain is when no other row claims it: Postfix, known mailboxes only
    _B("exim", habits=Habits(mta="exim", smtputf8=False), plain=700, hostile=400),
    _B("exchange", habits=Habits(mta="exchange"), plain=400, hostile=300),
    _B("exchange-online", habits=Habits(mta="exchange_online"), plain=100, hostile=100),
    _B("google-like", habits=Habits(mta="google"), plain=50, hostile=50),
    _B("outlook-like", habits=Habits(mta="outlook"), plain=50, hostile=50),
    _B("sendmail", habits=Habits(mta="sendmail", smtputf8=False), plain=100, hostile=100),
    _B("qmail", habits=Habits(mta="qmail", smtputf8=False), plain=100, hostile=100),
    _B("opensmtpd", habits=Habits(mta="opensmtpd"), plain=50, hostile=50),
    _B("catch-all", truth.CATCH_ALL, policy=Policy.ACCEPT, plain=800, hostile=600),
    _B("blanket", truth.UNVERIFIABLE, policy=Policy.BLANKET, plain=100, hostile=150),
    _B("blanket-stamped", truth.UNVERIFIABLE, policy=Policy.STAMPED, hostile=50),
)

_DNS = (
    _B("implicit-mx", dns=Dns.IMPLICIT, plain=150, hostile=150),
    _B("cname", dns=Dns.CNAME, plain=50, hostile=50),
    _B("mx-cname", dns=Dns.MX_CNAME, plain=50, hostile=50),
    _B("truncated", dns=Dns.TRUNCATED, plain=20, hostile=50),
    _B("dns-slow", dns=Dns.SLOW, plain=5, hostile=50),
    _B("dns-flaky", dns=Dns.FLAKY, plain=5, hostile=50),
    _B("many-mx", dns=Dns.MANY_MX, hostile=10),
    _B("mx-mixed", dns=Dns.MIXED, plain=10, hostile=50),
    _B("nxdomain", dns=Dns.NXDOMAIN, plain=250, hostile=200),
    _B("no-mail", dns=Dns.NODATA, plain=80, hostile=100),
    _B("null-mx", dns=Dns.NULL_MX, plain=80, hostile=100),
    _B("mx-private", dns=Dns.PRIVATE, plain=20, hostile=50),
    _B("mx-special", dns=Dns.SPECIAL, plain=5, hostile=50),
    _B("mx-literal", dns=Dns.LITERAL, plain=10, hostile=50),
    _B("mx-dangling", dns=Dns.DANGLING, plain=20, hostile=50),
    _B("servfail", dns=Dns.SERVFAIL, plain=20, hostile=50),
    _B("dns-refused", dns=Dns.REFUSED, plain=10, hostile=50),
    _B("dns-silent", dns=Dns.SILENT, plain=2, hostile=20),
    _B("flood"),  # every name below it exists too: a1.flood.sandbox.test …
    _B("victim"),  # victim-1.test, victim-2.test … use its server too
)

_ABOUT_US = (
    _B("blocked-banner", truth.BLOCKED, habits=Habits(door=Door.BLOCKED), hostile=50),
    _B("blocked-ehlo", truth.BLOCKED, habits=Habits(mta="exim", refuses="ehlo"), hostile=50),
    _B("blocked-mail", truth.BLOCKED, habits=Habits(refuses="mail"), hostile=50),
    _B("blocked-rcpt", truth.BLOCKED, policy=Policy.BLOCK, hostile=50),
    _B("blocked-policy", truth.BLOCKED, policy=Policy.POLICY, hostile=50),
    _B("greylist", policy=Policy.GREYLIST, hostile=100),
    _B("greylist-named", policy=Policy.GREYLIST_NAMED, hostile=100),
    _B("greylist-vague", policy=Policy.GREYLIST_VAGUE, hostile=50),
    _B("tempfail", truth.DEFERRED, policy=Policy.TEMPORARY, hostile=30),
    _B("busy", truth.RISKY, habits=Habits(door=Door.BUSY), hostile=30),
    _B("unclear", truth.RISKY, policy=Policy.UNCLEAR, hostile=30),
)

_LIMITS = (
    _B("recipients-421", habits=Habits(recipients=5, goodbye=True), hostile=50),
    _B("recipients-452", habits=Habits(recipients=5), hostile=50),
    _B("connections", habits=Habits(connections=1), hostile=50),
    _B("rate", habits=Habits(rate=5), hostile=30, slow=True),
    _B("no-pipelining", habits=Habits(pipelining=False), hostile=100),
    _B("helo-only", habits=Habits(mta="qmail", esmtp=False, pipelining=False, smtputf8=False), hostile=50),
    _B("no-smtputf8", habits=Habits(smtputf8=False), hostile=50),
    _B("starttls", habits=Habits(tls=Tls.OFFERED), hostile=100),
    _B("starttls-required", habits=Habits(tls=Tls.REQUIRED), hostile=50),
    _B("starttls-broken", habits=Habits(tls=Tls.BROKEN), hostile=50),
)

_TROUBLE = (
    _B("tarpit", habits=Habits(pace=Pace.TARPIT), hostile=20, slow=True),
    _B("drip", truth.UNREACHABLE, habits=Habits(pace=Pace.DRIP), hostile=20, slow=True),
    _B("drop-mail", truth.RISKY, habits=Habits(drops="mail"), hostile=30),
    _B("drop-rcpt", truth.RISKY, habits=Habits(drops="rcpt"), hostile=30),
    _B("drop-once", habits=Habits(drops="rcpt", drops_once=True), hostile=30),
    _B("reset", truth.UNREACHABLE, habits=Habits(door=Door.RESET), hostile=30),
    _B("refused", truth.UNREACHABLE, habits=Habits(door=Door.REFUSED), hostile=30),
    _B("blackhole", truth.UNREACHABLE, habits=Habits(door=Door.BLACKHOLE), hostile=20, slow=True),
    _B("mute", truth.UNREACHABLE, habits=Habits(door=Door.MUTE), hostile=20, slow=True),
    _B("next-mx-refused", first=Habits(door=Door.REFUSED), hostile=50),
    _B("next-mx-reset", first=Habits(door=Door.RESET), hostile=50),
    _B("next-mx-blackhole", first=Habits(door=Door.BLACKHOLE), hostile=20, slow=True),
    _B("next-mx-busy", first=Habits(door=Door.BUSY), hostile=50),
    _B("endless-reply", truth.RISKY, habits=Habits(trick=Trick.ENDLESS), hostile=20, slow=True),
    _B("giant-line", truth.RISKY, habits=Habits(trick=Trick.GIANT), hostile=20, slow=True),
    _B("control-banner", habits=Habits(trick=Trick.CONTROL), hostile=30),
)

BEHAVIOURS: tuple[Behaviour, ...] = (*_ORDINARY, *_DNS, *_ABOUT_US, *_LIMITS, *_TROUBLE)
"""Every behaviour there is."""

BY_NAME = {behaviour.name: behaviour for behaviour in BEHAVIOURS}
