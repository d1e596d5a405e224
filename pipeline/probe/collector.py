"""What a finished session means for its addresses: facts, waits, another session or the next server; pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache, partial
from operator import gt
from typing import Final, NamedTuple

from mailsift.pipeline.clock import Clock
from mailsift.pipeline.facts import DEFINITE, GONE, Answer, CatchAllFact, Known, MailboxFact, Wait, WaitReason
from mailsift.pipeline.probe import wire
from mailsift.pipeline.probe.breaker import REFUSALS, RefusalWatch
from mailsift.pipeline.probe.config import ProbeConfig
from mailsift.pipeline.probe.port25 import Greeting, InterceptionDetector, greeting_name
from mailsift.pipeline.probe.queue import (
    MIN_REFUSED,
    CatchAllState,
    LearnedLimits,
    ProbeQueue,
    ProbeTarget,
    RouteQueue,
    SessionPlace,
    SessionPlan,
)
from mailsift.pipeline.probe.session import (
    DomainRecipients,
    Ending,
    SessionLog,
    TimedReply,
    TlsContext,
    is_session_limit,
    wants_one_domain,
)
from mailsift.pipeline.replies.classifier import ReplyReading, SmtpReply, classify
from mailsift.pipeline.replies.redaction import redact
from mailsift.pipeline.replies.table import Stage
from mailsift.pipeline.throttle import (
    NO_COUNTS,
    NOBODY_ASKED,
    AskedCounts,
    LedgerCounts,
    LedgerKind,
    SessionOutcome,
    ThrottleKey,
    count_asked,
    refusal_kind,
)

# A reply, classified.


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


_MASKED_ADDRESS: Final = "somebody@recipient.invalid"
"""Stands in for the asked address, so that the same refusal of two mailboxes is read once and is equal."""

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


# A refusal that everybody may get.

_BLANKET_ANSWERS: Final = frozenset({Answer.UNCLEAR, Answer.DISABLED, Answer.FULL})
_BLANKET_CODES: Final = ("5.4.1", "5.7.")  # Exchange Online's "Access denied" for every recipient, and policy
_NO_REASON: Final = frozenset({"mailbox-unavailable", "no-delivery"})
"""The rules for RFC 5321's words for 550, which its section 4.2.2 has for a policy, too: without a code or a
link of the server's own they show nothing where everybody gets them.
"""
_MISSING_DESPITE_CODE: Final = frozenset({"no-such-mailbox-5.7", "no-such-mailbox-5.7-languages"})
"""The rules for "no such user" with a code of policy, as Yandex says it (mailsift.pipeline.replies.table)."""


def blanket_refusal(classified: ClassifiedReply, address: str) -> str:
    """Return the refusal in a form for `_is_same_refusal`, "" when it speaks of this one mailbox.

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


def _is_same_refusal(one: str, other: str) -> bool:
    """Tell whether two refusals in the form of `blanket_refusal` are one.

    What was blanked out in one of them stands for any word: a mailbox may be called like a word of a refusal
    ("mail", "account"), and an id may look like one.
    """
    words, others = one.split(" "), other.split(" ")
    return len(words) == len(others) and all(
        word == beside or _ANY_WORD in (word, beside) for word, beside in zip(words, others, strict=True)
    )


def _mask_word(word: str, mailbox: re.Pattern[str]) -> str:
    """Blank out what differs from reply to reply: the mailbox's name, session ids, times, the host's name."""
    lower = word.lower()
    return _ANY_WORD if _MAY_DIFFER.search(word) or mailbox.search(lower) else lower


_ANY_WORD: Final = "#"
_MAY_DIFFER: Final = re.compile(
    rf"\d|{_ID}"
    r"|[a-z][A-Z]|[A-Z]{2}[a-z]|(?i:[b-df-hj-np-tv-z]{6})"  # ids may be of letters alone: "zGpKhQEcs"
    r"|\w[.@=_#~+/]+\w"  # a host's name, a link, "id=qwhxv"
    r"|^[\[(<{].*[\])>}]\W*$"
)


# A session, read: what it teaches the throttle, and the facts it makes.


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
        _refused_since_acceptance(log.answers, reader),
        _witness_reply(log, reader),
    )


def _witness_reply(log: SessionLog, reader: ReplyReader) -> ClassifiedReply | None:
    """Return what the witness was answered; where its transaction was refused, that refusal."""
    if log.witness_reply:
        return reader.read(log.witness_reply, log.witness)
    refusal = log.refusal if log.witness and log.ending is Ending.REFUSED else None
    return reader.read(refusal) if refusal and refusal.code not in _NOT_IMPLEMENTED else None


