"""From replies to facts: what a finished session shows about mailboxes, domains and our own rate; pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache, partial
from typing import Final

from mailsift.pipeline.facts import DEFINITE, GONE, Answer, CatchAllFact, Known, MailboxFact
from mailsift.pipeline.ports import SessionOutcome
from mailsift.pipeline.probe.queue import SessionPlan
from mailsift.pipeline.replies.classifier import ReplyReading, SmtpReply, classify
from mailsift.pipeline.replies.redaction import redact
from mailsift.pipeline.replies.table import Stage
from mailsift.pipeline.smtp.connection import Ending
from mailsift.pipeline.smtp.session import DomainRecipients, SessionLog, TimedReply, is_session_limit
from mailsift.pipeline.standing import LedgerCounts, LedgerKind, refusal_kind
from mailsift.pipeline.stop import NOBODY_ASKED, AskedCounts, ThrottleKey, count_asked

_MASKED_ADDRESS: Final = "somebody@recipient.invalid"
"""Stands in for the asked address, so that the same refusal of two mailboxes is read once and is equal."""

CATCH_ALL: Final = {Answer.ACCEPTED: Known.YES, Answer.NOT_FOUND: Known.NO}
"""What the random recipient's answer shows about the domain; any other is unknown."""

NOT_WORTH_ASKING: Final = frozenset(
    {Answer.ACCEPTED, Answer.REFUSED_US, Answer.RATE_LIMITED, Answer.TEMPORARY}
)
"""After these to the random recipient the real ones are not asked: they would get the same answer.

A reply that says "later" (OFTEN_SERVER_WIDE) is no such answer on the last try, nor where it speaks of an
unknown user: then it may be meant for the random recipient alone. Greylisting is not among them: its clock
starts for each recipient when it is asked for the first time.
"""

_ABOUT_US: Final = frozenset({Answer.REFUSED_US, Answer.RATE_LIMITED})

OFTEN_SERVER_WIDE: Final = frozenset({Answer.RATE_LIMITED, Answer.TEMPORARY})

_NOT_IMPLEMENTED: Final = frozenset({500, 502})  # RFC 5321 section 4.2.4: of RSET, whoever sends it

_BLANKET_ANSWERS: Final = frozenset({Answer.UNCLEAR, Answer.DISABLED, Answer.FULL})
_BLANKET_CODES: Final = ("5.4.1", "5.7.")  # Exchange Online's "Access denied" for every recipient, and policy
_NO_REASON: Final = frozenset({"mailbox-unavailable", "no-delivery"})
"""The rules for RFC 5321's words for 550, which its section 4.2.2 has for a policy, too: without a code or a
link of the server's own they show nothing where everybody gets them.
"""
_MISSING_DESPITE_CODE: Final = frozenset({"no-such-mailbox-5.7", "no-such-mailbox-5.7-languages"})
"""The rules for "no such user" with a code of policy, as Yandex says it (mailsift.pipeline.replies.table)."""


class ProberRule(StrEnum):
    """The rules (MailboxFact.rule) of facts that rest on no reply, or on another one than it seems."""

    CATCH_ALL = "catch-all"  # the domain accepts any recipient: no other is asked
    NO_SMTPUTF8 = "no-smtputf8"  # the server does not take this address
    UNSAFE = "unsafe-in-smtp"  # the address cannot be written in a command
    NOT_ALLOWED = "no-allowed-address"  # guard and source let none of the servers be dialled
    UNREACHED = "no-connection"
    TOO_SLOW = "session-deadline"
    BLOCKED = "provider-refuses-us"  # the throttle leaves the provider alone for a while
    DOUBTED = "refusals-jumped"  # the breaker took the refusal back
    CONTRADICTED = "witness-refused"  # a recipient accepted before is refused after it, too
    UNTIED = "replies-not-tied"  # which reply was the one about the mailbox is not certain
    FOREIGN = "not-the-server"  # a machine on the way answered in its name


RULE_ANSWERS: Final = {
    ProberRule.CATCH_ALL: Answer.NOT_ASKED,
    ProberRule.NO_SMTPUTF8: Answer.NOT_ASKABLE,
    ProberRule.UNSAFE: Answer.NOT_ASKABLE,
    ProberRule.NOT_ALLOWED: Answer.NOT_ALLOWED,
    ProberRule.UNREACHED: Answer.UNREACHABLE,
    ProberRule.TOO_SLOW: Answer.UNREACHABLE,
    ProberRule.BLOCKED: Answer.REFUSED_US,
    ProberRule.DOUBTED: Answer.DOUBTED,
    ProberRule.CONTRADICTED: Answer.DOUBTED,
    ProberRule.UNTIED: Answer.DOUBTED,
    ProberRule.FOREIGN: Answer.DOUBTED,
}
"""What a mailbox gets by these rules."""


