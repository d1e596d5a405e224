"""What a list will take before it is started: time, probes by provider, and what is unknown."""

from __future__ import annotations

import asyncio
import json
import math
import tempfile
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from mailsift.jobs.drafts import Drafts
from mailsift.jobs.eta import (
    MIXED_LINE,
    TRIAGE_LINE,
    Batch,
    JobLoad,
    ProviderBacklog,
    TimeLeft,
    time_left,
)
from mailsift.jobs.forecasts import MIXED_RATE_A_SLOT, TRIAGE_RATES, Forecasts, QueuePicture, queued_ahead
from mailsift.jobs.intake.harvest import refusal
from mailsift.jobs.intake.models import IntakeLimits, IntakeOptions
from mailsift.jobs.intake.process import ask_child
from mailsift.jobs.service import JobService
from mailsift.jobs.views import AccountId, JobId, JobOptions, JobView
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.facts import DomainFact, DomainState, FactCache, FactKind, Known, Mode, decode_domain
from mailsift.pipeline.probe.cache import ProbeCache
from mailsift.pipeline.probe.queue import CatchAllState, ProbeTarget
from mailsift.pipeline.providers import Providers, provider_by_name
from mailsift.storage.blobs import Blobs, JobBlobs
from mailsift.storage.database import Database
from mailsift.storage.sql import chunks
from mailsift.storage.states import UNREAD

if TYPE_CHECKING:
    from mailsift.pipeline.validator import DomainWitness

_MOST_DOMAINS: Final = 5_000
"""Domains of a list that are looked up in the cache: the largest."""
_MOST_LOOKED_UP: Final = 500
"""Domains among these that DNS is asked about for a plan, the largest of those nobody has looked up yet."""
_SAMPLE_ADDRESSES: Final = 1_000
"""Addresses of a list of which it is looked up whether their answers are still remembered."""
UNKNOWN_LINE: Final = ""
"""The key of addresses whose mail servers are not known yet."""
_UNASKED: Final = " "  # the key of addresses at domains that take no mail
_LOOK_SECONDS: Final = 1.0  # that DNS has for a plan in all,
_PATIENCE_S: Final = 0.5  # and without news, before the plan does without the rest
_COUNTS_AT_ONCE: Final = 2
_COUNT_SECONDS: Final = 60.0
_OWN_QUEUE: Final = 50  # as mailsift.jobs.engine.chunk.ChunkSizes.own_chunk: fewer go with the small ones


@dataclass(frozen=True, slots=True)
class DomainCounts:
    """How many distinct addresses a list has, and at which domains.

    Attributes:
        others: at domains that are not named.
        harvested: the sign by which they look made up (mailsift.jobs.intake.harvest), or "".
        other_domains: how many are not named.
        sample: some of the addresses, from all over the list.
    """

    addresses: int
    domains: Mapping[str, int]
    others: int
    harvested: str = ""
    other_domains: int = 0
    sample: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class ProbeCounts:
    """Mailboxes to ask for by provider, and at how many domains they are.

    Each domain is asked for a random recipient, too, which the rate of its provider counts.
    """

    mailboxes: Counter[str] = field(default_factory=Counter)
    domains: Counter[str] = field(default_factory=Counter)

    def add(self, key: str, mailboxes: int, domains: int = 1) -> None:
        """Count mailboxes of a provider."""
        self.mailboxes[key] += mailboxes
        self.domains[key] += domains


