"""An outcome: what happened to one message for one address, and what it says about the mailbox."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from mailsift.pipeline.facts import GONE, Answer
from mailsift.pipeline.replies.redaction import redact
from mailsift.pipeline.replies.table import Stage


class OutcomeKind(StrEnum):
    """What happened."""

    DELIVERED = "delivered"
    BOUNCED = "bounced"  # given up: it will not arrive
    DEFERRED = "deferred"  # not yet: it is tried again
    COMPLAINED = "complained"  # the reader called it spam
    UNSUBSCRIBED = "unsubscribed"


FAILURES: Final = frozenset({OutcomeKind.BOUNCED, OutcomeKind.DEFERRED})
WISHES: Final = frozenset({OutcomeKind.COMPLAINED, OutcomeKind.UNSUBSCRIBED})
"""Of a reader, who says by them that he wants no more."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What a diagnostic says, by our own reply table and not by the reporter's category.

    Attributes:
        answer: the conclusion about the mailbox.
        rule: id of the reply rule that decided, "" when there was nothing to read.
        smtp_code: three digits, 0 when none was named.
        enhanced: RFC 3463 code such as "5.1.1", or "".
        text: the words, redacted; at most 300 characters.
    """

    answer: Answer
    rule: str = ""
    smtp_code: int = 0
    enhanced: str = ""
    text: str = ""

    @property
    def was_never_sent(self) -> bool:
        """Whether the sender kept the message back: by its own list, or for what stood in it."""
        return _is_own_list(self.text) or bool(_UNSENT.search(self.text))


@dataclass(frozen=True, slots=True)
class Outcome:
    """What happened to one message for one address.

    Attributes:
        address: as the report names it; not yet parsed.
        happened_at: epoch seconds; 0 when the report does not say.
        diagnosis: what the receiving server said about the mailbox.
        origin: who reports it: "dsn", "arf", "bounce", "ses", "file" and so on.
        message_id: the sender's name for the message, or "".
        undated: whether `happened_at` is only when it was told, for the report did not say.
    """

    address: str
    kind: OutcomeKind
    happened_at: float
    diagnosis: Diagnosis
    origin: str
    message_id: str = ""
    undated: bool = False


KIND_OF_CLASS: Final = {"2": OutcomeKind.DELIVERED, "4": OutcomeKind.DEFERRED, "5": OutcomeKind.BOUNCED}
"""What happened by the first figure of a code, a server's (RFC 5321 section 4.2.1) or RFC 3463's."""

ParsedOutcome: TypeAlias = Outcome | None
"""What one row, message or event tells; None for one that cannot be read."""

NOTHING_SAID = Diagnosis(Answer.UNCLEAR)
"""Of a bounce without a word why."""

ACCEPTED = Diagnosis(Answer.ACCEPTED)
"""Of a message that was delivered, complained about or unsubscribed from: the mailbox is there."""

_TYPE = re.compile(r"\A\s*[A-Za-z][\w-]{0,30}\s*;\s*")  # RFC 3464 section 2.1.2: "smtp; 550 …"
_LAST_ERROR = re.compile(r"\{LED=([^{}]+)")
"""What a message trace of Microsoft 365 has of a server's answer, among fields of its own."""
_CODE = re.compile(r"(?<![\d.\w])(?:SMTP;?\s?)?([245]\d\d)(?=[\s\-;:,.)]|\Z)(?!\.\d)", re.IGNORECASE)
_ENHANCED = re.compile(r"(?<![\w.])([245]\.\d{1,3}\.\d{1,3})(?![\w.]*\d)")
_OWN_LIST = re.compile(
    r"suppress(?:ed|ion)|not delivering to (?:an? )?(?:previously|unsubscribed|user who)|^dropped\b|droplist"
    r"|(?:previously|pre-?)[ _]?(?:bounced|unsubscribed)|bounced address"
    r"|recent history of (?:bouncing|hard bounces)|recipient (?:has|is|was) unsubscribed"
    r"|unsubscribed address"
    r"|(?:address|recipient|contact) (?:is |was )?(?:in|under|on) (?:the |our )?(?:quarantine|deny ?list)",
    re.IGNORECASE,
)
_OWN_LIST_IN_WORDS = re.compile(
    r"dropped|(?:previously|pre-?)[ _]?blocked"
    r"|(?:address|recipient|it) is on (?:the|our|your) (?:global )?(?:block|bounce) ?list",
    re.IGNORECASE,
)
"""So mail servers speak, too, of us and of what they did with a message: then their code stands beside it."""
_DROPPED_CONNECTION = re.compile(
    r"(?:connection|session)\b[^.;]{0,20}?\bdropped|dropped (?:the |our |your )?(?:connection|session)",
    re.IGNORECASE,
)
_UNSENT = re.compile(
    r"^unsent: |^dropped: (?:spam content|invalid smtpapi header|recipient list over)"
    r"|^reached_(?:daily|monthly)_quota$",
    re.IGNORECASE,
)
"""Of a message that its sender could not or would not send, to anybody: the mailbox had no part in it."""
_GAVE_UP_WAITING = re.compile(
    r"\b(?:expired|too old|timed? ?out|queue (?:time|lifetime)|retry time(?:out)?|time limit"
    r"|max(?:imum)? (?:retry|time)"
    r"|temporarily (?:suspended|deferred)|connection (?:refused|reset|lost)|no route to host"
    r"|unable to connect|could ?n.t connect|can ?not connect)\b",
    re.IGNORECASE,
)
_DOMAIN = "domaine?|dom[ií]nio|domein|domeny|домен"
_DOMAIN_TROUBLE = re.compile(
    r"host or domain name not found|name service error|no such domain|domain (?:does not|doesn.t) exist"
    r"|domain not found|host unknown|unknown host|unrouteable mail domain|all relevant mx records"
    r"|no (?:mail|smtp|mx) ?(?:servers?|exchangers?|hosts?)\b"
    r"|no mx(?: records?)?\b|nxdomain|dns (?:error|failure|lookup)|null ?mx|bad destination (?:host|system)"
    rf"|\b(?:{_DOMAIN})\W{{1,3}}(?:[\w-]{{1,63}}\.){{1,8}}[\w-]{{2,63}}\W{{1,3}}(?:[\w'’]{{1,15}} ){{0,4}}?"
    r"(?:introuvable|(?:not|be) found|nicht gefunden|niet\b.{0,12} gevonden|trovato|encontrado|найден)"
    rf"|\b(?:encontrar|trovare|trouver|znaleziono) (?:\w{{1,3}} )?(?:{_DOMAIN})\b",
    re.IGNORECASE,
)

