"""The throttle all processes share, in Redis; and what it has there, for operators."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf
from random import Random
from typing import Any, Final, NamedTuple

import structlog
from redis.asyncio import Redis
from redis.commands.core import AsyncScript
from typing_extensions import override

from mailsift.pipeline.clock import Clock
from mailsift.pipeline.providers import Provider
from mailsift.pipeline.throttle import MANY_DOMAINS, Allowance, Ask, Grant, Report, SessionOutcome, Throttle
from mailsift.storage.redis.connection import PREFIX, ClientError, RedisCircuitBreaker, script_text
from mailsift.storage.redis.local_throttle import (
    HELD,
    HOLD_SECONDS,
    JITTER,
    KNOWN_SECONDS,
    LEASE_PREFIX,
    LONGEST_PENALTY,
    MOST_BLOCKS,
    PENALTY_SECONDS,
    SLOWEST_RATE,
    TALLY_SECONDS,
    UNKNOWN_SECONDS,
    Limits,
    LocalThrottle,
    ThrottleConfig,
    count_session,
    destination,
    gateway_keys,
    limits_of,
    log_hold,
    server_keys,
    tally_key,
)

_log = structlog.get_logger()

_STATE_KEY = f"{PREFIX}throttle:state:"
_SESSIONS_KEY = f"{PREFIX}throttle:sessions:"
_LIST_KEY = f"{PREFIX}throttle:list:"
_ASKED_KEY = f"{PREFIX}throttle:asked:"
_DOMAINS_KEY = f"{PREFIX}throttle:domains:"
_SINCE_KEY = f"{PREFIX}throttle:since"
SEEN_KEY = f"{PREFIX}throttle:seen"
MIX_KEY = f"{PREFIX}throttle:mix"
_ADDRESS_KEY = f"{PREFIX}throttle:address:"
_PACE_KEY = f"{PREFIX}throttle:pace:"
_TYPES: Final = {
    _STATE_KEY: b"hash",
    _SESSIONS_KEY: b"zset",
    _ADDRESS_KEY: b"zset",
    _PACE_KEY: b"string",
    _LIST_KEY: b"hash",
    _ASKED_KEY: b"hash",
    _DOMAINS_KEY: b"set",
    _SINCE_KEY: b"string",
    SEEN_KEY: b"zset",
    MIX_KEY: b"hash",
}
KEPT_MIXES = 200  # providers x sources whose outcomes are counted: those with the most sessions
_MIX_SECONDS = 86_400.0  # then the counts start again
_LEARNED_SECONDS: Final = 86_400.0  # a slower rate is remembered after the last lesson
_LONGEST_HOLD: Final = max(HOLD_SECONDS, LONGEST_PENALTY * (1 + JITTER))
"""Nothing is closed for longer."""
_OLDEST: Final = 1e9  # seconds; the age of a session that no server has heard of
_HELD, _BUSY, _STOPPED = 1, 2, 3  # why lua/grant.lua denies


class _Session(NamedTuple):
    """A session under way.

    Attributes:
        begun: when by our clock it was granted by the server, -inf: by ourselves.
        until, asks_until: when it is over, and asks for nobody any more, at the latest by our clock.
    """

    ask: Ask
    begun: float
    until: float
    asks_until: float
    recipients: int
    is_counted: bool


class RedisThrottle(Throttle):
    """Rate (GCRA), sessions (leases that expire) and penalties per provider x source, and of a destination.

    Who asks plays no part: all accounts, jobs and processes share these limits. Together the two keys leave
    no way round: a provider outside the table is the registrable domain of its MX host, so that any number
    of customer domains, or of names below one domain, behind one host share one limit; and names that have
    nothing in common but the address they lead to share the limit of that destination: its sessions, and
    the rate from each of our sources.

    Every call is one script on the server, so no two clients ever decide at the same time. It reads the
    server's own clock: the workers' clocks may differ as they like. A destination is an IPv4 address or an
    IPv6 /64.

    A session's lease lives as long as its process renews it, so what a dead process held is soon free again.

    A rate reply halves the rate, down to one recipient a minute, and closes the provider for 30 s, then twice
    as long for every further one in a row, at most 15 minutes; afterwards one session at a time until one is
    clean. Every minute of clean sessions gives 5 % of the base rate back. A provider that refuses us in five
    sessions in a row is left alone for 15 minutes, and is then as well asked one session at a time.

    A provider that blocks harvesters is asked by all processes together so that it never has reason to
    (mailsift.storage.redis.local_throttle); what a server that was emptied has not heard of counts as well.

    What a list asks at a provider is counted as well (Ask.tally), sessions under way as if all their
    recipients were unknown: it is stopped within one session, however many processes ask.

    While Redis is gone each process keeps to its share of the limits, in which its sessions from before
    count, and asks no provider that blocks harvesters: nobody knows what the others ask there. When it is
    back, it first hears which sessions are open and which have ended meanwhile; one that was emptied hears it
    with the next renewal. Nothing is ever raised to the prober.
    """

    def __init__(
        self,
        redis: Redis,
        *,
        row: Callable[[str], Provider],
        config: ThrottleConfig | None = None,
        clock: Clock | None = None,
        breaker: RedisCircuitBreaker | None = None,
        random: Random | None = None,
    ) -> None:
        """Take a client (the caller closes it) and the provider table's look-up, `Providers.row`.

        `clock` replaces the server's clock, for tests that move time.
        """
        self._redis = redis
        self._row = row
        self._config = config or ThrottleConfig()
        self._clock = clock
        self._monotonic = clock or time.monotonic
        self._breaker = breaker or RedisCircuitBreaker("The throttle")
        self._random = random or Random(secrets.randbits(64))
        self._local = LocalThrottle(
            row,
            self._config,
            clock=self._monotonic,
            random=self._random,
            stands_in=f"{secrets.token_hex(8)}.",
        )
        self._grant = redis.register_script(script_text("grant"))
        self._report = redis.register_script(script_text("report"))
        self._renew = redis.register_script(script_text("renew"))
        self._running: dict[str, _Session] = {}
        self._unheard: dict[str, tuple[Ask, float]] = {}  # over, as Redis may not know, and when it will
        self._is_gone = False

    @override
    async def grant(self, asks: Sequence[Ask]) -> Sequence[Grant]:
        held = [self._config.edits.holds(ask) for ask in asks]
        open_asks = [ask for ask, no in zip(asks, held, strict=True) if not no]
        answers = iter(await self._decide(open_asks) if open_asks else ())
        return [HELD if no else next(answers) for no in held]

    async def _decide(self, asks: Sequence[Ask]) -> Sequence[Grant]:
        if self._is_gone and not await self._renew_leases():
            return await self._grant_without_redis(asks)
        name = f"{secrets.token_hex(8)}."
        limits = [limits_of(ask, self._row(ask.provider), self._config) for ask in asks]
        keys = [_SINCE_KEY]
        for ask in asks:
            keys.extend((*_provider_keys(ask), *_address_keys(ask), *self._asked_keys(ask), _tally_key(ask)))
            keys.extend(f"{_DOMAINS_KEY}{server}" for server in server_keys(ask))
        config = self._config
        head = (self._now(), config.lease_seconds, config.busy_seconds, SLOWEST_RATE, name)
        args: list[str | float] = [*head, config.session_seconds, UNKNOWN_SECONDS, KNOWN_SECONDS]
        args.extend((TALLY_SECONDS, MANY_DOMAINS, _LONGEST_HOLD))
        for number, (ask, one) in enumerate(zip(asks, limits, strict=True)):
            args.extend((*_limit_arguments(one, number), one.harvest, ask.least, *_stop_arguments(ask)))
            args.extend((one.careful, config.booked_seconds(ask), ask.patience, " ".join(ask.domains)))
        answers = await self._run(self._grant, keys, args)
        self._is_gone = answers is None
        if answers is None:
            self._remember_unheard((f"{name}{number}", ask) for number, ask in enumerate(asks))
            return await self._grant_without_redis(asks)
        terms = list(zip(*(answers[place::6] for place in range(6)), strict=True))
        now, booked = self._monotonic(), [config.booked_seconds(ask) for ask in asks]
        until = now + config.session_seconds
        self._running.update(
            (
                f"{name}{number}",
                _Session(asks[number], now, until, now + booked[number], count, bool(watched)),
            )
            for number, (count, _, _, watched, *_) in enumerate(terms)
            if count
        )
        return [
            Grant(
                count,
                f"{name}{number}",
                refill_s=limits[number].refill_s,
                busy=why == _BUSY,
                allowance=None if more is None else Allowance(more, surplus),
                seconds=booked[number] if watched else inf,
            )
            if count
            else Grant(
                0, retry_after=wait / 1000, blocked=why == _HELD, busy=why == _BUSY, stopped=why == _STOPPED
            )
            for number, (count, wait, why, watched, more, surplus) in enumerate(terms)
        ]

    async def _grant_without_redis(self, asks: Sequence[Ask]) -> Sequence[Grant]:
        """Grant what is left of our share beside all that we have open."""
        for lease, one in self._running.items():
            self._local.begin(one.ask, lease, one.until)
        grants = await self._local.grant(asks)
        until = self._monotonic() + self._config.session_seconds
        self._running.update(
            (grant.lease, _Session(ask, -inf, until, until, grant.recipients, is_counted=False))
            for ask, grant in zip(asks, grants, strict=True)
            if grant.recipients
        )
        return grants

    @override
    async def report(self, reports: Sequence[Report]) -> None:
        if not reports:
            return
        self._config.ledger.count(reports)
        keys = [SEEN_KEY, MIX_KEY]
        for report in reports:
            ask = report.ask
            keys.extend(
                (*_provider_keys(ask), _address_keys(ask)[0], *self._asked_keys(ask), _tally_key(ask))
            )
        head = (self._now(), _LEARNED_SECONDS, SLOWEST_RATE, PENALTY_SECONDS, LONGEST_PENALTY)
        args: list[str | float] = [*head, MOST_BLOCKS, HOLD_SECONDS, KEPT_MIXES, _MIX_SECONDS]
        args.extend((UNKNOWN_SECONDS, TALLY_SECONDS))
        args.extend(value for report in reports for value in self._outcome_arguments(report))
        holds = await self._run(self._report, keys, args)
        for place in holds or ():
            log_hold(reports[place].ask)
        mine = reports if holds is None else [one for one in reports if one.lease.startswith(LEASE_PREFIX)]
        if holds is None:
            self._remember_unheard((one.lease, one.ask) for one in reports)
        self._local.end(reports)
        self._local.learn(mine)

    @override
    def is_held(self, provider: str, source: str) -> bool:
        return self._local.is_held(provider, source)

    async def renew(self) -> None:
        """Renew the leases of all sessions of this process that have not been reported. One round trip.

        And end those that are over as Redis may not know.
        """
        await self._renew_leases()

    async def _renew_leases(self) -> bool:
        """Do so; returns whether Redis knows now."""
        now = self._monotonic()
        self._running = {lease: one for lease, one in self._running.items() if one.until > now}
        self._unheard = {lease: one for lease, one in self._unheard.items() if one[1] > now}
        ended = dict(self._unheard)
        if not (self._running or ended):
            return True
        keys = [_SINCE_KEY]
        args: list[str | float] = [self._now(), self._config.lease_seconds]
        for lease, one in self._running.items():
            keys.extend(self._renewed_keys(one.ask))
            counts_for = max(0.0, one.asks_until - now) + UNKNOWN_SECONDS
            age = min(now - one.begun, _OLDEST)
            args.extend((lease, age, one.recipients if one.is_counted else 0, counts_for))
        for lease, (ask, _) in ended.items():
            keys.extend(self._renewed_keys(ask))
            args.extend((lease, -1, 0, 0))
        if await self._run(self._renew, keys, args) is None:
            return False
        for lease in ended:
            self._unheard.pop(lease, None)
        return True

    def _remember_unheard(self, ended: Iterable[tuple[str, Ask]]) -> None:
        """Remember sessions that are over for as long as Redis may think them open."""
        until = self._monotonic() + self._config.lease_seconds
        self._unheard.update((lease, (ask, until)) for lease, ask in ended)

    def _renewed_keys(self, ask: Ask) -> Iterator[str]:
        yield from (_provider_keys(ask)[1], _address_keys(ask)[0], *self._asked_keys(ask))

    async def _run(self, script: AsyncScript, keys: list[str], args: list[str | float]) -> Any:
        """Run a script; keys that somebody has overwritten with another type are deleted first.

        What they held costs time, never correctness; to stumble over them would stop every list.
        """
        try:
            return await self._breaker.call(script, keys=keys, args=args)
        except ClientError as error:
            if not str(error).startswith("WRONGTYPE"):
                raise
        await self._breaker.call(self._delete_spoilt, list(dict.fromkeys(keys)))
        return await self._breaker.call(script, keys=keys, args=args)

    async def _delete_spoilt(self, keys: list[str]) -> None:
        async with self._redis.pipeline(transaction=False) as pipe:
            for key in keys:
                _ = pipe.type(key)
            found = dict(zip(keys, await pipe.execute(), strict=True))
        spoilt = [key for key in keys if found[key] not in {b"none", _type_of(key)}]
        if spoilt:
            await self._redis.delete(*spoilt)
            _log.warning("throttle.keys_spoilt", deleted=len(spoilt))

    def _asked_keys(self, ask: Ask) -> Iterator[str]:
        """Yield the keys of what was asked where unknown recipients count."""
        row = self._config.edits.row(self._row(ask.provider), ask)
        return (f"{_ASKED_KEY}{place}" for place in gateway_keys(ask, known=row.harvest > 0))

    def _now(self) -> str:
        return "" if self._clock is None else f"{self._clock():.6f}"

    def _outcome_arguments(self, report: Report) -> Iterator[str | float]:
        ask = report.ask
        row = self._config.edits.row(self._row(ask.provider), ask)
        yield from (
            report.lease,
            report.outcome,
            row.rate,
            1 + JITTER * self._random.random(),
            _provider_source(ask),
        )
        session = self._running.pop(report.lease, None)
        yield from count_session(report, session.recipients) if session and session.is_counted else ("", "")
        yield from (*report.asked, *ask.tally.before) if ask.tally else ("", "", "", "")
        yield report.beyond


def _type_of(key: str) -> bytes:
    return next(kind for prefix, kind in _TYPES.items() if key.startswith(prefix))


def _provider_source(ask: Ask) -> str:
    """Name provider x source in keys."""
    return f"{ask.provider}:{ask.source}"


def _limit_arguments(limits: Limits, number: int) -> Iterator[float]:
    mine, theirs = limits.provider, limits.address
    yield from (limits.recipients, mine.sessions, mine.rate, mine.burst)
    yield from (number, theirs.sessions, theirs.rate, theirs.burst)


def _provider_keys(ask: Ask) -> tuple[str, str]:
    """Return the keys of state and sessions of provider x source."""
    return f"{_STATE_KEY}{_provider_source(ask)}", f"{_SESSIONS_KEY}{_provider_source(ask)}"


def _tally_key(ask: Ask) -> str:
    """Return the key of what a list asks there; where it is not counted one that is never touched."""
    return f"{_LIST_KEY}{tally_key(ask)}"


def _stop_arguments(ask: Ask) -> tuple[float, ...]:
    if ask.tally is None:
        return (0, 0, 0, 0, 0)
    rule = ask.tally.rule
    return (rule.share, rule.least, *ask.tally.before, rule.again)


def _address_keys(ask: Ask) -> tuple[str, str]:
    """Return the keys of sessions and rate of the destination."""
    where = destination(ask)
    return f"{_ADDRESS_KEY}{where}", f"{_PACE_KEY}{where}:{ask.source}"


@dataclass(frozen=True, slots=True)
class LearnedRate:
    """What is known of a provider at one source; times are seconds from now.

    Attributes:
        share: learned part of the rate, 1 = nothing was learned.
        strikes: rate replies in a row.
        blocks: sessions in a row in which it refused us.
        in_use: sessions that are open.
        closed_s: how long it is left alone, 0 = it is open.
        refuses: it is left alone because it refuses us.
        owed_s: how long until a full burst may be asked again, 0 = now.
        mix: sessions of at most a day by outcome.
    """

    provider: str
    source: str
    share: float = 1.0
    strikes: int = 0
    blocks: int = 0
    in_use: int = 0
    closed_s: float = 0.0
    refuses: bool = False
    owed_s: float = 0.0
    mix: dict[SessionOutcome, int] = field(default_factory=dict)

    @property
    def sessions(self) -> int:
        """Sessions that were counted."""
        return sum(self.mix.values())


_LEARNED = ("share", "strikes", "blocks", "blocked_until", "held")
_LEARNED_FIELDS = (*_LEARNED, "paid_until")


class ThrottleInspector:
    """Looks into the throttle and makes it forget."""

    def __init__(self, redis: Redis) -> None:
        """Take a client (the caller closes it)."""
        self._redis = redis

    async def read(self, also: Sequence[tuple[str, str]] = ()) -> list[LearnedRate]:
        """Return the providers x sources with the most sessions, and `also` these.

        Raises:
            mailsift.storage.redis.connection.ClientError: Redis isn’t responding.
        """
        async with self._redis.pipeline(transaction=False) as pipe:
            _ = pipe.zrevrange(SEEN_KEY, 0, -1)
            _ = pipe.hgetall(MIX_KEY)
            _ = pipe.time()
            seen, mix, (seconds, microseconds) = await pipe.execute()
        places = [_place(name.decode()) for name in seen]
        places += [place for place in also if place not in set(places)]
        states = await self._states(places, now := seconds + microseconds / 1e6)
        counts = {name.decode(): int(value) for name, value in mix.items() if name != b"since"}
        return [_learned(place, state, counts, now) for place, state in zip(places, states, strict=True)]

    async def reset(self, provider: str, source: str) -> bool:
        """Forget what was learned there, penalties too; sessions and rate stay. False: nothing was known.

        Raises:
            mailsift.storage.redis.connection.ClientError: Redis isn’t responding.
        """
        key = f"{_STATE_KEY}{provider}:{source}"
        return bool(await self._redis.hdel(key, *_LEARNED, "learned_at"))

    async def _states(
        self, places: Sequence[tuple[str, str]], now: float
    ) -> list[tuple[list[bytes | None], int]]:
        async with self._redis.pipeline(transaction=False) as pipe:
            for provider, source in places:
                _ = pipe.hmget(f"{_STATE_KEY}{provider}:{source}", _LEARNED_FIELDS)
                _ = pipe.zcount(f"{_SESSIONS_KEY}{provider}:{source}", now, "+inf")
            found = await pipe.execute()
        return list(zip(found[::2], found[1::2], strict=True))


def _place(name: str) -> tuple[str, str]:
    """Split a name; a source may hold colons, a provider does not."""
    provider, _, source = name.partition(":")
    return provider, source


def _learned(
    place: tuple[str, str], state: tuple[list[bytes | None], int], counts: dict[str, int], now: float
) -> LearnedRate:
    (share, strikes, blocks, blocked_until, held, paid_until), in_use = state
    name = ":".join(place)
    return LearnedRate(
        *place,
        share=float(share or 1),
        strikes=int(strikes or 0),
        blocks=int(blocks or 0),
        in_use=in_use,
        closed_s=max(0.0, float(blocked_until or 0) - now),
        refuses=held is not None,
        owed_s=max(0.0, float(paid_until or 0) - now),
        mix={outcome: counts[key] for outcome in SessionOutcome if (key := f"{name}|{outcome}") in counts},
    )
