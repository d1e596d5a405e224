"""What a list will take before it is started: time, probes by provider, and what is unknown."""

from __future__ import annotations

import asyncio
import json
import math
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from mailsift.jobs.drafts import Drafts
from mailsift.jobs.eta import (
    MIXED_LINE,
    TRIAGE_LINE,
    Batch,
    JobLoad,
    ProviderBacklog,
    QueuedAhead,
    TimeLeft,
    time_left,
)
from mailsift.jobs.forecasts import MIXED_RATE_A_SLOT, TRIAGE_RATES, Forecasts, QueuePicture
from mailsift.jobs.intake.harvest import refusal
from mailsift.jobs.intake.models import IntakeLimits, IntakeOptions
from mailsift.jobs.intake.process import ask_child
from mailsift.jobs.service import JobService
from mailsift.jobs.views import AccountId, JobId, JobView
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.facts import DomainState, Mode, decode_domain
from mailsift.pipeline.ports import FactCache, FactKind
from mailsift.pipeline.providers import Providers, provider_by_name
from mailsift.storage.blobs.store import Blobs, JobBlobs
from mailsift.storage.database import Database
from mailsift.storage.sql import chunks
from mailsift.storage.states import UNREAD

MOST_DOMAINS: Final = 5_000
"""Domains of a list that are looked up in the cache: the largest."""
UNKNOWN_LINE: Final = ""
"""The key of addresses whose mail servers are not known yet."""
_COUNTS_AT_ONCE: Final = 2
_COUNT_SECONDS: Final = 60.0
_OWN_QUEUE: Final = 50  # as mailsift.jobs.engine.chunk.ChunkSizes.own_chunk: fewer go with the small ones


@dataclass(frozen=True, slots=True)
class DomainCounts:
    """How many distinct addresses a list has, and at which domains.

    Attributes:
        others: at domains that are not named.
        harvested: the sign by which they look made up (mailsift.jobs.intake.harvest), or "".
    """

    addresses: int
    domains: Mapping[str, int]
    others: int
    harvested: str = ""


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


class Planner:
    """Says what lists will take; every call names the account it speaks for."""

    def __init__(  # noqa: PLR0913 - what a plan depends on, one argument each
        self,
        *,
        database: Database,
        jobs: JobService,
        drafts: Drafts,
        blobs: Blobs,
        forecasts: Forecasts,
        cache: FactCache,
        providers: Providers,
        limits: IntakeLimits,
        scratch: Path,
        refuse_harvested: bool,
    ) -> None:
        self._refuse_harvested = refuse_harvested
        self._database = database
        self._jobs = jobs
        self._drafts = drafts
        self._blobs = blobs
        self._forecasts = forecasts
        self._cache = cache
        self._providers = providers
        self._limits = replace(limits, seconds=_COUNT_SECONDS)
        self._scratch = scratch
        self._counting = asyncio.Semaphore(_COUNTS_AT_ONCE)

    async def plan(self, account_id: AccountId, job_id: JobId, mode: Mode = Mode.DEEP) -> ListPlan:
        """Return what a job still takes, or what an uploaded list would take in a mode.

        A job without a worker ends nobody knows when; of a list that has not been started it is said what it
        takes once it is.

        Raises:
            MailsiftError: `job_not_found`, or what mailsift.jobs.intake.process.take_in says of the list.
        """
        try:
            view = await self._jobs.get(account_id, job_id)
        except MailsiftError as error:
            if error.code != "job_not_found":
                raise
            await self._known_draft(account_id, job_id, error)
            return await self._plan_stored(job_id, "", mode)
        if view.state in UNREAD:
            if not await self._blobs.exists(JobBlobs(job_id).source):  # it is still to be fetched
                return ListPlan(0, {}, TimeLeft(None))
            deadline_s = self._forecasts.seconds_until(view.deadline_at)
            plan = await self._plan_stored(
                job_id, view.options.column, view.mode, view.options.preview, deadline_s
            )
            is_worked = (await self._forecasts.picture()).queues.slots > 0
            return plan if is_worked else replace(plan, left=replace(plan.left, seconds=None))
        return _plan_job(view, await self._database.run(chunks.unjudged, job_id))

    async def plan_file(self, source: Path, column: str, mode: Mode, *, deadline_s: float) -> ListPlan:
        """Return what a file would take, of a job that waits for no mail server for longer than `deadline_s`.

        Raises:
            MailsiftError: what mailsift.jobs.intake.process.take_in says of the list.
        """
        return await self._plan_counts(await self._count(source, column), mode, deadline_s)

    async def _known_draft(self, account_id: AccountId, job_id: JobId, unknown: MailsiftError) -> None:
        try:
            await self._drafts.get(account_id, job_id)
        except MailsiftError:
            raise unknown from None

    async def _plan_stored(
        self, job_id: JobId, column: str, mode: Mode, preview: int = 0, deadline_s: float = math.inf
    ) -> ListPlan:
        """Plan a stored list, or a preview of it; what was counted in its usual column is remembered."""
        keys = JobBlobs(job_id)
        counts = None if column else await self._remembered(keys.domain_counts)
        if counts is None:
            counts = await self._count(await self._blobs.fetch(keys.source), column)
            if not column:
                await self._blobs.put_bytes(keys.domain_counts, json.dumps(asdict(counts)).encode())
        return await self._plan_counts(sampled(counts, preview) if preview else counts, mode, deadline_s)

    async def _remembered(self, key: str) -> DomainCounts | None:
        stored = await self._blobs.read_if_there(key)
        return None if stored is None else DomainCounts(**json.loads(stored))

    async def _count(self, source: Path, column: str) -> DomainCounts:
        options = IntakeOptions(column=column, chunk_addresses=100_000)
        request: dict[str, Any] = {"source": str(source), "options": asdict(options), "most": MOST_DOMAINS}
        async with self._counting:
            with tempfile.TemporaryDirectory(dir=self._scratch, prefix="plan-") as folder:
                counted = await ask_child("count_domains", {**request, "workdir": folder}, self._limits)
        return DomainCounts(**counted)

    async def _plan_counts(self, counts: DomainCounts, mode: Mode, deadline_s: float) -> ListPlan:
        if mode is Mode.DEEP and counts.harvested and self._refuse_harvested:
            raise refusal(counts.harvested)
        probes = await self._probes(counts) if mode is Mode.DEEP else {}
        load = load_of_list(counts.addresses, probes, await self._forecasts.picture(), mode)
        return ListPlan(counts.addresses, probes, time_left(replace(load, deadline_s=deadline_s)))

    async def _probes(self, counts: DomainCounts) -> dict[str, int]:
        facts = await self._cache.get(FactKind.DOMAIN, list(counts.domains))
        probes = Counter({UNKNOWN_LINE: counts.others})
        for domain, addresses in counts.domains.items():
            fact = decode_domain(domain, facts[domain]) if domain in facts else None
            if fact is None or fact.state is DomainState.UNAVAILABLE:
                probes[provider_by_name(domain) or UNKNOWN_LINE] += addresses
            elif fact.state is DomainState.ROUTED:
                probes[fact.provider] += addresses
        return merge_small(probes, self._providers)


