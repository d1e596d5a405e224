"""What the right verdict is: the sandbox says so itself, and asks nobody whose verdicts it judges."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from mailsift.sandbox.population import Mailbox


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


@dataclass(frozen=True, slots=True)
class ExpectedVerdict:
    """The right verdict; result is "" where more than one is defensible."""

    status: str
    result: str = ""


@dataclass(frozen=True, slots=True)
class Truth:
    """The right verdict in each mode."""

    fast: ExpectedVerdict
    medium: ExpectedVerdict
    deep: ExpectedVerdict


DISPOSABLE = ExpectedVerdict("risky", "disposable")
PASSED = ExpectedVerdict("valid", "passed")
CATCH_ALL = ExpectedVerdict("risky", "catch_all")
UNVERIFIABLE = ExpectedVerdict("risky", "unverifiable")
BLOCKED = ExpectedVerdict("risky", "probe_blocked")
UNREACHABLE = ExpectedVerdict("risky", "unreachable")
DEFERRED = ExpectedVerdict("risky", "deferred")
RISKY = ExpectedVerdict("risky")

_SYNTAX_ERROR = ExpectedVerdict("invalid", "syntax_error")
_NO_DNS = ExpectedVerdict("risky", "dns_unavailable")
_UNROUTABLE = ExpectedVerdict("invalid", "unroutable")

BY_DNS: dict[DnsBehaviour, ExpectedVerdict] = {
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

BY_MAILBOX: dict[Mailbox, ExpectedVerdict] = {
    Mailbox.EXISTS: ExpectedVerdict("valid", "deliverable"),
    Mailbox.MISSING: ExpectedVerdict("invalid", "mailbox_not_found"),
    Mailbox.FULL: ExpectedVerdict("risky", "mailbox_full"),
    Mailbox.DISABLED: ExpectedVerdict("invalid", "mailbox_disabled"),
}
"""What a server that looks at mailboxes makes of them, once it has been asked properly."""


OF_SYNTAX_ERROR = Truth(_SYNTAX_ERROR, _SYNTAX_ERROR, _SYNTAX_ERROR)
"""About text that is no address."""

OF_DISPOSABLE = Truth(DISPOSABLE, DISPOSABLE, DISPOSABLE)
"""About an address at a throw-away domain that works."""


def of_address(dns: DnsBehaviour, deep: ExpectedVerdict | None, mailbox: Mailbox, *, askable: bool) -> Truth:
    """Return the truth about an address of a domain.

    Args:
        dns: how the domain answers DNS.
        deep: the verdict on every address of the domain, None when its mailboxes decide.
        mailbox: what there is behind the address.
        askable: whether the server can be asked about it (RFC 6531: non-ASCII needs SMTPUTF8).
    """
    if dns in BY_DNS:
        return Truth(PASSED, BY_DNS[dns], BY_DNS[dns])
    if askable:
        return Truth(PASSED, PASSED, deep or BY_MAILBOX[mailbox])
    return Truth(PASSED, PASSED, RISKY if deep else UNVERIFIABLE)
