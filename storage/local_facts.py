"""Facts of one process alone, where no Redis is shared."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence

from typing_extensions import override

from mailsift.pipeline.clock import Clock
from mailsift.pipeline.ports import CacheEntry, FactCache, FactKind

KEPT_FACTS = 200_000
"""How many are remembered, some hundred bytes each; the longest known are forgotten first."""


class LocalFactCache(FactCache):
    """Remembers facts between the calls of one process. Used on one event loop only."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._facts: OrderedDict[tuple[FactKind, str], tuple[float, bytes]] = OrderedDict()

    @override
    async def get(self, kind: FactKind, keys: Sequence[str]) -> Mapping[str, bytes]:
        now = self._clock()
        known = ((key, self._facts.get((kind, key))) for key in keys)
        return {key: fact[1] for key, fact in known if fact is not None and fact[0] > now}

    @override
    async def put(self, kind: FactKind, entries: Sequence[CacheEntry]) -> None:
        now = self._clock()
        for entry in entries:
            self._facts[kind, entry.key] = (now + entry.ttl, entry.value)
        while len(self._facts) > KEPT_FACTS:
            self._facts.popitem(last=False)
