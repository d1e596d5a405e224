"""When something is wrong: a pure function for each alarm over the numbers of the installation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from mailsift.pipeline.facts import WaitReason
from mailsift.pipeline.providers import PROVIDERS
from mailsift.pipeline.wording import counted
from mailsift.storage.redis.connection import BrokerCounts
from mailsift.storage.redis.throttle import LearnedRate
from mailsift.storage.sql.stats import Snapshot
from mailsift.storage.sql.workers import ProcessHealth, Worker

READY_SECONDS: Final = 60.0
BEHIND_SECONDS: Final = 900.0
READING_SECONDS: Final = 60.0
SWEEP_SECONDS: Final = 30.0
DELIVERY_SECONDS: Final = 60.0
SCHEDULE_SECONDS: Final = 10.0
"""Schedules are looked at every five seconds."""
UNACKED_SECONDS: Final = 600.0
EXPIRY_SHARE: Final = 0.01
EXPIRY_MINUTES: Final = 15
EXPIRY_LEAST: Final = 3  # one machine that was switched off is no alarm
LAG_SECONDS: Final = 1.0
GONE_SECONDS: Final = 3_600.0
"""A process that is gone for longer, and is not missed, is no news."""
UPGRADE_SECONDS: Final = 300.0
"""Between two processes that an upgrade replaces."""
STILL_MINUTES: Final = 2
"""Whole minutes without a verdict that are a standstill where work is ready."""
FULL_SHARE: Final = 0.01
FULL_BYTES: Final = 256 * 2**20
LOW_SHARE: Final = 0.05
LOW_BYTES: Final = 10 * 2**30
"""A disk is low below a twentieth of it, unless that is more than this."""
FAILING_SHARE: Final = 0.2
REFUSING_PROVIDERS: Final = 3
"""So many that refuse one source at a time are no matter between it and one of them."""

_BIG: Final = frozenset(row.key for row in PROVIDERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """What the alarms look at.

    Attributes:
        stats: what the database says; None while it does not answer.
        throttles, broker: what Redis says; None while it does not answer.
        own: what this very process sees of its disk and of the blob store.
    """

    stats: Snapshot | None
    throttles: Sequence[LearnedRate] | None = ()
    broker: BrokerCounts | None = None
    own: ProcessHealth = field(default_factory=ProcessHealth)
    version: str = ""

    @property
    def live(self) -> Sequence[Worker]:
        """The processes that may claim."""
        return self.stats.live if self.stats else ()

    @property
    def healths(self) -> list[ProcessHealth]:
        """What each process that is heard of sees, this one included."""
        return [self.own, *(worker.health for worker in self.live)]


def of_database(check: Callable[[Snapshot], Iterator[str]]) -> Callable[[Installation], Iterator[str]]:
    """Return the check for an installation whose database may be away: then nothing is known of the rest."""
    return lambda installation: check(installation.stats) if installation.stats is not None else iter(())


def database_is_gone(installation: Installation) -> Iterator[str]:
    """PostgreSQL does not answer."""
    if installation.stats is None:
        yield "PostgreSQL does not answer: nothing is taken in and no verdict is stored."


def redis_is_gone(installation: Installation) -> Iterator[str]:
    """Redis isn’t responding, or takes nothing."""
    if installation.throttles is None or installation.broker is None:
        yield "Redis does not answer or takes nothing: nobody is woken, and processes keep to their shares."


def nobody_works(stats: Snapshot) -> Iterator[str]:
    """No process may claim."""
    if not stats.live:
        waiting = f", and {_waiting(stats.backlog)}" if stats.backlog else ""
        yield f"No worker may claim work: none is running, or all are drained{waiting}."


def nothing_is_claimed(stats: Snapshot) -> Iterator[str]:
    """Work could be claimed, slots are free, and for a minute nobody has claimed anything."""
    if _is_unclaimed(stats) and stats.ordinary_slots and all(map(_is_idle, stats.live)):
        waited = _seconds(stats.oldest_claimable_s)
        yield f"Work has been ready for {waited} while {_count(stats.free_slots, 'slot')} free."


def processes_are_idle(stats: Snapshot) -> Iterator[str]:
    """Which of these slots are at fault; one that has only just begun is not."""
    idle = [one for one in stats.live if one.in_hand == 0 and _is_idle(one)]
    if _is_unclaimed(stats) and idle:
        yield f"{_count(len(idle), 'process')} up, but claimed nothing for a minute: restart them."


def work_stands_still(stats: Snapshot) -> Iterator[str]:
    """Every slot is busy and nothing comes of it."""
    recent = stats.minutes[-STILL_MINUTES - 1 :]
    still = len(recent) > STILL_MINUTES and not any(minute.addresses for minute in recent)
    if still and stats.live and not stats.ordinary_slots and stats.oldest_claimable_s > READY_SECONDS:
        waited = _seconds(stats.oldest_claimable_s)
        yield (
            f"Every slot is busy, work has been ready for {waited}, and no address got a verdict "
            f"for {STILL_MINUTES} minutes."
        )


def workers_are_too_few(stats: Snapshot) -> Iterator[str]:
    """Every slot is busy and ready work is old."""
    if stats.live and not stats.ordinary_slots and stats.oldest_claimable_s > BEHIND_SECONDS:
        yield f"Work has been ready for {_seconds(stats.oldest_claimable_s)} and every slot is busy."


def reading_is_slow(stats: Snapshot) -> Iterator[str]:
    """A small list waits to be read."""
    waited = stats.oldest_jobs.get("small", 0.0)
    if waited > READING_SECONDS and stats.live:
        yield f"A small list has been waiting for {_seconds(waited)} to be begun."


def nobody_sweeps(stats: Snapshot) -> Iterator[str]:
    """What the dead held is not freed."""
    ages = [one.sweep_age for one in stats.workers if not one.gone and one.sweep_age is not None]
    if ages and min(ages) > SWEEP_SECONDS:
        yield f"The last sweep was {_seconds(min(ages))} ago: leases of dead workers are not freed."


def counters_lie(stats: Snapshot) -> Iterator[str]:
    """A counter disagrees with what it counts."""
    if wrong := [one for one in stats.drift if one.chunks_open]:
        yield f"The counter of open chunks is wrong in {len(wrong)} running jobs."


def port25_is(state: str, installation: Installation) -> Iterator[str]:
    """Say where port 25 is so; what waits is mended as soon as no process finds it so any more."""
    checked = [worker for worker in installation.live if worker.health.port25]
    found = [worker for worker in checked if worker.health.port25 == state]
    if found:
        where = _hosts(found, checked)
        yield f"Mail servers cannot be reached from {where}: their port 25 is {_PORT25[state]}."


_PORT25: Final = {"closed": "closed, and was never open", "away": "closed, and was open before"}


def our_network_is_away(installation: Installation) -> Iterator[str]:
    """Port 25 was open and is not; of workers that cannot tell, whose addresses wait for it."""
    yield from port25_is("away", installation)
    waiting = installation.stats.waits.get(WaitReason.OUR_NETWORK) if installation.stats else 0
    if waiting and not any(worker.health.port25 for worker in installation.live):
        yield f"Mail servers cannot be reached from here: {_waiting(waiting)}."


def resolvers_lie(installation: Installation) -> Iterator[str]:
    """A machine has no resolver it believes; of workers that cannot tell, whose addresses wait for one."""
    checked = [worker for worker in installation.live if worker.health.resolvers]
    if alone := [one for one in checked if one.health.distrusted >= one.health.resolvers]:
        yield f"No resolver of {_hosts(alone, checked)} can be trusted: addresses wait and are asked again."
    waiting = installation.stats.waits.get(WaitReason.RESOLVER) if installation.stats else 0
    if waiting and not checked:
        yield f"No resolver can be trusted: {_waiting(waiting)}. What it said is asked again."


def a_resolver_lies(installation: Installation) -> Iterator[str]:
    """Some resolvers are not believed, and others are."""
    checked = [worker.health for worker in installation.live]
    worst = max(checked, key=lambda one: one.distrusted, default=None)
    if worst and 0 < worst.distrusted < worst.resolvers:
        yield f"{worst.distrusted} of {worst.resolvers} resolvers cannot be trusted; the others are asked."


def providers_are_closed(said: str, installation: Installation) -> Iterator[str]:
    """Large providers said so, and are left alone."""
    for one in installation.throttles or ():
        if one.closed_s > 0 and one.provider in _BIG and said == (REFUSES if one.refuses else TOO_FAST):
            yield f"{one.provider} {said}{_from(one.source)}: left alone for {_seconds(one.closed_s)}."


REFUSES, TOO_FAST = "refuses us", "said we are too fast"


def sources_are_refused(installation: Installation) -> Iterator[str]:
    """Several providers refuse one source at a time: it is the source."""
    refused = Counter(one.source for one in installation.throttles or () if one.refuses and one.closed_s > 0)
    for source, providers in sorted(refused.items()):
        if providers >= REFUSING_PROVIDERS:
            yield f"{providers} providers refuse us{_from(source)}: it is listed, or its name is wrong."


def sources_are_held(stats: Snapshot) -> Iterator[str]:
    """Nothing is asked from a source, whoever says so."""
    for source, note in sorted(stats.held_sources.items()):
        yield f"Nobody is asked{_from(source) or ' from the default source'}: held{note and f' ({note})'}."


_FILES: Final = "MAILSIFT_HOME or MAILSIFT_BLOB_URL"


def disks_are_full(installation: Installation) -> Iterator[str]:
    """There is no room."""
    for one in _worst_disk(installation):
        if one[0] < FULL_BYTES or one[0] < one[1] * FULL_SHARE:
            yield f"A disk is full: {_size(one[0])} of {_size(one[1])} are free where {_FILES} is."


def disks_are_low(installation: Installation) -> Iterator[str]:
    """There is hardly room, and there is some."""
    full = any(disks_are_full(installation))
    if not full and any(map(is_low, installation.healths)):
        free, size = _worst_disk(installation)[0]
        yield f"A disk is nearly full: {_size(free)} of {_size(size)} are free where {_FILES} is."


def is_low(process: ProcessHealth) -> bool:
    """Say whether a process has hardly room for its files."""
    return process.disk_size > 0 and process.disk_free < min(process.disk_size * LOW_SHARE, LOW_BYTES)


def _worst_disk(installation: Installation) -> list[tuple[int, int]]:
    """Return free bytes and size of the disk with the least room, if anybody knows of one."""
    return sorted((one.disk_free, one.disk_size) for one in installation.healths if one.disk_size)[:1]


def store_is_away(installation: Installation) -> Iterator[str]:
    """The store of lists and results fails."""
    if codes := {one.store for one in installation.healths if one.store}:
        what = "has no room" if codes == {"storage_full"} else "fails"
        yield f"The store of lists and results {what}: jobs wait for it, and uploads are refused."


def chunks_fail(stats: Snapshot) -> Iterator[str]:
    """Open chunks were tried again and again; those that are done are no news."""
    if stats.troubled:
        one = stats.troubled == 1
        yield f"{stats.troubled:,} open {'chunk was' if one else 'chunks were'} tried more than twice."


def leases_expire(stats: Snapshot) -> Iterator[str]:
    """Too many leases ran out lately."""
    recent = stats.minutes[-EXPIRY_MINUTES:]
    expired = sum(minute.leases_expired for minute in recent)
    share = expired / max(1, expired + sum(minute.chunks for minute in recent))
    if expired >= EXPIRY_LEAST and share > EXPIRY_SHARE:
        yield f"{share:.0%} of the leases of the last {len(recent)} minutes ran out: workers die or hang."


def deliveries_are_late(stats: Snapshot) -> Iterator[str]:
    """A webhook that nothing stands before is not sent."""
    if stats.outbox.oldest_due_s > DELIVERY_SECONDS:
        yield f"A webhook has been due for {_seconds(stats.outbox.oldest_due_s)}."


def webhooks_fail(stats: Snapshot) -> Iterator[str]:
    """Webhooks began to fail, or many do; one that has failed for long is its owner's, who was told."""
    failing, known = stats.endpoints.get("failing", 0), sum(stats.endpoints.values())
    if stats.failing_lately or failing > max(1, known * FAILING_SHARE):
        yield f"{failing:,} of {counted(known, 'webhook')} {'fails' if failing == 1 else 'fail'}."


