"""Asks mail servers about mailboxes: many recipients a session, many sessions at once."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Final

from mailsift.pipeline.clock import Clock, FairDeadline
from mailsift.pipeline.facts import (
    Answer,
    CatchAllFact,
    DomainFact,
    FactCache,
    Known,
    MailboxFact,
    Wait,
    WaitReason,
)
from mailsift.pipeline.guard import AddressGuard
from mailsift.pipeline.metrics import count_grants, count_replies, count_sessions
from mailsift.pipeline.probe import wire
from mailsift.pipeline.probe.breaker import Breaker, RefusalWatch
from mailsift.pipeline.probe.cache import ProbeCache, Recalled, Witnesses
from mailsift.pipeline.probe.collector import DISCARDED_SESSION, ProbeContext, ReplyReader, ResultCollector
from mailsift.pipeline.probe.config import (
    ProbeConfig,
    Source,
    StartTls,
    host_name,
    open_sources,
    parse_source,
    pick_source,
)
from mailsift.pipeline.probe.port25 import InterceptionDetector
from mailsift.pipeline.probe.queue import (
    CatchAllState,
    ProbeQueue,
    ProbeTarget,
    ProviderQueue,
    RouteQueue,
    SessionPlan,
    peers_of,
)
from mailsift.pipeline.probe.session import ProbeSession, TlsContext
from mailsift.pipeline.providers import Providers
from mailsift.pipeline.throttle import (
    NEVER_STOPS,
    Ask,
    AskedCounts,
    Grant,
    ListStop,
    Report,
    SessionOutcome,
    Throttle,
    ThrottleKey,
    count_asked,
)

_MAX_ASKS: Final = 200
"""Sessions asked for in one call to the throttle."""

_SHORT_REST: Final = 0.05
_LONG_REST: Final = 0.25
WAITS_WITHOUT_PROGRESS: Final = 5.0
"""A provider that grants nothing is waited for so many times ProbeConfig.local_wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeRequest:
    """How to ask this time.

    Attributes:
        budget_s: seconds after which no session is opened; those that are open may use up their time.
        session_s: seconds one session may take; from ProbeConfig.session_seconds on, a mailbox that gets no
            answer in that time is unreachable, with less it waits for a more patient try.
        max_age: seconds within which a definite answer, or what is known of random recipients, is used again;
            0 = always ask.
        ends_at: time of the event loop at which every session ends, with the replies it has.
        list_id: names the list the mailboxes are of: a jump in refusals is a matter within one list.
        owner: who asks; answers about mailboxes are used again for the same owner only.
        closed: identities of our sources that are not to be asked from while there are others.
        stop: when the list is left alone at a provider, what it asked so far, and where it has stopped.
        mailboxes_found: gets the facts session by session, for a caller who shows progress; some of them may
            be taken back at the end.
    """

    budget_s: float = 20.0
    session_s: float = 45.0
    max_age: float = 0.0
    ends_at: float = float("inf")
    list_id: str = ""
    owner: str = ""
    closed: Collection[str] = ()
    stop: ListStop = NEVER_STOPS
    mailboxes_found: dict[str, MailboxFact] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """What a call to the prober found out.

    An address that waits may have a fact beside it: what to judge from when it is not tried again.

    Attributes:
        mailboxes: facts by address.
        catch_alls: facts by domain.
        waits: addresses that are not finished.
        asked_from: identities of the sources the addresses fell to.
        rests: seconds until asking a provider from a source makes sense again, by throttle key and identity.
        asked: what this call was answered about real recipients, by provider and identity.
    """

    mailboxes: dict[str, MailboxFact] = field(default_factory=dict)
    catch_alls: dict[str, CatchAllFact] = field(default_factory=dict)
    waits: dict[str, Wait] = field(default_factory=dict)
    asked_from: dict[str, str] = field(default_factory=dict)
    rests: dict[tuple[str, str], float] = field(default_factory=dict)
    asked: dict[ThrottleKey, AskedCounts] = field(default_factory=dict)


