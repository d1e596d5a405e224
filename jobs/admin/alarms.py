"""Alarms: what is wrong right now, its cause and what to do about it.

The conditions, and the one table that pages, terminal, metrics, Prometheus' rules and the runbook come from.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Final

from mailsift.pipeline.facts import WaitReason
from mailsift.pipeline.providers import PROVIDERS
from mailsift.pipeline.wording import counted
from mailsift.storage.redis.connection import BrokerCounts
from mailsift.storage.redis.throttle import LearnedRate
from mailsift.storage.sql.stats import Snapshot
from mailsift.storage.sql.workers import ProcessHealth, Worker


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


class Level(StrEnum):
    """How bad it is."""

    CRITICAL = "critical"  # nothing flows, or a number is wrong
    WARNING = "warning"  # it flows more slowly than it could


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmRule:
    """A row of the one table from which /ops, `mailsift ops top`, metrics, Prometheus and runbook come.

    Attributes:
        code: stable.
        page: where operators look into it, below `/ops`, filtered.
        cause, effect, action: for people: what it means, what comes of it, what to do.
        check: gives a sentence for everything that is wrong; None: only Prometheus can see it.
        expr: what Prometheus asks; "": whether the API says that this alarm rings.
        hold: for how long it has to be so before Prometheus tells anybody.
    """

    code: str
    level: Level
    title: str
    page: str
    cause: str
    effect: str
    action: str
    check: Callable[[Installation], Iterator[str]] | None = None
    expr: str = ""
    hold: str = "1m"

    @property
    def address(self) -> str:
        """Where its page also says what it means and what to do."""
        return f"/ops{self.page}{'&' if '?' in self.page else '?'}alarm={self.code}"

    @property
    def alert(self) -> str:
        """Its name in Prometheus and in the runbook."""
        return "Mailsift" + "".join(word.capitalize() for word in self.code.split("_"))


@dataclass(frozen=True, slots=True)
class Alarm:
    """One thing that is wrong: the rule, and one English sentence."""

    rule: AlarmRule
    text: str

    @property
    def code(self) -> str:
        """Of the rule."""
        return self.rule.code

    @property
    def level(self) -> Level:
        """Of the rule."""
        return self.rule.level


def alarms(seen: Installation) -> list[Alarm]:
    """Return what is wrong, the worst first."""
    found = [Alarm(rule, text) for rule in RULES if rule.check for text in rule.check(seen)]
    return sorted(found, key=lambda alarm: list(Level).index(alarm.level))


_READY_SECONDS: Final = 60.0


def _of_database(check: Callable[[Snapshot], Iterator[str]]) -> Callable[[Installation], Iterator[str]]:
    """Return the check for an installation whose database may be away: then nothing is known of the rest."""
    return lambda installation: check(installation.stats) if installation.stats is not None else iter(())


def _database_is_gone(installation: Installation) -> Iterator[str]:
    """PostgreSQL does not answer."""
    if installation.stats is None:
        yield "PostgreSQL does not answer: nothing is taken in and no verdict is stored."


def _redis_is_gone(installation: Installation) -> Iterator[str]:
    """Redis isn’t responding, or takes nothing."""
    if installation.throttles is None or installation.broker is None:
        yield "Redis does not answer or takes nothing: nobody is woken, and processes keep to their shares."


def _nobody_works(stats: Snapshot) -> Iterator[str]:
    """No process may claim."""
    if not stats.live:
        waiting = f", and {_waiting(stats.backlog)}" if stats.backlog else ""
        yield f"No worker may claim work: none is running, or all are drained{waiting}."


def _nothing_is_claimed(stats: Snapshot) -> Iterator[str]:
    """Work could be claimed, slots are free, and for a minute nobody has claimed anything."""
    if _is_unclaimed(stats) and stats.ordinary_slots and all(map(_is_idle, stats.live)):
        waited = _seconds(stats.oldest_claimable_s)
        yield f"Work has been ready for {waited} while {_count(stats.free_slots, 'slot')} free."


def _processes_are_idle(stats: Snapshot) -> Iterator[str]:
    """Which of these slots are at fault; one that has only just begun is not."""
    idle = [one for one in stats.live if one.in_hand == 0 and _is_idle(one)]
    if _is_unclaimed(stats) and idle:
        yield f"{_count(len(idle), 'process')} up, but claimed nothing for a minute: restart them."


_STILL_MINUTES: Final = 2
"""Whole minutes without a verdict that are a standstill where work is ready."""


def _work_stands_still(stats: Snapshot) -> Iterator[str]:
    """Every slot is busy and nothing comes of it."""
    recent = stats.minutes[-_STILL_MINUTES - 1 :]
    still = len(recent) > _STILL_MINUTES and not any(minute.addresses for minute in recent)
    if still and stats.live and not stats.ordinary_slots and stats.oldest_claimable_s > _READY_SECONDS:
        waited = _seconds(stats.oldest_claimable_s)
        yield (
            f"Every slot is busy, work has been ready for {waited}, and no address got a verdict "
            f"for {_STILL_MINUTES} minutes."
        )


_BEHIND_SECONDS: Final = 900.0


def _workers_are_too_few(stats: Snapshot) -> Iterator[str]:
    """Every slot is busy and ready work is old."""
    if stats.live and not stats.ordinary_slots and stats.oldest_claimable_s > _BEHIND_SECONDS:
        yield f"Work has been ready for {_seconds(stats.oldest_claimable_s)} and every slot is busy."


_READING_SECONDS: Final = 60.0


def _reading_is_slow(stats: Snapshot) -> Iterator[str]:
    """A small list waits to be read."""
    waited = stats.oldest_jobs.get("small", 0.0)
    if waited > _READING_SECONDS and stats.live:
        yield f"A small list has been waiting for {_seconds(waited)} to be begun."


_SWEEP_SECONDS: Final = 30.0


def _nobody_sweeps(stats: Snapshot) -> Iterator[str]:
    """What the dead held is not freed."""
    ages = [one.sweep_age for one in stats.workers if not one.gone and one.sweep_age is not None]
    if ages and min(ages) > _SWEEP_SECONDS:
        yield f"The last sweep was {_seconds(min(ages))} ago: leases of dead workers are not freed."


def _counters_lie(stats: Snapshot) -> Iterator[str]:
    """A counter disagrees with what it counts."""
    if wrong := [one for one in stats.drift if one.chunks_open]:
        yield f"The counter of open chunks is wrong in {len(wrong)} running jobs."


def _port25_is(state: str, installation: Installation) -> Iterator[str]:
    """Say where port 25 is so; what waits is mended as soon as no process finds it so any more."""
    checked = [worker for worker in installation.live if worker.health.port25]
    found = [worker for worker in checked if worker.health.port25 == state]
    if found:
        where = _hosts(found, checked)
        yield f"Mail servers cannot be reached from {where}: their port 25 is {_PORT25[state]}."


_PORT25: Final = {"closed": "closed, and was never open", "away": "closed, and was open before"}


def _our_network_is_away(installation: Installation) -> Iterator[str]:
    """Port 25 was open and is not; of workers that cannot tell, whose addresses wait for it."""
    yield from _port25_is("away", installation)
    waiting = installation.stats.waits.get(WaitReason.OUR_NETWORK) if installation.stats else 0
    if waiting and not any(worker.health.port25 for worker in installation.live):
        yield f"Mail servers cannot be reached from here: {_waiting(waiting)}."


def _resolvers_lie(installation: Installation) -> Iterator[str]:
    """A machine has no resolver it believes; of workers that cannot tell, whose addresses wait for one."""
    checked = [worker for worker in installation.live if worker.health.resolvers]
    if alone := [one for one in checked if one.health.distrusted >= one.health.resolvers]:
        yield f"No resolver of {_hosts(alone, checked)} can be trusted: addresses wait and are asked again."
    waiting = installation.stats.waits.get(WaitReason.RESOLVER) if installation.stats else 0
    if waiting and not checked:
        yield f"No resolver can be trusted: {_waiting(waiting)}. What it said is asked again."


def _a_resolver_lies(installation: Installation) -> Iterator[str]:
    """Some resolvers are not believed, and others are."""
    checked = [worker.health for worker in installation.live]
    worst = max(checked, key=lambda one: one.distrusted, default=None)
    if worst and 0 < worst.distrusted < worst.resolvers:
        yield f"{worst.distrusted} of {worst.resolvers} resolvers cannot be trusted; the others are asked."


_BIG: Final = frozenset(row.key for row in PROVIDERS)


def _providers_are_closed(symptom: str, installation: Installation) -> Iterator[str]:
    """Large providers said so, and are left alone."""
    for one in installation.throttles or ():
        if one.closed_s > 0 and one.provider in _BIG and symptom == (_REFUSES if one.refuses else _TOO_FAST):
            yield f"{one.provider} {symptom}{_from(one.source)}: left alone for {_seconds(one.closed_s)}."


_REFUSES, _TOO_FAST = "refuses us", "said we are too fast"


_REFUSING_PROVIDERS: Final = 3
"""So many that refuse one source at a time are no matter between it and one of them."""


def _sources_are_refused(installation: Installation) -> Iterator[str]:
    """Several providers refuse one source at a time: it is the source."""
    refused = Counter(one.source for one in installation.throttles or () if one.refuses and one.closed_s > 0)
    for source, providers in sorted(refused.items()):
        if providers >= _REFUSING_PROVIDERS:
            yield f"{providers} providers refuse us{_from(source)}: it is listed, or its name is wrong."


def _sources_are_held(stats: Snapshot) -> Iterator[str]:
    """Nothing is asked from a source, whoever says so."""
    for source, note in sorted(stats.held_sources.items()):
        yield f"Nobody is asked{_from(source) or ' from the default source'}: held{note and f' ({note})'}."


_FILES: Final = "MAILSIFT_HOME or MAILSIFT_BLOB_URL"


_FULL_SHARE: Final = 0.01
_FULL_BYTES: Final = 256 * 2**20


def _disks_are_full(installation: Installation) -> Iterator[str]:
    """There is no room."""
    for one in _worst_disk(installation):
        if one[0] < _FULL_BYTES or one[0] < one[1] * _FULL_SHARE:
            yield f"A disk is full: {_size(one[0])} of {_size(one[1])} are free where {_FILES} is."


def _disks_are_low(installation: Installation) -> Iterator[str]:
    """There is hardly room, and there is some."""
    full = any(_disks_are_full(installation))
    if not full and any(map(is_low, installation.healths)):
        free, size = _worst_disk(installation)[0]
        yield f"A disk is nearly full: {_size(free)} of {_size(size)} are free where {_FILES} is."


_LOW_SHARE: Final = 0.05
_LOW_BYTES: Final = 10 * 2**30
"""A disk is low below a twentieth of it, unless that is more than this."""


def is_low(process: ProcessHealth) -> bool:
    """Say whether a process has hardly room for its files."""
    return process.disk_size > 0 and process.disk_free < min(process.disk_size * _LOW_SHARE, _LOW_BYTES)


def _worst_disk(installation: Installation) -> list[tuple[int, int]]:
    """Return free bytes and size of the disk with the least room, if anybody knows of one."""
    return sorted((one.disk_free, one.disk_size) for one in installation.healths if one.disk_size)[:1]


def _store_is_away(installation: Installation) -> Iterator[str]:
    """The store of lists and results fails."""
    if codes := {one.store for one in installation.healths if one.store}:
        what = "has no room" if codes == {"storage_full"} else "fails"
        yield f"The store of lists and results {what}: jobs wait for it, and uploads are refused."


def _chunks_fail(stats: Snapshot) -> Iterator[str]:
    """Open chunks were tried again and again; those that are done are no news."""
    if stats.failing_chunks:
        one = stats.failing_chunks == 1
        yield f"{stats.failing_chunks:,} open {'chunk was' if one else 'chunks were'} tried more than twice."


_EXPIRY_SHARE: Final = 0.01
_EXPIRY_MINUTES: Final = 15
_EXPIRY_LEAST: Final = 3  # one machine that was switched off is no alarm


def _leases_expire(stats: Snapshot) -> Iterator[str]:
    """Too many leases ran out lately."""
    recent = stats.minutes[-_EXPIRY_MINUTES:]
    expired = sum(minute.leases_expired for minute in recent)
    share = expired / max(1, expired + sum(minute.chunks for minute in recent))
    if expired >= _EXPIRY_LEAST and share > _EXPIRY_SHARE:
        yield f"{share:.0%} of the leases of the last {len(recent)} minutes ran out: workers die or hang."


_DELIVERY_SECONDS: Final = 60.0


def _deliveries_are_late(stats: Snapshot) -> Iterator[str]:
    """A webhook that nothing stands before is not sent."""
    if stats.outbox.oldest_due_s > _DELIVERY_SECONDS:
        yield f"A webhook has been due for {_seconds(stats.outbox.oldest_due_s)}."


_FAILING_SHARE: Final = 0.2


def _webhooks_fail(stats: Snapshot) -> Iterator[str]:
    """Webhooks began to fail, or many do; one that has failed for long is its owner's, who was told."""
    failing, known = stats.endpoints.get("failing", 0), sum(stats.endpoints.values())
    if stats.failing_lately or failing > max(1, known * _FAILING_SHARE):
        yield f"{failing:,} of {counted(known, 'webhook')} {'fails' if failing == 1 else 'fail'}."


