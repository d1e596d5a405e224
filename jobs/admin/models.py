"""What operators see: the pictures that pages and terminal show, and how they are put together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mailsift.jobs.admin.alarms import Alarm
from mailsift.jobs.admin.timeline import JobTimeline
from mailsift.jobs.eta import Batch, JobLoad, ProviderBacklog, TimeLeft, time_left
from mailsift.jobs.rates import ProviderRates, allowed_rate
from mailsift.jobs.views import JobView
from mailsift.pipeline.ports import Ask
from mailsift.pipeline.providers import Provider, Providers
from mailsift.pipeline.standing import (
    REFUSALS,
    LedgerCounts,
    LedgerKind,
    Standing,
    provider_at_step,
)
from mailsift.storage.redis.broker import BrokerCounts
from mailsift.storage.redis.throttle_view import LearnedRate
from mailsift.storage.sql import leases
from mailsift.storage.sql.chunks import MAX_ATTEMPTS, MIXED_KEY, SLOW_KEY, TRIAGE_KEY
from mailsift.storage.sql.jobs import JobEvent
from mailsift.storage.sql.leases import Lease, TroubledChunk
from mailsift.storage.sql.ledger import Place
from mailsift.storage.sql.people import AuditRow
from mailsift.storage.sql.sources import LiveSource
from mailsift.storage.sql.stats import ChunkSpan, KeyBacklog, Snapshot
from mailsift.storage.sql.throttle_edits import ANY_SOURCE, MOST_RAISE, EditBook, ThrottleEdit, most_sessions
from mailsift.storage.states import ChunkState

_SHARED_KEYS: Final[Mapping[str, str]] = {
    TRIAGE_KEY: "not looked at yet",
    MIXED_KEY: "many small providers",
    SLOW_KEY: "slow hosts",
}


def key_title(throttle_key: str) -> str:
    """Return what people call a throttle key: the provider, or what shares a key."""
    return _SHARED_KEYS.get(throttle_key, throttle_key)


@dataclass(frozen=True, slots=True)
class RatedBacklog:
    """What waits for one throttle key, and how fast its provider may be asked.

    Attributes:
        title: its name for people.
        rate: recipients a second that are allowed there now, all sources together; None = no limit of one
            provider.
        seconds: how long what remains takes at least; None when there is no rate, or held without an end.
        held: an operator holds the provider.
    """

    row: KeyBacklog
    title: str
    rate: float | None
    seconds: float | None
    held: bool


@dataclass(frozen=True, slots=True)
class Overview:
    """Whether it flows.

    Attributes:
        broker: what lies in it; None while Redis isn’t responding.
        alarms: what is wrong, the worst first.
        backlogs: the fullest ones.
        left: when everything that waits is done.
    """

    stats: Snapshot
    broker: BrokerCounts | None
    alarms: Sequence[Alarm]
    backlogs: Sequence[RatedBacklog]
    left: TimeLeft


@dataclass(frozen=True, slots=True)
class AccountJob:
    """A job with the name of its account."""

    account: str
    view: JobView


@dataclass(frozen=True, slots=True)
class JobsPage:
    """Some jobs; `matching` counts all that match, up to MOST_COUNTED."""

    jobs: Sequence[AccountJob]
    matching: int


_ERRORS: Final[Mapping[str, str]] = {
    leases.LEASE_EXPIRED: "its worker died or hung: the lease ran out",
    leases.TAKEN_BACK: "an operator took it back",
    "": "nothing was said yet",
}


def describe_trouble(chunk: TroubledChunk) -> str:
    """Say what happened to a chunk that was tried again and again."""
    if chunk.state == ChunkState.CANCELLED:
        return "its job was cancelled"
    if chunk.state != ChunkState.DONE:
        return _ERRORS.get(chunk.last_error, chunk.last_error)
    if chunk.attempt <= MAX_ATTEMPTS:
        return "went well in the end"
    return "was split in two" if chunk.addresses > 1 else "its address was judged without asking anybody"


@dataclass(frozen=True, slots=True)
class JobDetails:
    """A job as operators see it."""

    job: AccountJob
    priority: str
    backlogs: Sequence[RatedBacklog]
    strip: Sequence[ChunkSpan]
    leases: Sequence[Lease]
    troubled: Sequence[TroubledChunk]
    events: Sequence[JobEvent]
    audit: Sequence[AuditRow]
    history: JobTimeline


@dataclass(frozen=True, slots=True)
class SourceRow:
    """A source of the fleet; `held`: an operator lets nobody be asked from it."""

    source: LiveSource
    held: bool

    @property
    def state(self) -> str:
        """One word: held or open."""
        return "held" if self.held else "open"


@dataclass(frozen=True, slots=True)
class ThrottleRow:
    """A provider at one source (ANY_SOURCE: an edit for every one).

    Attributes:
        base: the provider table's row, with the overrides file.
        now: the same as edited.
        edit: what operators changed, and who.
        waiting: its addresses without a verdict.
    """

    learned: LearnedRate
    base: Provider
    now: Provider
    held: bool
    edit: ThrottleEdit | None
    waiting: int

    @property
    def rate(self) -> float:
        """Recipients a second that are allowed at this moment, as edited and as learned."""
        is_open = not self.held and self.learned.closed_s <= 0
        return allowed_rate(self.now, self.learned.share) if is_open else 0.0

    @property
    def highest_rate(self) -> float:
        """The most an edit may set."""
        return self.base.rate * MOST_RAISE

    @property
    def most_sessions(self) -> int:
        """The most an edit may set."""
        return most_sessions(self.base)

    @property
    def state(self) -> str:
        """One word: held, refused (it refuses us), closed (a penalty), slowed (it was learned) or open."""
        if self.held:
            return "held"
        if self.learned.closed_s > 0:
            return "refused" if self.learned.refuses else "closed"
        return "slowed" if self.learned.share < 1 else "open"


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """What a source asked of a provider in some hours, and what its name is worth there.

    Attributes:
        provider, source: the place; the provider `other` is all that are in no table.
        standing: None: the pace is not earned there.
        rate: recipients a second the name is worth; None where no name counts.
    """

    provider: str
    source: str
    counts: LedgerCounts
    standing: Standing | None = None
    rate: float | None = None

    @property
    def unknown_share(self) -> float:
        """Which share of the real recipients nobody knew."""
        real = self.counts.of(LedgerKind.PROBES) - self.counts.of(LedgerKind.RANDOM)
        return self.counts.of(LedgerKind.UNKNOWN) / real if real > 0 else 0.0

    @property
    def refusals(self) -> dict[LedgerKind, int]:
        """Sessions in which we were refused, by what it was about."""
        return {kind: self.counts.of(kind) for kind in REFUSALS if self.counts.of(kind)}


def ledger_rows(
    totals: Mapping[Place, LedgerCounts], standings: Mapping[Place, Standing], providers: Providers
) -> list[LedgerRow]:
    """Put the ledger of some time and what it has earned together, the busiest first."""
    rows = []
    for key, counts in totals.items():
        standing = standings.get(key)
        rate = provider_at_step(providers.row(key[0]), standing.step).rate if standing else None
        rows.append(LedgerRow(*key, counts, standing, rate))
    return sorted(rows, key=lambda row: (-row.counts.of(LedgerKind.PROBES), row.provider, row.source))


def rated_backlog(row: KeyBacklog, rates: ProviderRates) -> RatedBacklog:
    """Return a backlog with its rate; only a provider has one."""
    title = key_title(row.throttle_key)
    if row.throttle_key in _SHARED_KEYS:
        return RatedBacklog(row, title, None, None, held=False)
    sources = rates.at_sources(row.throttle_key)
    queue = ProviderBacklog(row.throttle_key, sources, (Batch(row.remaining, domains=row.domains),))
    rate = sum(source.rate for source in sources if not source.held)
    seconds = time_left(JobLoad((queue,))).seconds
    return RatedBacklog(row, title, rate, seconds, held=all(source.held for source in sources))


def throttle_rows(
    learned: Sequence[LearnedRate],
    edits: Sequence[ThrottleEdit],
    waiting: Mapping[str, int],
    providers: Providers,
    steps: Mapping[tuple[str, str], int] | None = None,
) -> list[ThrottleRow]:
    """Put together what is known of every provider x source: held and closed ones first, then the busiest."""
    book, edited = EditBook(edits, steps), {(edit.provider, edit.source): edit for edit in edits}
    rows = []
    for one in learned:
        ask, base = Ask(one.provider, one.source, "", 1), providers.row(one.provider)
        rows.append(
            ThrottleRow(
                learned=one,
                base=base,
                now=book.row(base, ask),
                held=book.holds(ask),
                edit=edited.get((one.provider, one.source)) or edited.get((one.provider, ANY_SOURCE)),
                waiting=waiting.get(one.provider, 0),
            )
        )
    return sorted(rows, key=_place)


def _place(row: ThrottleRow) -> tuple[bool, bool, int, int, str, str]:
    one = row.learned
    return not row.held, one.closed_s <= 0, -row.waiting, -one.sessions, one.provider, one.source
