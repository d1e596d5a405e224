"""Time left: pure functions from what waits, for whom and how fast that goes, to seconds and to words.

The slowest decides. A provider takes what its rate leaves this job: from all sources of the fleet together,
each from when it may be asked, one after the other, with those of other jobs in line; its rate counts the
random recipient of each of their domains, too. What nobody has looked at yet falls to providers by its
free-mail domains and otherwise as what was looked at did; what needs no provider goes at the measured rate.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from mailsift.pipeline.wording import counted

TRIAGE_LINE: Final = "triage"
MIXED_LINE: Final = "mixed"
"""Keys of the lines that are no provider's: addresses still to be triaged, and those at many small hosts."""
_LATE_RATE: Final = 1_000 / 15
"""Addresses a second that get their verdict behind a job's deadline: a chunk in the time that it may ask
(mailsift.jobs.engine.chunk)."""


@dataclass(frozen=True, slots=True)
class SourceRate:
    """How a provider may be asked from one source of ours.

    Attributes:
        rate: recipients a second, as edited and as learned.
        opens_s: seconds until it may be asked at all; infinite while an operator holds it without an end.
        burst: recipients that may go at once, beyond the rate, after none were asked for a while.
        credit: how many of these may go now.
        lost_s: seconds lost for every recipient, because no worker is ready when the rate allows more.
    """

    rate: float
    opens_s: float = 0.0
    burst: int = 0
    credit: float = 0.0
    held: bool = False
    lost_s: float = 0.0

    @property
    def real_rate(self) -> float:
        """Recipients a second that come about, `credit` not counted."""
        return 1 / (1 / self.rate + self.lost_s)


@dataclass(frozen=True, slots=True)
class Batch:
    """Addresses that may go on in so many seconds: greylisting and "later" have their times.

    Attributes:
        domains: at how many they are, where a rate counts the random recipients, too.
        asked: recipients among these that a worker who is at it has asked for by now.
        again_s: seconds of the waits that are still to come where the server puts them off as it did before.
    """

    addresses: float
    ready_s: float = 0.0
    domains: float = 0.0
    asked: float = 0.0
    again_s: float = 0.0

    @property
    def recipients(self) -> float:
        """How many recipients are still to be asked for."""
        return self.addresses + self.domains - self.asked

    @property
    def last_s(self) -> float:
        """Seconds until they are asked for the last time, as far as can be told."""
        return self.ready_s + self.again_s


@dataclass(frozen=True, slots=True)
class QueuedAhead:
    """Recipients of others at the same provider.

    Attributes:
        recipients: those of one job of the same account, or of all jobs of another account.
        first: of a small job of the same account, which never waits behind ours.
        apart: of another account, which takes turns with ours whatever its jobs are.
        jobs: of how many jobs.
        later: those beside the recipients that have to wait for their time.
    """

    recipients: float
    first: bool = False
    apart: bool = False
    jobs: int = 1
    later: Sequence[Batch] = ()


@dataclass(frozen=True, slots=True)
class ProviderBacklog:
    """What waits for one provider.

    Attributes:
        sources: its rate at each of our sources; whichever may ask takes what waits.
        mine: what of this job waits there.
        others: what of other jobs and accounts does.
    """

    key: str
    sources: Sequence[SourceRate]
    mine: Sequence[Batch] = ()
    others: Sequence[QueuedAhead] = ()


@dataclass(frozen=True, slots=True)
class JobLoad:
    """Everything that a job's time depends on.

    Attributes:
        providers: what waits for each, and those that what nobody has looked at may fall to.
        triage: addresses still to be triaged.
        triage_rate: how many of them a second are looked at.
        arriving: how many of them will fall to a provider, by key; the rest need none.
        mixed: what waits for many small providers.
        mixed_rate: how many of these a second get their verdict.
        mixed_opens_s: seconds until anybody may be asked at all; infinite while an operator holds all of our
            sources without an end.
        starts_s: seconds until its list is read at all, after that was given back.
        deadline_s: seconds until no mail server is waited for any more.
    """

    providers: Sequence[ProviderBacklog] = ()
    triage: float = 0.0
    triage_rate: float = 1.0
    arriving: Mapping[str, Batch] = field(default_factory=dict)
    mixed: Sequence[Batch] = ()
    mixed_rate: float = 1.0
    mixed_opens_s: float = 0.0
    working: bool = True
    starts_s: float = 0.0
    deadline_s: float = math.inf