def _mail_fails(stats: Snapshot) -> Iterator[str]:
    """Our own mail is tried again and again; silent once any goes out, or none is left to try."""
    if stats.failing_mail:
        yield f"{counted(stats.failing_mail, 'email')} of ours failed again, and none has gone out since."


SCHEDULE_SECONDS: Final = 10.0
"""Schedules are looked at every five seconds."""


def _schedules_are_late(stats: Snapshot) -> Iterator[str]:
    """A slot is due and nobody runs it."""
    late = [seconds for seconds in stats.late_schedules if seconds > SCHEDULE_SECONDS]
    if late:
        yield f"{_count(len(late), 'schedule')} late, by up to {_seconds(max(late))}."


_UPGRADE_SECONDS: Final = 300.0
"""Between two processes that an upgrade replaces."""


def _versions_differ(installation: Installation) -> Iterator[str]:
    """Say so once an upgrade stands still: while it goes on there is always a process that is young."""
    found = {worker.version for worker in installation.live} | ({installation.version} - {""})
    youngest = min((worker.up_s for worker in installation.live), default=0.0)
    if len(found) > 1 and youngest > _UPGRADE_SECONDS:
        yield f"Different releases run side by side: {', '.join(sorted(found))}."


def _workers_are_gone(stats: Snapshot) -> Iterator[str]:
    """Processes died and none has taken their place."""
    if count := _unreplaced(stats.workers):
        yield f"{_count(count, 'process')} gone without a goodbye and not replaced."


