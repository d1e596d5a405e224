"""When jobs end: asks the database and Redis what jobs.eta wants to know."""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final
from uuid import UUID

from mailsift.jobs.eta import Batch, JobLoad, ProviderBacklog, QueuedAhead, TimeLeft, time_left
from mailsift.jobs.rates import FleetConfig, ProviderRates
from mailsift.pipeline.facts import Mode
from mailsift.storage.database import Connection, Database, Row
from mailsift.storage.redis.connection import Client, RedisCircuitBreaker
from mailsift.storage.redis.throttle import ThrottleInspector
from mailsift.storage.sql import stats
from mailsift.storage.sql.chunks import SHARED_KEYS, TRIAGE_KEY
from mailsift.storage.sql.stats import BYTES_AN_ADDRESS, ProgressRow, QueueRow, Queues
from mailsift.storage.states import CLAIMABLE, UNREAD, JobTransition

_FRESH_S: Final = 2.0
"""How old the picture of the whole installation may be: many look at their jobs at the same time."""
TRIAGE_RATES: Final = {Mode.FAST: 300_000.0, Mode.MEDIUM: 4_000.0, Mode.DEEP: 2_000.0}
"""Addresses a second that are looked at, as long as nothing was measured; in medium, each at a domain."""
MIXED_RATE_A_SLOT: Final = 30.0
"""Addresses a second at many small providers for each chunk at a time, as long as nothing was measured."""


@dataclass(frozen=True, slots=True)
class QueuePicture:
    """What all jobs wait for and how fast providers may be asked, at one moment."""

    queues: Queues
    rates: ProviderRates
    taken_at: float


class Forecasts:
    """Says when jobs end, the same to API, pages, operators and terminal.

    Args:
        redis: where the throttle is; without it nothing is known to have been learned.
    """

    def __init__(self, *, database: Database, redis: Client, fleet: FleetConfig) -> None:
        self._database = database
        self._throttle = ThrottleInspector(redis)
        self._fleet = fleet
        self._breaker = RedisCircuitBreaker("The forecast")
        self._picture: QueuePicture | None = None

    async def picture(self) -> QueuePicture:
        """Return what all jobs wait for, at most _FRESH_S old."""
        now = time.monotonic()
        if self._picture is None or now - self._picture.taken_at > _FRESH_S:
            self._picture = await self._read_picture(now)
        return self._picture

    async def of(self, rows: Iterable[Row]) -> dict[UUID, TimeLeft]:
        """Return the time left of those of these jobs (columns of the table) that are on their way.

        What is left of one that is being finished, which takes a moment, is how long that has to wait.
        """
        every = list(rows)
        found = {
            row["id"]: TimeLeft(wait_s)
            for row in every
            if row["state"] in JobTransition.COMPLETE.sources and (wait_s := self._given_back_s(row))
        }
        active = [row for row in every if row["state"] in CLAIMABLE or row["state"] in UNREAD]
        if active:
            picture = await self.picture()
            async with self._database.begin() as connection:
                found |= {row["id"]: await self._of_job(connection, row, picture) for row in active}
        return found

    async def of_all(self) -> TimeLeft:
        """Return when everything that waits now is done, of all accounts; lists not read yet included."""
        picture = await self._read_picture(time.monotonic())
        size = Counter[UUID]()
        for row in picture.queues.rows:
            size[row.job_id] += row.addresses
        async with self._database.begin() as connection:
            largest = await stats.jobs_in_line(
                connection, [job_id for job_id, _ in size.most_common(_LARGEST)]
            )
            found = [await self._of_job(connection, row, picture) for row in largest]
        for mode, unread in picture.queues.unread_bytes.items():
            found.append(
                time_left(load_of_unread(unread, picture.queues, picture.rates, Mode(mode), preview=0))
            )
        seconds = [math.inf if left.seconds is None else left.seconds for left in found]
        return found[seconds.index(max(seconds))] if found else TimeLeft(0.0)

    def seconds_until(self, at: datetime | None) -> float:
        """Return how long it is until then, as until the deadline of a job; infinite where there is none."""
        return at.timestamp() - self._fleet.clock() if at else math.inf

    def _given_back_s(self, row: Row) -> float:
        """Return for how long nobody may take the reading or the finish of a job that was given back."""
        given_back = row["step_token"] is None and row["step_until"] is not None
        return max(0.0, self.seconds_until(row["step_until"])) if given_back else 0.0

    async def _of_job(self, connection: Connection, row: Row, picture: QueuePicture) -> TimeLeft:
        deadline_s = self.seconds_until(row["deadline_at"])
        if row["state"] in UNREAD:
            if not row["source_bytes"]:  # it is fetched from a place, and nobody knows how long it is
                return TimeLeft(None)
            preview, mode = row["options"].get("preview", 0), Mode(row["options"]["mode"])
            load = load_of_unread(row["source_bytes"], picture.queues, picture.rates, mode, preview=preview)
            return time_left(replace(load, starts_s=self._given_back_s(row), deadline_s=deadline_s))
        progress = await stats.progress(connection, row["id"])
        # Of this job the picture must be of the moment of its progress: what triage has just put in line
        # there would be missing in both, or counted twice.
        others = [other for other in picture.queues.rows if other.job_id != row["id"]]
        queues = replace(picture.queues, rows=[*others, *await stats.queue_rows(connection, row["id"])])
        mode = Mode(row["options"]["mode"])
        load = load_of(row["id"], queues, picture.rates, progress, mode, delays=self._fleet.delays)
        return time_left(replace(load, deadline_s=deadline_s))

    async def _read_picture(self, now: float) -> QueuePicture:
        async with self._database.begin() as connection:
            queues, limits = await stats.queues(connection), await self._fleet.limits(connection)
        keys = sorted({row.throttle_key for row in queues.rows} - set(SHARED_KEYS))
        places = [(key, source) for key in keys for source in limits.sources]
        learned = await self._breaker.call(self._throttle.read, places) if places else ()
        return QueuePicture(queues, self._fleet.rates(limits, learned), now)


