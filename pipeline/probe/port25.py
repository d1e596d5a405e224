"""Whether this machine reaches mail servers, and they answer themselves; else asking costs only time-outs.

The port may be closed, or a machine on the way may answer in the name of all servers.
"""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

import structlog

from mailsift.pipeline.dns.domains import DomainFacts
from mailsift.pipeline.facts import Known
from mailsift.pipeline.guard import AddressGuard
from mailsift.pipeline.probe.config import Source
from mailsift.pipeline.probe.queue import peers_of
from mailsift.pipeline.probe.session import SessionError, SmtpConnection, dial
from mailsift.pipeline.probe.wire import QUIT
from mailsift.pipeline.providers import Providers
from mailsift.pipeline.throttle import Ask, Report, SessionOutcome, Throttle

_log = structlog.get_logger()


# What is known of the port.

KEPT_SECONDS: Final = 300.0
UNKNOWN_SECONDS: Final = 30.0
FRESH_SECONDS: Final = 10.0
CLOSED_SECONDS: Final = 10.0
"""Between two checks of a closed port: whoever opens it wants to see that soon."""


class Port25Status:
    """Remembers for five minutes whether mail servers can be reached; many may ask, one probe at a time.

    Attributes:
        has_been_open: this process has reached mail servers, so where it cannot now, that may pass.

    Args:
        probe: finds out; UNKNOWN leaves things as they are and is soon probed again.
        monotonic: seconds.
    """

    def __init__(self, probe: Callable[[], Awaitable[Known]], *, monotonic: Callable[[], float]) -> None:
        self._probe = probe
        self._monotonic = monotonic
        self._lock = asyncio.Lock()
        self._next_probe_at = float("-inf")
        self._probed_at = float("-inf")
        self._open = True
        self.has_been_open = False

    async def is_open(self) -> bool:
        """Tell whether asking mail servers makes sense; they count as reachable until proven otherwise."""
        async with self._lock:
            if self._monotonic() >= self._next_probe_at:
                await self._look()
        return self._open

    async def is_still_open(self, *, decides: bool = False) -> bool:
        """Tell the same where many servers have just been silent: what is remembered is too old.

        Args:
            decides: whether a verdict depends on it; then what was found before the silence is too old, too.
        """
        asked_at = self._monotonic()
        async with self._lock:
            fresh_until = asked_at if decides else self._probed_at + FRESH_SECONDS
            if self._probed_at < asked_at and self._monotonic() >= fresh_until:
                await self._look()
        return self._open

    @property
    def state(self) -> str:
        """What was found last: `open`, `closed`, `away` (closed, and open before), "" = not checked yet."""
        if self._open:
            return "open" if self.has_been_open else ""
        return "away" if self.has_been_open else "closed"

    async def recheck(self) -> None:
        """Check whether a closed port is open again, unless it was just checked."""
        async with self._lock:
            if not self._open and self._monotonic() >= self._probed_at + CLOSED_SECONDS:
                await self._look()

    async def _look(self) -> None:
        self._probed_at = self._monotonic()
        self._record_finding(await self._probe())

    def _record_finding(self, found: Known) -> None:
        self.has_been_open = self.has_been_open or found is Known.YES
        lifetime = UNKNOWN_SECONDS if found is Known.UNKNOWN else KEPT_SECONDS
        self._next_probe_at = self._monotonic() + lifetime
        if found is Known.NO and self._open:
            _log.error("port_25.closed", then="deep answers are probe_unavailable", again_s=lifetime)
        elif found is Known.YES and not self._open:
            _log.warning("port_25.open")
        if found is not Known.UNKNOWN:
            self._open = found is Known.YES


# Finding out: dialling servers that are known to be there.

