"""The addresses of mail exchangers, asked for once and remembered: thousands of domains share a host."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import partial

from mailsift.pipeline.clock import Clock
from mailsift.pipeline.dns.denials import DenialChecker
from mailsift.pipeline.dns.rules import DnsAnswer, DnsOutcome, HostAddresses, RecordType, interpret_addresses
from mailsift.pipeline.guard import AddressGuard

Lifetime = Callable[[DnsOutcome, float], float]
"""Tells how many seconds an answer may be reused, from its outcome and the TTL it came with."""

HostCallback = Callable[[str, HostAddresses], None]
"""Is told a host's name and its addresses."""


class HostCache:
    """Finds and remembers the addresses of hosts, at most `size` of them, the least used forgotten first.

    Args:
        checker: asks.
        guard: decides which addresses count as public.
        clock: epoch seconds.
        lifetime: seconds an answer may be reused.
        size: hosts to remember.
    """

    def __init__(
        self,
        *,
        checker: DenialChecker,
        guard: AddressGuard,
        clock: Clock,
        lifetime: Lifetime,
        size: int,
    ) -> None:
        self._checker = checker
        self._guard = guard
        self._clock = clock
        self._lifetime = lifetime
        self._size = size
        self._known: OrderedDict[str, tuple[float, HostAddresses]] = OrderedDict()
        self._callbacks: dict[str, list[HostCallback]] = {}

    def known(self, host: str) -> HostAddresses | None:
        """Return the addresses of a host that are remembered."""
        known = self._known.get(host)
        if known is None or known[0] <= self._clock():
            return None
        self._known.move_to_end(host)
        return known[1]

    def ask(self, host: str, callback: HostCallback) -> None:
        """Call `callback` with the addresses of a host that is not remembered when DNS has answered."""
        if host in self._callbacks:
            self._callbacks[host].append(callback)
        else:
            self._callbacks[host] = [callback]
            self._checker.ask(host, RecordType.A, partial(self._on_answer, host, None))

    def clear(self) -> None:
        """Forget all addresses; who waits for some goes on waiting."""
        self._known.clear()

    def _on_answer(self, host: str, before: DnsAnswer | None, answer: DnsAnswer) -> None:
        """Settle the host by its A answer, or ask for AAAA and settle by both."""
        a, aaaa = (answer, None) if before is None else (before, answer)
        addresses = interpret_addresses(a, aaaa, self._guard)
        if addresses is None:
            self._checker.ask(host, RecordType.AAAA, partial(self._on_answer, host, a))
            return
        expires_at = self._clock() + self._lifetime(addresses.outcome, addresses.ttl)
        self._known[host] = (expires_at, addresses)
        if len(self._known) > self._size:
            self._known.popitem(last=False)
        for callback in self._callbacks.pop(host):
            callback(host, addresses)