@dataclass(frozen=True, slots=True)
class ClassifiedReply:
    """A reply with its meaning.

    Attributes:
        reply: as it came, the asked address replaced.
        text: its words for people, redacted.
    """

    reply: SmtpReply
    reading: ReplyReading
    text: str


class ReplyReader:
    """Classifies replies; remembers the ones it has seen, for servers repeat themselves.

    Args:
        own: our addresses and names: a reply that mentions them is about us.
    """

    def __init__(self, own: Sequence[str]) -> None:
        self._classify = lru_cache(maxsize=4096)(partial(_classified, own=tuple(own)))
        self._read_once = lru_cache(maxsize=1024)(self._read)

    def read(self, reply: SmtpReply, address: str = "") -> ClassifiedReply:
        """Return the meaning of a reply to a question about the address ("" before RCPT).

        To be asked again about a reply costs little: a session's end looks at each several times.
        """
        return self._read_once(reply, address)

    def _read(self, reply: SmtpReply, address: str) -> ClassifiedReply:
        text = _mask_ids(_mask_address(reply.text, address))
        return self._classify(reply if text is reply.text else replace(reply, text=text))

    def is_acceptance(self, address: str, reply: SmtpReply) -> bool:
        """Tell whether the reply accepts the address."""
        return self.read(reply, address).reading.answer is Answer.ACCEPTED

    def is_slow_down(self, address: str, reply: SmtpReply) -> bool:
        """Tell whether the reply is about how much or how fast we ask."""
        return is_session_limit(reply) or self.read(reply, address).reading.answer is Answer.RATE_LIMITED

    def is_unknown_for_now(self, address: str, reply: SmtpReply) -> bool:
        """Tell whether a temporary refusal speaks of an unknown user (soft_bounce, address verification)."""
        if not 400 <= reply.code <= 499 or self.read(reply, address).reading.answer is not Answer.TEMPORARY:
            return False
        return self.read(replace(reply, code=550), address).reading.answer is Answer.NOT_FOUND


def _classified(reply: SmtpReply, *, own: Sequence[str]) -> ClassifiedReply:
    return ClassifiedReply(reply, classify(reply, own=own), redact(reply.text, own=own))


def _mask_address(text: str, address: str) -> str:
    """Replace the address where the text quotes it, in whatever case."""
    if not address:
        return text
    lower, wanted = text.lower(), address.lower()
    if wanted not in lower or len(lower) != len(text):
        return text
    pieces = []
    start = 0
    while (at := lower.find(wanted, start)) >= 0:
        pieces += [text[start:at], _MASKED_ADDRESS]
        start = at + len(wanted)
    return "".join([*pieces, text[start:]])


_ID: Final = "<id>"
_SHORTEST_ID: Final = 12
_FEWEST_DIGITS: Final = 4
_ID_CHARACTERS: Final = re.compile(r"[A-Za-z0-9]+(?:[.-][A-Za-z0-9]+)*")


def _mask_ids(text: str) -> str:
    """Replace what names a session, a new one in every reply, so that replies which differ in it are one.

    Only what `redact` hides for an id as well, and never a host name, an IP address or a part of a URL.
    """
    if len(text) < _SHORTEST_ID:
        return text
    words = text.split(" ")
    ids = {word: core for word in words if (core := word.strip("[]()")) and _is_id(core)}
    if not ids:
        return text
    return " ".join([word.replace(ids[word], _ID) if word in ids else word for word in words])


def _is_id(word: str) -> bool:
    if len(word) < _SHORTEST_ID or sum(map(str.isdigit, word)) < _FEWEST_DIGITS:
        return False
    is_name = word.rpartition(".")[2].isalpha()
    is_number = not any(map(str.isalpha, word))
    return not (is_name or is_number) and _ID_CHARACTERS.fullmatch(word) is not None


