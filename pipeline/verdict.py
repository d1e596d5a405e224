"""The words of a verdict: results, statuses and the 13 fields of the contract."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from mailsift.pipeline.facts import Answer, DomainState, Known, Mode


class Status(StrEnum):
    """The three classes of the contract."""

    VALID = "valid"
    INVALID = "invalid"
    RISKY = "risky"


class Result(StrEnum):
    """The stable machine code of a verdict."""

    DELIVERABLE = "deliverable"
    PASSED = "passed"
    CATCH_ALL = "catch_all"
    UNVERIFIABLE = "unverifiable"
    DEFERRED = "deferred"
    NOT_ASKED = "not_asked"
    PROBE_BLOCKED = "probe_blocked"
    UNREACHABLE = "unreachable"
    DNS_UNAVAILABLE = "dns_unavailable"
    PROBE_UNAVAILABLE = "probe_unavailable"
    MAILBOX_FULL = "mailbox_full"
    UNKNOWN_SUFFIX = "unknown_suffix"
    DISPOSABLE = "disposable"
    MAILBOX_DISABLED = "mailbox_disabled"
    MAILBOX_NOT_FOUND = "mailbox_not_found"
    NO_MAIL_SERVER = "no_mail_server"
    NULL_MX = "null_mx"
    UNROUTABLE = "unroutable"
    DOMAIN_NOT_FOUND = "domain_not_found"
    SYNTAX_ERROR = "syntax_error"


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that judge needs to know about one address; equal evidence gets an equal verdict.

    Attributes:
        mode: how far the caller asked to look.
        syntax_rule: code of the broken syntax rule, "" when the syntax is good.
        role, free, disposable: what the lists say.
        suggested_domain: a well-known domain this one is probably a slip of, or "".
        unknown_suffix: as far as we know the domain's top-level domain does not exist.
        look_alike: letters of other scripts make the address look like another one.
        domain: what DNS said.
        unverifiable: the provider's answers to RCPT mean nothing (mailsift.pipeline.providers).
        edge: a gateway or a tenant's edge answers, which may accept everybody and bounce later.
        catch_all: whether a random local part was accepted.
        answer: the class of the reply about the mailbox.
        smtp_code: its code, 0 when nobody answered.
        blanket: the same refusal met the random recipient.
        sent: the answer is what became of a message that was really sent (mailsift.pipeline.outcomes).
        unwanted: why the account may not send there (mailsift.pipeline.judge.tiers.Unwanted), so that nobody
            is asked; "" where it may.
    """

    mode: Mode
    syntax_rule: str = ""
    role: bool = False
    free: bool = False
    disposable: bool = False
    suggested_domain: str = ""
    unknown_suffix: bool = False
    look_alike: bool = False
    domain: DomainState = DomainState.NOT_ASKED
    unverifiable: bool = False
    edge: bool = False
    catch_all: Known = Known.UNKNOWN
    answer: Answer = Answer.NOT_ASKED
    smtp_code: int = 0
    blanket: bool = False
    sent: bool = False
    unwanted: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The 13 fields of a result, in the contract's order; none is ever null."""

    catch_all: bool
    is_disposable: bool
    is_free: bool
    is_role_based: bool
    is_valid: bool
    mx_valid: bool
    syntax_valid: bool
    reason: str
    result: Result
    suggestion: str
    score: int
    smtp_code: int
    status: Status


DID_YOU_MEAN: Final = "Did you mean {}?"
"""The suggestion where another address was probably meant, or another domain."""
MEANT: Final = r"^Did you mean (\S+@\S+)\?"
"""How one begins that names an address."""


def suggested_address(verdict: Mapping[str, Any]) -> str:
    """Return the address that was probably meant, "" where the suggestion names none."""
    found = re.match(MEANT, verdict["suggestion"])
    return found[1] if found else ""


def with_repair(verdict: dict[str, Any], repaired: str) -> dict[str, Any]:
    """Return a verdict that says which address was validated in place of what was given, "" for itself."""
    if not repaired:
        return verdict
    return verdict | {"suggestion": f"Validated as {repaired}. {verdict['suggestion']}".rstrip()}
