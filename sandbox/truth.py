"""What the right verdict is: the sandbox's own statement of it, which no other room may write for it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from sandbox.people import Mailbox


class Dns(StrEnum):
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
class Expected:
    """The right verdict; result is "" where more than one is defensible."""

    status: str
    result: str = ""


@dataclass(frozen=True, slots=True)
class Truth:
    """The right verdict in each mode."""

    fast: Expected
    medium: Expected
    deep: Expected


SYNTAX_ERROR = Expected("invalid", "syntax_error")
DISPOSABLE = Expected("risky", "disposable")
PASSED = Expected("valid", "passed")
CATCH_ALL = Expected("risky", "catch_all")
UNVERIFIABLE = Expected("risky", "unverifiable")
BLOCKED = Expected("risky", "probe_blocked")
UNREACHABLE = Expected("risky", "unreachable")
DEFERRED = Expected("risky", "deferred")
RISKY = Expected("risky")

_NO_DNS = Expected("risky", "dns_unavailable")
_UNROUTABLE = Expected("invalid", "unroutable")

BY_DNS: dict[Dns, Expected] = {
    Dns.NXDOMAIN: Expected("invalid", "domain_not_found"),
    Dns.NODATA: Expected("invalid", "no_mail_server"),
    Dns.NULL_MX: Expected("invalid", "null_mx"),
    Dns.PRIVATE: _UNROUTABLE,
    Dns.SPECIAL: _UNROUTABLE,
    Dns.LITERAL: _UNROUTABLE,
    Dns.DANGLING: Expected("invalid"),
    Dns.SERVFAIL: _NO_DNS,
    Dns.REFUSED: _NO_DNS,
    Dns.SILENT: _NO_DNS,
}
"""The states that already decide in mode medium; all others are routed."""

BY_MAILBOX: dict[Mailbox, Expected] = {
    Mailbox.EXISTS: Expected("valid", "deliverable"),
    Mailbox.MISSING: Expected("invalid", "mailbox_not_found"),
    Mailbox.FULL: Expected("risky", "mailbox_full"),
    Mailbox.DISABLED: Expected("invalid", "mailbox_disabled"),
}
"""What a server that looks at mailboxes makes of them, once it has been asked properly."""


def of_syntax_error() -> Truth:
    """Return the truth about text that is no address."""
    return Truth(SYNTAX_ERROR, SYNTAX_ERROR, SYNTAX_ERROR)


def of_disposable() -> Truth:
    """Return the truth about an address at a throw-away domain that works."""
    return Truth(DISPOSABLE, DISPOSABLE, DISPOSABLE)


def of_address(dns: Dns, deep: Expected | None, mailbox: Mailbox, *, askable: bool) -> Truth:
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
