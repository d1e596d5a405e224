"""An outcome: what happened to one message for one address, and what it says about the mailbox.

What all outcomes of an address decide is a fact about its mailbox, from a witness that really sent, and what
became of the forecasts that verdicts given before were.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Final, TypeAlias

from mailsift.pipeline.facts import GONE, NOT_NOW, Answer, MailboxFact
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


ParsedOutcome: TypeAlias = Outcome | None
"""What one row, message or event tells; None for one that cannot be read."""

NOTHING_SAID = Diagnosis(Answer.UNCLEAR)
"""Of a bounce without a word why."""

ACCEPTED = Diagnosis(Answer.ACCEPTED)
"""Of a message that was delivered, complained about or unsubscribed from: the mailbox is there."""


# What others say of it.

KIND_OF_CLASS: Final = {"2": OutcomeKind.DELIVERED, "4": OutcomeKind.DEFERRED, "5": OutcomeKind.BOUNCED}
"""What happened by the first figure of a code, a server's (RFC 5321 section 4.2.1) or RFC 3463's."""


def kind_as_answered(kind: OutcomeKind, diagnosis: Diagnosis) -> OutcomeKind:
    """Return what happened by the server's answer: what senders call a soft bounce may be one for good."""
    is_for_good = diagnosis.smtp_code >= _PERMANENT_CODE and diagnosis.answer in GONE
    return OutcomeKind.BOUNCED if is_for_good else kind


_PERMANENT_CODE: Final = 500  # replies with such codes (RFC 5321 section 4.2.1)


def kind_of_feedback(name: str, *, unknown: OutcomeKind | None) -> OutcomeKind | None:
    """Return what a reader says by a feedback type, "" where none is given; None where he says nothing.

    Args:
        name: the type, in any case.
        unknown: what it is by a type that we do not know.
    """
    return _FEEDBACK.get(name.strip().lower(), unknown)


_FEEDBACK: Final[dict[str, OutcomeKind | None]] = {
    **dict.fromkeys(("", "abuse", "fraud", "other", "miscategorized"), OutcomeKind.COMPLAINED),
    **dict.fromkeys(("opt-out", "opt-out-list", "unsubscribe"), OutcomeKind.UNSUBSCRIBED),
    **dict.fromkeys(("not-spam", "virus", "auth-failure", "dmarc")),
}
"""By Feedback-Type (RFC 5965 section 7.3, RFC 6430, RFC 6591 and the opt-out types of older drafts). By
"not-spam" a reader wants the mail; the three behind it come from programs, and nobody has complained."""


def suppression_cause(words: str) -> OutcomeKind | None:
    """Say why a sender kept a message back itself, if its recipient has said before that he wants none.

    Args:
        words: its reason, after "dropped: " where the sender's word says that it kept the message back.
    """
    return next(
        (cause for cause, pattern in _SUPPRESSION_CAUSES.items() if pattern.search(words[:2_000])), None
    )


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


def whole_characters(text: str) -> str:
    """Return a text that UTF-8 can hold: JSON may have halves of characters (RFC 8259 section 8.2)."""
    return text if text.isascii() else _HALF.sub("\ufffd", text)


_HALF = re.compile("[\ud800-\udfff]")


# A diagnostic, read.

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
    reply = innermost(outermost)  # what a report writes around it says nothing
    found = _ENHANCED.search(reply.text) or _ENHANCED.search(status)
    enhanced = found[1] if found else ""
    code = reply.code if reply is not outermost else _code(words, enhanced, permanent=permanent)
    reading = classify(SmtpReply(reply.stage, code, enhanced, reply.text))
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


# What the outcomes of one address decide.

OUTCOME_STAGE: Final = "outcome"
"""The stage of a fact that a real message brought."""

DAY_SECONDS: Final = 86_400.0
_CLOCKS_DIFFER: Final = 600.0
"""So many seconds a mail server's clock may be behind."""
_ARRIVED: Final = WISHES | {OutcomeKind.DELIVERED}
MOST_DAYS: Final = 3_650
"""No outcome is kept or believed for longer."""


