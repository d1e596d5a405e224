"""The comparison itself, in the namespace: FOLDER TOOLS SAMPLE LATENCY_MS MIX, or TOOLS ROWS at a gateway."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.engine import OVERRIDES
from benchmarks.peers.listing import domains_of, gateway_addresses, read_statuses
from benchmarks.peers.tools import PEERS, Peer
from benchmarks.sandboxed import SEED, home, run_job
from mailsift.sandbox.client import SandboxProcess
from mailsift.sandbox.world import WorldMix

GOAL = 7.0
RUNS = 3
SESSIONS = 20
"""At a host, for us: as many as the others are seen to hold at the busiest one (the table says it)."""


class Internet(SandboxProcess):
    """A sandbox on the ports that nobody else can change."""

    def __init__(self, *, domains: int, latency_ms: int, mix: WorldMix, minute_seconds: float = 2) -> None:
        super().__init__(
            seed=SEED,
            domains=domains,
            mix=mix,
            smtp_port=25,
            latency_ms=latency_ms,
            minute_seconds=minute_seconds,
        )
        self._arguments.append("--dns-port=53")


@dataclass(frozen=True, slots=True)
class Finding:
    """What one verifier said.

    Attributes:
        seconds: how long it took.
        cpu: seconds of processors, its servers' included.
        statuses: valid, invalid or risky, by address.
        sessions: the most that one mail host saw at a time.
        bans: how often a gateway blocked it for hours.
    """

    name: str
    seconds: float
    cpu: float
    statuses: Mapping[str, str]
    sessions: int
    bans: int

    @property
    def speed(self) -> float:
        """Addresses a second."""
        return len(self.statuses) / self.seconds


def ask_mailsift(internet: Internet, folder: Path) -> Finding:
    """Run the list as a deep job in an installation that is up."""
    with home(internet, f"{OVERRIDES}sessions = {SESSIONS}\n") as (scratch, environment):
        _, took = run_job(scratch, environment, folder / "list.csv", "deep")
        statuses = read_statuses(scratch / "out.csv", "mailsift_status")
    return Finding("mailsift", took["seconds"], sum(took["cpu"].values()), statuses, *_seen(internet))


def ask_peer(internet: Internet, peer: Peer, tools: Path, addresses: Sequence[str]) -> Finding:
    """Run addresses through one of the others."""
    used = _cpu_of_children()
    seconds, statuses = peer.ask(tools, addresses)
    cpu = _cpu_of_children() - used
    return Finding(peer.name, seconds, cpu, statuses, *_seen(internet))


def _cpu_of_children() -> float:
    times = os.times()
    return times.children_user + times.children_system


def ask_again(ask: Callable[[], Finding], truths: Mapping[str, str]) -> Finding:
    """Return some runs as one: medians of what they took, and what the least right of them said."""
    runs = [ask() for _ in range(RUNS)]
    least_right = min(runs, key=lambda run: Score.of(run, truths).overall)
    seconds, cpu = (median(times) for times in zip(*((run.seconds, run.cpu) for run in runs), strict=True))
    return replace(least_right, seconds=seconds, cpu=cpu)


def _seen(internet: Internet) -> tuple[int, int]:
    """Return the most sessions at a host, and the bans, since this was asked last."""
    counters = internet.counters()
    sessions: dict[str, int] = counters["peak_sessions_by_host"]
    internet.reset()
    return max(sessions.values(), default=0), counters["bans"]


@dataclass(frozen=True, slots=True)
class Score:
    """How right a verifier was, as shares of its addresses.

    Attributes:
        decided: agreement where the truth is valid or invalid; overall: agreement everywhere.
        false_invalid, false_valid: called so without being so.
    """

    decided: float
    overall: float
    false_invalid: float
    false_valid: float

    @classmethod
    def of(cls, finding: Finding, truths: Mapping[str, str]) -> Score:
        """Compare what it said with the truth."""
        pairs = Counter((status, truths[address]) for address, status in finding.statuses.items())
        wrong = {pair: count for pair, count in pairs.items() if pair[0] != pair[1]}
        decided = {pair: count for pair, count in pairs.items() if pair[1] != "risky"}
        missed = sum(count for pair, count in wrong.items() if pair in decided)
        total = pairs.total()
        return cls(
            1 - missed / sum(decided.values()),
            1 - sum(wrong.values()) / total,
            sum(count for (status, _), count in wrong.items() if status == "invalid") / total,
            sum(count for (status, _), count in wrong.items() if status == "valid") / total,
        )


def report(findings: Sequence[Finding], truths: Mapping[str, str]) -> None:
    """Print speed and correctness side by side, then what the goal is about."""
    ours, *others = findings
    print(
        f"{'':28}{'addresses':>9}{'a second':>10}{'mailsift':>10}{'CPU us':>12}"
        "   agreement        wrongly         sessions\n"
        f"{'':28}{'':9}{'':10}{'is faster':>10}{'an address':>12}"
        "  decided     all  invalid   valid   at a host"
    )
    for finding in findings:
        score, addresses = Score.of(finding, truths), len(finding.statuses)
        print(
            f"{finding.name:28}{addresses:>9,}{finding.speed:>10,.0f}{ours.speed / finding.speed:>9.1f}x"
            f"{1e6 * finding.cpu / addresses:>12,.0f}{score.decided:>9.2%}{score.overall:>8.2%}"
            f"{score.false_invalid:>9.2%}{score.false_valid:>8.2%}{finding.sessions:>12}"
        )
    correct = [peer for peer in others if Score.of(peer, truths).decided == 1]
    fastest = max(correct or others, key=lambda finding: finding.speed)
    ratio = ours.speed / fastest.speed
    print(f"fastest of the others that are fully correct: {fastest.name if correct else 'none is'}")
    print(f"mailsift is {ratio:.1f} times as fast as {fastest.name}; the goal is {GOAL:.0f} times")


def report_gateway(tools: Path, rows: int) -> None:
    """Let each of the others check a list at a gateway that blocks harvesters and has heard of nobody yet."""
    addresses = gateway_addresses(rows)
    print(f"{len(addresses)} addresses at a gateway, 30 % of them unknown; it takes 30 recipients a minute")
    for peer in PEERS:
        with Internet(domains=20, latency_ms=20, mix=WorldMix.CALM, minute_seconds=60) as internet:
            found = ask_peer(internet, peer, tools, addresses)
        counts = Counter(found.statuses.values())
        print(
            f"  {peer.name:<28}{found.bans:>3} blocks{found.seconds:>8.1f} s{counts['valid']:>6} valid"
            f"{counts['invalid']:>6} invalid{counts['risky']:>6} without an answer",
            flush=True,
        )


def main() -> None:
    """Let everybody check the list, one after the other."""
    if len(sys.argv) == 3:
        report_gateway(Path(sys.argv[1]), int(sys.argv[2]))
        return
    folder, tools = Path(sys.argv[1]), Path(sys.argv[2])
    sample, latency_ms, mix = int(sys.argv[3]), int(sys.argv[4]), WorldMix(sys.argv[5])
    truths = read_statuses(folder / "truth.csv", "status")
    domains = domains_of(len(truths))
    print(
        f"{len(truths):,} addresses, {domains:,} business domains, {latency_ms} ms to a reply\n"
        f"medians of {RUNS}; load {os.getloadavg()[0]:.1f}; our servers and workers are up and warm\n"
        f"mailsift: from the list to the result file, {SESSIONS} sessions a host, no limit to the rate\n"
        f"the others: {sample:,} of the addresses, 50 at a time, any number a host; unknown counts as risky",
        flush=True,
    )
    with Internet(domains=domains, latency_ms=latency_ms, mix=mix) as internet:
        addresses = list(truths)[:sample]
        asked = [partial(ask_mailsift, internet, folder)]
        asked += [partial(ask_peer, internet, peer, tools, addresses) for peer in PEERS]
        findings = [ask_again(ask, truths) for ask in asked]
    report(findings, truths)


if __name__ == "__main__":
    main()