@dataclass(frozen=True, slots=True)
class ListPlan:
    """What a list will take.

    Attributes:
        addresses: distinct ones without a verdict.
        probes: mailboxes to ask for, by provider, the most first; what is alone at its host is MIXED_LINE,
            UNKNOWN_LINE what no mail server is known for yet.
        left: when it would end if it began now, and what decides.
    """

    addresses: int
    probes: Mapping[str, int]
    left: TimeLeft

    @property
    def unknown(self) -> int:
        """How many addresses are unknown until DNS is asked."""
        return self.probes.get(UNKNOWN_LINE, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Planner:
    """Says what lists will take; every call names the account it speaks for.

    Attributes:
        cache: what is remembered of domains.
        answers: what is remembered of mailboxes.
        domains: asks DNS about the others.
    """

    database: Database
    jobs: JobService
    drafts: Drafts
    blobs: Blobs
    forecasts: Forecasts
    cache: FactCache
    answers: ProbeCache
    domains: DomainWitness
    providers: Providers
    limits: IntakeLimits
    scratch: Path
    refuse_harvested: bool
    _counting: asyncio.Semaphore = field(
        default_factory=partial(asyncio.Semaphore, _COUNTS_AT_ONCE), init=False
    )

    async def plan(self, account_id: AccountId, job_id: JobId, mode: Mode = Mode.DEEP) -> ListPlan:
        """Return what a job still takes, or what an uploaded list would take in a mode.

        A job without a worker ends nobody knows when; of a list that has not been started it is said what it
        takes once it is.

        Raises:
            MailsiftError: `job_not_found`, or what mailsift.jobs.intake.process.take_in says of the list.
        """
        try:
            view = await self.jobs.get(account_id, job_id)
        except MailsiftError as error:
            if error.code != "job_not_found":
                raise
            await self._known_draft(account_id, job_id, error)
            return await self._plan_stored(account_id, job_id, JobOptions(mode=mode))
        if view.state in UNREAD:
            if not await self.blobs.exists(JobBlobs(job_id).source):  # it is still to be fetched
                return ListPlan(0, {}, TimeLeft(None))
            deadline_s = self.forecasts.seconds_until(view.deadline_at)
            starts_s = max([0.0, *(self.forecasts.seconds_until(wait.until) for wait in view.waiting)])
            plan = await self._plan_stored(account_id, job_id, view.options, deadline_s, starts_s)
            is_worked = (await self.forecasts.picture()).queues.slots > 0
            return plan if is_worked else replace(plan, left=replace(plan.left, seconds=None))
        return _plan_job(view, await self.database.run(chunks.unjudged, job_id))

    async def plan_file(
        self, account_id: AccountId, source: Path, options: JobOptions, *, deadline_s: float
    ) -> ListPlan:
        """Return what a file would take, of a job that waits for no mail server for longer than `deadline_s`.

        Raises:
            MailsiftError: what mailsift.jobs.intake.process.take_in says of the list.
        """
        counts = await self._count(source, options.column)
        return await self._plan_counts(account_id, counts, options, deadline_s)

    async def _known_draft(self, account_id: AccountId, job_id: JobId, unknown: MailsiftError) -> None:
        try:
            await self.drafts.get(account_id, job_id)
        except MailsiftError:
            raise unknown from None

    async def _plan_stored(
        self,
        account_id: AccountId,
        job_id: JobId,
        options: JobOptions,
        deadline_s: float = math.inf,
        starts_s: float = 0.0,
    ) -> ListPlan:
        """Plan a stored list, or a preview of it; what was counted in its usual column is remembered."""
        keys, column, preview = JobBlobs(job_id), options.column, options.preview
        counts = None if column else await self._remembered(keys.domain_counts)
        if counts is None:
            counts = await self._count(await self.blobs.fetch(keys.source), column)
            if not column:
                await self.blobs.put_bytes(keys.domain_counts, json.dumps(asdict(counts)).encode())
        counts = sampled(counts, preview) if preview else counts
        return await self._plan_counts(account_id, counts, options, deadline_s, starts_s)

    async def _remembered(self, key: str) -> DomainCounts | None:
        stored = await self.blobs.read_if_there(key)
        return None if stored is None else DomainCounts(**json.loads(stored))

    async def _count(self, source: Path, column: str) -> DomainCounts:
        options = asdict(IntakeOptions(column=column, chunk_addresses=100_000))
        request: dict[str, Any] = {"source": str(source), "options": options}
        request |= {"most": _MOST_DOMAINS, "sample": _SAMPLE_ADDRESSES}
        async with self._counting:
            with tempfile.TemporaryDirectory(dir=self.scratch, prefix="plan-") as folder:
                counted = await ask_child(
                    "count_domains",
                    {**request, "workdir": folder},
                    replace(self.limits, seconds=_COUNT_SECONDS),
                )
        return DomainCounts(**counted)

    async def _plan_counts(
        self,
        account_id: AccountId,
        counts: DomainCounts,
        options: JobOptions,
        deadline_s: float,
        starts_s: float = 0.0,
    ) -> ListPlan:
        if options.mode is Mode.DEEP and counts.harvested and self.refuse_harvested:
            raise refusal(counts.harvested)
        to_ask, looked_up = ProbeCounts(), ProbeCounts()
        if options.mode is Mode.DEEP:
            facts = await self._domain_facts(counts)
            to_ask, looked_up = count_probes(counts, facts)
            to_ask = await self._without_remembered(account_id, counts, options.max_age, facts, to_ask)
        expected = share_out_unknown(to_ask, looked_up)
        picture, probes = await self.forecasts.picture(), merge_small(expected.mailboxes, self.providers)
        load = load_of_list(
            counts.addresses, probes, picture, options.mode, expected.domains, account_id=account_id
        )
        rate = look_rate(counts, options.mode)
        left = time_left(replace(load, triage_rate=rate, starts_s=starts_s, deadline_s=deadline_s))
        return ListPlan(counts.addresses, merge_small(to_ask.mailboxes, self.providers), left)

    async def _domain_facts(self, counts: DomainCounts) -> dict[str, DomainFact]:
        """Return what is known of the named domains, after a short look at the largest of the others."""
        found = await self.cache.get(FactKind.DOMAIN, list(counts.domains))
        decoded = ((domain, decode_domain(domain, data)) for domain, data in found.items())
        facts = {domain: fact for domain, fact in decoded if fact is not None}
        unknown = list(islice((domain for domain in counts.domains if domain not in facts), _MOST_LOOKED_UP))
        if unknown:
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_SECONDS):
                    facts |= await self.domains.lookup(unknown, patience_s=_PATIENCE_S, final=False)
        return {name: fact for name, fact in facts.items() if fact.state is not DomainState.UNAVAILABLE}

    async def _without_remembered(
        self,
        account_id: AccountId,
        counts: DomainCounts,
        max_age: float,
        facts: Mapping[str, DomainFact],
        to_ask: ProbeCounts,
    ) -> ProbeCounts:
        """Take off what need not be asked again, as far as a sample shows."""
        targets = {}
        for address in counts.sample:
            domain = address.rpartition("@")[2]
            if domain in facts and facts[domain].state is DomainState.ROUTED:
                targets[address] = ProbeTarget(address, facts[domain])
        domains = CatchAllState(token=str)
        recalled = await self.answers.recall(targets, domains, max_age=max_age, owner=str(account_id))
        everybody = {name for name, fact in domains.known.items() if fact.catch_all is Known.YES}
        providers = {address: target.fact.provider for address, target in targets.items()}
        known = {
            address
            for address, target in targets.items()
            if address in recalled.mailboxes or target.domain in everybody
        }
        return take_off_known(to_ask, providers, known)


