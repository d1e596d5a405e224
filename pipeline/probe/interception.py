"""Whether mail servers answer us themselves, or a machine on the way answers in the name of all of them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from mailsift.pipeline.providers import Providers

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