_GONE_SECONDS: Final = 3_600.0
"""A process that is gone for longer, and is not missed, is no news."""


def _unreplaced(everybody: Sequence[Worker]) -> int:
    """Return how many died lately for whom none has begun since; everybody who has begun replaces one."""
    deaths = sorted(one.beat_age for one in everybody if one.gone and one.beat_age < _GONE_SECONDS)
    births = sorted(one.up_s for one in everybody)  # of who died since, too
    for born in births:  # the youngest first: it can stand for whoever died before
        older = [died for died in deaths if died > born]
        if older:
            deaths.remove(older[0])
    return len(deaths)


_LAG_SECONDS: Final = 1.0


def _loops_are_late(stats: Snapshot) -> Iterator[str]:
    """An event loop was blocked."""
    worst = max((worker.lag_s for worker in stats.live), default=0.0)
    if worst > _LAG_SECONDS:
        yield f"An event loop came {worst:.1f} s late: something computes where it should wait."


_UNACKED_SECONDS: Final = 600.0


def _messages_are_stranded(installation: Installation) -> Iterator[str]:
    """Wake-ups lie in the broker."""
    broker = installation.broker
    if broker is not None and broker.unacked and broker.oldest_unacked_s > _UNACKED_SECONDS:
        yield f"{broker.unacked} wake-ups were never acknowledged. Harmless: the sweep wakes the workers."


def _broker_is_spoilt(installation: Installation) -> Iterator[str]:
    """Somebody wrote over the broker's keys, and no worker is there to mend them."""
    if installation.broker is not None and installation.broker.spoilt:
        yield f"{_count(installation.broker.spoilt, 'key')} of the broker overwritten: nobody is woken."


def _is_unclaimed(stats: Snapshot) -> bool:
    return stats.oldest_claimable_s > _READY_SECONDS


