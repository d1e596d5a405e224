"""How fast providers may be asked now: the table, what operators changed and what was learned, together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mailsift.jobs.eta import SourceRate
from mailsift.pipeline.clock import Clock
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.providers import Provider, Providers
from mailsift.pipeline.throttle import Ask
from mailsift.storage.database import Connection
from mailsift.storage.redis.local_throttle import SLOWEST_RATE
from mailsift.storage.redis.throttle import LearnedRate
from mailsift.storage.sql import throttles
from mailsift.storage.sql.throttles import ANY_PROVIDER, ANY_SOURCE, EditBook, ThrottleEdit

_LATE_S: Final = 0.1
"""Who was sent away comes back after the time a session's recipients take, and on average half a look later
(mailsift.jobs.engine.engine.EngineConfig.poll_s): what the rate would allow beyond its burst is lost."""


def allowed_rate(row: Provider, share: float) -> float:
    """Return recipients a second as lua/grant.lua allows them where it has learned this share."""
    return max(row.rate * share, min(row.rate, SLOWEST_RATE))


@dataclass(frozen=True, slots=True)
class FleetLimits:
    """What limits the fleet, beside the provider table and what was learned.

    Attributes:
        sources: the identities of its sources.
        edits: what operators changed.
        steps: what our names have earned, by provider and source.
    """

    sources: Sequence[str]
    edits: Sequence[ThrottleEdit]
    steps: Mapping[tuple[str, str], int]


@dataclass(frozen=True, slots=True)
class FleetConfig:
    """What the numbers are measured against.

    Attributes:
        providers: the provider table with the overrides file.
        sources: the identities of our own addresses, for as long as no worker has told its.
        clock: seconds since the epoch.
        delays: seconds before the second, third … try at a server that said "later".
    """

    providers: Providers
    sources: Sequence[str]
    clock: Clock
    delays: Sequence[float]

    async def limits(self, connection: Connection) -> FleetLimits:
        """Return the limits of the fleet as it stands."""
        edits, steps = await throttles.edits(connection), await throttles.steps(connection)
        return FleetLimits(await self.identities(connection), edits, steps)

    async def identities(self, connection: Connection) -> Sequence[str]:
        """Return the identities of the fleet's sources."""
        return throttles.identities(await throttles.live_sources(connection)) or self.sources

    def rates(self, limits: FleetLimits, learned: Sequence[LearnedRate] | None) -> ProviderRates:
        """Return how fast providers may be asked; None: Redis is gone, and nothing is known to be learned."""
        return ProviderRates(
            self.providers, limits.sources, limits.edits, learned or (), now=self.clock(), steps=limits.steps
        )

    async def check_source(self, connection: Connection, source: str) -> None:
        """Refuse what is none of the fleet's sources, and not ANY_SOURCE.

        Raises:
            MailsiftError: `unknown_source`.
        """
        if source not in {ANY_SOURCE, *self.sources, *await self.identities(connection)}:
            raise MailsiftError("unknown_source", "There is no such source here; * means all of them.")


class ProviderRates:
    """What providers allow from each of our sources."""

    def __init__(
        self,
        providers: Providers,
        sources: Sequence[str],
        edits: Sequence[ThrottleEdit],
        learned: Sequence[LearnedRate],
        *,
        now: float,
        steps: Mapping[tuple[str, str], int] | None = None,
    ) -> None:
        self._providers = providers
        self._sources = sources
        self._book = EditBook(edits, steps)
        self._learned = {(one.provider, one.source): one for one in learned}
        self._now = now

    def is_asked(self, provider: str) -> bool:
        """Return whether mailboxes there are asked for: not at uninformative providers."""
        return self._providers.row(provider).informative

    @property
    def opens_s(self) -> float:
        """Seconds until anybody may be asked from one of our sources; infinite while all are held."""
        asks = [Ask(ANY_PROVIDER, source, "", 1) for source in self._sources]
        return min((self._book.hold_seconds(ask, self._now) for ask in asks), default=0.0)

    def at_sources(self, provider: str) -> tuple[SourceRate, ...]:
        """Return the rate of a provider at each of our sources."""
        return tuple(self._at_source(Ask(provider, source, "", 1)) for source in self._sources)

    def _at_source(self, ask: Ask) -> SourceRate:
        base = self._providers.row(ask.provider)
        row = self._book.row(base, ask)
        known = self._learned.get((ask.provider, ask.source)) or LearnedRate(ask.provider, ask.source)
        rate = allowed_rate(row, known.share)
        burst = max(1, int(row.burst * known.share))
        hold_s = self._book.hold_seconds(ask, self._now)
        return SourceRate(
            rate=rate,
            opens_s=max(known.closed_s, hold_s),
            burst=burst,
            credit=max(0.0, burst - known.owed_s * rate),
            held=hold_s > 0,
            lost_s=max(0.0, row.recipients / row.rate + _LATE_S - burst / rate) / burst,
        )