_NO_ROUTE = re.compile(r"unrout(?:e)?able address", re.IGNORECASE)
"""Exim's words: of a mailbox where it was the server that was asked, else of a domain it found no way to."""


_SUPPRESSION_CAUSES = {
    OutcomeKind.COMPLAINED: re.compile(
        r"suppress-complaint|^dropped: .*(?:spam report|complain)|(?:previously|has|who) complained"
        r"|suppress\w{0,9} .{0,60}complain",
        re.IGNORECASE,
    ),
    OutcomeKind.UNSUBSCRIBED: re.compile(
        r"suppress-unsubscribe|^dropped: .*(?:unsubscri|opt(?:ed)?[ -]?out)"
        r"|(?:previously|has|who|recipient (?:is|was)) unsubscribed|suppress\w{0,9} .{0,60}unsubscri"
        r"|(?:to|is an) unsubscribed address",
        re.IGNORECASE,
    ),
}


_FEEDBACK: Final[dict[str, OutcomeKind | None]] = {
    **dict.fromkeys(("", "abuse", "fraud", "other", "miscategorized"), OutcomeKind.COMPLAINED),
    **dict.fromkeys(("opt-out", "opt-out-list", "unsubscribe"), OutcomeKind.UNSUBSCRIBED),
    **dict.fromkeys(("not-spam", "virus", "auth-failure", "dmarc")),
}
"""By Feedback-Type (RFC 5965 section 7.3, RFC 6430, RFC 6591 and the opt-out types of older drafts). By
"not-spam" a reader wants the mail; the three behind it come from programs, and nobody has complained."""