def _is_idle(worker: Worker) -> bool:
    """Say whether it has been up for a minute and claimed nothing meanwhile."""
    return worker.up_s > _READY_SECONDS and (worker.claim_age is None or worker.claim_age > _READY_SECONDS)


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


_critical = partial(AlarmRule, level=Level.CRITICAL)
_warning = partial(AlarmRule, level=Level.WARNING)
_OWN: Final = (
    '{route!~"/v1/email/.+|/v1/bulk/(jobs|preview)|/lists.*|.*/(results|download|live|events|test|diff)"}'
)
"""Routes that wait for nobody else."""

RULES: Final = (
    _critical(
        code="database_gone",
        title="PostgreSQL does not answer",
        page="",
        check=_database_is_gone,
        cause=(
            "PostgreSQL is down, out of connections or disk space, or its schema is not the one this "
            "release needs."
        ),
        effect="Requests fail and workers wait. Nothing is lost, and work resumes by itself.",
        action=(
            "Check that the server is up and has disk space and free connections (`select count(*) from "
            "pg_stat_activity` against `max_connections`). `mailsift doctor` tells you whether the schema "
            "matches this release."
        ),
    ),
    _critical(
        code="redis_gone",
        title="Redis does not answer",
        page="/broker",
        check=_redis_is_gone,
        cause="Redis or Valkey is down, out of memory or unable to write its file.",
        effect=(
            "Work slows down but goes on: it starts with the next tick, facts aren’t shared, and each "
            "process keeps to its share of every limit."
        ),
        action=(
            "Bring it back (check memory and the disk of its append-only file). Nothing needs repair "
            "afterwards."
        ),
    ),
    _critical(
        code="no_workers",
        title="No workers are running",
        page="/workers",
        check=_of_database(_nobody_works),
        cause="No worker process has reported in, or operators have drained all of them.",
        effect="Jobs wait. Nothing is lost, but nothing moves.",
        action=(
            "Undrain the drained workers, or start new ones. If they exit at once, their log says why: "
            "`bad_overrides`, `database_not_migrated` (run `mailsift migrate`) or a wrong Redis password."
        ),
    ),
    _critical(
        code="ready_too_long",
        title="Work isn’t being picked up",
        page="/workers?state=active&sort=-claim",
        check=_of_database(_nothing_is_claimed),
        cause=(
            "Workers have free slots but don’t take the work that is ready: wake-ups or claims are failing."
        ),
        effect="Lists wait although there is room for them.",
        action=(
            "Look for `heartbeat.error`, `wake_up.lost` and `tick.lost` in the workers’ logs, then "
            "restart the workers. Restarting is safe at any time."
        ),
    ),
    _critical(
        code="worker_idle",
        title="A process has stopped picking up work",
        page="/workers?state=active&sort=-claim",
        check=_of_database(_processes_are_idle),
        cause="A worker process has been up for more than a minute and no longer hears the broker.",
        effect="Its slots are unused; the other processes take over its share.",
        action="Restart it. Anything it was holding is picked up by others.",
    ),
    _critical(
        code="work_stands_still",
        title="Work has stalled",
        page="/leases?sort=-held",
        check=_of_database(_work_stands_still),
        cause=(
            "Every slot is held by something that doesn’t finish: lists that take very long to read, or a "
            "server that hangs."
        ),
        effect="Work that is ready waits longer and longer, and no address gets a verdict.",
        action=(
            "Find out what has held the slots longest. Take those leases back, pause their job, or add "
            "workers. `MAILSIFT_CHUNK_SLOTS` sets how much a process takes at a time."
        ),
    ),
    _warning(
        code="workers_behind",
        title="Too few workers",
        page="/workers?state=active",
        hold="5m",
        check=_of_database(_workers_are_too_few),
        cause="More work arrives than all slots together can handle.",
        effect="Chunks wait for a quarter of an hour; small lists still go first.",
        action=(
            "Add workers, or raise `MAILSIFT_CHUNK_SLOTS` if the CPU isn’t fully used. If one provider’s "
            "limit is the bottleneck, add source addresses instead: more workers won’t help."
        ),
    ),
    _warning(
        code="reading_slow",
        title="Small lists are waiting to be read",
        page="/jobs?state=intake",
        check=_of_database(_reading_is_slow),
        cause="Reading has fallen behind: many lists at once, large ones, or a slow disk or store.",
        effect="Customers see *queued* for more than a minute, even for a short list.",
        action=(
            "Look at the lists being read and at `job.step.error` in the logs. Check that `MAILSIFT_HOME` "
            "and the store have room. If they do, add workers."
        ),
    ),
    _critical(
        code="sweep_late",
        title="Nothing is being swept",
        page="/workers?sort=-lag",
        check=_of_database(_nobody_sweeps),
        hold="30s",
        cause=(
            "Every worker and sweeper cleans up after dead processes, and none has for half a minute. All "
            "of them hang."
        ),
        effect="Leases of dead workers, due webhooks and due schedules stay where they are.",
        action="Check the workers’ loop lag and the database, then restart the workers.",
    ),
    _critical(
        code="counter_drift",
        title="A counter is wrong",
        page="/jobs?state=open",
        check=_of_database(_counters_lie),
        hold="2m",
        cause="The counters of an open job don’t match its chunks. This should never happen.",
        effect="The job may not end by itself.",
        action="Leave the database as it is, note the job and the release, and report it.",
    ),
    _critical(
        code="port25_closed",
        title="Port 25 is closed",
        page="/workers?health=port25",
        check=partial(_port25_is, "closed"),
        cause=(
            "A worker’s machine can’t reach any mail server and never could: a firewall, the network’s "
            "provider, or source addresses that the machine doesn’t have."
        ),
        effect=(
            "Deep verdicts from that machine end as risky, `probe_unavailable`. No address is called "
            "invalid because of it."
        ),
        action=(
            "Run `mailsift doctor` on that machine. Have the port opened, or probe through a SOCKS proxy "
            "(`MAILSIFT_SOURCE_ADDRESSES`), or from an address the machine has. Rerun the risky rows "
            "afterwards."
        ),
    ),
    _critical(
        code="network_away",
        title="Our network is down",
        page="/workers?health=port25",
        check=_our_network_is_away,
        cause=(
            "Mail servers that could be reached before have all gone silent at once, or one machine in "
            "between answers for all of them (log: `port_25.intercepted`): routes, a firewall or the "
            "uplink."
        ),
        effect="Addresses wait and are asked again automatically. No verdict gets worse because of it.",
        action="Check routes, port 25 and `MAILSIFT_SOURCE_ADDRESSES`. `mailsift doctor` tries them all.",
    ),
    _critical(
        code="resolver_distrusted",
        title="No resolver can be trusted",
        page="/workers?health=resolver",
        check=_resolvers_lie,
        cause="Every name server denies domains that exist, claims domains that don’t, or doesn’t answer.",
        effect=(
            "Addresses wait. Answers given meanwhile are asked for again, and no address is called "
            "invalid because of them."
        ),
        action=(
            "Check `MAILSIFT_DNS_SERVERS` and `MAILSIFT_DNS_CANARIES`, and what the resolver answers "
            "(`dns.resolver_distrusted` in the log has the details). Consider running your own: "
            "`deploy/unbound`."
        ),
    ),
    _warning(
        code="resolver_doubtful",
        title="One resolver can’t be trusted",
        page="/workers?health=resolver",
        check=_a_resolver_lies,
        cause="One of several name servers lies or doesn’t answer.",
        effect="The others are asked instead. If they fail too, work waits.",
        action=(
            "Fix it or remove it from `MAILSIFT_DNS_SERVERS`. `dns.resolver_distrusted` in the log says why."
        ),
    ),
    _critical(
        code="provider_refuses",
        title="A provider is refusing us",
        page="/throttles?state=refused",
        check=partial(_providers_are_closed, _REFUSES),
        hold="5m",
        cause=(
            "A large provider refuses our address, host name or sender: a block list, the reverse name or "
            "a policy."
        ),
        effect=(
            "Its addresses wait, then end as risky, `probe_blocked`. None is called invalid because of it."
        ),
        action=(
            "Check the source’s reverse name and block lists (`mailsift doctor`). Remove it from "
            "`MAILSIFT_SOURCE_ADDRESSES` until it is delisted, or hold the provider."
        ),
    ),
    _critical(
        code="source_refused",
        title="Several providers are refusing a source",
        page="/throttles?state=refused",
        check=_sources_are_refused,
        hold="5m",
        cause=(
            "Three or more providers refuse one of our addresses at the same time: a block list or the "
            "reverse name."
        ),
        effect=(
            "Their addresses wait, then end as risky, `probe_blocked`. Other providers are likely to follow."
        ),
        action=(
            "Hold the source (`/ops/workers`, `mailsift ops throttles --hold '*' --source ADDRESS`), find "
            "the block list it is on, fix what got it listed, and let go of it once it is delisted."
        ),
    ),
    _warning(
        code="source_held",
        title="A source is on hold",
        page="/workers",
        check=_of_database(_sources_are_held),
        cause=(
            "One of our addresses is on a block list (`MAILSIFT_BLOCK_LISTS`), which holds it for as long "
            "as it is listed, or an operator is holding it."
        ),
        effect="The other sources take over its share. Where there is no other, addresses wait for it.",
        action=(
            "If it is listed: ask for delisting where the list offers a form, and see `/ops/ledger` for "
            "what got it listed. It resumes by itself within an hour of delisting. If somebody holds it: "
            "let go of it (`mailsift ops throttles --let-go '*' --source ADDRESS`) once the reason is gone."
        ),
    ),
    _warning(
        code="provider_closed",
        title="A provider asked us to slow down",
        page="/throttles?state=closed",
        check=partial(_providers_are_closed, _TOO_FAST),
        hold="15m",
        cause="A large provider says we ask too fast.",
        effect="We leave it alone for a while, then ask more slowly. Its addresses wait.",
        action=(
            "Nothing, if it passes. If it keeps happening, lower the provider’s limit here or use more "
            "source addresses."
        ),
    ),
    _critical(
        code="disk_full",
        title="A disk is full",
        page="/workers?health=disk",
        check=_disks_are_full,
        cause=(
            "There is no space left where a process keeps its files (`MAILSIFT_HOME`), or lists and results "
            "are (`MAILSIFT_BLOB_URL`)."
        ),
        effect="Uploads are refused (507), and jobs wait for storage. Nothing is lost.",
        action=(
            "Free some space. You can empty `blob-cache` below `MAILSIFT_HOME` while nothing is running "
            "there. Work resumes by itself."
        ),
    ),
    _warning(
        code="disk_low",
        title="A disk is nearly full",
        page="/workers?health=disk",
        check=_disks_are_low,
        hold="5m",
        cause="Lists and results are growing faster than old ones are deleted.",
        effect="None yet. Once the disk is full, uploads are refused.",
        action=(
            "Free some space, keep jobs for a shorter time, or move the store (`MAILSIFT_BLOB_URL`) to a "
            "bucket."
        ),
    ),
    _critical(
        code="store_away",
        title="The store is failing",
        page="/workers?health=store",
        check=_store_is_away,
        cause=(
            "The store for lists and results can’t be read or written: an outage, wrong credentials, no "
            "space, or a folder that isn’t mounted."
        ),
        effect=(
            "Uploads are refused with 503 or 507. Jobs wait for storage, lose no attempt and resume by "
            "themselves."
        ),
        action=(
            "Check the store and its credentials. `blob_store_failed` in the logs names the error. A folder "
            "that is empty is taken for one that isn’t mounted. If it is a new one, make a folder "
            "`.mailsift` in it."
        ),
    ),
    _warning(
        code="chunks_fail",
        title="Chunks are failing",
        page="/failing-chunks?state=open",
        check=_of_database(_chunks_fail),
        cause="Something in these chunks crashes whoever works on them, or workers are being killed often.",
        effect=(
            "They are retried. A chunk that keeps failing is narrowed down to the one address that causes it."
        ),
        action=(
            "The page shows the error of each chunk, and `chunk.error` in the log shows where it "
            "happened. Report the release and the error. You can restart a chunk from the page."
        ),
    ),
    _warning(
        code="leases_expire",
        title="Leases are expiring",
        page="/leases?state=expired",
        check=_of_database(_leases_expire),
        hold="5m",
        cause=(
            "Workers die (out of memory, restarts), hang, or wait for the database longer than a lease lasts."
        ),
        effect="Some work is done twice, but counted once.",
        action=(
            "Look for killed processes (`dmesg`, container restarts) and loop lag. If needed, raise "
            "`MAILSIFT_LEASE_SECONDS`."
        ),
    ),
    _warning(
        code="deliveries_late",
        title="Webhooks are late",
        page="/deliveries?state=pending",
        check=_of_database(_deliveries_are_late),
        cause="A delivery is due at an endpoint that works, but nothing is sending it.",
        effect="Customers learn late that their lists are done.",
        action=(
            "Follow the steps for work that isn’t being picked up, and look for `webhook.error` in the logs."
        ),
    ),
    _warning(
        code="webhooks_fail",
        title="Webhooks are failing",
        page="/deliveries?state=failing",
        check=_of_database(_webhooks_fail),
        hold="10m",
        cause=(
            "Endpoints started failing within the last hour, or a fifth of all do. Either the receivers "
            "are down, or our way out is."
        ),
        effect="Their events are retried for days, and the owners are told.",
        action=(
            "If it is one customer’s endpoint, it is theirs to fix. If many fail at once, check our DNS, "
            "egress rules and clock (every signature includes the time). Resend what was given up once it "
            "works."
        ),
    ),
    _warning(
        code="mail_fails",
        title="Our own email isn’t going out",
        page="",
        check=_of_database(_mail_fails),
        hold="5m",
        cause=(
            "An email about jobs or webhooks has failed twice or more, and no other has gone out since: the "
            "relay is away, or refuses us."
        ),
        effect="Members and owners aren’t told. Each email is tried for about a day, then given up.",
        action=(
            "Look for `job_mail.error` and `notice.error` in the workers’ logs, and check "
            "`MAILSIFT_MAIL_RELAY` and `MAILSIFT_MAIL_SENDER`. The alarm stops with the next email the relay "
            "takes, or when none is left to try."
        ),
    ),
    _warning(
        code="schedules_late",
        title="Schedules are late",
        page="/schedules?state=late",
        check=_of_database(_schedules_are_late),
        cause="Workers are down, or the list for a run can’t be stored (`schedule.error`).",
        effect="Reruns start late. A run that is overdue for long is skipped.",
        action="Check the workers and the store.",
    ),
    _warning(
        code="versions_differ",
        title="Two releases are running",
        page="/workers?sort=version",
        check=_versions_differ,
        hold="10m",
        cause="An upgrade stopped halfway, so processes of two releases are running side by side.",
        effect="Both work. New features are missing wherever the older release answers.",
        action="Finish the upgrade or roll it back: replace the processes of one release.",
    ),
    _warning(
        code="worker_gone",
        title="A process has disappeared",
        page="/workers?state=gone",
        check=_of_database(_workers_are_gone),
        cause=(
            "A process stopped without saying so and no other has started since: it was killed, ran out "
            "of memory, or its machine is off."
        ),
        effect="Its leases expire and others take over its work. There is less capacity.",
        action=(
            "Start it again, or ignore it: this alarm clears after an hour. `dmesg` shows processes that "
            "were killed."
        ),
    ),
    _warning(
        code="loop_lag",
        title="An event loop is blocked",
        page="/workers?sort=-lag",
        check=_of_database(_loops_are_late),
        expr=(
            "max by (job, instance) (mailsift_worker_loop_lag_seconds) > 1 "
            "or max by (job, instance) (mailsift_api_loop_lag_seconds) > 1"
        ),
        cause="Too many processes for the cores, swapping, CPU throttling (Kubernetes limits) or a bug.",
        effect="Heartbeats and deadlines are late.",
        action="Give it more CPU, or run fewer processes (`MAILSIFT_WORKER_PROCESSES`).",
    ),
    _warning(
        code="broker_stranded",
        title="Wake-ups are stuck in the broker",
        page="/broker",
        check=_messages_are_stranded,
        hold="10m",
        cause="Wake-ups were taken by processes that died, or nothing consumes them.",
        effect="None for jobs: they don’t depend on wake-ups.",
        action=(
            "Look for idle processes. Once workers are running you can empty the queue: `redis-cli del "
            "ms:celery:mailsift ms:celery:unacked ms:celery:unacked_index`."
        ),
    ),
    _warning(
        code="broker_spoilt",
        title="The broker’s keys were overwritten",
        page="/broker",
        check=_broker_is_spoilt,
        cause="Another program writes to our Redis, and no worker is running to repair the keys.",
        effect="Nothing is woken up, but ready work is still found every few seconds.",
        action=(
            "Nothing once workers are running: they delete such keys. Keep other programs out of this Redis."
        ),
    ),
    # What only Prometheus sees: counters of processes over time, and those that cannot be scraped.
    _critical(
        code="api_down",
        title="An API process can’t be scraped",
        page="",
        expr='up{job="mailsift-api"} == 0',
        hold="2m",
        cause="The process is gone or hangs, or Prometheus can’t reach its metrics port.",
        effect="The other API processes answer its requests. If there is no other, nobody gets an answer.",
        action=(
            "Check that it is running (`systemctl status mailsift-api`, `docker compose ps`, `kubectl get "
            "pods`). Its last log line says why it ended. `/healthz` tells you whether it answers, "
            "`/readyz` whether its database does."
        ),
    ),
    _warning(
        code="worker_down",
        title="A worker can’t be scraped",
        page="/workers?state=gone",
        expr='up{job="mailsift-worker"} == 0',
        hold="2m",
        cause="The worker is gone or hangs, or Prometheus can’t reach its metrics port.",
        effect="The others take over its chunks after `MAILSIFT_LEASE_SECONDS`.",
        action="Look at its last log lines (out of memory? `bad_overrides`?) and start it again.",
    ),
    _warning(
        code="wakeups_lost",
        title="Wake-ups aren’t reaching the broker",
        page="/broker",
        expr='sum by (job) (increase(mailsift_wakeups_total{fate="lost"}[10m])) > 0',
        hold="5m",
        cause="Redis doesn’t accept them.",
        effect="Work starts up to `MAILSIFT_SWEEP_SECONDS` later.",
        action="Follow the steps for Redis not answering.",
    ),
    _warning(
        code="upkeep_fails",
        title="A task in the background keeps failing",
        page="",
        expr="sum by (task) (increase(mailsift_upkeep_errors_total[1h])) > 2",
        hold="5m",
        cause="A bug: nothing the task needs is away. `<task>.error` in the logs names the place.",
        effect=(
            "What the task does isn’t done: `retention` deletes nothing, `measure` counts no accuracy, "
            "`schedule` starts no list; what `dns` couldn’t find out is `dns_unavailable`. Lists go on."
        ),
        action="Note the task, the release and the log line, and report it.",
    ),
    _warning(
        code="chunk_errors",
        title="Chunks are ending in errors",
        page="/failing-chunks?state=open",
        expr=(
            'sum(increase(mailsift_chunk_attempts_total{outcome="error"}[15m])) '
            "/ sum(increase(mailsift_chunk_attempts_total[15m])) > 0.05\n"
            'and sum(increase(mailsift_chunk_attempts_total{outcome="error"}[15m])) >= 3'
        ),
        hold="5m",
        cause="More than 5 % of the attempts at chunks fail: the database, the store or a bug.",
        effect="The chunks go back and are retried.",
        action=(
            "`chunk.error` in the log names the error and where it happened. If it is a bug, report it "
            "with the release."
        ),
    ),
    _warning(
        code="step_errors",
        title="Reading or finishing is failing",
        page="/jobs?state=open",
        expr='sum by (step) (increase(mailsift_step_attempts_total{outcome="error"}[15m])) >= 3',
        hold="0s",
        cause="Usually the store, the scratch space, or too little memory to read a list.",
        effect="Outages cost a job nothing but time. If the file itself is the cause, the job ends.",
        action="`job.step.error` in the log names the error and the job.",
    ),
    _warning(
        code="poison_chunks",
        title="A chunk keeps killing workers",
        page="/failing-chunks?state=open",
        expr="sum by (action) (increase(mailsift_poison_total[1h])) > 0",
        hold="0s",
        cause="One of its addresses crashes whoever works on it.",
        effect="The chunk was split, or that one address ended as risky. All others get their verdicts.",
        action="Report the release and the address to the developers.",
    ),
    _critical(
        code="resolver_failing",
        title="DNS lookups are failing",
        page="/workers?health=resolver",
        expr=(
            'sum(increase(mailsift_addresses_total{result="dns_unavailable"}[15m])) '
            "/ sum(increase(mailsift_addresses_total[15m])) > 0.05\n"
            "and sum(increase(mailsift_addresses_total[15m])) > 100"
        ),
        hold="5m",
        cause="A public resolver is limiting you, or your own is short of memory or sockets.",
        effect="More than 5 % of the verdicts end as risky, `dns_unavailable`.",
        action=(
            "Run a resolver beside the workers (`MAILSIFT_DNS_SERVERS`, `deploy/unbound`), then rerun the "
            "risky rows."
        ),
    ),
    _critical(
        code="refused_often",
        title="Many replies refuse us",
        page="/throttles?state=refused",
        expr=(
            'sum(increase(mailsift_smtp_reply_total{class="refused_us"}[30m])) '
            "/ sum(increase(mailsift_smtp_reply_total[30m])) > 0.2\n"
            "and sum(increase(mailsift_smtp_reply_total[30m])) > 50"
        ),
        hold="5m",
        cause="A source is on a block list, or its reverse name is wrong.",
        effect="A fifth of all replies is about us rather than a mailbox. Those addresses end as risky.",
        action=(
            "Run `mailsift doctor`, and remove the source from `MAILSIFT_SOURCE_ADDRESSES` until it is "
            "delisted."
        ),
    ),
    _warning(
        code="attempts_fail",
        title="Most webhook attempts are failing",
        page="/deliveries?state=failing",
        expr=(
            '1 - sum(increase(mailsift_webhook_attempts_total{outcome="delivered"}[30m])) '
            "/ sum(increase(mailsift_webhook_attempts_total[30m])) > 0.5\n"
            "and sum(increase(mailsift_webhook_attempts_total[30m])) >= 20"
        ),
        hold="10m",
        cause="A busy receiver is down, or our way out is (DNS, egress rules, the clock).",
        effect="Events arrive late. They are retried for days.",
        action=(
            "See which endpoints fail. If it is one customer’s, it is theirs to fix; if it is many, the "
            "cause is on our side."
        ),
    ),
    _warning(
        code="schedules_missed",
        title="Scheduled runs were skipped",
        page="/schedules?state=trouble",
        expr='sum by (reason) (increase(mailsift_schedule_missed_total{reason=~"missed|failed"}[1h])) > 0',
        hold="0s",
        cause="They were overdue when a worker got to them, or their list couldn’t be prepared.",
        effect="That run is missing. The next one will run as planned.",
        action="Tell the owners, or press *Run now* on the schedule’s page.",
    ),
    _critical(
        code="api_errors",
        title="The API is returning server errors",
        page="",
        expr=(
            'sum(rate(mailsift_api_requests_total{status=~"5.."}[10m])) '
            "/ sum(rate(mailsift_api_requests_total[10m])) > 0.01\n"
            'and sum(increase(mailsift_api_requests_total{status=~"5.."}[10m])) > 5'
        ),
        hold="2m",
        cause="A server we depend on doesn’t answer (503), or there is a bug (500).",
        effect="More than 1 % of the requests fail.",
        action=(
            "`request.broken` in the log names the error and where it happened, with the request id the "
            "customer sees."
        ),
    ),
    _warning(
        code="api_slow",
        title="The API is slow",
        page="",
        expr=(
            f"histogram_quantile(0.9, sum by (le) (rate(mailsift_api_request_seconds_bucket{_OWN}[10m]))) > "
            f"1\n"
            f"and on() sum(increase(mailsift_api_request_seconds_count{_OWN}[10m])) > 50"
        ),
        hold="5m",
        cause="The API is short of CPU, the database is slow, or a loop is blocked.",
        effect="One request in ten takes more than a second, not counting those that wait for others.",
        action="Check the API's loop lag and CPU, then look for slow statements in the database.",
    ),
)
"""Every alarm there is."""

