"""A verdict: its words, and the one table that says what is valid, risky or invalid; pure.

The words are results, statuses and the 13 fields of the contract. Evidence leads to them by the table alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from operator import attrgetter
from typing import Any, Final

from mailsift.pipeline.facts import MAILBOX_REFUSALS, Answer, DomainState, Known, Mode


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
        unwanted: why the account may not send there (mailsift.pipeline.tiers.Unwanted), so that nobody
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


@dataclass(frozen=True, slots=True)
class VerdictPolicy:
    """What the operator decides.

    Attributes:
        disposable_invalid: throw-away domains are invalid instead of risky.
    """

    disposable_invalid: bool = False


# The table.

_Condition = Callable[[Evidence, VerdictPolicy], bool]


@dataclass(frozen=True, slots=True)
class VerdictRow:
    """One verdict: the first row whose condition holds decides.

    Attributes:
        id: stable name, for the evidence and the tests.
        result, status, score: the verdict; the score before adjustments.
        suggestion: advice, or "".
    """

    id: str
    result: Result
    status: Status
    score: int
    when: _Condition
    reason: str
    suggestion: str = ""


def _has(**members: object) -> _Condition:
    """Hold when these members of the evidence have these values."""
    read = attrgetter(*members)
    wanted = tuple(members.values()) if len(members) > 1 else next(iter(members.values()))
    return lambda evidence, _: read(evidence) == wanted


def _syntax_is_broken(evidence: Evidence, _: VerdictPolicy) -> bool:
    return bool(evidence.syntax_rule)


def _domain_has_no_answer(evidence: Evidence, _: VerdictPolicy) -> bool:
    return evidence.domain is not DomainState.ROUTED  # the rows above had the other states


def _disposable_and_unwanted(evidence: Evidence, policy: VerdictPolicy) -> bool:
    return evidence.disposable and policy.disposable_invalid


def _accepted_and_random(known: Known) -> _Condition:
    """Hold when the mailbox was accepted, and this is known of everybody else."""
    return _has(answer=Answer.ACCEPTED, catch_all=known)


def _refuses_everybody(evidence: Evidence, _: VerdictPolicy) -> bool:
    return evidence.blanket and evidence.answer in MAILBOX_REFUSALS


def _is_suppressed_and_unasked(evidence: Evidence, _: VerdictPolicy) -> bool:
    return bool(evidence.unwanted) and evidence.answer is Answer.NOT_ASKED


def _about_this_mailbox(answer: Answer) -> _Condition:
    """Hold when not every recipient gets the answer, at a provider whose answers mean something."""
    return _has(answer=answer, blanket=False, unverifiable=False)


_Row, _R, _A, _D = VerdictRow, Result, Answer, DomainState  # short, so that the table fits
_FAST = Mode.FAST
_VALID, _RISKY, _INVALID = Status.VALID, Status.RISKY, Status.INVALID
_SPELLING = "Check the spelling of the domain."
_REMOVE = "Remove the address."
_PERMANENT = "Ask for a permanent address."
_CONFIRM = "Send only if the address was confirmed by its owner."
_LATER = "Try again later."
_NONE = ""

# Findings about address and domain come first, then throw-away domains, then what was learned of the mailbox.
# fmt: off
VERDICT_ROWS = (
    #    id                       result                 status    score, condition
    #    reason, advice
    _Row("syntax_error",          _R.SYNTAX_ERROR,       _INVALID, 0,  _syntax_is_broken,
         "The address breaks a rule of its syntax.", "Correct the address."),
    _Row("domain_not_found",      _R.DOMAIN_NOT_FOUND,   _INVALID, 1,  _has(domain=_D.NOT_FOUND),
         "The domain does not exist.", _SPELLING),
    _Row("no_mail_server",        _R.NO_MAIL_SERVER,     _INVALID, 3,  _has(domain=_D.NO_MAIL_SERVER),
         "The domain exists but has no mail server.", _SPELLING),
    _Row("null_mx",               _R.NULL_MX,            _INVALID, 3,  _has(domain=_D.NULL_MX),
         "The domain declares that it takes no mail.", _SPELLING),
    _Row("unroutable",            _R.UNROUTABLE,         _INVALID, 3,  _has(domain=_D.UNROUTABLE),
         "The domain's mail servers have no public address.", _SPELLING),
    _Row("came_back_not_found",   _R.MAILBOX_NOT_FOUND,  _INVALID, 5,  _has(sent=True, answer=_A.NOT_FOUND),
         "A message that was sent to this mailbox came back: it does not exist.", _REMOVE),
    _Row("came_back_disabled",    _R.MAILBOX_DISABLED,   _INVALID, 10, _has(sent=True, answer=_A.DISABLED),
         "A message that was sent to this mailbox came back: it is closed.", _REMOVE),
    _Row("mailbox_not_found",     _R.MAILBOX_NOT_FOUND,  _INVALID, 5,  _about_this_mailbox(_A.NOT_FOUND),
         "The mail server says that the mailbox does not exist.", _REMOVE),
    _Row("mailbox_disabled",      _R.MAILBOX_DISABLED,   _INVALID, 10, _about_this_mailbox(_A.DISABLED),
         "The mail server says that the mailbox is closed.", _REMOVE),

    _Row("disposable_invalid",    _R.DISPOSABLE,         _INVALID, 10, _disposable_and_unwanted,
         "The domain hands out throw-away mailboxes.", _PERMANENT),
    _Row("disposable",            _R.DISPOSABLE,         _RISKY,   20, _has(disposable=True),
         "The domain hands out throw-away mailboxes.", _PERMANENT),

    _Row("delivered",             _R.DELIVERABLE,        _VALID,   95, _has(sent=True, answer=_A.ACCEPTED),
         "A message that was sent to this mailbox arrived.", _NONE),

    # in the other modes DNS says what exists
    _Row("unknown_suffix",        _R.UNKNOWN_SUFFIX,     _RISKY,   25, _has(mode=_FAST, unknown_suffix=True),
         "As far as is known there is no such top-level domain; DNS was not asked.", _SPELLING),
    _Row("passed_fast",           _R.PASSED,             _VALID,   60, _has(mode=_FAST),
         "The syntax is good; neither the domain nor the mailbox was looked up.", _NONE),
    _Row("given_up",              _R.NOT_ASKED,          _RISKY,   42, _has(answer=_A.GIVEN_UP),
         "The work on this address broke every time, so it was given up.", _LATER),
    _Row("dns_unavailable",       _R.DNS_UNAVAILABLE,    _RISKY,   40, _domain_has_no_answer,
         "DNS gave no answer about the domain.", _LATER),
    _Row("passed_medium",         _R.PASSED,             _VALID,   75, _has(mode=Mode.MEDIUM),
         "The syntax is good and the domain has a mail server; the mailbox was not looked up.", _NONE),
    _Row("unverifiable_provider", _R.UNVERIFIABLE,       _RISKY,   50, _has(unverifiable=True),
         "The provider answers alike whether or not a mailbox exists.", _CONFIRM),
    _Row("mailbox_full",          _R.MAILBOX_FULL,       _RISKY,   58, _about_this_mailbox(_A.FULL),
         "The mailbox exists but is full.", _LATER),
    _Row("accepted_at_the_edge",  _R.UNVERIFIABLE,       _RISKY,   52, _has(edge=True, catch_all=Known.YES),
         "The provider accepts every mailbox at its edge, and the message may bounce later.", _CONFIRM),
    _Row("catch_all",             _R.CATCH_ALL,          _RISKY,   55, _has(catch_all=Known.YES),
         "The domain accepts mail for any mailbox, so this one cannot be told apart.", _CONFIRM),
    _Row("deliverable",           _R.DELIVERABLE,        _VALID,   95, _accepted_and_random(Known.NO),
         "The mail server accepts this mailbox and refuses one that cannot exist.", _NONE),
    _Row("accepted_unproven",     _R.UNVERIFIABLE,       _RISKY,   50, _accepted_and_random(Known.UNKNOWN),
         "The mail server accepts this mailbox, but whether it accepts any other could not be learned.",
         _LATER),
    _Row("blanket_refusal",       _R.UNVERIFIABLE,       _RISKY,   50, _refuses_everybody,
         "The mail server gives every mailbox the same refusal, so it says nothing about this one.",
         _CONFIRM),
    _Row("greylisted",            _R.DEFERRED,           _RISKY,   45, _has(answer=_A.GREYLISTED),
         "The mail server asked to come back later (greylisting) until the retries ran out.", _LATER),
    _Row("rate_limited",          _R.DEFERRED,           _RISKY,   45, _has(answer=_A.RATE_LIMITED),
         "The mail server asked to slow down until the retries ran out.", _LATER),
    _Row("temporary",             _R.DEFERRED,           _RISKY,   45, _has(answer=_A.TEMPORARY),
         "The mail server answered with a temporary failure until the retries ran out.", _LATER),
    _Row("doubted",               _R.DEFERRED,           _RISKY,   45, _has(answer=_A.DOUBTED),
         "The mail server began to refuse almost everybody or contradicts itself, so it was not believed.",
         _LATER),
    _Row("unwanted",              _R.NOT_ASKED,          _RISKY,   42, _is_suppressed_and_unasked,
         "The account may not send to this address, so its mail server was not asked.", ""),
    _Row("opted_out",             _R.NOT_ASKED,          _RISKY,   42, _has(answer=_A.OPTED_OUT),
         "The domain does not want its mail server to be asked about mailboxes.", _CONFIRM),
    _Row("too_many_missing",      _R.NOT_ASKED,          _RISKY,   42, _has(answer=_A.TOO_MANY_MISSING),
         "Too many addresses of the list do not exist at this provider, so no more were asked for.",
         "Check where the list comes from."),
    _Row("not_asked",             _R.NOT_ASKED,          _RISKY,   42, _has(answer=_A.NOT_ASKED),
         "There was no time to ask the mail server about the mailbox.", "Ask again with more time."),
    _Row("probe_blocked",         _R.PROBE_BLOCKED,      _RISKY,   41, _has(answer=_A.REFUSED_US),
         "The mail server refuses the prober, which says nothing about the mailbox.",
         "Check the prober's IP reputation, reverse DNS and HELO name."),
    _Row("unclear",               _R.UNVERIFIABLE,       _RISKY,   50, _has(answer=_A.UNCLEAR),
         "The mail server's reply does not say whether the mailbox exists.", _CONFIRM),
    _Row("not_askable",           _R.UNVERIFIABLE,       _RISKY,   50, _has(answer=_A.NOT_ASKABLE),
         "The mail server does not take international addresses, so it could not be asked.",
         "Ask for an address in plain ASCII."),
    _Row("unreachable",           _R.UNREACHABLE,        _RISKY,   40, _has(answer=_A.UNREACHABLE),
         "None of the domain's mail servers answered in time.", _LATER),
    _Row("not_allowed",           _R.UNREACHABLE,        _RISKY,   40, _has(answer=_A.NOT_ALLOWED),
         "None of the domain's mail servers has an address that may be asked from here, so none was.",
         "Check the prober's source addresses: IPv4, IPv6 or both."),
    _Row("probe_unavailable",     _R.PROBE_UNAVAILABLE,  _RISKY,   40, _has(answer=_A.PROBE_UNAVAILABLE),
         "This machine cannot reach mail servers on port 25, so the mailbox was not looked up.",
         "Run mailsift doctor, and open outbound port 25."),
)
# fmt: on


# Judging.

SCORE_BANDS = {Status.VALID: (60, 100), Status.RISKY: (20, 59), Status.INVALID: (0, 19)}
"""Lowest and highest score of each status."""

_ROLE = -5
_LIKELY_TYPO = -10
_LOOK_ALIKE = -10
_DEFAULT_POLICY = VerdictPolicy()


def judge(evidence: Evidence, policy: VerdictPolicy = _DEFAULT_POLICY) -> Verdict:
    """Return the verdict on one address; equal evidence and policy give an equal verdict."""
    row = decide(evidence, policy)
    return Verdict(
        catch_all=evidence.catch_all is Known.YES,
        is_disposable=evidence.disposable,
        is_free=evidence.free,
        is_role_based=evidence.role,
        is_valid=row.status is Status.VALID,
        mx_valid=evidence.domain is DomainState.ROUTED,
        syntax_valid=not evidence.syntax_rule,
        reason=syntax_reason(evidence.syntax_rule) if evidence.syntax_rule else row.reason,
        result=row.result,
        suggestion=_suggestion(evidence, row),
        score=sum(points for _, points in _score_parts(row, evidence)),
        smtp_code=evidence.smtp_code,
        status=row.status,
    )


def decide(evidence: Evidence, policy: VerdictPolicy) -> VerdictRow:
    """Return the row of VERDICT_ROWS that decides."""
    return next(row for row in VERDICT_ROWS if row.when(evidence, policy))


def score_parts(evidence: Evidence, policy: VerdictPolicy = _DEFAULT_POLICY) -> tuple[tuple[str, int], ...]:
    """Return the named points whose sum is the score; the last one, if any, keeps the score in its band."""
    return _score_parts(decide(evidence, policy), evidence)


def _score_parts(row: VerdictRow, evidence: Evidence) -> tuple[tuple[str, int], ...]:
    parts = ((row.id, row.score), *_adjustments(evidence))
    total = sum(points for _, points in parts)
    floor, ceiling = SCORE_BANDS[row.status]
    kept = min(max(total, floor), ceiling) - total
    return (*parts, ("band", kept)) if kept else parts


def _adjustments(evidence: Evidence) -> Iterator[tuple[str, int]]:
    if evidence.role:
        yield "role", _ROLE
    if evidence.look_alike:
        yield "look_alike", _LOOK_ALIKE
    elif evidence.suggested_domain:
        yield "likely_slip", _LIKELY_TYPO


# What a verdict says.

MEANINGS = {row.result: row.reason for row in reversed(VERDICT_ROWS)} | {
    row.result: row.reason for row in VERDICT_ROWS if row.id == row.result
}
"""What each result says, in the words of the row of its name, else of the first one that leads to it."""

FROM_OUTCOMES = frozenset(
    row.reason for row in VERDICT_ROWS if row.id in {"came_back_not_found", "came_back_disabled", "delivered"}
)
"""What verdicts say that rest on a message that was really sent."""

SYNTAX_SENTENCES = {
    "empty": "The cell is empty.",
    "no_at": "The address has no @ sign.",
    "too_long": "The address is longer than 254 characters.",
    "local_empty": "Nothing stands before the @ sign.",
    "local_too_long": "The part before the @ sign is longer than 64 characters.",
    "local_dot": "The part before the @ sign starts or ends with a dot, or has two dots in a row.",
    "local_character": "The part before the @ sign has a character that is not allowed there.",
    "quoted_unterminated": "A quotation mark is opened but not closed.",
    "domain_empty": "Nothing stands after the @ sign.",
    "domain_too_long": "The domain is longer than 253 characters.",
    "domain_label": "A part of the domain is empty, too long, or starts or ends with a hyphen.",
    "domain_character": "The domain has a character that is not allowed there.",
    "domain_no_dot": "The domain has no dot.",
    "domain_special_use": "The domain is reserved for special use and takes no mail.",
    "domain_literal": "The domain is an IP address in brackets.",
    "display_name": "A name stands beside the address.",
    "several_addresses": "The cell holds several addresses.",
    "control_character": "The address has a control character.",
    "unicode_invalid": "The address has text that is not valid Unicode or not in normal form.",
    "other": "The address does not follow the syntax of email addresses.",
}
"""One sentence for every rule of mailsift.pipeline.syntax.address.SyntaxRule."""


def syntax_reason(rule: str) -> str:
    """Return the sentence for a rule code; one that names the code when it is not in the table."""
    return SYNTAX_SENTENCES.get(rule, f'The address breaks the syntax rule "{rule}".')


DID_YOU_MEAN: Final = "Did you mean {}?"
"""The suggestion where another address was probably meant, or another domain."""


def _suggestion(evidence: Evidence, row: VerdictRow) -> str:
    if evidence.suggested_domain:
        return DID_YOU_MEAN.format(f"the domain {evidence.suggested_domain}")
    return row.suggestion


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
