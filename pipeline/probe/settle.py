"""What a finished session means for its addresses: facts, waits, another session or the next server; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from pipeline.clock import Clock
from pipeline.facts import Answer, MailboxFact
from pipeline.ports import Outcome
from pipeline.probe.breaker import Watch
from pipeline.probe.facts import (
    CATCH_ALL_RULE,
    DOUBTED,
    HELD,
    NO_SMTPUTF8,
    NOT_ALLOWED,
    TOO_SLOW,
    UNREACHED,
    Session,
    catch_all_of,
    fact_of,
    outcome_of,
    silence,
    understand,
)
from pipeline.probe.lanes import Book, Lane, Visit
from pipeline.probe.plan import Board
from pipeline.probe.reading import NOT_WORTH_ASKING, Listener, Said, blanket_of
from pipeline.probe.words import Wait, WaitReason
from pipeline.replies.classifier import Reply
from pipeline.replies.row import Stage
from pipeline.smtp.config import ProbeConfig
from pipeline.smtp.limits import Learned, wants_one_domain
from pipeline.smtp.link import Ending
from pipeline.smtp.session import Group, Heard, SessionLog

_WAITS: Final = {
    Answer.GREYLISTED: WaitReason.GREYLISTED,
    Answer.RATE_LIMITED: WaitReason.DEFERRED,
    Answer.TEMPORARY: WaitReason.DEFERRED,
}
_BEFORE_MAIL: Final = frozenset({Stage.CONNECT, Stage.BANNER, Stage.EHLO})
_MAX_DROPS: Final = 3
"""Sessions a server may break off after some answers before its lane is left alone for now."""


@dataclass(slots=True)
class Settler:
    """Keeps the books of one call.

    Attributes:
        config, clock, listener, learned: see the prober.
        board, book: what is still to be asked.
        watch: hears every answer, and says which refusals are doubted.
        session_s: seconds a session was given.
        mailboxes, waits: what has been found out so far, by address.
    """

    config: ProbeConfig
    clock: Clock
    listener: Listener
    learned: Learned
    board: Board
    book: Book
    watch: Watch
    session_s: float
    mailboxes: dict[str, MailboxFact] = field(default_factory=dict)
    waits: dict[str, Wait] = field(default_factory=dict)
    _open: dict[str, Wait] = field(default_factory=dict)

    def settle(self, visit: Visit, log: SessionLog, *, elapsed: float) -> Outcome:
        """Note what a session found out and put the rest where it belongs."""
        session = understand(visit, log, self.listener, elapsed=elapsed)
        refusal = self.listener.hear(log.refusal) if log.ending is Ending.REFUSED and log.refusal else None
        visit.lane.proven = visit.lane.proven or bool(session.said)
        left = {group.domain: self._group(session, group) for group in visit.groups}
        if log.ending is Ending.DROPPED and not session.unfinished:
            self._dropped(session, left)
            return outcome_of(session, refusal)
        self.put_back(visit.lane, left)
        if session.unfinished:
            if self._crowded(session, refusal):
                return Outcome.CLEAN
            self._turned_away(session, refusal)
        elif log.ending is Ending.SLOW:
            self._slow(session)
        else:
            self._full(session)
        return outcome_of(session, refusal)

    def close(self, lane: Lane, fact: MailboxFact, wait: Wait | None) -> None:
        """Give everything in the lane, and all that comes back to it, the same fact."""
        lane.closed = fact, wait
        self._note_all(lane.drain(), fact, wait)

    def admit(self, lane: Lane, domain: str, address: str) -> None:
        """Put an address in line; where nothing may be dialled it gets its fact at once."""
        if not lane.peers and lane.closed is None:
            fact = silence(Answer.UNREACHABLE, NOT_ALLOWED, Stage.CONNECT, now=self.clock())
            self.close(lane, fact, None)
        self.put_back(lane, {domain: [address]})

    def put_back(self, lane: Lane, left: Mapping[str, Sequence[str]]) -> None:
        """Put addresses back in line, by domain; those of a closed lane get its fact."""
        for domain, addresses in left.items():
            if lane.closed is None:
                self.board.put(lane, domain, addresses)
            else:
                self._note_all(addresses, *lane.closed)

    def postpone(self, addresses: Iterable[str], reason: WaitReason, delay: float) -> None:
        """Hand addresses back unasked."""
        self.waits.update(dict.fromkeys(addresses, Wait(reason, delay)))

    def hold(self, addresses: Iterable[str], delay: float) -> None:
        """Hand addresses back unasked whose provider refuses us; that is what they end with, too."""
        fact = silence(Answer.REFUSED_US, HELD, Stage.CONNECT, now=self.clock())
        self._note_all(addresses, fact, Wait(WaitReason.BLOCKED, delay))

    def doubt(self) -> None:
        """Take back the refusals that are not to be believed: the addresses come back later."""
        for address in self.watch.doubted():
            fact = self.mailboxes[address]
            fact = replace(fact, answer=Answer.DOUBTED, rule=DOUBTED, expires_at=fact.asked_at)
            self._note(address, fact, Wait(WaitReason.DEFERRED, 0.0))

    def _group(self, session: Session, group: Group) -> list[str]:
        """Note the answers about one domain; return the addresses that have none."""
        visit, log = session.visit, session.log
        random = session.said.get(group.probe)
        if random is not None:
            self._scouted(group, random)
        addresses: Iterable[str] = group.addresses
        everybody: MailboxFact | None = None
        if random is not None and random.reading.answer in NOT_WORTH_ASKING:
            everybody = self._instead(visit, random, log.answers[group.probe])
            addresses = (*group.addresses, *self.board.drop_domain(group.domain))
        left = []
        for address in addresses:
            fact = self._fact(session, group, address, everybody)
            if fact is None:
                left.append(address)
            else:
                self._note(address, fact, self._wait(group.domain, fact))
                self.watch.hear(visit.lane.gate.row.key, address, fact)
        return left

    def _fact(
        self, session: Session, group: Group, address: str, everybody: MailboxFact | None
    ) -> MailboxFact | None:
        said = session.said.get(address)
        if said is None or (everybody is not None and everybody.answer is Answer.NOT_ASKED):
            if everybody is None and address in session.log.not_askable:
                return self._silence(Answer.NOT_ASKABLE, NO_SMTPUTF8, session)
            return everybody
        fact = self._heard(session.visit, said, session.log.answers[address].took_ms)
        known = self.book.settled.get(group.domain)
        if known is None or not known.blanket:
            return fact
        return replace(fact, blanket=blanket_of(said, address) == known.blanket)

    def _instead(self, visit: Visit, random: Said, heard: Heard) -> MailboxFact:
        """Return what real recipients get whom the random one has made superfluous to ask."""
        if random.reading.answer is Answer.ACCEPTED:
            return silence(Answer.NOT_ASKED, CATCH_ALL_RULE, Stage.RCPT, now=self.clock(), visit=visit)
        return self._heard(visit, random, heard.took_ms)

    def _scouted(self, group: Group, random: Said) -> None:
        """Note what the answer to the random recipient says about its domain."""
        lifetime = self.config.catch_all_seconds
        self.book.settled[group.domain] = catch_all_of(group, random, now=self.clock(), lifetime=lifetime)
        answer = random.reading.answer
        if answer in _WAITS:
            self._open[group.domain] = Wait(_WAITS[answer], random.reading.retry_after)

    def _heard(self, visit: Visit, said: Said, took_ms: int = 0) -> MailboxFact:
        return fact_of(visit, said, now=self.clock(), lifetime=self.config.mailbox_seconds, took_ms=took_ms)

    def _silence(self, answer: Answer, rule: str, session: Session) -> MailboxFact:
        return silence(answer, rule, session.log.stage, now=self.clock(), visit=session.visit)

    def _wait(self, domain: str, fact: MailboxFact) -> Wait | None:
        """Return what the address has to wait for; an acceptance counts only when the random one is known."""
        if fact.answer in _WAITS:
            return Wait(_WAITS[fact.answer], fact.retry_after)
        return self._open.get(domain) if fact.answer is Answer.ACCEPTED else None

    def _note(self, address: str, fact: MailboxFact, wait: Wait | None) -> None:
        self.mailboxes[address] = fact
        if wait is not None:
            self.waits[address] = wait

    def _note_all(self, addresses: Iterable[str], fact: MailboxFact, wait: Wait | None) -> None:
        for address in addresses:
            self._note(address, fact, wait)

    def _crowded(self, session: Session, refusal: Said | None) -> bool:
        """Tell whether the server only refuses one session more than those it already holds with us."""
        lane = session.visit.lane
        if lane.running == 0 or session.log.stage not in _BEFORE_MAIL:
            return False
        if lane.proven if refusal is None else refusal.reply.code < 500:
            lane.most_sessions = min(lane.most_sessions, lane.running)
            return True
        return False

    def _turned_away(self, session: Session, refusal: Said | None) -> None:
        """Go on to the next server, or close the lane: no recipient of it would fare better."""
        visit, lane = session.visit, session.visit.lane
        if session.log.ending is Ending.DROPPED and session.log.stage is not Stage.BANNER:
            refusal = self._hung_up(session)  # who hangs up before a banner has said nothing at all
        if refusal is not None:
            lane.refusal = self._heard(visit, refusal)
            if not _is_worth_another_server(refusal.reply):
                self.close(lane, lane.refusal, self._wait("", lane.refusal))
                return
        if lane.peers and lane.peers[0] is visit.peer:
            lane.peers.popleft()
            lane.lost += session.elapsed
        if not lane.peers:
            fact = lane.refusal or self._silence(Answer.UNREACHABLE, UNREACHED, session)
            self.close(lane, fact, self._wait("", fact))
        elif lane.lost >= self.session_s:
            self._give_up(session)

    def _slow(self, session: Session) -> None:
        """Patient callers give a slow server smaller sessions, as long as it answers; else it is given up."""
        if self._patient and session.said:
            session.visit.lane.most_recipients = len(session.said)
        else:
            self._give_up(session)

    def _give_up(self, session: Session) -> None:
        fact = self._silence(Answer.UNREACHABLE, TOO_SLOW, session)
        wait = None if self._patient else Wait(WaitReason.SLOW, 0.0)
        self.close(session.visit.lane, fact, wait)

    def _dropped(self, session: Session, left: Mapping[str, list[str]]) -> None:
        """The first without an answer has to come back; the rest gets another session, but not for ever."""
        lane = session.visit.lane
        lane.drops += 1
        fact = self._heard(session.visit, self._hung_up(session))
        wait = Wait(WaitReason.DEFERRED, 0.0)
        if session.said and lane.drops < _MAX_DROPS:
            hit = next((addresses.pop(0) for addresses in left.values() if addresses), None)
            self._note_all([hit] if hit else [], fact, wait)
        self.put_back(lane, left)
        if not session.said or lane.drops >= _MAX_DROPS:
            self.close(lane, fact, wait)

    def _hung_up(self, session: Session) -> Said:
        return self.listener.hear(Reply(session.log.stage, 0))

    def _full(self, session: Session) -> None:
        """Learn how much the server takes in one session."""
        visit, limit = session.visit, session.limit
        if limit is None:
            return
        provider = visit.lane.gate.row.key
        if wants_one_domain(limit.reply) and len(visit.groups) > 1 and not self.learned.one_domain(provider):
            self.learned.saw_one_domain(provider)
        elif session.said:
            self.learned.saw_recipients(provider, len(session.said))
        else:
            fact = self._heard(visit, limit)
            self.close(visit.lane, fact, Wait(WaitReason.DEFERRED, fact.retry_after))

    @property
    def _patient(self) -> bool:
        return self.session_s >= self.config.session_seconds


def _is_worth_another_server(refusal: Reply) -> bool:
    """Hanging up, a 421 and a 4xx banner speak for one server; any other refusal would meet us at all."""
    return refusal.code in (0, 421) or (refusal.stage is Stage.BANNER and refusal.code < 500)