def sampled(counts: DomainCounts, size: int) -> DomainCounts:
    """Return what a sample of so many addresses has, as mailsift.jobs.results.previews.sample takes it."""
    if counts.addresses <= size:
        return counts
    share, seen, taken = size / counts.addresses, 0, 0
    domains: dict[str, int] = {}
    for domain, addresses in counts.domains.items():
        seen += addresses
        domains[domain] = round(seen * share) - taken
        taken += domains[domain]
    others = round((seen + counts.others) * share) - taken
    return replace(counts, addresses=size, domains=domains, others=others)


def merge_small(probes: Mapping[str, int], providers: Providers) -> dict[str, int]:
    """Return mailboxes to ask for by provider, the most first.

    Small hosts count together; providers whose answers tell nothing are not asked.
    """
    merged = Counter[str]()
    for key, addresses in probes.items():
        if key == UNKNOWN_LINE or providers.row(key).informative:
            merged[key if addresses >= _OWN_QUEUE or key == UNKNOWN_LINE else MIXED_LINE] += addresses
    return {key: addresses for key, addresses in merged.most_common() if addresses}


def load_of_list(addresses: int, probes: Mapping[str, int], picture: QueuePicture, mode: Mode) -> JobLoad:
    """Return everything that the time of a list that has not begun depends on.

    What nobody knows the mail servers of counts as if it were at many small hosts.
    """
    queues = picture.queues
    small = sum(probes.get(key, 0) for key in (MIXED_LINE, UNKNOWN_LINE))
    providers = [key for key in probes if key not in {MIXED_LINE, UNKNOWN_LINE}]
    waiting = {key: Counter[tuple[object, bool]]() for key in providers}
    for row in queues.rows:
        if row.throttle_key in waiting:
            waiting[row.throttle_key][row.job_id, row.small] += row.addresses + row.domains
    return JobLoad(
        providers=[
            ProviderBacklog(
                key,
                picture.rates.at_sources(key),
                [Batch(probes[key])],
                [QueuedAhead(count, first) for (_, first), count in waiting[key].items()],
            )
            for key in providers
        ],
        triage=addresses,
        triage_rate=TRIAGE_RATES[mode],
        mixed=[Batch(small)] if small else [],
        mixed_rate=MIXED_RATE_A_SLOT * max(1, queues.slots),
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