RULE_OF: Final = {rule.code: rule for rule in RULES}
"""By code."""

RUNBOOK: Final = "docs/runbook.md"
_MADE_BY: Final = "Made by `make alarms` from jobs/admin/alarms.py"


def prometheus_rules(rules: Iterable[AlarmRule]) -> str:
    """Return the rule file of Prometheus."""
    lines = [
        f"# {_MADE_BY}; change it there. {RUNBOOK} says what to do for each.",
        "# critical: act now, even at night; warning: can wait until the morning.",
        "groups:",
        "  - name: mailsift",
        "    rules:",
    ]
    for rule in rules:
        lines += _prometheus_rule(rule)
    return "\n".join(lines) + "\n"


def expression(rule: AlarmRule) -> str:
    """Return what Prometheus asks: its own question, or whether an API says that the alarm rings."""
    return rule.expr or f'max(mailsift_alarm{{alarm="{rule.code}"}}) > 0'


def runbook(rules: Iterable[AlarmRule]) -> str:
    """Return the runbook: a section for each alarm, as `/ops/runbook` shows them."""
    every = list(rules)
    lines = [
        "# Runbook",
        "",
        f"<!-- {_MADE_BY}; change it there. -->",
        "",
        "What every alarm means and what to do. `/ops`, `mailsift ops top`, the metric `mailsift_alarm` and",
        "`deploy/prometheus/alerts.yml` come from the same table. No verdict is lost by any of them: work",
        "that has stopped resumes later.",
        "",
    ]
    for level, heading in (
        (Level.CRITICAL, "Critical: act now, even at night"),
        (Level.WARNING, "Warning: can wait until the morning"),
    ):
        lines += [f"## {heading}", ""]
        for rule in every:
            if rule.level is level:
                lines += _section(rule)
    return "\n".join(lines)


def _section(rule: AlarmRule) -> Iterator[str]:
    where = f"`/ops{rule.page}`" if rule.page else "`/ops`"
    yield from (f"### {rule.alert}", "", f"**{rule.title}** (`{rule.code}`). {rule.cause}", "")
    yield from (f"- Effect: {rule.effect}", f"- What to do: {rule.action}", f"- Look at: {where}", "")


def _prometheus_rule(rule: AlarmRule) -> Iterator[str]:
    asked = expression(rule).splitlines()
    yield f"      - alert: {rule.alert}"
    if len(asked) == 1:
        yield f"        expr: {asked[0]}"
    else:
        yield "        expr: |"
        yield from (f"          {line}" for line in asked)
    if rule.hold != "0s":
        yield f"        for: {rule.hold}"
    yield f"        labels: {{severity: {rule.level.value}}}"
    yield "        annotations:"
    yield f"          summary: {json.dumps(rule.title + '.')}"
    yield f"          description: {json.dumps(f'{rule.cause} {rule.effect}', ensure_ascii=False)}"
    yield f"          page: /ops{rule.page}"
    yield f"          runbook_url: {RUNBOOK}#{rule.alert.lower()}"