def mail_fails(stats: Snapshot) -> Iterator[str]:
    """Our own mail is tried again and again; silent once any goes out, or none is left to try."""
    if stats.failing_mail:
        yield f"{counted(stats.failing_mail, 'email')} of ours failed again, and none has gone out since."


def schedules_are_late(stats: Snapshot) -> Iterator[str]:
    """A slot is due and nobody runs it."""
    late = [seconds for seconds in stats.late_schedules if seconds > SCHEDULE_SECONDS]
    if late:
        yield f"{_count(len(late), 'schedule')} late, by up to {_seconds(max(late))}."


def versions_differ(installation: Installation) -> Iterator[str]:
    """Say so once an upgrade stands still: while it goes on there is always a process that is young."""
    found = {worker.version for worker in installation.live} | ({installation.version} - {""})
    youngest = min((worker.up_s for worker in installation.live), default=0.0)
    if len(found) > 1 and youngest > UPGRADE_SECONDS:
        yield f"Different releases run side by side: {', '.join(sorted(found))}."


def workers_are_gone(stats: Snapshot) -> Iterator[str]:
    """Processes died and none has taken their place."""
    if count := _unreplaced(stats.workers):
        yield f"{_count(count, 'process')} gone without a goodbye and not replaced."


def _unreplaced(everybody: Sequence[Worker]) -> int:
    """Return how many died lately for whom none has begun since; everybody who has begun replaces one."""
    deaths = sorted(one.beat_age for one in everybody if one.gone and one.beat_age < GONE_SECONDS)
    births = sorted(one.up_s for one in everybody)  # of who died since, too
    for born in births:  # the youngest first: it can stand for whoever died before
        older = [died for died in deaths if died > born]
        if older:
            deaths.remove(older[0])
    return len(deaths)