@dataclass(frozen=True, slots=True)
class OutcomePolicy:
    """How long an account believes what happened.

    Attributes:
        delivered_days: a delivery shows for so many days that the mailbox is there; 0 = never.
        bounced_days: a bounce shows for so many days that it is gone; 0 = never.
    """

    delivered_days: float = 90.0
    bounced_days: float = 365.0

    def __post_init__(self) -> None:
        """Refuse days that are none.

        Raises:
            ValueError: less than none, or more than outcomes are ever kept.
        """
        if not all(0 <= days <= MOST_DAYS for days in (self.delivered_days, self.bounced_days)):
            raise ValueError(f"an outcome is believed for 0 to {MOST_DAYS} days")

    @classmethod
    def read(cls, stored: Mapping[str, float]) -> OutcomePolicy:
        """Return what was stored; what it does not say is the default."""
        names = {field.name for field in fields(cls)}
        return cls(**{name: float(value) for name, value in stored.items() if name in names})

    def seconds(self, outcome: Outcome) -> float:
        """Return for how long an outcome is believed."""
        days = self.bounced_days if outcome.kind is OutcomeKind.BOUNCED else self.delivered_days
        return days * DAY_SECONDS


@dataclass(frozen=True, slots=True)
class SentFact(MailboxFact):
    """What a message that was really sent shows about a mailbox.

    Attributes:
        policy: by which it counts, and for how long.
    """

    stage: str = OUTCOME_STAGE
    cached: bool = True
    policy: OutcomePolicy = field(default_factory=OutcomePolicy)


def mailbox_fact(
    outcomes: Iterable[Outcome], policy: OutcomePolicy, now: float, *, within: float | None = None
) -> SentFact | None:
    """Return what the outcomes of one address show about its mailbox; None where they show nothing.

    The newest that decides does. A message that arrived (and one that was complained about or unsubscribed
    from did) shows that the mailbox is there, unless a later one was given up without a reason that speaks of
    something else; a bounce shows that it is gone only where the server's words say so, and goes on showing
    it when the sender keeps the next messages back itself. What is put off shows nothing: of mail that fails
    at first a third arrives later. Nor does what `_in_known_order` leaves out.

    Args:
        outcomes: of one address, in any order.
        policy: how long they are believed.
        now: epoch seconds.
        within: seconds; what is older shows nothing, whatever the policy says; None = the policy decides.
    """
    youngest = 0.0 if within is None else now - within
    taken_back = False
    for outcome in sorted(_in_known_order(outcomes), key=_counts_from, reverse=True):
        answer = _answer_of(outcome)
        taken_back |= answer is Answer.UNCLEAR
        if answer is None or answer is Answer.UNCLEAR:
            continue
        expires = outcome.happened_at + policy.seconds(outcome)
        is_doubtful = taken_back and answer is Answer.ACCEPTED
        if is_doubtful or expires <= now or outcome.happened_at <= youngest:
            return None
        diagnosis = outcome.diagnosis
        return SentFact(
            answer=answer,
            smtp_code=diagnosis.smtp_code,
            enhanced=diagnosis.enhanced,
            text=diagnosis.text,
            rule=diagnosis.rule or outcome.kind.value,
            host=outcome.origin,
            asked_at=outcome.happened_at,
            expires_at=expires,
            policy=policy,
        )
    return None