_LARGEST: Final = 20
"""Jobs that are looked at for the end of everything: each of them has the others in line."""


def load_of(
    job_id: UUID,
    queues: Queues,
    rates: ProviderRates,
    progress: Sequence[ProgressRow],
    mode: Mode,
    *,
    delays: Sequence[float],
) -> JobLoad:
    """Return everything that a job's time depends on; `progress` is empty for one that has not begun.

    Who was put off twice is expected to be so for as long as we come back (`delays`): greylisting ends with
    its first wait, but a server that is out of order, or wants nothing to do with us, says "later" all day.

    Until something of a list was looked at, its addresses at mail servers that nobody knows count as if they
    were at many small hosts, as in a plan.
    """
    known = {row.throttle_key: row for row in progress}
    mine = [row for row in queues.rows if row.job_id == job_id]
    others = [row for row in queues.rows if row.job_id != job_id]
    if not mine:
        return JobLoad(working=queues.slots > 0)
    triage = sum(row.addresses for row in mine if row.throttle_key == TRIAGE_KEY)
    arriving = {key: coming for key, coming in _arriving(known, triage).items() if rates.is_asked(key)}
    keys = dict.fromkeys([*(row.throttle_key for row in mine), *arriving])
    mixed = [row for row in mine if row.throttle_key in SHARED_KEYS and row.throttle_key != TRIAGE_KEY]
    is_blank = mode is Mode.DEEP and triage > 0 and not _looked_at(known)
    unplaced = [Batch(_others_ahead(known, triage))] if is_blank else []
    return JobLoad(
        providers=[
            ProviderBacklog(
                key,
                rates.at_sources(key),
                [
                    Batch(row.addresses, row.ready_s, row.domains, _asked(row, rates), _again_s(row, delays))
                    for row in mine
                    if row.throttle_key == key
                ],
                queued_ahead(others, key, rates, account_id=mine[0].account_id, small=mine[0].small),
            )
            for key in keys
            if key not in SHARED_KEYS
        ],
        triage=triage,
        triage_rate=_measured(known, (TRIAGE_KEY,)) or TRIAGE_RATES[mode],
        arriving=arriving,
        mixed=[
            *(Batch(row.addresses, row.ready_s, again_s=_again_s(row, delays)) for row in mixed),
            *unplaced,
        ],
        mixed_rate=_measured(known, SHARED_KEYS[1:]) or MIXED_RATE_A_SLOT * max(1, queues.slots),
        mixed_opens_s=rates.opens_s,
        working=queues.slots > 0,
    )


