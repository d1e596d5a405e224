"""Looks our sources up in block lists: at start and hourly; a listed one is held until it is off the list."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final

import structlog

from mailsift.pipeline.listings import ListingState, Lookup, check_listing, may_be_listed
from mailsift.storage.database import Database
from mailsift.storage.sql import listings

CHECK_SECONDS: Final = 3_600.0
_RECHECK_SECONDS: Final = 300.0  # until the next check, where another process made one or nothing was learned

_log = structlog.get_logger()


class ListingWatch:
    """Watches the sources of one process; any number of them may watch the same ones.

    Args:
        zones: the block lists; where there are none, what one of them held is let go of.
        trusted: whether a resolver can be believed now.
        wake: wakes workers, once a source may be asked from again.
        steady: seconds that never jump.
    """

    def __init__(  # noqa: PLR0913 - what a watch stands on, one argument each
        self,
        *,
        database: Database,
        zones: Sequence[str],
        sources: Collection[str],
        ask: Lookup,
        trusted: Callable[[], Awaitable[bool]],
        wake: Callable[[int], Awaitable[None]],
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._zones = tuple(zones)
        self._sources = sorted(filter(may_be_listed, sources))
        self._ask = ask
        self._trusted = trusted
        self._wake = wake
        self._steady = steady
        self._next_check = float("-inf")

    async def sweep(self) -> None:
        """Check when it is time; a check that fails is made up for by the next sweep."""
        if not self._sources or self._steady() < self._next_check:
            return
        if self._zones and not await self._trusted():
            return
        states = []
        for source in self._sources:
            states += [await self._check(source, zone) for zone in self._zones]
            await self._hold_while_listed(source)
        pause = _RECHECK_SECONDS if ListingState.UNKNOWN in states else CHECK_SECONDS
        self._next_check = self._steady() + pause

    async def _check(self, source: str, zone: str) -> ListingState:
        """Check, unless another process just did: then nothing is known here yet."""
        due = await self._database.run(listings.is_due, source, zone, seconds=_RECHECK_SECONDS)
        if not due:
            return ListingState.UNKNOWN
        state = await check_listing(source, zone, self._ask)
        await self._database.run(listings.learn, source, zone, state)
        return state

    async def _hold_while_listed(self, source: str) -> None:
        done = await self._database.run(listings.hold_while_listed, source, self._zones)
        if done:
            _log.warning("source.listing", source=source, then=done)
        if done == "let go":
            await self._wake(1)
