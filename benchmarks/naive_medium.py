"""The loop a user would write: csv module, email-validator, dnspython with an LRU cache, row after row."""

from __future__ import annotations

import csv
import sys
from functools import lru_cache
from pathlib import Path

import dns.exception
import dns.resolver
from email_validator import EmailNotValidError, validate_email


class Domains:
    """Asks once for each domain."""

    def __init__(self, server: str) -> None:
        host, _, port = server.rpartition(":")
        self._resolver = dns.resolver.Resolver(configure=False)
        self._resolver.nameservers, self._resolver.port, self._resolver.lifetime = [host], int(port), 5.0
        self.status = lru_cache(maxsize=200_000)(self._ask)

    def _ask(self, domain: str) -> str:
        for kind in ("MX", "A", "AAAA"):
            try:
                self._resolver.resolve(domain, kind)
            except dns.resolver.NXDOMAIN:
                return "invalid"
            except dns.resolver.NoAnswer:
                continue
            except dns.exception.DNSException:
                return "risky"
            return "valid"
        return "invalid"


def status_of(email: str, domains: Domains) -> str:
    """Judge one cell."""
    try:
        address = validate_email(email, check_deliverability=False, test_environment=True)
    except EmailNotValidError:
        return "invalid"
    return domains.status(address.ascii_domain)


def main() -> None:
    """Validate the column `email` of a CSV file: naive_medium.py IN OUT HOST:PORT."""
    source, out, domains = Path(sys.argv[1]), Path(sys.argv[2]), Domains(sys.argv[3])
    with (
        source.open(newline="", encoding="utf-8") as given,
        out.open("w", newline="", encoding="utf-8") as made,
    ):
        rows = csv.DictReader(given)
        writer = csv.DictWriter(made, [*(rows.fieldnames or ()), "status"])
        writer.writeheader()
        for row in rows:
            writer.writerow({**row, "status": status_of(row["email"], domains)})


if __name__ == "__main__":
    main()
