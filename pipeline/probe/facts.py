"""A finished session in the words of facts: what was heard, what was not, and what the throttle may learn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pipeline.facts import Answer, CatchAllFact, Known, MailboxFact
from pipeline.ports import Outcome
from pipeline.probe.cache import DEFINITE
from pipeline.probe.lanes import Visit
from pipeline.probe.reading import CATCH_ALL, Listener, Said, blanket_of
from pipeline.replies.row import Stage
from pipeline.smtp.limits import is_session_limit
from pipeline.smtp.link import Ending
from pipeline.smtp.session import Group, SessionLog

CATCH_ALL_RULE: Final = "catch-all"
NO_SMTPUTF8: Final = "no-smtputf8"
UNSAFE: Final = "unsafe-in-smtp"
TOO_SLOW: Final = "session-deadline"
UNREACHED: Final = "no-connection"
NOT_ALLOWED: Final = "no-allowed-address"
HELD: Final = "provider-refuses-us"
DOUBTED: Final = "refusals-jumped"
"""The rules of facts that no reply stands behind, or another one than it seems."""


@dataclass(frozen=True, slots=True)
class Session:
    """A finished session and the meaning of what was heard.

    Attributes:
        visit, log: the plan and what came of it.
        said: replies about recipients by address, without the ones about the session's size.
        limit: the first reply about the session's size.
        elapsed: seconds it took.
    """

    visit: Visit
    log: SessionLog
    said: Mapping[str, Said]
    limit: Said | None
    elapsed: float

    @property
    def unfinished(self) -> bool:
        """Whether it ended before the first RCPT was answered for another reason than a deadline."""
        return not self.log.answers and self.log.ending in (Ending.UNREACHED, Ending.REFUSED, Ending.DROPPED)


def understand(visit: Visit, log: SessionLog, listener: Listener, *, elapsed: float) -> Session:
    """Read the replies of a finished session."""
    limits = {a: heard.reply for a, heard in log.answers.items() if is_session_limit(heard.reply)}
    first = next(iter(limits.values()), log.refusal if log.ending is Ending.LIMIT else None)
    said = {a: listener.hear(heard.reply, a) for a, heard in log.answers.items() if a not in limits}
    return Session(visit, log, said, listener.hear(first) if first else None, elapsed)


def outcome_of(session: Session, refusal: Said | None) -> Outcome:
    """Return what the throttle should learn; refusal is what ended it before RCPT."""
    answers = [said.reading.answer for said in session.said.values()]
    if refusal is not None:
        answers.append(refusal.reading.answer)
    if Answer.RATE_LIMITED in answers or (session.limit and not session.said):
        return Outcome.RATE
    if answers and all(answer is Answer.REFUSED_US for answer in answers):
        return Outcome.BLOCKED
    failed = session.log.ending in (Ending.UNREACHED, Ending.DROPPED, Ending.SLOW)
    return Outcome.FAILED if failed else Outcome.CLEAN


def fact_of(visit: Visit, said: Said, *, now: float, lifetime: float = 0.0, took_ms: int = 0) -> MailboxFact:
    """Return the fact a reply makes; lifetime is how many seconds a definite answer may be used again."""
    reply, reading = said.reply, said.reading
    return MailboxFact(
        answer=reading.answer,
        smtp_code=reply.code,
        enhanced=reply.enhanced,
        text=said.text,
        stage=reply.stage,
        rule=reading.rule,
        host=visit.peer.host,
        address=visit.peer.address,
        source=visit.lane.source.label,
        retry_after=reading.retry_after,
        took_ms=took_ms,
        asked_at=now,
        expires_at=now + lifetime if reading.answer in DEFINITE else now,
    )


def silence(
    answer: Answer, rule: str, stage: Stage, *, now: float, visit: Visit | None = None
) -> MailboxFact:
    """Return a fact that no reply stands behind."""
    return MailboxFact(
        answer=answer,
        rule=rule,
        stage=stage,
        host=visit.peer.host if visit else "",
        address=visit.peer.address if visit else "",
        source=visit.lane.source.label if visit else "",
        asked_at=now,
        expires_at=now,
    )


def catch_all_of(group: Group, random: Said, *, now: float, lifetime: float) -> CatchAllFact:
    """Return what the answer to the random recipient says about its domain; lifetime in seconds."""
    known = CATCH_ALL.get(random.reading.answer, Known.UNKNOWN)
    return CatchAllFact(
        group.domain,
        known,
        smtp_code=random.reply.code,
        text=random.text,
        blanket=blanket_of(random, group.probe),
        learned_at=now,
        expires_at=now if known is Known.UNKNOWN else now + lifetime,
    )