_DNS_SECONDS: Final = 2.0
_CONNECT_SECONDS: Final = 5.0
_GREETING_SECONDS: Final = 2.0  # a later greeting shows nothing about the way
_HEAD_START: Final = 0.25  # seconds before the next server is dialled as well
_SERVERS_A_DOMAIN: Final = 3


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A server that is known to be there, by one of our addresses."""

    ask: Ask
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Port25Probe:
    """Looks whether mail servers that are known to be there accept a connection.

    Attributes:
        domains, throttle, guard: as for probing; these connections are throttled and guarded too.
        names: domains of different large providers, so that none of them alone decides.
        sources: our own addresses; one that gets out is enough.
        port: where mail servers listen.
        interception: gets their greetings; where one machine answers for all of them, none can be reached.
    """

    domains: DomainFacts
    throttle: Throttle
    guard: AddressGuard
    names: Sequence[str]
    sources: Sequence[Source]
    port: int
    interception: InterceptionDetector

    async def probe(self) -> Known:
        """Return YES as soon as one server accepts, NO when some were dialled and none did.

        UNKNOWN when no server could be dialled: DNS is in trouble, or the throttle does not allow it now.
        """
        facts = await self.domains.lookup(self.names, patience_s=_DNS_SECONDS)
        candidates = [
            _Candidate(Ask(fact.provider, source.identity, peer.address, 1), source)
            for fact in facts.values()
            for source in self.sources
            for peer in peers_of(fact, source, self.guard.allows)[:_SERVERS_A_DOMAIN]
        ]
        found = await self._dial_in_turn(iter(candidates))
        return Known.NO if found is Known.YES and await self._is_intercepted(candidates) else found

    async def _is_intercepted(self, candidates: Sequence[_Candidate]) -> bool:
        """Read the greeting of a server of each known provider; returns whether no source has a clear way."""
        first = {
            (candidate.source.identity, candidate.ask.provider): candidate
            for candidate in reversed(candidates)
            if self.interception.is_well_known(candidate.ask.provider)
        }
        names = zip(first, await asyncio.gather(*map(self._greeting_name, first.values())), strict=True)
        greetings: dict[str, dict[str, Greeting]] = {
            candidate.source.identity: {} for candidate in candidates
        }
        for (source, provider), name in names:
            if name:
                greeting = Greeting(first[source, provider].ask.address, name)
                greetings[source][provider] = greeting
                self.interception.record_greeting(source, provider, greeting)
        is_everywhere = all(self.interception.shared_names(names_heard) for names_heard in greetings.values())
        if is_everywhere:
            _log.error("port_25.intercepted", then="nothing that is said there is believed")
        return is_everywhere

    async def _greeting_name(self, candidate: _Candidate) -> str:
        """Return the name in a server's greeting, "" when none comes in time or the throttle forbids it."""
        name = ""
        with suppress(SessionError):
            async with self._dialled(candidate, _GREETING_SECONDS) as connection:
                if connection is not None:
                    banner = await connection.reply(_GREETING_SECONDS)
                    name = greeting_name(f"{banner.code} {banner.text}")
                    connection.send(QUIT)
        return name

    async def _dial_in_turn(self, candidates: Iterator[_Candidate]) -> Known:
        """Dial one after the other with a small head start each, until one accepts."""
        found: set[Known] = set()
        dials: set[asyncio.Task[Known]] = set()
        try:
            while Known.YES not in found:
                candidate = next(candidates, None)
                if candidate is not None:
                    dials.add(asyncio.create_task(self._can_connect(candidate)))
                if not dials:
                    break
                done, dials = await asyncio.wait(
                    dials, timeout=_HEAD_START, return_when=asyncio.FIRST_COMPLETED
                )
                found |= {dial.result() for dial in done}
        finally:
            for task in dials:
                task.cancel()
            await asyncio.gather(*dials, return_exceptions=True)
        return Known.YES if Known.YES in found else Known.NO if Known.NO in found else Known.UNKNOWN

    async def _can_connect(self, candidate: _Candidate) -> Known:
        try:
            async with self._dialled(candidate, _CONNECT_SECONDS) as connection:
                return Known.UNKNOWN if connection is None else Known.YES
        except SessionError:
            return Known.NO

    @asynccontextmanager
    async def _dialled(self, candidate: _Candidate, within: float) -> AsyncIterator[SmtpConnection | None]:
        """Give a connection to a server, None when the throttle forbids it.

        Raises:
            SessionError: it could not be had.
        """
        (grant,) = await self.throttle.grant([candidate.ask])
        if not grant.recipients:
            yield None
            return
        try:
            connection = await dial(candidate.ask.address, self.port, candidate.source, within=within)
            try:
                yield connection
            finally:
                connection.close()
        finally:  # FAILED: a connection without a word teaches the throttle nothing
            await self.throttle.report(
                [Report(candidate.ask, grant.lease, SessionOutcome.FAILED, grant.recipients)]
            )