class Prober:
    """Asks mail servers about mailboxes.

    Args:
        providers: whose answers mean something, and how much they take.
        token: returns unguessable text, e.g. `secrets.token_hex`; random recipients are made of it.

    Attributes:
        interception: whether the servers themselves answer; shared with the port 25 check.

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
        self._throttle = throttle
        self._providers = providers
        self._guard = guard
        self._cache = ProbeCache(cache, config, clock)
        self._witnesses = Witnesses(config.mailbox_seconds, clock)
        self._clock = clock
        self._token = token
        self._sources = [
            parse_source(text, helo_name=config.helo_name, identities=config.identities)
            for text in config.sources
        ]
        self._config = config
        for name in {source.helo_name for source in self._sources} - {""}:
            wire.hello("EHLO", name)
        wire.mail_from(config.mail_from)
        self.interception = InterceptionDetector(providers)
        self._breaker = Breaker()

    @cached_property
    def _context(self) -> ProbeContext:
        """What all probes share, once we know our name."""
        own = {name for source in self._sources for name in (source.bind, source.identity, source.helo_name)}
        own |= {self._config.mail_from}
        return ProbeContext(
            self._config,
            self._clock,
            ReplyReader(sorted(filter(None, own))),
            _tls_context(self._config.starttls),
            self.interception,
        )

    async def probe(
        self,
        targets: Sequence[ProbeTarget],
        request: ProbeRequest,
        *,
        recheck_port25: Callable[[], Awaitable[object]] | None = None,
    ) -> ProbeResult:
        """Ask about mailboxes; providers whose answers mean nothing are not asked and get no fact.

        Args:
            targets: the mailboxes, each address once.
            request: how to ask.
            recheck_port25: collects the greetings of well-known servers again; called where several others
                greet alike.

        Returns:
            A fact, a wait or both for every other target, and the catch-all facts of their domains.
        """
        asked_about = self._informative(targets)
        if asked_about:
            await self._learn_our_name()
        owner = request.owner
        collector = self._collector(asked_about, request)
        recalled = await self._cache.recall(
            asked_about, collector.catch_alls, max_age=request.max_age, owner=owner
        )
        asked_from = self._sources_of(asked_about, request.closed)
        self._fill_queue(collector, asked_about, asked_from, recalled, request.stop)
        self._witnesses.recall(
            collector.queue.routes, owner, asked=asked_about.keys() - recalled.mailboxes.keys()
        )
        with FairDeadline(request.budget_s) as deadline:
            await _ProbeRun(collector, self._throttle, deadline, request).run()
        self._witnesses.remember(collector.queue, collector.mailboxes, owner)
        collector.retract_doubted_refusals()
        collector.retract_unproven_refusals()
        await self._retract_intercepted(collector, recheck_port25)
        count_replies(
            (asked_about[address].fact.provider, fact.answer) for address, fact in collector.mailboxes.items()
        )
        mailboxes, catch_alls = collector.mailboxes | recalled.mailboxes, collector.catch_alls.known
        _keep_refusals_where_somebody_was_accepted(mailboxes, catch_alls, asked_about)
        known = {**mailboxes, **collector.witnesses}
        await self._cache.remember(known, asked_about, collector.catch_alls, recalled, owner=owner)
        identities = {address: source.identity for address, source in asked_from.items()}
        asked = count_asked(
            (ThrottleKey(asked_about[address].fact.provider, identities[address]), fact.answer)
            for address, fact in collector.mailboxes.items()
            if fact.smtp_code
        )
        waits = {address: wait for address, wait in collector.waits.items() if address in asked_about}
        return ProbeResult(mailboxes, catch_alls, waits, identities, collector.rests, asked)

    async def _learn_our_name(self) -> None:
        """Find out what this host is called, where a source is to be known by that: not before it greets."""
        if not all(source.helo_name for source in self._sources):
            name = await asyncio.to_thread(host_name)
            self._sources = [replace(one, helo_name=one.helo_name or name) for one in self._sources]

    def _informative(self, targets: Sequence[ProbeTarget]) -> dict[str, ProbeTarget]:
        """Return the targets by address whose provider's answers mean something."""
        providers = {target.fact.provider for target in targets}
        informative = {key for key in providers if self._providers.row(key).informative}
        return {target.address: target for target in targets if target.fact.provider in informative}

    def _fill_queue(
        self,
        collector: ResultCollector,
        targets: Mapping[str, ProbeTarget],
        asked_from: Mapping[str, Source],
        recalled: Recalled,
        stop: ListStop,
    ) -> None:
        """Queue what is to be asked, with the witnesses that are known, and record what need not be asked.

        In one order at every try: the first one asks for the random recipients, and greylisting knows it.
        """
        rows = {key: self._providers.row(key) for key in {one.fact.provider for one in targets.values()}}

        def route_of(target: ProbeTarget) -> RouteQueue:
            source, row = asked_from[target.address], rows[target.fact.provider]
            return collector.queue.route(target, source, row, self._guard.allows)

        rests = stop.rests()
        places = {source.label: place for place, source in enumerate(self._sources)}
        for target in sorted(targets.values(), key=lambda one: places[asked_from[one.address].label]):
            provider = target.fact.provider
            if target.address in recalled.mailboxes:
                continue
            if provider in rests:
                collector.record_stopped([target.address], rests[provider])
            elif collector.is_worth_queueing(target):
                collector.enqueue(route_of(target), target)
        for address in recalled.accepted:
            route = route_of(targets[address])
            route.witness = address
            collector.queue.accepted_at |= {(route.source.label, one.address): address for one in route.peers}

    async def _retract_intercepted(
        self, collector: ResultCollector, recheck_port25: Callable[[], Awaitable[object]] | None
    ) -> None:
        """Take back answers that did not come from the servers that were asked."""
        now = asyncio.get_running_loop().time()
        suspect_names = collector.suspect_names(now)
        if suspect_names and recheck_port25 is not None:
            await recheck_port25()
            for source, name in suspect_names:
                if not self.interception.is_intercepted(source, name):
                    self.interception.record_clear(source, name, now)
        collector.retract_intercepted()

    def _sources_of(self, targets: Mapping[str, ProbeTarget], closed: Collection[str]) -> dict[str, Source]:
        """Return the source for every target; who is known by a source goes back to it even if it rests."""
        by_domain: dict[str, tuple[Sequence[Source], Sequence[Source]]] = {}
        sources = {}
        for address, target in targets.items():
            if target.domain not in by_domain:
                by_domain[target.domain] = self._sources_for(target.fact, closed)
            not_held, preferred = by_domain[target.domain]
            known_by = target.known_by
            sources[address] = pick_source(
                not_held if known_by else preferred, target.fact.provider, address, known_by=known_by
            )
        return sources

    def _sources_for(
        self, fact: DomainFact, closed: Collection[str]
    ) -> tuple[Sequence[Source], Sequence[Source]]:
        """Return the sources that reach the domain's servers and are not held, and those that do not rest."""
        if len(self._sources) == 1:
            return self._sources, self._sources
        allows = self._guard.allows
        reaching = [source for source in self._sources if peers_of(fact, source, allows)] or self._sources
        identities = {source.identity for source in reaching}
        held = {name for name in identities if self._throttle.is_held(fact.provider, name)}
        not_held = open_sources(reaching, held)
        return not_held, open_sources(not_held, closed)

    def _collector(self, targets: Mapping[str, ProbeTarget], request: ProbeRequest) -> ResultCollector:
        catch_alls = CatchAllState(self._token)
        catch_alls.last_tries |= {target.domain for target in targets.values() if target.last_try}
        return ResultCollector(
            self._context,
            ProbeQueue(catch_alls, self._context.learned),
            catch_alls,
            RefusalWatch(self._breaker, request.list_id),
            request.session_s,
            mailboxes_found=request.mailboxes_found,
        )


