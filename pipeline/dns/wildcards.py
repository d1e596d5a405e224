"""What any name under a public suffix gets: no route of a domain there (parking, portals, DNS for sale)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Final

from mailsift.pipeline.clock import Clock
from mailsift.pipeline.dns.client import DnsClient
from mailsift.pipeline.dns.rules import DENIALS, DnsAnswer, RecordType
from mailsift.pipeline.providers import public_suffixes

_SECONDS: Final = 300.0  # to believe that such a name gets nothing
_PASSING_SECONDS: Final = 30.0
"""To believe that it gets something, or that nobody knows: a resolver's fault may pass."""
_OWN_NAME: Final = "@"  # stands for the name itself in the names of its servers

WildcardCallback = Callable[[frozenset[str]], None]
"""Called with the names of the servers, or the addresses, that a name which does not exist gets."""


class SuffixWildcards:
    """Asks for a name that does not exist under the suffix of a domain, once in five minutes and type.

    Args:
        client: asks.
        absent_label: a label that does not exist.
        clock: epoch seconds.
    """

    def __init__(self, client: DnsClient, *, absent_label: str, clock: Clock) -> None:
        self._client = client
        self._absent_label = absent_label
        self._clock = clock
        self._known: dict[tuple[str, RecordType], tuple[float, frozenset[str]]] = {}
        self._callbacks: dict[tuple[str, RecordType], list[WildcardCallback]] = {}

    def known(self, domain: str, record_type: RecordType) -> frozenset[str] | None:
        """Return what any name beside the domain gets, if it is remembered: nothing as a rule."""
        known = self._known.get((_suffix(domain), record_type))
        return known[1] if known is not None and known[0] > self._clock() else None

    def ask(self, domain: str, record_type: RecordType, callback: WildcardCallback) -> None:
        """Pass `callback` what `known` does not know when DNS has answered: nothing where it fails."""
        key = _suffix(domain), record_type
        if key in self._callbacks:
            self._callbacks[key].append(callback)
        else:
            self._callbacks[key] = [callback]
            name = f"{self._absent_label}.{key[0]}".rstrip(".")
            self._client.ask(name, record_type, partial(self._on_answer, key, name), soon=True)

    def clear(self) -> None:
        """Forget all answers; who waits goes on waiting."""
        self._known.clear()

    def _on_answer(self, key: tuple[str, RecordType], name: str, answer: DnsAnswer) -> None:
        hosts = relative_names(name, (host for _, host in answer.exchangers))
        wildcard = hosts | frozenset(answer.addresses)
        seconds = _SECONDS if answer.outcome in DENIALS else _PASSING_SECONDS
        self._known[key] = self._clock() + seconds, wildcard
        for callback in self._callbacks.pop(key):
            callback(wildcard)


def _suffix(domain: str) -> str:
    return public_suffixes().publicsuffix(domain) or ""


def is_wildcard(domain: str, wildcard: Collection[str], hosts: Iterable[str]) -> bool:
    """Tell whether a domain's servers, by name, are those that any name beside it gets."""
    return bool(wildcard) and relative_names(domain, hosts) <= set(wildcard)


def relative_names(domain: str, hosts: Iterable[str]) -> frozenset[str]:
    """Return the names of servers, with what a domain of its own would have in place of its name."""
    return frozenset(
        host.lower().removesuffix(domain) + _OWN_NAME if host.lower().endswith(domain) else host.lower()
        for host in hosts
    )