# A machine on the way that answers in the name of all of them.

_UNRELATED: Final = 2
_UNRELATED_IF_NAMELESS: Final = 3
"""Unrelated providers that greet alike; more where the word is no host name (`localhost`, `ESMTP`)."""

_HOST_NAME: Final = re.compile(r"[a-z0-9-]+(?:\.[a-z0-9-]+)*\.[a-z][a-z0-9-]+")

_CLEARED_SECONDS: Final = 300.0
"""For so long the way is not checked again because of a name that turned out to be a hoster's."""


class Greeting(NamedTuple):
    """How a server introduced itself: the address that was dialled, and the first word of its banner."""

    address: str
    name: str


def greeting_name(banner: str) -> str:
    """Return the domain a banner begins with (RFC 5321 section 4.2, `Greeting`), lower-case; "" for none.

    A refusal need not begin with one: two that say "Service unavailable" are not one machine.
    """
    code, _, text = banner.partition(" ")
    word = next(iter(text.lower().split()), "")
    return word if code == "220" or _HOST_NAME.fullmatch(word) else ""


class InterceptionDetector:
    """What servers of well-known providers called themselves, by the source they were asked from.

    Unrelated providers share no machine: where they greet by one name from different addresses, it was
    neither of them. Somebody else's greeting proves nothing, for a hoster or a gateway serves thousands of
    domains by one name; but it is not believed where it is the name that stood for unrelated providers.

    Args:
        providers: who is well known, and who belongs together.
    """

    def __init__(self, providers: Providers) -> None:
        self._providers = providers
        self._greetings: defaultdict[str, dict[str, Greeting]] = defaultdict(dict)
        self._cleared_at: dict[tuple[str, str], float] = {}
        self._shared_names: dict[str, set[str]] = {}  # by source, as long as no other name greets there
        self._operator = lru_cache(maxsize=4096)(self._find_operator)

    def is_well_known(self, provider: str) -> bool:
        """Tell whether it is well known who the provider is."""
        return self._providers.knows(provider)

    def record_greeting(self, source: str, provider: str, greeting: Greeting) -> None:
        """Record a greeting; those of providers outside the table do not count."""
        if not greeting.name or not self.is_well_known(provider):
            return
        greetings = self._greetings[source]
        if greetings.get(provider) != greeting:
            greetings[provider] = greeting
            self._shared_names.pop(source, None)

    def is_intercepted(self, source: str, name: str) -> bool:
        """Tell whether a server that greets so is a machine on the way."""
        if source not in self._shared_names:
            self._shared_names[source] = self.shared_names(self._greetings.get(source, {}))
        return bool(name) and name in self._shared_names[source]

    def shared_names(self, greetings: Mapping[str, Greeting]) -> set[str]:
        """Return the names by which unrelated providers greeted from different addresses."""
        addresses: defaultdict[str, dict[str, str]] = defaultdict(dict)
        for provider, greeting in greetings.items():
            addresses[greeting.name].setdefault(self._operator(provider), greeting.address)
        return {
            name
            for name, by_operator in addresses.items()
            if len(set(by_operator.values())) >= _providers_needed(name)
        }

    def is_suspect(self, source: str, name: str, addresses: Mapping[str, str], now: float) -> bool:
        """Tell whether the way should be looked at: several servers greeted so, and no look has cleared it.

        `addresses` are the last ones that were dialled, by provider.
        """
        cleared_at = self._cleared_at.get((source, name), float("-inf"))
        return bool(name) and len(set(addresses.values())) > 1 and now >= cleared_at + _CLEARED_SECONDS

    def record_clear(self, source: str, name: str, now: float) -> None:
        """Record that a check of the way did not find this name at unrelated providers."""
        self._cleared_at = {key: at for key, at in self._cleared_at.items() if now < at + _CLEARED_SECONDS}
        self._cleared_at[source, name] = now

    def _find_operator(self, provider: str) -> str:
        """Return what providers have in common that may share machines: Microsoft's two do."""
        suffixes = self._providers.row(provider).suffixes
        return self._providers.operator_of(suffixes[0]) if suffixes else provider


def _providers_needed(name: str) -> int:
    is_name = _HOST_NAME.fullmatch(name) or not name.strip("*")  # a firewall masks banners with asterisks
    return _UNRELATED if is_name else _UNRELATED_IF_NAMELESS
