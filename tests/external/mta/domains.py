"""Who is who in the tests of real mail servers: our own two addresses, and the domains with their people."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tests.external.mta.name_server import Zone, listed, reverse

CLEAN = "127.0.5.200"
"""Our address with a forward-confirmed reverse name."""

SHADY = "127.0.5.201"
"""Our address without a reverse name, and on a block list."""

OTHERS = ("127.0.5.202", "127.0.5.203")
"""More addresses without a name, for tests that look for themselves in a server's log."""

NOBODY = "127.0.5.204"
"""An address where nobody listens."""

HELO = "probe.test"
STRANGER_HELO = "no-such.test"
"""A name for HELO that DNS does not know."""

BLOCK_LIST = "bl.test"
CROWD = tuple(f"user{number}" for number in range(24))
PEOPLE = ("ann", "bob", *CROWD)
"""Who has a mailbox at every domain; nobody else has, unless a server's own settings say so."""


@dataclass(frozen=True, slots=True)
class Site:
    """A domain and the address of its only mail server."""

    domain: str
    address: str

    def boxes(self, *names: str) -> list[str]:
        """Return addresses at this domain."""
        return [f"{name}@{self.domain}" for name in names]


def zone_of(sites: Iterable[Site]) -> Zone:
    """Return the DNS of this world."""
    zone: dict[tuple[str, str], list[str]] = {
        (HELO, "A"): [CLEAN],
        (reverse(CLEAN), "PTR"): [f"{HELO}."],
        (listed(SHADY, BLOCK_LIST), "A"): ["127.0.0.2"],
        (listed(SHADY, BLOCK_LIST), "TXT"): ['"This address has sent spam"'],
    }
    for site in sites:
        zone[site.domain, "MX"] = [f"10 mx.{site.domain}."]
        zone[f"mx.{site.domain}", "A"] = [site.address]
    return zone