def count_probes(counts: DomainCounts, facts: Mapping[str, DomainFact]) -> tuple[ProbeCounts, ProbeCounts]:
    """Return whom a list would ask, and of these who is at domains that were looked up.

    A free-mail domain is known by its name, and says nothing about others: the second are without them.
    """
    every, looked_up = ProbeCounts(), ProbeCounts()
    every.add(UNKNOWN_LINE, counts.others, counts.other_domains)
    for domain, addresses in counts.domains.items():
        by_name, fact = provider_by_name(domain), facts.get(domain)
        if fact is None:
            every.add(by_name or UNKNOWN_LINE, addresses)
            continue
        key = fact.provider if fact.state is DomainState.ROUTED else _UNASKED
        every.add(key, addresses)
        if not by_name:
            looked_up.add(key, addresses)
    del every.mailboxes[_UNASKED], every.domains[_UNASKED]
    return every, looked_up


def share_out_unknown(to_ask: ProbeCounts, looked_up: ProbeCounts) -> ProbeCounts:
    """Return counts in which the unknown are with the providers of those who were looked up."""
    if not looked_up.mailboxes.total():
        return to_ask
    shared = ProbeCounts(Counter(to_ask.mailboxes), Counter(to_ask.domains))
    mailboxes = shared.mailboxes.pop(UNKNOWN_LINE, 0) / looked_up.mailboxes.total()
    domains = shared.domains.pop(UNKNOWN_LINE, 0) / looked_up.domains.total()
    small = 0.0
    for key in looked_up.mailboxes.keys() - {_UNASKED}:
        found = mailboxes * looked_up.mailboxes[key]
        if shared.mailboxes[key] + found < _OWN_QUEUE:  # more such hosts will be found, not more at these
            small += found
        else:
            shared.add(key, round(found), round(domains * looked_up.domains[key]))
    shared.add(MIXED_LINE, round(small), 0)
    return shared


