"""single-validate (mode fast) beside a bare FastAPI that echoes the same envelope: one process each.

The same uvicorn settings, the same request, the same load from another process over kept connections. Ours
checks the key, counts the request in Redis, validates the address and writes a log line.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.served import Served, installed, served

PATH = "/v1/email/single-validate"
BODY = json.dumps({"email": "jane.doe@example.com", "mode": "fast"})


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one server: what it does with many connections, processor included, and p50 with one."""

    rate: float
    cpu_us: float
    p50_ms: float
    p99_ms: float
    alone_ms: float


def ask(url: str, headers: Mapping[str, str], connections: int, seconds: float) -> dict[str, float]:
    """Load the server from a process of its own.

    Raises:
        RuntimeError: an answer was not 200.
    """
    request = json.dumps({"path": PATH, "headers": dict(headers), "body": BODY})
    command = [sys.executable, "-m", "benchmarks.load", url, str(connections), str(seconds)]
    done = subprocess.run(command, input=request, capture_output=True, text=True, check=True, timeout=60)
    seen: dict[str, float] = json.loads(done.stdout)
    if seen["refused"]:
        raise RuntimeError(f"{seen['refused']} answers were not 200")
    return seen


def figures(server: Served, headers: Mapping[str, str], connections: int, seconds: float) -> Figures:
    """Warm up, then measure with one connection and with many."""
    ask(server.url, headers, connections, 1)
    alone = ask(server.url, headers, 1, seconds / 2)
    before = server.cpu()
    crowd = ask(server.url, headers, connections, seconds)
    each = 1e6 * (server.cpu() - before) / (crowd["rate"] * seconds)
    return Figures(crowd["rate"], each, crowd["p50_ms"], crowd["p99_ms"], alone["p50_ms"])


def make_key(environment: Mapping[str, str]) -> str:
    """Return a new API key."""
    command = [sys.executable, "-m", "mailsift", "keys", "create", "--account", "benchmark", "--json"]
    done = subprocess.run(command, env=dict(environment), capture_output=True, text=True, check=True)
    key: str = json.loads(done.stdout)["key"]
    return key


def main() -> None:
    """Print both, their ratio, and what our work adds to an answer."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--connections", type=int, default=32)
    options.add_argument("--seconds", type=float, default=6.0)
    options.add_argument("--rounds", type=int, default=3, help="of which the best counts, for each")
    chosen = options.parse_args()
    load = (chosen.connections, chosen.seconds)
    with installed() as environment:
        key = {"Authorization": f"Bearer {make_key(environment)}"}
        with served("mailsift", "api", environment=environment) as ours, served("benchmarks.echo") as echo:
            rounds = [(figures(ours, key, *load), figures(echo, {}, *load)) for _ in range(chosen.rounds)]
    mailsift, bare = (max(side, key=lambda one: one.rate) for side in zip(*rounds, strict=True))
    for name, one in (("mailsift", mailsift), ("bare FastAPI", bare)):
        print(
            f"{name:<14}{one.rate:8,.0f} requests/s, {one.cpu_us:4.0f} us of CPU each;"
            f" p50 {one.p50_ms:.2f} ms, p99 {one.p99_ms:.2f} ms on {load[0]} connections,"
            f" p50 {one.alone_ms:.2f} ms on one"
        )
    alone = min(ours.alone_ms - echo.alone_ms for ours, echo in rounds)
    print(f"ratio         {100 * mailsift.rate / bare.rate:8.0f} % of the bare rate (goal: 50 % or more)")
    print(f"overhead      {alone:8.2f} ms at p50 without network (goal: 5 ms or less)")


if __name__ == "__main__":
    main()