def load_of_unread(
    source_bytes: int, queues: Queues, rates: ProviderRates, mode: Mode, *, preview: int
) -> JobLoad:
    """Return what the time of a list of so many bytes depends on while nobody knows what is in it.

    All addresses count as `load_of` counts those of unknown mail servers. Of a `preview` no more than its
    sample is looked at.
    """
    addresses = max(1.0, min(source_bytes / BYTES_AN_ADDRESS, preview or math.inf))
    return JobLoad(
        triage=addresses,
        triage_rate=TRIAGE_RATES[mode],
        mixed=[Batch(addresses)] if mode is Mode.DEEP else [],
        mixed_rate=MIXED_RATE_A_SLOT * max(1, queues.slots),
        mixed_opens_s=rates.opens_s,
        working=queues.slots > 0,
    )


def _arriving(known: dict[str, ProgressRow], triage: int) -> dict[str, Batch]:
    """Return how many of the addresses that nobody has looked at will be each provider's.

    Lists are looked at in the order of their domains, so what was looked at says little about the free-mail
    domains ahead: these are known by name, and the other addresses fall as the others did so far.
    """
    others = max(0, _looked_at(known) - sum(row.named for row in known.values()))
    share = _others_ahead(known, triage) / max(1, others)
    found = {
        key: Batch(row.named_ahead + share * max(0, row.from_triage - row.named), domains=share * row.domains)
        for key, row in known.items()
        if key not in SHARED_KEYS
    }
    return {key: coming for key, coming in found.items() if coming.addresses}


def _looked_at(known: dict[str, ProgressRow]) -> int:
    return known[TRIAGE_KEY].worked if TRIAGE_KEY in known else 0


def _others_ahead(known: dict[str, ProgressRow], triage: int) -> int:
    """Return how many of the addresses that nobody has looked at are at no free-mail domain."""
    return max(0, triage - sum(row.named_ahead for row in known.values()))


def _measured(known: dict[str, ProgressRow], keys: Sequence[str]) -> float:
    """Return how many addresses a second got on there, 0 when nothing did."""
    found = [known[key] for key in keys if key in known and known[key].recent]
    return sum(row.recent for row in found) / max(1.0, *(row.recent_s for row in found), 1.0)


def _again_s(row: QueueRow, delays: Sequence[float]) -> float:
    return sum(delays[row.tries :]) if row.tries > 1 else 0.0


def _asked(row: QueueRow, rates: ProviderRates) -> float:
    """Return how many recipients the workers have asked for, as far as can be told before they commit."""
    sources = rates.at_sources(row.throttle_key)
    rate = sum(source.real_rate for source in sources) / max(1, len(sources))
    return min(row.in_hand, rate * row.in_hand_s)


def queued_ahead(
    rows: Iterable[QueueRow], key: str, rates: ProviderRates, *, account_id: UUID, small: bool
) -> list[QueuedAhead]:
    """Return what others have in line at a provider before a job of the account, be that a `small` one.

    A small job has no big one of its account before it.
    """
    of_account: dict[tuple[UUID, bool], list[Batch]] = defaultdict(list)
    apart: dict[UUID, list[Batch]] = defaultdict(list)
    jobs: dict[UUID, set[UUID]] = defaultdict(set)
    for row in rows:
        if row.throttle_key != key:
            continue
        waiting = Batch(row.addresses, row.ready_s, row.domains, _asked(row, rates))
        if row.account_id != account_id:
            apart[row.account_id].append(waiting)
            jobs[row.account_id].add(row.job_id)
        elif row.small or not small:
            of_account[row.job_id, row.small].append(waiting)
    return [
        *(_queued(batches, first=first and not small) for (_, first), batches in of_account.items()),
        *(_queued(batches, apart=True, jobs=len(jobs[other])) for other, batches in apart.items()),
    ]


def _queued(
    batches: Sequence[Batch], *, first: bool = False, apart: bool = False, jobs: int = 1
) -> QueuedAhead:
    now = sum(batch.recipients for batch in batches if not batch.ready_s)
    return QueuedAhead(now, first, apart, jobs, tuple(batch for batch in batches if batch.ready_s))