def _in_known_order(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Return outcomes of one address without those of which nobody knows what came first.

    Where of reports without a time some say that it arrived and others that the mailbox is gone, as a table
    without dates may, either may be how things are now.
    """
    found = list(outcomes)
    undated = [entry for entry in found if entry.undated]
    arrived = any(entry.kind in _ARRIVED for entry in undated)
    return (
        [entry for entry in found if not entry.undated] if arrived and any(map(_is_gone, undated)) else found
    )


def _is_gone(outcome: Outcome) -> bool:
    return outcome.kind is OutcomeKind.BOUNCED and outcome.diagnosis.answer in GONE


def _counts_from(outcome: Outcome) -> float:
    """Return when an outcome counts, in epoch seconds.

    The report that a mailbox is not there comes from a clock of its own, often in whole seconds: it counts as
    later than the delivery of the same message, which its sender's clock has put down.
    """
    return outcome.happened_at + (_CLOCKS_DIFFER if _is_gone(outcome) else 0.0)


def _answer_of(outcome: Outcome) -> Answer | None:
    """Return what an outcome shows; UNCLEAR where it takes an earlier arrival back, None for nothing."""
    if outcome.kind in _ARRIVED:
        return Answer.ACCEPTED
    if outcome.kind is not OutcomeKind.BOUNCED:
        return None
    answer = outcome.diagnosis.answer
    return answer if answer in GONE or answer is Answer.UNCLEAR else None


@dataclass(frozen=True, slots=True)
class OutcomeFacts:
    """What an account knows of addresses from its own messages, by canonical address; of most nothing.

    Attributes:
        sent: what messages that were really sent showed about mailboxes.
        unwanted: why it may not send there (mailsift.pipeline.tiers.Unwanted).
        looked_up: False where nobody could say: then both are empty, and mean nothing.
    """

    sent: Mapping[str, MailboxFact] = field(default_factory=dict)
    unwanted: Mapping[str, str] = field(default_factory=dict)
    looked_up: bool = True

    def only(self, addresses: Iterable[str]) -> OutcomeFacts:
        """Return what is known of these addresses."""
        if not self.sent and not self.unwanted:
            return self
        asked = frozenset(addresses)
        return OutcomeFacts(
            {address: fact for address, fact in self.sent.items() if address in asked},
            {address: reason for address, reason in self.unwanted.items() if address in asked},
            self.looked_up,
        )


NO_OUTCOMES: Final = OutcomeFacts()
NOT_LOOKED_UP: Final = OutcomeFacts(looked_up=False)


# What became of the messages after a verdict.

WINDOW_DAYS: Final = 90
"""A verdict answers for messages of so many days after it."""
_LATE_SECONDS: Final = 5 * DAY_SECONDS
"""For so long a server that took a message may try to pass it on (RFC 5321 section 4.5.4.1)."""


class Fate(StrEnum):
    """What became of the first message after a verdict."""

    DELIVERED = "delivered"
    GONE = "gone"  # it came back, and the server says that there is no such mailbox or that it is closed
    REFUSED = "refused"  # it came back for another reason


def fates(judged_at: Sequence[float], outcomes: Iterable[Outcome]) -> list[Fate | None]:
    """Return what became of each verdict on one address; None where nobody knows.

    An outcome counts for the newest verdict before it, for at most WINDOW_DAYS. The first one that decides
    begins; what is told of the next five days takes it back: a bounce after a delivery is a bounce that came
    late, a delivery after a bounce one that was tried again. What is put off decides nothing, nor does what
    has no time where others without one say the contrary.

    Args:
        judged_at: epoch seconds of the verdicts, rising.
        outcomes: of the address, in any order.
    """
    ordered = sorted(_in_known_order(outcomes), key=_counts_from)
    timed = [(entry.happened_at, _counts_from(entry), fate) for entry in ordered if (fate := _fate(entry))]
    result: list[Fate | None] = []
    for index, begin in enumerate(judged_at):
        end = judged_at[index + 1] if index + 1 < len(judged_at) else float("inf")
        end = min(end, begin + WINDOW_DAYS * DAY_SECONDS)
        timed = [one for one in timed if one[0] >= begin]
        first = next((counts for at, counts, _ in timed if at < end), None)
        if first is None:
            result.append(None)
            continue
        last = first + _LATE_SECONDS
        result.append([fate for _, counts, fate in timed if first <= counts <= last][-1])
        timed = [one for one in timed if not first <= one[1] <= last]
    return result


def _fate(outcome: Outcome) -> Fate | None:
    if outcome.kind in _ARRIVED:
        return Fate.DELIVERED
    diagnosis = outcome.diagnosis
    if outcome.kind is not OutcomeKind.BOUNCED or diagnosis.answer in NOT_NOW or diagnosis.was_never_sent:
        return None
    return Fate.GONE if diagnosis.answer in GONE else Fate.REFUSED