def _keep_refusals_where_somebody_was_accepted(
    mailboxes: dict[str, MailboxFact], catch_alls: dict[str, CatchAllFact], asked: Mapping[str, ProbeTarget]
) -> None:
    """Where a recipient was accepted, and not everybody is, refusals are no blanket refusals: they count."""
    anybody = {domain for domain, known in catch_alls.items() if known.catch_all is Known.YES}
    accepted = (address for address, fact in mailboxes.items() if fact.answer is Answer.ACCEPTED)
    accepting = {asked[address].domain for address in accepted} - anybody
    for domain in accepting:
        if domain in catch_alls and catch_alls[domain].blanket:
            catch_alls[domain] = replace(catch_alls[domain], blanket="")
    for address, fact in mailboxes.items():
        if fact.blanket and asked[address].domain in accepting:
            mailboxes[address] = replace(fact, blanket=False)


def _tls_context(policy: StartTls) -> TlsContext | None:
    """Return a TLS context that does not verify the server: what we send is no secret."""
    if policy is StartTls.NEVER:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class _ProbeRun:
    """Works through a queue until it is empty or the time is over.

    Args:
        collector: records the results; its queue holds what to ask.
        throttle: grants the sessions.
        deadline: after it no session is opened; open ones may finish.
        request: how to ask.
    """

    def __init__(
        self, collector: ResultCollector, throttle: Throttle, deadline: FairDeadline, request: ProbeRequest
    ) -> None:
        self._context = collector.context
        self._collector = collector
        self._queue = collector.queue
        self._throttle = throttle
        self._deadline = deadline
        self._request = request
        self._loop = asyncio.get_running_loop()
        self._session_over = asyncio.Event()
        self._sessions: set[asyncio.Task[None]] = set()
        self._reports: list[Report] = []
        self._reported_at = self._loop.time()
        self._failure: BaseException | None = None

    async def run(self) -> None:
        """Hold all sessions; every address ends with a fact, a wait or both."""
        self._context.reopen_callbacks.add(self._reopen)
        try:
            while self._failure is None:
                if self._seconds_left() <= 0:
                    self._collector.defer(self._queue.drain(), WaitReason.BUDGET, 0.0)
                free_sessions = max(0, self._context.config.max_sessions - self._context.open_sessions)
                plans = self._queue.next_sessions(min(free_sessions, _MAX_ASKS), self._loop.time())
                if plans:
                    await self._ask_throttle(plans)
                elif self._sessions or self._queue.has_waiting(free_sessions):
                    await self._wait(free_sessions)
                elif not self._collector.ask_again():
                    break
        finally:
            self._context.reopen_callbacks.discard(self._reopen)
            await self._close()
        if self._failure is not None:
            raise self._failure
        self._collector.defer(self._queue.drain(), WaitReason.BUDGET, 0.0)

    def _seconds_left(self) -> float:
        """Return for how long sessions may still be opened."""
        return min(self._deadline.left, self._request.ends_at - self._loop.time())

    async def _ask_throttle(self, plans: Sequence[SessionPlan]) -> None:
        """Ask the throttle for all these sessions at once and start what it grants."""
        await self._send_reports()
        asked_at = self._loop.time()
        first = {plan.route.provider: plan for plan in reversed(plans)}
        asks = [self._ask_of(plan, asked_at, first=first[plan.route.provider] is plan) for plan in plans]
        grants = await self._throttle.grant(asks)
        count_grants([ask.provider for ask in asks], grants)
        for plan, ask, grant in zip(plans, asks, grants, strict=True):
            if grant.recipients and plan.is_current:
                self._start(plan, ask, grant, asked_at + grant.seconds)
            else:
                self._requeue_session(plan, ask, grant)

    def _ask_of(self, plan: SessionPlan, now: float, *, first: bool) -> Ask:
        """Return what to ask for a session; `first`: of those at its provider."""
        ask = plan.ask
        tally = self._request.stop.tally(ThrottleKey(ask.provider, ask.source))
        # Who has waited takes what there is: others who ask for less might never leave a full session. Those
        # beside it wait on where a rate limits us: what it leaves them is a recipient or two.
        provider = plan.route.provider
        patient = provider.denied_since is None or not (first or provider.row.is_unhurried)
        patience = min(self._context.config.local_wait, max(0.0, self._seconds_left())) if patient else 0.0
        return replace(ask, tally=tally, seconds=self._session_seconds(now), patience=patience)

    def _session_seconds(self, now: float) -> float:
        """Return how long a session may take that begins now."""
        return min(self._request.session_s, max(0.0, self._request.ends_at - now))

    def _start(self, plan: SessionPlan, ask: Ask, grant: Grant, until: float) -> None:
        provider, recipients = plan.route.provider, grant.recipients
        provider.denied_since = None
        if provider.row.harvest:
            recipients = max(1, recipients - plan.may_need_witness)
        self._collector.requeue(plan.route, self._queue.trim(plan, recipients), singly=plan.singly)
        self._context.open_sessions += 1
        session = self._loop.create_task(self._hold_session(plan, ask, grant, until))
        self._sessions.add(session)
        session.add_done_callback(self._session_ended)
        if grant.busy:
            provider.busy = True
            provider.resting_until = max(provider.resting_until, self._loop.time() + _LONG_REST)
        elif grant.recipients < ask.recipients:
            # The rate is used up: asking again at once would open a session for every single recipient. What
            # is left here, each with a random recipient at most, may need less than a full session.
            row = provider.row
            refill_s = grant.refill_s or row.recipients / row.rate
            needed = min(row.recipients, 2 * len(provider)) or row.recipients
            self._rest_or_defer(provider, refill_s * needed / row.recipients)

    def _requeue_session(self, plan: SessionPlan, ask: Ask, grant: Grant) -> None:
        """Put a session's addresses back: it was denied, or its server has turned out bad in the meantime."""
        self._queue.finish(plan)
        self._collector.requeue(plan.route, self._queue.trim(plan, 0), singly=plan.singly)
        if grant.recipients:
            self._reports.append(Report(ask, grant.lease, SessionOutcome.CLEAN, grant.recipients))
        elif grant.blocked:
            self._record_rest(plan.route.provider, grant.retry_after)
            self._collector.record_blocked(self._queue.drain(plan.route.provider), grant.retry_after)
        elif grant.stopped:
            self._collector.record_stopped(self._queue.drain(plan.route.provider), grant.retry_after)
        else:
            plan.route.provider.busy = grant.busy
            self._rest_or_defer(plan.route.provider, max(grant.retry_after, _SHORT_REST))

    def _rest_or_defer(self, provider: ProviderQueue, delay: float) -> None:
        """Wait some seconds if that leads somewhere; else hand back all that queues for the provider."""
        now, patience = self._loop.time(), self._context.config.local_wait
        since = now if provider.denied_since is None else provider.denied_since
        worth_it = delay <= patience and now + delay - since <= WAITS_WITHOUT_PROGRESS * patience
        if worth_it and delay < self._seconds_left():
            provider.denied_since = since
            provider.resting_until = max(provider.resting_until, now + delay)
        else:
            provider.denied_since = None
            self._record_rest(provider, delay)
            self._collector.defer(self._queue.drain(provider), WaitReason.THROTTLED, delay)

    def _record_rest(self, provider: ProviderQueue, delay: float) -> None:
        """Remember that asking the provider from this source is no use for so long."""
        self._collector.rests[provider.row.key, provider.source] = delay

    async def _hold_session(self, plan: SessionPlan, ask: Ask, grant: Grant, until: float) -> None:
        """Hold one session, which asks nobody after `until`; its lease is returned in any case."""
        context, route, started = self._context, plan.route, self._loop.time()
        end, granted = DISCARDED_SESSION, min(ask.recipients, grant.recipients)
        session = ProbeSession(
            context.config,
            plan.peer,
            route.source,
            tls=context.tls,
            is_worth_asking=self._collector.is_worth_asking,
            singly=plan.singly,
            pick_witness=partial(self._collector.pick_witness, plan) if plan.may_need_witness else None,
            allowance=grant.allowance,
            has_witness=bool(route.witness),
            until=until,
            one_transaction=plan.throttle_key in context.learned.one_transaction,
        )
        try:
            one_each = plan.throttle_key in context.learned.one_domain
            transactions = [[group] for group in plan.groups] if one_each else [plan.groups]
            log = await session.run(transactions, within=self._session_seconds(started))
            self._queue.finish(plan)
            end = self._collector.record_session(plan, log, elapsed=self._loop.time() - started)
        finally:
            context.open_sessions -= 1
            unused = granted - session.log.sent
            self._reports.append(
                Report(
                    ask,
                    grant.lease,
                    end.outcome,
                    max(0, unused),
                    end.ledger,
                    end.asked,
                    beyond=max(0, -unused),
                )
            )

    def _session_ended(self, session: asyncio.Task[None]) -> None:
        self._sessions.discard(session)
        if not session.cancelled() and session.exception() is not None:
            self._failure = session.exception()
        self._session_over.set()

    async def _wait(self, free_sessions: int) -> None:
        """Wait for a session to end or for a provider to open, and let a few more sessions end meanwhile."""
        until = self._queue.next_ready_at() - self._loop.time() if free_sessions else _SHORT_REST
        with suppress(TimeoutError):
            async with asyncio.timeout(min(max(until, 0.001), _LONG_REST)):
                await self._session_over.wait()
        self._session_over.clear()
        if self._sessions:
            await asyncio.sleep(self._context.config.batch_pause)
            if self._loop.time() - self._reported_at >= _LONG_REST:
                await self._send_reports()

    async def _send_reports(self) -> None:
        reports, self._reports = self._reports, []
        self._reported_at = self._loop.time()
        if reports:
            count_sessions(reports)
            await self._throttle.report(reports)
            keys = {(report.ask.provider, report.ask.source) for report in reports}
            for reopen in self._context.reopen_callbacks - {self._reopen}:
                reopen(keys)

    def _reopen(self, keys: Collection[tuple[str, str]]) -> None:
        """Ask at once where a session had to wait for one of another call: it has ended."""
        if self._queue.reopen(keys):
            self._session_over.set()

    async def _close(self) -> None:
        for session in self._sessions:
            session.cancel()
        await asyncio.gather(*self._sessions, return_exceptions=True)
        await self._send_reports()