_NOT_IMPLEMENTED: Final = frozenset({500, 502})  # RFC 5321 section 4.2.4: of RSET, whoever sends it


def _refused_since_acceptance(answers: Mapping[str, TimedReply], reader: ReplyReader) -> list[str]:
    """Return who was refused after the last acceptance, in the order asked, random recipients among them."""
    refused: list[str] = []
    for address, answer in answers.items():
        meaning = reader.read(answer.reply, address).reading.answer
        if meaning is Answer.ACCEPTED:
            refused.clear()
        elif meaning in GONE:
            refused.append(address)
    return refused


def _outcome_of(session: FinishedSession) -> SessionOutcome:
    """Return what the throttle should learn."""
    answers = [reply.reading.answer for reply in session.all_replies]
    if Answer.RATE_LIMITED in answers or (session.limit and not session.log.taken):
        return SessionOutcome.RATE
    if answers and all(answer is Answer.REFUSED_US for answer in answers):
        return SessionOutcome.BLOCKED
    failed = session.log.ending in (Ending.UNREACHED, Ending.DROPPED, Ending.SLOW, Ending.UNTIED)
    return SessionOutcome.FAILED if failed else SessionOutcome.CLEAN


def _ledger_counts(session: FinishedSession) -> LedgerCounts:
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


_ABOUT_US: Final = frozenset({Answer.REFUSED_US, Answer.RATE_LIMITED})


def _asked_counts(session: FinishedSession) -> AskedCounts:
    """Return what a session shows of the list its real recipients are from."""
    randoms = {name for group in session.plan.groups for name in group.randoms}
    key = ThrottleKey(session.plan.throttle_key, session.plan.route.source.identity)
    answers = (
        (key, reply.reading.answer) for address, reply in session.replies.items() if address not in randoms
    )
    return count_asked(answers).get(key, NOBODY_ASKED)


class SessionSummary(NamedTuple):
    """What a session came to: its outcome for the throttle, its counts for the ledger and for the list."""

    outcome: SessionOutcome
    ledger: LedgerCounts
    asked: AskedCounts = NOBODY_ASKED


DISCARDED_SESSION: Final = SessionSummary(SessionOutcome.FAILED, NO_COUNTS)
"""The end of a session that was cut off, or was held with a machine on the way."""


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