@dataclass(frozen=True, slots=True)
class EtaLine:
    """One thing a job waits for.

    Attributes:
        key: a provider's throttle key, TRIAGE_LINE or MIXED_LINE.
        addresses: of this job.
        rate: addresses a second there, all sources and jobs together; 0 = held.
        seconds: until the last of them has its verdict; None = unknown.
        jobs: other jobs in line.
        starts_s: seconds until the last of them may be asked, 0 = at once.
        again: how many of them are expected to be put off once more.
    """

    key: str
    addresses: int
    rate: float
    seconds: float | None
    jobs: int = 0
    starts_s: float = 0.0
    again: int = 0

    @property
    def text(self) -> str:
        """Return the line in words."""
        name = {TRIAGE_LINE: "not looked at yet", MIXED_LINE: "many small providers"}.get(self.key, self.key)
        text = f"{name}: {counted(self.addresses, 'address')}"
        text += ", held by an operator" if not self.rate else f" at {_rate(self.rate)}/s"
        if self.jobs:
            text += f", {counted(self.jobs, 'other job')} in line"
        if self.starts_s >= 1:
            minutes, seconds = math.ceil(self.starts_s / 60), math.ceil(self.starts_s)
            text += f", the last of them not before {f'{minutes} min' if minutes > 1 else f'{seconds} s'}"
        if self.again:
            text += f", {self.again:,} put off again and again"
        return text


@dataclass(frozen=True, slots=True)
class TimeLeft:
    """When a job ends: in so many seconds (None = unknown), and what decides, the slowest first."""

    seconds: float | None
    lines: tuple[EtaLine, ...] = ()

    @property
    def reason(self) -> str:
        """The line that decides, in words; "" when nothing waits."""
        return self.lines[0].text if self.lines else ""


def time_left(load: JobLoad) -> TimeLeft:
    """Return when all of a job's addresses have their verdicts."""
    triage_s = load.triage / load.triage_rate if load.triage else 0.0
    deadline_s = max(0.0, load.deadline_s - load.starts_s)
    lines = [
        _provider_line(queue, load.arriving.get(queue.key, Batch(0.0)), triage_s, deadline_s)
        for queue in load.providers
    ]
    if load.triage:
        lines.append(EtaLine(TRIAGE_LINE, round(load.triage), load.triage_rate, triage_s))
    if load.mixed:
        lines.append(_mixed_line(load, deadline_s))
    waiting = sorted((_put_off(line, load.starts_s) for line in lines if line.addresses), key=_slowest_first)
    if not waiting:
        return TimeLeft(0.0)
    return TimeLeft(waiting[0].seconds if load.working else None, tuple(waiting))


def recipients_ahead(mine: float, others: Sequence[QueuedAhead]) -> float:
    """Return how many recipients of others are asked for before the last of so many of ours.

    Accounts take turns at a provider, and so do the jobs of one: of who has more than we have only as many
    go before our last.
    """
    of_account = sum(
        other.recipients if other.first else min(other.recipients, mine)
        for other in others
        if not other.apart
    )
    return of_account + sum(min(other.recipients, mine + of_account) for other in others if other.apart)


def _provider_line(queue: ProviderBacklog, arriving: Batch, arriving_s: float, deadline_s: float) -> EtaLine:
    """Return a provider's line; what arrives from triage does so until `arriving_s`."""
    batches = [*queue.mine, *([arriving] if arriving.addresses else [])]
    mine = sum(batch.addresses for batch in batches)
    late_s = deadline_s + mine / _LATE_RATE
    recipients = sum(batch.recipients for batch in batches)
    ahead = recipients_ahead(recipients, queue.others)
    end = _drain(queue.sources, batches, ahead)
    others = [_in_time(other, batches, end) for other in queue.others]
    if joining := recipients_ahead(recipients, others) - ahead:
        joins_s = min(batch.ready_s for other in queue.others for batch in other.later)
        end = _drain(queue.sources, [*batches, Batch(joining, joins_s)], ahead)
    end = min(late_s, end)
    seconds = max(end, arriving_s if arriving.addresses else 0.0)
    return EtaLine(
        queue.key,
        round(mine),
        sum(source.rate for source in queue.sources if not source.held),
        seconds if math.isfinite(seconds) else None,
        jobs=sum(other.jobs for other in others if other.recipients > 0),
        starts_s=_last(queue.mine),
        again=_again(queue.mine),
    )


