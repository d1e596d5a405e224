"""Domains that do not want their mail servers to be asked about mailboxes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final


class OptOuts:
    """What one process knows of domains that opted out; a domain stands for its subdomains, too.

    Args:
        always: domains that stay, whatever is learned; ASCII, lower case.
    """

    def __init__(self, always: Iterable[str] = ()) -> None:
        self._always = frozenset(always)
        self._domains = self._always

    def learn(self, domains: Iterable[str]) -> None:
        """Know these beside those that stay, and no others from now on."""
        self._domains = self._always.union(domains)

    def covers(self, domain: str) -> bool:
        """Tell whether the domain, or one it is below, opted out."""
        if not self._domains:
            return False
        labels = domain.split(".")
        return any(".".join(labels[start:]) in self._domains for start in range(len(labels)))


NOBODY: Final = OptOuts()
