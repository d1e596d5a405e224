"""The loop a user would write: csv module, email-validator, dnspython with an LRU cache, row after row.

naive_medium.py documented|tuned IN OUT HOST:PORT
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path

import dns.exception
import dns.resolver
import email_validator
from email_validator import EmailNotValidError, caching_resolver, validate_email

Check = Callable[[str], str]


def documented(resolver: dns.resolver.Resolver) -> Check:
    """Return the check that email-validator documents: it asks DNS itself, through dnspython's LRU cache."""
    email_validator.SPECIAL_USE_DOMAIN_NAMES.remove("test")  # where the sandbox lives
    cached = caching_resolver(timeout=5, dns_resolver=resolver)

    def check(email: str) -> str:
        try:
            address = validate_email(email, dns_resolver=cached)
        except EmailNotValidError:
            return "invalid"
        return "risky" if getattr(address, "unknown_deliverability", None) else "valid"

    return check


def tuned(resolver: dns.resolver.Resolver) -> Check:
    """Return a check that remembers one status for each domain, by somebody who has profiled."""
    resolver.lifetime = 5.0

    @lru_cache(maxsize=200_000)
    def domain_status(domain: str) -> str:
        for kind in ("MX", "A", "AAAA"):
            try:
                resolver.resolve(domain, kind)
            except dns.resolver.NXDOMAIN:
                return "invalid"
            except dns.resolver.NoAnswer:
                continue
            except dns.exception.DNSException:
                return "risky"
            return "valid"
        return "invalid"

    def check(email: str) -> str:
        try:
            address = validate_email(email, check_deliverability=False, test_environment=True)
        except EmailNotValidError:
            return "invalid"
        return domain_status(address.ascii_domain)

    return check


LOOPS: Mapping[str, Callable[[dns.resolver.Resolver], Check]] = {"documented": documented, "tuned": tuned}


def main() -> None:
    """Validate the column `email` of a CSV file."""
    loop, source, out, server = sys.argv[1:]
    resolver = dns.resolver.Resolver(configure=False)
    host, _, port = server.rpartition(":")
    resolver.nameservers, resolver.port = [host], int(port)
    check = LOOPS[loop](resolver)
    with (
        Path(source).open(newline="", encoding="utf-8") as given,
        Path(out).open("w", newline="", encoding="utf-8") as made,
    ):
        rows = csv.DictReader(given)
        writer = csv.DictWriter(made, [*(rows.fieldnames or ()), "status"])
        writer.writeheader()
        for row in rows:
            writer.writerow({**row, "status": check(row["email"])})


if __name__ == "__main__":
    main()