def _in_time(other: QueuedAhead, batches: Sequence[Batch], end: float) -> QueuedAhead:
    """Return what others have in line with those of `later` whose time comes before ours are done at `end`.

    These take turns only with what is left of ours by then.
    """
    late = sum(min(one.recipients, _left(batches, one.ready_s, end)) for one in other.later)
    return replace(other, recipients=other.recipients + late, later=())


def _left(batches: Sequence[Batch], at_s: float, end: float) -> float:
    """Return how many recipients will be left at a moment of batches whose last is asked for at `end`."""
    if at_s >= end or math.isinf(end):
        return 0.0
    return sum(
        batch.recipients * (1.0 if batch.last_s >= at_s else (end - at_s) / (end - batch.last_s))
        for batch in batches
    )


def _put_off(line: EtaLine, wait_s: float) -> EtaLine:
    seconds = None if line.seconds is None else line.seconds + wait_s
    return replace(line, seconds=seconds, starts_s=line.starts_s + wait_s)


def _mixed_line(load: JobLoad, deadline_s: float) -> EtaLine:
    """Return the line of what waits for many small providers."""
    addresses = _count(load.mixed)
    late_s = deadline_s + addresses / _LATE_RATE
    measured = SourceRate(load.mixed_rate, load.mixed_opens_s, burst=addresses)  # their waits are in it
    seconds = min(late_s, _drain([measured], load.mixed, 0.0))
    return EtaLine(
        MIXED_LINE,
        addresses,
        0.0 if load.mixed_opens_s else load.mixed_rate,
        seconds if math.isfinite(seconds) else None,
        starts_s=_last(load.mixed),
        again=_again(load.mixed),
    )


def _drain(sources: Sequence[SourceRate], batches: Sequence[Batch], ahead: float) -> float:
    """Return when the sources have asked what is ahead and the batches, each in its time.

    While a batch waits, what the rates allow adds up to no more than the bursts.
    """
    usable = [source for source in sources if math.isfinite(source.opens_s)]
    credit, burst = sum(source.credit for source in usable), sum(source.burst for source in usable)
    at = 0.0
    for batch in [Batch(ahead), *sorted(batches, key=lambda one: one.last_s)]:
        allowed = _time_asked(sources, at, max(0.0, batch.recipients - credit))
        rested = _time_asked(sources, batch.last_s, max(0.0, batch.recipients - burst))
        at = max(allowed, rested)
        credit = max(0.0, credit - batch.recipients)
    return at


def _time_asked(sources: Sequence[SourceRate], start: float, recipients: float) -> float:
    """Return when sources that begin at `start`, or when they may be asked, have asked so many."""
    at, rate = start, 0.0
    for source in sorted(sources, key=lambda one: one.opens_s):
        begins = max(start, source.opens_s)
        until_then = rate * (begins - at) if math.isfinite(begins) else math.inf
        if (rate and recipients <= until_then) or not math.isfinite(begins):
            break
        at, rate, recipients = begins, rate + source.real_rate, recipients - until_then
    return at + recipients / rate if rate else math.inf


def _rate(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def _count(batches: Sequence[Batch]) -> int:
    return round(sum(batch.addresses for batch in batches))


def _again(batches: Sequence[Batch]) -> int:
    return _count([batch for batch in batches if batch.again_s])


def _last(batches: Sequence[Batch]) -> float:
    return max((batch.ready_s for batch in batches), default=0.0)


def _slowest_first(line: EtaLine) -> tuple[float, str]:
    return -math.inf if line.seconds is None else -line.seconds, line.key