def blanket_refusal(classified: ClassifiedReply, address: str) -> str:
    """Return the refusal in a form for `is_same_refusal`, "" when it speaks of this one mailbox.

    "User unknown" in so many words is never a blanket refusal, or nobody could ever be missing at a domain
    where only missing mailboxes are asked for.
    """
    reply, reading = classified.reply, classified.reading
    vague = (
        reading.answer in _BLANKET_ANSWERS
        or (reading.rule in _NO_REASON and not reply.enhanced and "://" not in reply.text)
        or (reply.enhanced.startswith(_BLANKET_CODES) and reading.rule not in _MISSING_DESPITE_CODE)
        or "access denied" in reply.text.lower()
    )
    if reply.code < 500 or not vague:
        return ""
    mailbox = re.compile(rf"(?<!\w){re.escape(address.rpartition('@')[0].lower())}(?!\w)")
    words = (_mask_word(word, mailbox) for word in reply.text.split())
    return " ".join([str(reply.code), reply.enhanced, *words])


def is_same_refusal(one: str, other: str) -> bool:
    """Tell whether two refusals in the form of `blanket_refusal` are one.

    What was blanked out in one of them stands for any word: a mailbox may be called like a word of a refusal
    ("mail", "account"), and an id may look like one.
    """
    words, others = one.split(" "), other.split(" ")
    return len(words) == len(others) and all(
        word == beside or _ANY_WORD in (word, beside) for word, beside in zip(words, others, strict=True)
    )


_ANY_WORD: Final = "#"
_MAY_DIFFER: Final = re.compile(
    rf"\d|{_ID}"
    r"|[a-z][A-Z]|[A-Z]{2}[a-z]|(?i:[b-df-hj-np-tv-z]{6})"  # ids may be of letters alone: "zGpKhQEcs"
    r"|\w[.@=_#~+/]+\w"  # a host's name, a link, "id=qwhxv"
    r"|^[\[(<{].*[\])>}]\W*$"
)


def _mask_word(word: str, mailbox: re.Pattern[str]) -> str:
    """Blank out what differs from reply to reply: the mailbox's name, session ids, times, the host's name."""
    lower = word.lower()
    return _ANY_WORD if _MAY_DIFFER.search(word) or mailbox.search(lower) else lower


@dataclass(frozen=True, slots=True)
class FinishedSession:
    """A finished session and the meaning of its replies.

    Attributes:
        plan, log: the plan and what came of it.
        replies: replies about recipients by address, without the ones about the session's size.
        last_words: what ended it, about more than its size: a refusal before the first RCPT, or a 421.
        limit: the first reply about the session's size.
        elapsed: seconds it took.
        unconfirmed_refusals: the mailboxes refused since the last acceptance.
        witness_reply: what the witness was answered, or the refusal of the transaction it was to be asked in.
    """

    plan: SessionPlan
    log: SessionLog
    replies: Mapping[str, ClassifiedReply]
    last_words: ClassifiedReply | None
    limit: ClassifiedReply | None
    elapsed: float
    unconfirmed_refusals: Sequence[str]
    witness_reply: ClassifiedReply | None

    @property
    def all_replies(self) -> list[ClassifiedReply]:
        """The replies about recipients and about us."""
        return [*self.replies.values(), *filter(None, (self.last_words,))]

    @property
    def refusal(self) -> ClassifiedReply | None:
        """The refusal that ended it before the first RCPT."""
        return self.last_words if self.log.ending is Ending.REFUSED else None

    @property
    def answered_nothing(self) -> bool:
        """Whether it ended before the first RCPT was answered for another reason than a deadline."""
        if self.log.answered or (self.plan.singly and self.log.stage is Stage.RCPT):
            return False
        return self.log.ending in (Ending.UNREACHED, Ending.REFUSED, Ending.DROPPED)


def read_session(
    plan: SessionPlan, log: SessionLog, reader: ReplyReader, *, elapsed: float
) -> FinishedSession:
    """Read the replies of a finished session."""
    limits = {
        address: answer.reply for address, answer in log.answers.items() if is_session_limit(answer.reply)
    }
    limit = next(iter(limits.values()), log.refusal if log.ending is Ending.LIMIT else None)
    last_words = log.refusal if log.ending in (Ending.REFUSED, Ending.DROPPED) else None
    return FinishedSession(
        plan,
        log,
        {
            address: reader.read(answer.reply, address)
            for address, answer in log.answers.items()
            if address not in limits
        },
        reader.read(last_words) if last_words else None,
        reader.read(limit) if limit else None,
        elapsed,
        refused_since_acceptance(log.answers, reader),
        _witness_reply(log, reader),
    )