def take_off_known(to_ask: ProbeCounts, providers: Mapping[str, str], known: Collection[str]) -> ProbeCounts:
    """Return what is left to ask without the addresses whose answers are known.

    `providers` has those of the addresses of a sample; small ones share what the `known` of these show.
    """
    own = {key for key, mailboxes in to_ask.mailboxes.items() if mailboxes >= _OWN_QUEUE}
    groups = {address: key if key in own else MIXED_LINE for address, key in providers.items()}
    seen, asked = Counter(groups.values()), Counter(groups[address] for address in groups.keys() - known)

    def left(counts: Counter[str]) -> Counter[str]:
        return Counter({key: round(count * share_asked(key)) for key, count in counts.items()})

    def share_asked(key: str) -> float:
        group = key if key in own else MIXED_LINE
        if not seen[group]:
            return asked.total() / seen.total() if seen else 1.0
        return asked[group] / seen[group]

    return ProbeCounts(left(to_ask.mailboxes), left(to_ask.domains))


def look_rate(counts: DomainCounts, mode: Mode) -> float:
    """Return addresses a second that are looked at: where only DNS is asked, its domains take the time."""
    if mode is not Mode.MEDIUM or not counts.addresses:
        return TRIAGE_RATES[mode]
    domains = sum(addresses > 0 for addresses in counts.domains.values()) + counts.other_domains
    return counts.addresses / (domains / TRIAGE_RATES[mode] + counts.addresses / TRIAGE_RATES[Mode.FAST])


def sampled(counts: DomainCounts, size: int) -> DomainCounts:
    """Return what a sample of so many addresses has, as mailsift.jobs.results.parts.sample takes it."""
    if counts.addresses <= size:
        return counts
    share, seen, taken = size / counts.addresses, 0, 0
    domains: dict[str, int] = {}
    for domain, addresses in counts.domains.items():
        seen += addresses
        domains[domain] = round(seen * share) - taken
        taken += domains[domain]
    others = round((seen + counts.others) * share) - taken
    other_domains = min(others, counts.other_domains)
    return replace(counts, addresses=size, domains=domains, others=others, other_domains=other_domains)


def merge_small(probes: Mapping[str, int], providers: Providers) -> dict[str, int]:
    """Return mailboxes to ask for by provider, the most first.

    Small hosts count together; providers whose answers tell nothing are not asked.
    """
    merged = Counter[str]()
    for key, addresses in probes.items():
        if key == UNKNOWN_LINE or providers.row(key).informative:
            merged[key if addresses >= _OWN_QUEUE or key == UNKNOWN_LINE else MIXED_LINE] += addresses
    return {key: addresses for key, addresses in merged.most_common() if addresses}


def load_of_list(
    addresses: int,
    probes: Mapping[str, int],
    picture: QueuePicture,
    mode: Mode,
    domains: Mapping[str, int],
    *,
    account_id: UUID,
) -> JobLoad:
    """Return everything that the time of a list that has not begun depends on.

    What nobody knows the mail servers of counts as if it were at many small hosts. `probes` are mailboxes to
    ask for by provider (`merge_small`), `domains` at how many domains these are.
    """
    queues, rates = picture.queues, picture.rates
    small = sum(probes.get(key, 0) for key in (MIXED_LINE, UNKNOWN_LINE))
    return JobLoad(
        providers=[
            ProviderBacklog(
                key,
                rates.at_sources(key),
                [Batch(count, domains=domains.get(key, 0))],
                queued_ahead(queues.rows, key, rates, account_id=account_id, small=False),
            )
            for key, count in probes.items()
            if key not in {MIXED_LINE, UNKNOWN_LINE}
        ],
        triage=addresses,
        triage_rate=TRIAGE_RATES[mode],
        mixed=[Batch(small)] if small else [],
        mixed_rate=MIXED_RATE_A_SLOT * max(1, queues.slots),
        mixed_opens_s=rates.opens_s,
    )


def _plan_job(view: JobView, unjudged: int) -> ListPlan:
    """Return the plan of a job whose list was read, with so many addresses to go: what it waits for.

    What it waits for was read a moment before, and what will wait is a guess in round numbers: no more is to
    be asked for than there are addresses.
    """
    left = view.time_left or TimeLeft(0.0 if view.finished_at else None)
    if view.finished_at is not None:
        left = replace(left, seconds=0.0)
    probes, others = dict[str, int](), unjudged
    for line in left.lines:
        if line.key != TRIAGE_LINE and (mailboxes := min(line.addresses, others)):
            probes[line.key] = mailboxes
            others -= mailboxes
    return ListPlan(unjudged, probes, left)