def _fact_of(
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


def _fact_without_reply(
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


CATCH_ALL: Final = {Answer.ACCEPTED: Known.YES, Answer.NOT_FOUND: Known.NO}
"""What the random recipient's answer shows about the domain; any other is unknown."""


def _catch_all_of(
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


# What follows for the route of a session.

MAX_DROPS: Final = 3
"""Sessions with a single recipient that may end without an answer before a route is left alone for now."""

MAX_ASKED_AGAIN: Final = 10
"""So many refusals of a session that accepted nobody are checked by asking the same mailboxes again."""

_BEFORE_MAIL: Final = frozenset({Stage.CONNECT, Stage.BANNER, Stage.EHLO})


class NextStep(StrEnum):
    """What follows for the route of a finished session; docs/probe.md draws it."""

    CONTINUE = "continue"  # what is left, if anything, gets another session
    FEWER_SESSIONS = "fewer_sessions"  # the server holds no more sessions of ours than it has now
    FEWER_RECIPIENTS = "fewer_recipients"  # slow, but it answers: smaller sessions
    LEARN_LIMIT = "learn_limit"  # it named what it takes in one session
    ASK_SINGLY = "ask_singly"  # its answers could not be believed: one mailbox a session
    LEAVE_ALONE = "leave_alone"  # it refuses a recipient it had accepted: all that are left wait
    RECONNECT = "reconnect"  # the mailbox waits, the rest gets other sessions
    NEXT_SERVER = "next_server"
    CLOSE = "close"  # all that are left get this session's fact
    GIVE_UP = "give_up"  # too slow: all that are left are unreachable, or wait for a more patient try


def next_step(session: FinishedSession, *, session_s: float, patient: bool) -> NextStep:
    """Decide what follows for the route of a session, which no longer counts as running.

    A route whose servers all failed is given up after `session_s`; `patient`: sessions get all the time they
    want.
    """
    if session.answered_nothing:
        return _next_step_unanswered(session, session_s)
    is_untied = session.log.ending in (Ending.DROPPED, Ending.UNTIED) or session.log.is_half_answered
    if is_untied and not session.plan.singly:
        return NextStep.ASK_SINGLY
    match session.log.ending:
        case Ending.DROPPED | Ending.UNTIED:
            goes_on = session.plan.route.drops + 1 < MAX_DROPS
            return NextStep.RECONNECT if goes_on else NextStep.CLOSE
        case Ending.SLOW:
            return NextStep.FEWER_RECIPIENTS if patient and session.log.answered else NextStep.GIVE_UP
        case _ if session.witness_reply is not None and session.witness_reply.reading.answer in REFUSALS:
            return NextStep.LEAVE_ALONE
        case _:
            return NextStep.CONTINUE if session.limit is None else NextStep.LEARN_LIMIT


def _next_step_unanswered(session: FinishedSession, session_s: float) -> NextStep:
    route, refusal = session.plan.route, session.refusal
    if session.log.stage in _BEFORE_MAIL:
        not_now = refusal is not None and refusal.reply.code < 500
        if route.running:
            at_limit = not_now or (refusal is None and route.has_answered)
        else:  # those that were under way when it began have ended, and been answered, meanwhile
            at_limit = not_now and route.has_answered and session.plan.beside > 0
        if at_limit:
            return NextStep.FEWER_SESSIONS
    if refusal is not None and not _is_worth_another_server(refusal.reply):
        return NextStep.CLOSE
    if not any(peer is not session.plan.peer for peer in route.peers):
        return NextStep.CLOSE
    seconds_lost = session.elapsed if route.peers[0] is session.plan.peer else 0.0
    return NextStep.GIVE_UP if route.seconds_lost + seconds_lost >= session_s else NextStep.NEXT_SERVER


def _is_worth_another_server(refusal: SmtpReply) -> bool:
    """Hanging up, a 421, a 4xx banner and trouble of its system speak for one server; else all refuse alike.

    RFC 3463 section 3.4: X.3.X is the mail system, a full disk say.
    """
    is_its_own = refusal.stage is Stage.BANNER or refusal.enhanced.startswith("4.3.")
    return refusal.code in (0, 421) or (is_its_own and refusal.code < 500)


# What one call finds out.

WAITS: Final = {
    Answer.GREYLISTED: WaitReason.GREYLISTED,
    Answer.RATE_LIMITED: WaitReason.DEFERRED,
    Answer.TEMPORARY: WaitReason.DEFERRED,
}
"""The answers after which a mailbox has to be asked again later."""

NETWORK_SECONDS: Final = 15.0
"""Until what waits for our network asks for it again."""

NOT_WORTH_ASKING: Final = frozenset(
    {Answer.ACCEPTED, Answer.REFUSED_US, Answer.RATE_LIMITED, Answer.TEMPORARY}
)
"""After these to the random recipient the real ones are not asked: they would get the same answer.

A reply that says "later" (_OFTEN_SERVER_WIDE) is no such answer on the last try, nor where it speaks of an
unknown user: then it may be meant for the random recipient alone. Greylisting is not among them: its clock
starts for each recipient when it is asked for the first time.
"""

_OFTEN_SERVER_WIDE: Final = frozenset({Answer.RATE_LIMITED, Answer.TEMPORARY})

_COMES_BACK: Final = Wait(WaitReason.DEFERRED, 0.0)

_WITNESS_CONFIRMS: Final = frozenset({Answer.ACCEPTED, Answer.FULL, Answer.RATE_LIMITED})
"""The answers by which a witness confirms the refusals before it: "slow down" denies no mailbox."""


@dataclass(slots=True)
class ProbeContext:
    """What all calls of a process share.

    Attributes:
        tls: context for STARTTLS, None to stay in the clear.
        interception: whether it is the servers themselves who answer.
        learned: limits the providers have shown.
        open_sessions: open sessions of all calls together.
        reopen_callbacks: one for each call under way: gets the throttle keys at which another call has
            ended sessions.
    """

    config: ProbeConfig
    clock: Clock
    reader: ReplyReader
    tls: TlsContext | None
    interception: InterceptionDetector
    learned: LearnedLimits = field(default_factory=LearnedLimits)
    open_sessions: int = 0
    reopen_callbacks: set[Callable[[Collection[tuple[str, str]]], None]] = field(default_factory=set)


@dataclass(slots=True)
class ResultCollector:
    """Collects what one call finds out.

    Attributes:
        queue, catch_alls: what is still to be asked.
        watch: counts every answer, and names the refusals that are doubted.
        session_s: seconds a session was given.
        witnesses: facts about mailboxes that were accepted and are judged otherwise, by address.
        mailboxes, waits: what has been found out so far, by address.
        mailboxes_found: gets every fact as well, to show progress.
        rests: seconds until asking a provider from a source makes sense again, by key and identity.
    """

    context: ProbeContext
    queue: ProbeQueue
    catch_alls: CatchAllState
    watch: RefusalWatch
    session_s: float
    witnesses: dict[str, MailboxFact] = field(default_factory=dict)
    mailboxes: dict[str, MailboxFact] = field(default_factory=dict)
    mailboxes_found: dict[str, MailboxFact] = field(default_factory=dict)
    waits: dict[str, Wait] = field(default_factory=dict)
    rests: dict[tuple[str, str], float] = field(default_factory=dict)
    _greeted: dict[tuple[str, str], list[SessionPlan]] = field(default_factory=dict)  # by source and name
    _undecided: dict[str, Wait] = field(default_factory=dict)  # domains whose random recipient has to wait
    _asked_again: list[tuple[list[str], list[str]]] = field(default_factory=list)  # and who stands with them

    def record_session(self, plan: SessionPlan, log: SessionLog, *, elapsed: float) -> SessionSummary:
        """Record what a session found out and put the rest where it belongs."""
        is_intercepted = self._is_intercepted(plan, log)
        session = read_session(plan, log, self.context.reader, elapsed=elapsed)
        plan.route.has_answered = plan.route.has_answered or log.answered > 0
        if log.ending is Ending.REFUSED and log.answered:
            self.context.learned.one_transaction.add(plan.throttle_key)
        left = {group.domain: self._record_domain(session, group) for group in plan.groups}
        self._record_witness(session)
        step = next_step(session, session_s=self.session_s, patient=self._is_patient)
        if step is NextStep.RECONNECT:
            self._record_interrupted(session, left)
        elif step is NextStep.ASK_SINGLY:
            plan.route.untied += 1
        elif session.replies and not plan.singly:
            plan.route.untied = 0
        elif session.answered_nothing and step is not NextStep.FEWER_SESSIONS:
            self._leave_server(session)
        self.requeue(plan.route, left, singly=plan.singly or step is NextStep.ASK_SINGLY)
        self._apply_step(step, session)
        if is_intercepted:
            return DISCARDED_SESSION
        outcome = SessionOutcome.CLEAN if step is NextStep.FEWER_SESSIONS else _outcome_of(session)
        return SessionSummary(outcome, _ledger_counts(session), _asked_counts(session))

    def close(self, route: RouteQueue, fact: MailboxFact, wait: Wait | None) -> None:
        """Give everything in the route, and all that comes back to it, the same fact."""
        route.closed = fact, wait
        self._record_all(route.drain(), fact, wait)

    def is_worth_queueing(self, target: ProbeTarget) -> bool:
        """Tell whether a target is to be asked about; where it need not be, it gets its fact at once."""
        is_safe = wire.is_safe(target.address)
        if is_safe and not self.catch_alls.accepts_all(target.domain):
            return True
        rule = ProberRule.CATCH_ALL if is_safe else ProberRule.UNSAFE
        self.mailboxes[target.address] = self._unasked_fact(rule, Stage.RCPT)
        return False

    def enqueue(self, route: RouteQueue, target: ProbeTarget) -> None:
        """Queue a target; where nothing may be dialled it gets its fact at once."""
        if not route.peers and route.closed is None:
            self.close(route, self._unasked_fact(ProberRule.NOT_ALLOWED), None)
        self.requeue(route, {target.domain: [target.address]})

    def requeue(self, route: RouteQueue, left: Mapping[str, Sequence[str]], *, singly: bool = False) -> None:
        """Queue addresses by domain; those of a closed route get its fact."""
        for domain, addresses in left.items():
            if route.closed is None:
                self.queue.put(route, domain, addresses, singly=singly)
            else:
                self._record_all(addresses, *route.closed)

    def defer(self, addresses: Iterable[str], reason: WaitReason, delay: float) -> None:
        """Hand addresses back unasked."""
        self.waits.update(dict.fromkeys(addresses, Wait(reason, delay)))

    def record_blocked(self, addresses: Iterable[str], delay: float) -> None:
        """Hand addresses back unasked whose provider refuses us; that is what they end with, too."""
        self._record_all(addresses, self._unasked_fact(ProberRule.BLOCKED), Wait(WaitReason.BLOCKED, delay))

    def record_stopped(self, addresses: Iterable[str], delay: float) -> None:
        """Hand addresses back unasked because too many of their list are unknown there."""
        fact = MailboxFact(answer=Answer.TOO_MANY_MISSING)
        self._record_all(addresses, fact, Wait(WaitReason.TOO_MANY_MISSING, delay))

    def retract_doubted_refusals(self) -> None:
        """Take back the refusals that are not to be believed: the addresses come back later."""
        for address in self.watch.doubted():
            self._retract_refusal(address, ProberRule.DOUBTED)

    def ask_again(self) -> bool:
        """Queue some whom a server refused alone although it accepts others; tell whether there are any.

        That it accepts somebody in another session does not show that it knew anybody in theirs.
        """
        queue, samples = self.queue, list[str]()
        for server in queue.accepted_at.keys() & queue.refused_alone.keys():
            for route, refused in queue.refused_alone.pop(server):
                if queue.refused_at[server] < MIN_REFUSED:
                    continue
                sample, rest = refused[:MAX_ASKED_AGAIN], refused[MAX_ASKED_AGAIN:]
                self._asked_again.append((sample, rest))
                samples += sample
                for address in sample:
                    self._retract_refusal(address, ProberRule.CONTRADICTED, None)
                    self.requeue(route, {address.rpartition("@")[2]: [address]})
        return bool(samples)

    def retract_unproven_refusals(self) -> None:
        """Take back what servers refused that had accepted somebody, though not in a session to be believed.

        Whom they accepted there is the witness of the next try. What a server refused and never
        confirmed is taken back, too, where it refused the witness of another route or knows nobody at many
        domains, and where somebody who was asked again is no longer refused.
        """
        for sample, rest in self._asked_again:
            if any(self.mailboxes[one].answer not in GONE for one in sample):
                for address in rest:
                    self._retract_refusal(address, ProberRule.CONTRADICTED)
        for route in self.queue.routes.values():
            if self.queue.has_turned(route):
                self._retract_unconfirmed(route)
            if route.disbelieved and not route.witness and route.refused >= MIN_REFUSED:
                self.witnesses |= route.disbelieved
                self._retract_unconfirmed(route)

    def is_worth_asking(self, random: str, reply: SmtpReply) -> bool:
        """Tell whether real recipients are worth asking after this reply to the random one."""
        answer = self.context.reader.read(reply, random).reading.answer
        if answer not in _OFTEN_SERVER_WIDE:
            return answer not in NOT_WORTH_ASKING
        is_last_try = random.rpartition("@")[2] in self.catch_alls.last_tries
        return is_last_try or self.context.reader.is_unknown_for_now(random, reply)

    def pick_witness(self, plan: SessionPlan, answers: Mapping[str, TimedReply]) -> str:
        """Return whom to ask again at the end of a session, "" when nothing depends on it."""
        reader, random = self.context.reader, {group.random for group in plan.groups}
        refused = _refused_since_acceptance(answers, reader)
        readings = (reader.read(reply.reply, address).reading for address, reply in answers.items())
        self.queue.inherit(plan.route, plan.peer)
        all_refused = plan.route.refused + sum(reading.answer in GONE for reading in readings)
        needs_none = random.issuperset(refused) and not plan.route.refused_behind
        if needs_none or all_refused < MIN_REFUSED:
            return ""
        if any(reader.is_slow_down(address, reply.reply) for address, reply in answers.items()):
            return ""  # the next recipient would get the same reply
        accepted = [
            address for address, reply in answers.items() if reader.is_acceptance(address, reply.reply)
        ]
        return accepted[-1] if accepted else plan.route.witness

    def suspect_names(self, now: float) -> list[tuple[str, str]]:
        """Return the sources and names for which the way should be looked at before they are believed."""
        addresses = {
            key: {plan.throttle_key: plan.peer.address for plan in plans}
            for key, plans in self._greeted.items()
        }
        is_suspect = self.context.interception.is_suspect
        return [key for key, by_provider in addresses.items() if is_suspect(*key, by_provider, now)]

    def retract_intercepted(self) -> None:
        """Discard every answer a machine on the way gave in place of mail servers: those were never asked."""
        is_intercepted = self.context.interception.is_intercepted
        plans = [plan for key, plans in self._greeted.items() if is_intercepted(*key) for plan in plans]
        domains = {group.domain for plan in plans for group in plan.groups}
        for domain in domains:
            self.catch_alls.forget(domain)
        foreign = [address for address in self.mailboxes if address.rpartition("@")[2] in domains]
        wait = Wait(WaitReason.OUR_NETWORK, NETWORK_SECONDS)
        self._record_all(foreign, self._unasked_fact(ProberRule.FOREIGN), wait)

    @property
    def _is_patient(self) -> bool:
        return self.session_s >= self.context.config.session_seconds

    def _is_intercepted(self, plan: SessionPlan, log: SessionLog) -> bool:
        """Record the host name that answered for the domains; returns whether it is a machine on the way."""
        source, name = plan.route.source.identity, greeting_name(log.banner)
        self._greeted.setdefault((source, name), []).append(plan)
        detector = self.context.interception
        detector.record_greeting(source, plan.throttle_key, Greeting(plan.peer.address, name))
        return detector.is_intercepted(source, name)

    def _apply_step(self, step: NextStep, session: FinishedSession) -> None:
        route = session.plan.route
        match step:
            case NextStep.CONTINUE | NextStep.RECONNECT | NextStep.ASK_SINGLY | NextStep.NEXT_SERVER:
                pass
            case NextStep.FEWER_SESSIONS:
                route.max_sessions = min(route.max_sessions, max(1, route.running))
            case NextStep.FEWER_RECIPIENTS:
                route.max_recipients = max(1, session.log.answered // 2)
            case NextStep.LEARN_LIMIT:
                self._learn_limit(session)
            case NextStep.CLOSE:
                self._close_after(session)
            case NextStep.LEAVE_ALONE:
                fact = self._fact_by_rule(ProberRule.CONTRADICTED, session)
                self.close(route, fact, _COMES_BACK)
            case NextStep.GIVE_UP:
                fact = self._fact_by_rule(ProberRule.TOO_SLOW, session)
                self.close(route, fact, None if self._is_patient else Wait(WaitReason.SLOW, 0.0))

    def _record_domain(self, session: FinishedSession, group: DomainRecipients) -> list[str]:
        """Record the answers about one domain; return the addresses that have none."""
        random = session.replies.get(group.random) or self._late_acceptance(session, group)
        if random is not None:
            self._record_catch_all(session, group, random)
        addresses: Iterable[str] = group.addresses
        everybody: MailboxFact | None = None
        if random is not None and not self.is_worth_asking(group.random, random.reply):
            everybody = self._fact_for_everybody(session, random, group.random)
            addresses = (*group.addresses, *self.queue.drop_domain(group.domain))
        unanswered = []
        for address in addresses:
            fact = self._fact_about(session, group, address, everybody)
            if fact is None:
                unanswered.append(address)
            else:
                self._record(address, fact, self._wait_for(group.domain, fact))
                self.watch.count(session.plan.throttle_key, address, fact)
        return unanswered

    def _record_witness(self, session: FinishedSession) -> None:
        """Take back what a refused witness contradicts; keep an accepted recipient as the next witness."""
        route, log = session.plan.route, session.log
        route.disbelieved |= self._disbelieved(session)
        accepted = [
            address for address, reply in session.replies.items() if reply.reading.answer is Answer.ACCEPTED
        ]
        confirmed = (
            session.witness_reply is not None and session.witness_reply.reading.answer in _WITNESS_CONFIRMS
        )
        server = route.source.label, session.plan.peer.address
        if accepted:  # one of a catch-all is taken unseen: better is somebody who was looked up
            seen = [one for one in accepted if not self.catch_alls.accepts_all(one.rpartition("@")[2])]
            witness = seen[-1] if seen else route.witness or accepted[-1]
            route.witness = self.queue.accepted_at[server] = witness
        self._record_places(session, accepted, confirmed=confirmed)
        if confirmed or accepted:
            before = session.plan.refused_before
            route.unconfirmed_refusals = [one for one in route.unconfirmed_refusals if one not in before]
        refused = sum(1 for reply in session.replies.values() if reply.reading.answer in GONE)
        route.refused += refused
        self.queue.refused_at[server] += refused
        if refused > 1 and not (accepted or log.witness):  # who asks for one hears of no other
            real = [one for group in session.plan.groups for one in group.addresses if one in session.replies]
            gone = [one for one in real if session.replies[one].reading.answer in GONE]
            self.queue.refused_alone[server].append((route, gone))
            self.queue.silent_domains[server].update(one.rpartition("@")[2] for one in gone)
        if not confirmed:
            asked_again = {group.confirm for group in session.plan.groups}  # what they got first stands
            route.unconfirmed_refusals += [
                address for address in session.unconfirmed_refusals if address not in asked_again
            ]
        was_refused = route.closed is not None and route.closed[0].rule == ProberRule.CONTRADICTED
        if not confirmed and (session.witness_reply is not None or was_refused):
            self._retract_unconfirmed(route)
            if session.witness_reply is not None and session.witness_reply.reading.answer in REFUSALS:
                self.queue.turned_at.add(server)
            if log.witness and log.witness not in self.catch_alls.randoms.values():
                self.waits.setdefault(log.witness, _COMES_BACK)  # so its fact is at hand

    def _record_places(self, session: FinishedSession, accepted: Collection[str], *, confirmed: bool) -> None:
        """Note who was refused behind the last place in a session at which anybody has been accepted.

        A server may look up the first recipients of a session only, or nobody behind a refusal; a refused
        witness shows that.
        """
        route, refusals = session.plan.route, 0
        gone = {address for address, reply in session.replies.items() if reply.reading.answer in GONE}
        places: dict[str, SessionPlace] = {}
        for number, address in enumerate(session.log.answers):
            places[address] = SessionPlace(number, refusals)
            refusals += address in gone
        believed = [SessionPlace(len(places), refusals)] if confirmed else [places[one] for one in accepted]
        last = SessionPlace(*map(max, zip(route.accepted_behind, *believed, strict=True)))
        if last != route.accepted_behind:
            route.accepted_behind = last
            route.refused_behind = _behind(last, route.refused_behind)
        route.refused_behind |= _behind(
            last, {address: places[address] for address in places if address in gone}
        )

    def _disbelieved(self, session: FinishedSession) -> dict[str, MailboxFact]:
        """Return whom a session accepted whose answers do not count; nobody is judged by these facts."""
        read, replies = self.context.reader.read, session.log.disbelieved
        return {
            address: _fact_of(session.plan, read(replies[address].reply, address), now=self.context.clock())
            for group in session.plan.groups
            for address in group.addresses
            if address in replies and self.context.reader.is_acceptance(address, replies[address].reply)
        }

    def _retract_unconfirmed(self, route: RouteQueue) -> None:
        """Take back what only a witness that is no longer accepted could have proven."""
        for address in {*route.unconfirmed_refusals, *route.refused_behind}:
            self._retract_refusal(address, ProberRule.CONTRADICTED)
            domain = address.rpartition("@")[2]
            if address == self.catch_alls.randoms.get(domain):
                self.catch_alls.forget(domain)
                self._undecided[domain] = _COMES_BACK
        route.unconfirmed_refusals.clear()
        route.refused_behind.clear()

    def _retract_refusal(self, address: str, rule: ProberRule, wait: Wait | None = _COMES_BACK) -> None:
        """Take a refusal back: the address comes back later, or is asked again at once."""
        fact = self.mailboxes.get(address)
        if fact is not None:
            fact = replace(fact, answer=Answer.DOUBTED, rule=rule, expires_at=fact.asked_at)
            self._record(address, fact, wait)

    def _late_acceptance(self, session: FinishedSession, group: DomainRecipients) -> ClassifiedReply | None:
        """Return the reply that shows that a domain is a catch-all by now, None where none does."""
        random = session.replies.get(group.confirm)
        if group.confirm:
            self.catch_alls.unconfirmed.add(group.domain)  # so has the next session
        return random if random and random.reading.answer is Answer.ACCEPTED else None

    def _fact_about(
        self, session: FinishedSession, group: DomainRecipients, address: str, everybody: MailboxFact | None
    ) -> MailboxFact | None:
        reply = session.replies.get(address)
        if reply is None or (everybody is not None and everybody.answer is Answer.NOT_ASKED):
            if everybody is None and address in session.log.not_askable:
                return self._fact_by_rule(ProberRule.NO_SMTPUTF8, session)
            return everybody
        fact = self._reply_fact(session, reply, session.log.answers[address].took_ms)
        return replace(fact, blanket=True) if self._may_be_for_all(group.domain, address, reply) else fact

    def _may_be_for_all(self, domain: str, address: str, reply: ClassifiedReply) -> bool:
        """Tell whether a refusal is the random recipient's, or vague where that one's answer is not known."""
        known = self.catch_alls.known.get(domain)
        if known is None or domain in self._undecided:
            return reply.reading.answer in GONE and bool(blanket_refusal(reply, address))
        return bool(known.blanket) and _is_same_refusal(blanket_refusal(reply, address), known.blanket)

    def _fact_for_everybody(
        self, session: FinishedSession, random: ClassifiedReply, address: str
    ) -> MailboxFact:
        """Return what real recipients get whom the random one has made superfluous to ask."""
        if random.reading.answer is not Answer.ACCEPTED:
            return self._reply_fact(session, random, session.log.answers[address].took_ms)
        now = self.context.clock()
        return _fact_without_reply(ProberRule.CATCH_ALL, Stage.RCPT, now=now, plan=session.plan)

    def _record_catch_all(
        self, session: FinishedSession, group: DomainRecipients, random: ClassifiedReply
    ) -> None:
        """Record what the random recipient's answer shows about its domain."""
        lifetime, answer = self.context.config.catch_all_seconds, random.reading.answer
        fact = _catch_all_of(group, random, now=self.context.clock(), lifetime=lifetime)
        self.catch_alls.learn(fact, session.plan.peer.preference)
        if fact.catch_all is Known.NO:
            self.catch_alls.unconfirmed.add(group.domain)  # later sessions may get another answer
        if answer in WAITS and not self.context.reader.is_unknown_for_now(group.random, random.reply):
            self._undecided[group.domain] = Wait(WAITS[answer], random.reading.retry_after)
        else:
            self._undecided.pop(group.domain, None)

    def _wait_for(self, domain: str, fact: MailboxFact) -> Wait | None:
        """Return what the address has to wait for.

        An acceptance, and a refusal that may be everybody's, count only when the random one is known.
        """
        if fact.answer in WAITS:
            return Wait(WAITS[fact.answer], fact.retry_after)
        return self._undecided.get(domain) if fact.answer is Answer.ACCEPTED or fact.blanket else None

    def _record_interrupted(self, session: FinishedSession, left: Mapping[str, list[str]]) -> None:
        """Defer the address without an answer: it may be what the server hangs up at."""
        session.plan.route.drops += 1
        for addresses in left.values():
            while addresses:
                self._record(addresses.pop(), self._interrupted_fact(session), _COMES_BACK)

    def _interrupted_fact(self, session: FinishedSession) -> MailboxFact:
        """Return what they get whose session broke off, could not be believed or took nobody."""
        if session.log.ending is Ending.UNTIED:
            return self._fact_by_rule(ProberRule.UNTIED, session)
        limit = None if session.log.ending is Ending.DROPPED else session.limit
        hang_up = SmtpReply(session.log.stage, 0)
        return self._reply_fact(session, limit or self.context.reader.read(hang_up))

    def _leave_server(self, session: FinishedSession) -> None:
        """Record the refusal, and drop this server unless all of them would refuse alike."""
        route, refusal = session.plan.route, session.refusal
        if refusal is not None:
            route.refusal = self._reply_fact(session, refusal)
        elif session.log.ending is Ending.DROPPED and session.log.stage is not Stage.BANNER:
            route.refusal = self._interrupted_fact(session)  # hanging up before the banner shows nothing
        is_left = refusal is None or _is_worth_another_server(refusal.reply)
        if is_left and route.peers and route.peers[0] is session.plan.peer:
            route.peers.popleft()
            route.seconds_lost += session.elapsed

    def _close_after(self, session: FinishedSession) -> None:
        """Close the route: no recipient of it would fare better than this session."""
        route = session.plan.route
        if session.answered_nothing:
            fact = route.refusal or self._fact_by_rule(ProberRule.UNREACHED, session)
            self.close(route, fact, self._wait_for("", fact))
        else:
            fact = self._interrupted_fact(session)
            self.close(route, fact, Wait(WaitReason.DEFERRED, fact.retry_after))

    def _learn_limit(self, session: FinishedSession) -> None:
        """Learn how much the server takes in one session; one that takes nothing is left alone for now."""
        provider, limit, learned = session.plan.throttle_key, session.limit, self.context.learned
        several = len(session.plan.groups) > 1 and provider not in learned.one_domain
        if limit is not None and several and wants_one_domain(limit.reply):
            learned.one_domain.add(provider)
        elif session.log.taken:
            learned.learn_recipients(provider, session.log.taken)
        else:
            self._close_after(session)

    def _reply_fact(self, session: FinishedSession, reply: ClassifiedReply, took_ms: int = 0) -> MailboxFact:
        now, lifetime = self.context.clock(), self.context.config.mailbox_seconds
        return _fact_of(session.plan, reply, now=now, lifetime=lifetime, took_ms=took_ms)

    def _fact_by_rule(self, rule: ProberRule, session: FinishedSession) -> MailboxFact:
        return _fact_without_reply(rule, session.log.stage, now=self.context.clock(), plan=session.plan)

    def _unasked_fact(self, rule: ProberRule, stage: Stage = Stage.CONNECT) -> MailboxFact:
        return _fact_without_reply(rule, stage, now=self.context.clock())

    def _record(self, address: str, fact: MailboxFact, wait: Wait | None) -> None:
        self.mailboxes[address] = self.mailboxes_found[address] = fact
        if wait is not None:
            self.waits[address] = wait

    def _record_all(self, addresses: Iterable[str], fact: MailboxFact, wait: Wait | None) -> None:
        for address in addresses:
            self._record(address, fact, wait)


def _behind(last: SessionPlace, places: Mapping[str, SessionPlace]) -> dict[str, SessionPlace]:
    return {address: place for address, place in places.items() if any(map(gt, place, last))}