def _witness_reply(log: SessionLog, reader: ReplyReader) -> ClassifiedReply | None:
    """Return what the witness was answered; where its transaction was refused, that refusal."""
    if log.witness_reply:
        return reader.read(log.witness_reply, log.witness)
    refusal = log.refusal if log.witness and log.ending is Ending.REFUSED else None
    return reader.read(refusal) if refusal and refusal.code not in _NOT_IMPLEMENTED else None


def refused_since_acceptance(answers: Mapping[str, TimedReply], reader: ReplyReader) -> list[str]:
    """Return who was refused after the last acceptance, in the order asked, random recipients among them."""
    refused: list[str] = []
    for address, answer in answers.items():
        meaning = reader.read(answer.reply, address).reading.answer
        if meaning is Answer.ACCEPTED:
            refused.clear()
        elif meaning in GONE:
            refused.append(address)
    return refused


def outcome_of(session: FinishedSession) -> SessionOutcome:
    """Return what the throttle should learn."""
    answers = [reply.reading.answer for reply in session.all_replies]
    if Answer.RATE_LIMITED in answers or (session.limit and not session.log.taken):
        return SessionOutcome.RATE
    if answers and all(answer is Answer.REFUSED_US for answer in answers):
        return SessionOutcome.BLOCKED
    failed = session.log.ending in (Ending.UNREACHED, Ending.DROPPED, Ending.SLOW, Ending.UNTIED)
    return SessionOutcome.FAILED if failed else SessionOutcome.CLEAN


def ledger_counts(session: FinishedSession) -> LedgerCounts:
    """Return what the ledger counts of a session."""
    readings = {address: reply.reading for address, reply in session.replies.items()}
    randoms = {name for group in session.plan.groups for name in group.randoms}
    refusal_kinds = {
        refusal_kind(reply.reading.rule) for reply in session.all_replies if reply.reading.answer in _ABOUT_US
    }
    if session.limit and not session.log.taken:
        refusal_kinds.add(LedgerKind.RATE)
    counts = {
        LedgerKind.PROBES: len(readings),
        LedgerKind.RANDOM: len(randoms.intersection(readings)),
        LedgerKind.UNKNOWN: sum(
            1 for address, reading in readings.items() if reading.answer in GONE and address not in randoms
        ),
        **dict.fromkeys(refusal_kinds, 1),
    }
    return LedgerCounts({kind: count for kind, count in counts.items() if count})


def asked_counts(session: FinishedSession) -> AskedCounts:
    """Return what a session shows of the list its real recipients are from."""
    randoms = {name for group in session.plan.groups for name in group.randoms}
    key = ThrottleKey(session.plan.throttle_key, session.plan.route.source.identity)
    answers = (
        (key, reply.reading.answer) for address, reply in session.replies.items() if address not in randoms
    )
    return count_asked(answers).get(key, NOBODY_ASKED)


def fact_of(
    plan: SessionPlan, classified: ClassifiedReply, *, now: float, lifetime: float = 0.0, took_ms: int = 0
) -> MailboxFact:
    """Return the fact a reply makes; lifetime is how many seconds a definite answer may be used again."""
    reply, reading = classified.reply, classified.reading
    return MailboxFact(
        answer=reading.answer,
        smtp_code=reply.code,
        enhanced=reply.enhanced,
        text=classified.text,
        stage=reply.stage,
        rule=reading.rule,
        host=plan.peer.host,
        address=plan.peer.address,
        source=plan.route.source.label,
        retry_after=reading.retry_after,
        took_ms=took_ms,
        asked_at=now,
        expires_at=now + lifetime if reading.answer in DEFINITE else now,
    )


def fact_by_rule(
    rule: ProberRule, stage: Stage, *, now: float, plan: SessionPlan | None = None
) -> MailboxFact:
    """Return a fact that rests on no reply."""
    return MailboxFact(
        answer=RULE_ANSWERS[rule],
        rule=rule,
        stage=stage,
        host=plan.peer.host if plan else "",
        address=plan.peer.address if plan else "",
        source=plan.route.source.label if plan else "",
        asked_at=now,
        expires_at=now,
    )


def catch_all_of(
    group: DomainRecipients, random: ClassifiedReply, *, now: float, lifetime: float
) -> CatchAllFact:
    """Return what the random recipient's answer shows about its domain; lifetime in seconds."""
    known = CATCH_ALL.get(random.reading.answer, Known.UNKNOWN)
    return CatchAllFact(
        group.domain,
        known,
        smtp_code=random.reply.code,
        text=random.text,
        blanket=blanket_refusal(random, group.random),
        learned_at=now,
        expires_at=now if known is Known.UNKNOWN else now + lifetime,
    )
