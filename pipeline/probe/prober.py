"""Asks mail servers about mailboxes: many recipients a session, many sessions at once, always polite."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from pipeline.clock import Clock
from pipeline.facts import Answer, CatchAllFact, Known, MailboxFact
from pipeline.guard import AddressGuard
from pipeline.meters import count_replies
from pipeline.ports import FactCache, Throttle
from pipeline.probe.breaker import Breaker, Watch
from pipeline.probe.facts import CATCH_ALL_RULE, UNSAFE, silence
from pipeline.probe.lanes import Book
from pipeline.probe.memory import Memory
from pipeline.probe.plan import Board
from pipeline.probe.reading import Listener
from pipeline.probe.round import Crew, Round
from pipeline.probe.settle import Settler
from pipeline.probe.words import Probed, Target
from pipeline.provider_table import Provider
from pipeline.providers import Providers
from pipeline.replies.row import Stage
from pipeline.smtp import wire
from pipeline.smtp.config import ProbeConfig, StartTls, parse_source, pick_source
from pipeline.smtp.limits import Learned


class Prober:
    """Finds out what mail servers say about mailboxes.

    Args:
        config: how to ask.
        throttle: politeness shared with all processes.
        providers: whose answers mean something, and how much they take.
        guard: which addresses may be dialled.
        cache: remembers facts.
        clock: the time for facts.
        token: returns unguessable text, e.g. `secrets.token_hex`; random recipients are made of it.

    Raises:
        MailsiftError: `unsafe_command` or `bad_source` when the configuration cannot be put on the wire.
    """

    def __init__(  # noqa: PLR0913 - the outside world of the prober, one argument each
        self,
        *,
        config: ProbeConfig,
        throttle: Throttle,
        providers: Providers,
        guard: AddressGuard,
        cache: FactCache,
        clock: Clock,
        token: Callable[[], str],
    ) -> None:
        self._config = config
        self._throttle = throttle
        self._providers = providers
        self._guard = guard
        self._memory = Memory(cache, config, clock)
        self._clock = clock
        self._token = token
        self._sources = [parse_source(text, helo_name=config.helo_name) for text in config.sources]
        own = {name for source in self._sources for name in (source.bind, source.helo_name) if name}
        for name in {source.helo_name for source in self._sources}:
            wire.hello("EHLO", name)
        wire.mail_from(config.mail_from)
        self._crew = Crew(config, Listener(sorted(own)), Learned(), _tls_context(config.starttls))
        self._breaker = Breaker()

    async def probe(
        self,
        targets: Sequence[Target],
        *,
        budget_s: float,
        session_s: float,
        max_age: float,
        list_id: str = "",
        owner: str = "",
    ) -> Probed:
        """Ask about mailboxes; providers whose answers mean nothing are not asked and get no fact.

        Args:
            targets: the mailboxes, each address once.
            budget_s: seconds after which no session is opened; those that are open may use up their time.
            session_s: seconds one session may take; from ProbeConfig.session_seconds on, a mailbox that gets
                no answer in that time is unreachable, with less it waits for a more patient try.
            max_age: seconds within which a definite answer is used again; 0 = always ask.
            list_id: names the list the targets are of: a jump in refusals is a matter within one list.
            owner: who asks; answers about mailboxes are used again for the same owner only.

        Returns:
            A fact, a wait or both for every other target, and the catch-all facts of their domains.
        """
        ends_at = asyncio.get_running_loop().time() + budget_s
        rows = {key: self._providers.row(key) for key in {target.fact.provider for target in targets}}
        asked = {target.address: target for target in targets if rows[target.fact.provider].informative}
        settler = self._settler(session_s, list_id)
        recalled = await self._memory.recall(asked, settler.book, max_age=max_age, owner=owner)
        for target in asked.values():
            if target.address not in recalled.mailboxes:
                self._admit(target, rows[target.fact.provider], settler)
        round_ = Round(crew=self._crew, settler=settler, throttle=self._throttle, ends_at=ends_at)
        await round_.run()
        settler.doubt()
        count_replies((asked[who].fact.provider, fact.answer) for who, fact in settler.mailboxes.items())
        probed = Probed(settler.mailboxes | recalled.mailboxes, settler.book.settled, settler.waits)
        _judged_together(probed.mailboxes, probed.catch_alls, asked)
        await self._memory.remember(probed, asked, settler.book, recalled, owner=owner)
        return probed

    def _settler(self, session_s: float, list_id: str) -> Settler:
        crew, book = self._crew, Book(self._token)
        return Settler(
            config=self._config,
            clock=self._clock,
            listener=crew.listener,
            learned=crew.learned,
            board=Board(book, crew.learned),
            book=book,
            watch=Watch(self._breaker, list_id),
            session_s=session_s,
        )

    def _admit(self, target: Target, row: Provider, settler: Settler) -> None:
        """Put a target in line, or note why it need not be asked."""
        known = settler.book.settled.get(target.domain)
        if not wire.is_safe(target.address):
            fact = silence(Answer.NOT_ASKABLE, UNSAFE, Stage.RCPT, now=self._clock())
            settler.mailboxes[target.address] = fact
        elif known is not None and known.catch_all is Known.YES:
            fact = silence(Answer.NOT_ASKED, CATCH_ALL_RULE, Stage.RCPT, now=self._clock())
            settler.mailboxes[target.address] = fact
        else:
            source = pick_source(self._sources, row.key, target.address)
            lane = settler.board.lane(target, source, row, self._guard.allows)
            settler.admit(lane, target.domain, target.address)


def _judged_together(
    mailboxes: dict[str, MailboxFact], catch_alls: dict[str, CatchAllFact], asked: Mapping[str, Target]
) -> None:
    """Where somebody was accepted, refusals are no blanket refusals: they stand."""
    for domain in {asked[a].domain for a, fact in mailboxes.items() if fact.answer is Answer.ACCEPTED}:
        if domain in catch_alls and catch_alls[domain].blanket:
            catch_alls[domain] = replace(catch_alls[domain], blanket="")
    for address, fact in mailboxes.items():
        if fact.blanket and not catch_alls[asked[address].domain].blanket:
            mailboxes[address] = replace(fact, blanket=False)


def _tls_context(policy: StartTls) -> ssl.SSLContext | None:
    """Return a context that encrypts without asking who the server is: we tell it nothing that is secret."""
    if policy is StartTls.NEVER:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
