"""Asks py3-validate-email about every address on standard input, 50 threads at a time.

Prints {"seconds": ..., "statuses": {address: "valid" | "invalid" | "risky"}}. Runs in an environment that has
the package and nothing of ours.
"""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from validate_email import validate_email  # type: ignore[import-not-found]  # not in our environment

CONCURRENCY = 50
WARM_UP = "known@ordinary.sandbox.test"
STATUSES = {True: "valid", False: "invalid", None: "risky"}


def check(address: str) -> str:
    """Turn its answer into a status; what it could not find out is risky."""
    try:
        answer = validate_email(
            address, smtp_helo_host="probe.sandbox.test", smtp_from_address="probe@sandbox.test"
        )
    except Exception:  # noqa: BLE001 - whatever it is, the package did not find out
        return "risky"
    return STATUSES[answer]


def main() -> None:
    """Check all and print the statuses."""
    addresses = sys.stdin.read().split()
    check(WARM_UP)
    started = time.perf_counter()
    with ThreadPoolExecutor(CONCURRENCY) as pool:
        statuses = dict(zip(addresses, pool.map(check, addresses), strict=True))
    print(json.dumps({"seconds": time.perf_counter() - started, "statuses": statuses}))


if __name__ == "__main__":
    main()