def kind_of_feedback(name: str, *, unknown: OutcomeKind | None) -> OutcomeKind | None:
    """Return what a reader says by a feedback type, "" where none is given; None where he says nothing.

    Args:
        name: the type, in any case.
        unknown: what it is by a type that we do not know.
    """
    return _FEEDBACK.get(name.strip().lower(), unknown)


def whole_characters(text: str) -> str:
    """Return a text that UTF-8 can hold: JSON may have halves of characters (RFC 8259 section 8.2)."""
    return text if text.isascii() else _HALF.sub("\ufffd", text)


_HALF = re.compile("[\ud800-\udfff]")


def suppression_cause(words: str) -> OutcomeKind | None:
    """Say why a sender kept a message back itself, if its recipient has said before that he wants none.

    Args:
        words: its reason, after "dropped: " where the sender's word says that it kept the message back.
    """
    return next(
        (cause for cause, pattern in _SUPPRESSION_CAUSES.items() if pattern.search(words[:2_000])), None
    )


def diagnose(text: str, *, status: str = "", permanent: bool = True, beside: str = "") -> Diagnosis:
    """Read a diagnostic.

    A list of the sender's own ("suppressed") never asked the mailbox, silence until a time was up is no
    refusal, and a domain that was not found is for DNS to say: none of them speaks of the mailbox. Nor does
    what kept a message from being sent at all ("unsent: ..."), which is not even a doubt.

    Args:
        text: the server's words with whatever stands around them; may be hostile and of any length.
        status: RFC 3463 code that was reported beside it, or "".
        permanent: the sender has given up; decides where neither words nor status hold a code.
        beside: what else is said of the failure, by the sender; it may take the blame off the mailbox.
    """
    from mailsift.pipeline.replies.classifier import SmtpReply, classify, innermost  # noqa: PLC0415 - many patterns

    traced = _LAST_ERROR.search(text[:2_000])
    words = _TYPE.sub("", traced[1] if traced else text[:2_000])
    words = words if " " in words else words.replace("_", " ")  # so qmail's log has them
    if not words.strip() and not status:
        return NOTHING_SAID
    outermost = SmtpReply(Stage.RCPT, _code(words, "", permanent=permanent), "", words)
    said = innermost(outermost)  # what a report writes around it says nothing
    found = _ENHANCED.search(said.text) or _ENHANCED.search(status)
    enhanced = found[1] if found else ""
    code = said.code if said is not outermost else _code(words, enhanced, permanent=permanent)
    reading = classify(SmtpReply(said.stage, code, enhanced, said.text))
    answer = reading.answer
    named_code = _CODE.search(words)
    around = f"{words}\n{beside[:2_000]}"
    is_domain_trouble = _DOMAIN_TROUBLE.search(around) or (not named_code and _NO_ROUTE.search(words))
    is_own_list = _is_own_list(words) or _is_own_list(beside[:2_000])
    if _UNSENT.search(words):
        answer = Answer.NOT_ASKED
    elif is_own_list or is_domain_trouble or answer is Answer.ACCEPTED:
        answer = Answer.UNCLEAR
    elif answer in GONE and _GAVE_UP_WAITING.search(words):
        answer = Answer.TEMPORARY
    return Diagnosis(answer, reading.rule, int(named_code[1]) if named_code else 0, enhanced, redact(words))


def _is_own_list(text: str) -> bool:
    """Say whether a sender kept a message back by a list of its own."""
    if _OWN_LIST.search(text):
        return True
    return not _CODE.search(text) and bool(_OWN_LIST_IN_WORDS.search(_DROPPED_CONNECTION.sub("", text)))


def _code(words: str, enhanced: str, *, permanent: bool) -> int:
    """Return the code to read the words with: the first one named, else what is known of the failure."""
    codes = [int(code) for code in _CODE.findall(words) if code[0] != "2"]
    if codes:
        return codes[0]
    if enhanced and enhanced[0] in "45":
        return 550 if enhanced[0] == "5" else 450
    return 550 if permanent else 450