def loops_are_late(stats: Snapshot) -> Iterator[str]:
    """An event loop was blocked."""
    worst = max((worker.lag_s for worker in stats.live), default=0.0)
    if worst > LAG_SECONDS:
        yield f"An event loop came {worst:.1f} s late: something computes where it should wait."


def messages_are_stranded(installation: Installation) -> Iterator[str]:
    """Wake-ups lie in the broker."""
    broker = installation.broker
    if broker is not None and broker.unacked and broker.oldest_unacked_s > UNACKED_SECONDS:
        yield f"{broker.unacked} wake-ups were never acknowledged. Harmless: the sweep wakes the workers."


def broker_is_spoilt(installation: Installation) -> Iterator[str]:
    """Somebody wrote over the broker's keys, and no worker is there to mend them."""
    if installation.broker is not None and installation.broker.spoilt:
        yield f"{_count(installation.broker.spoilt, 'key')} of the broker overwritten: nobody is woken."


def _is_unclaimed(stats: Snapshot) -> bool:
    return stats.oldest_claimable_s > READY_SECONDS


def _is_idle(worker: Worker) -> bool:
    """Say whether it has been up for a minute and claimed nothing meanwhile."""
    return worker.up_s > READY_SECONDS and (worker.claim_age is None or worker.claim_age > READY_SECONDS)


def _hosts(some: Sequence[Worker], checked: Sequence[Worker]) -> str:
    """Name the machine, or say how many of all it is."""
    bad, known = {worker.host for worker in some}, {worker.host for worker in checked}
    if len(bad) == 1:
        return next(iter(bad))
    return "every machine" if bad == known else f"{len(bad)} of {len(known)} machines"


def _from(source: str) -> str:
    return f" from {source}" if source else ""


def _count(number: int, noun: str) -> str:
    """Write "1 job is", "2 jobs are"."""
    return f"{counted(number, noun)} {'is' if number == 1 else 'are'}"


def _waiting(addresses: int) -> str:
    return counted(addresses, "address waits", "addresses wait")


def _seconds(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"


def _size(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"
