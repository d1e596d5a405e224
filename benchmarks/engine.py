"""The whole engine beside what a user would write: medium and deep mode, and how time grows."""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.measured import Measured, measure
from benchmarks.naive_medium import LOOPS
from benchmarks.sandboxed import calm_list, calm_sandbox, calm_world, home, run_job
from mailsift.sandbox.client import SandboxProcess
from mailsift.sandbox.world import SandboxWorld

SESSIONS = 5
# Only the sessions limit us, as they limit the other one. Microsoft's tenants each have a host of their own:
# there five sessions a host are more than five for all of them. We count a provider's sessions, not a host's:
# of the 40 that all 24 together may have, one now and then sees a sixth.
OVERRIDES = """\
[[provider]]
key = "microsoft365"
sessions = 40

[limits]
rate = 100000
burst = 100000
recipients = 50
"""
ENGINE_PHASES = ("claim_ms", "read_ms", "store_ms", "commit_ms")


@dataclass(frozen=True, slots=True)
class Run:
    """One run of ours: the job in an installation that is up, and the processes around it.

    `cpu` holds the CPU seconds of the job by role: workers, the process that reads lists (or whatever else
    has ended), servers, the process that hands the list in and writes the result.
    """

    seconds: float
    peak_mib: float
    cpu: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Compared:
    """Runs of ours and of others, in turns on the same list."""

    title: str
    ours: Sequence[Run]
    others: Mapping[str, Sequence[Measured]]

    def of_ours(self, value: Callable[[Run], float]) -> float:
        """Return the median of a figure of ours."""
        return median(map(value, self.ours))

    def of_others(self, name: str, value: Callable[[Measured], float]) -> float:
        """Return the median of a figure of another one."""
        return median(map(value, self.others[name]))

    def ratio(self, name: str) -> float:
        """Return how many times longer another one takes."""
        return self.of_others(name, lambda run: run.seconds) / self.of_ours(lambda run: run.seconds)


def run_ours(sandbox: SandboxProcess, source: Path, mode: str, **settings: str) -> Run:
    """Run a job in an installation that is up, from handing in the list to the finished file."""
    with home(sandbox, OVERRIDES, **settings) as (folder, environment):
        done, summary = run_job(folder, environment, source, mode)
    return Run(summary["seconds"], done.peak_mib, summary["cpu"])


def engine_overhead(sandbox: SandboxProcess, source: Path, mode: str) -> tuple[float, float]:
    """Return what claims, blobs and commits take: us an address, and their share of the chunks' time.

    By the clock, which is no less than the processor's time. A run of its own, in which a process works on
    one chunk after another: where chunks overlap, the time one waits for another's computing would count as
    its own.
    """
    with home(sandbox, OVERRIDES, MAILSIFT_SURVEY_SLOTS="1") as (folder, environment):
        run_job(folder, environment, source, mode)
        log = (folder / "home" / "worker.log").read_text(encoding="utf-8")
    done = [json.loads(line) for line in log.splitlines() if '"chunk.done"' in line]
    triaged = [event for event in done if not event["lane"]]
    own = sum(event.get(phase, 0.0) for event in triaged for phase in ENGINE_PHASES)
    total = own + sum(event.get("sift_ms", 0.0) for event in triaged)
    return 1_000 * own / sum(event["addresses"] for event in triaged), own / total


def medium(folder: Path, rows: int, rounds: int) -> Compared:
    """(a): medium mode beside the plain loop, in a world where DNS makes nobody wait."""
    domains = rows * 57 // 1000
    source = calm_list(folder / "medium.csv", rows, domains)
    ours: list[Run] = []
    naive: dict[str, list[Measured]] = {loop: [] for loop in LOOPS}
    with calm_sandbox(domains) as sandbox:
        for _ in range(rounds):
            ours.append(run_ours(sandbox, source, "medium"))
            for loop, runs in naive.items():
                runs.append(_naive_medium(sandbox, loop, source, folder / "naive.csv"))
        each, share = engine_overhead(sandbox, source, "medium")
    own = f"{each:.2f} us an address, {100 * share:.1f} % of the chunks' time"
    print(f"claim, read, store and commit in medium: {own}")
    return Compared(f"(a) medium, {rows:,} rows, {domains:,} domains", ours, naive)


def _naive_medium(sandbox: SandboxProcess, loop: str, source: Path, out: Path) -> Measured:
    script = [sys.executable, "-m", "benchmarks.naive_medium", loop, str(source), str(out)]
    return measure(
        [*script, sandbox.env["MAILSIFT_DNS_SERVERS"]],
        environment=os.environ,  # noqa: TID251 - handed on to a child
    )


def deep(folder: Path, rows: int, latency_ms: int, rounds: int) -> Compared:
    """(b): deep mode, limits lifted, beside one connection for each address, with as many sessions a host."""
    domains = rows // 10
    world = calm_world(domains)
    source = calm_list(folder / "deep.csv", rows, domains)
    ours: list[Run] = []
    naive: list[Measured] = []
    with calm_sandbox(domains, latency_ms=latency_ms) as sandbox:
        for _ in range(rounds):
            sandbox.reset()
            ours.append(run_ours(sandbox, source, "deep"))
            peaks = [_most_sessions(sandbox, world)]
            sandbox.reset()
            naive.append(_naive_deep(sandbox, source, folder / "naive.csv"))
            peaks.append(_most_sessions(sandbox, world))
            print(f"most sessions one host saw in deep: mailsift {peaks[0]}, naive {peaks[1]}")
    title = f"(b) deep, {rows:,} rows, {latency_ms} ms a reply, {SESSIONS} sessions a host, limits lifted"
    return Compared(title, ours, {"naive": naive})


def _most_sessions(sandbox: SandboxProcess, world: SandboxWorld) -> str:
    """Say how many sessions a host saw at a time, and how many one of Microsoft's, who share a limit."""
    most = {"others": 0, "microsoft365": 0}
    for address, peak in sandbox.counters()["peak_sessions_by_host"].items():
        label = world.by_address[address].label
        place = label if label in most else "others"
        most[place] = max(most[place], peak)
    return f"{most['others']} ({most['microsoft365']} of Microsoft's)"


def apart(folder: Path, domains: int, latency_ms: int, rounds: int) -> Compared:
    """(e): an address each at so many domains, beside a connection for each with as many sessions a host.

    A session of ours waits for six replies: greeting, EHLO, MAIL, the random RCPT, the real one, QUIT.
    """
    with calm_list(folder / "all.csv", 100 * domains, 2 * domains).open(newline="", encoding="utf-8") as file:
        good = {
            row["email"].rpartition("@")[2]: row["email"] for row in csv.DictReader(file) if _is_plain(row)
        }
    source = folder / "apart.csv"
    source.write_text("\n".join(["email", *list(good.values())[:domains], ""]), encoding="utf-8")
    ours: list[Run] = []
    naive: list[Measured] = []
    with calm_sandbox(2 * domains, latency_ms=latency_ms) as sandbox:
        for _ in range(rounds):
            ours.append(run_ours(sandbox, source, "deep"))
            naive.append(_naive_deep(sandbox, source, folder / "naive.csv"))
    replies = f"{latency_ms} ms a reply, six replies a session: {6 * latency_ms / 1000:.1f} s"
    return Compared(f"(e) deep, {domains} addresses at as many domains, {replies}", ours, {"naive": naive})


def _is_plain(row: Mapping[str, str]) -> bool:
    return row["deep"] == "valid" and row["email"].isascii() and row["email"].count("@") == 1


def _naive_deep(sandbox: SandboxProcess, source: Path, out: Path) -> Measured:
    script = [sys.executable, "-m", "benchmarks.naive_deep", str(source), str(out)]
    server, port = sandbox.env["MAILSIFT_DNS_SERVERS"], sandbox.env["MAILSIFT_SMTP_PORT"]
    return measure(
        [*script, server, port, "500", str(SESSIONS)],
        environment=os.environ,  # noqa: TID251 - handed on to a child
    )


def growth(folder: Path, sizes: Sequence[int], mode: str) -> None:
    """(c): time for each row as the list grows."""
    print(f"(c) growth, {mode}")
    for rows in sizes:
        domains = max(500, rows * 57 // 1000)
        source = calm_list(folder / "growth.csv", rows, domains)
        with calm_sandbox(domains) as sandbox:
            limits = {"MAILSIFT_MAX_ROWS": str(rows), "MAILSIFT_MAX_BYTES": str(2**31)}
            _tell_growth(rows, run_ours(sandbox, source, mode, **limits))


def distinct(folder: Path, sizes: Sequence[int]) -> None:
    """(d): the same for lists in which every address is at a domain of its own."""
    print("(d) every address at a domain of its own, medium")
    for rows in sizes:
        source = folder / "distinct.csv"
        with source.open("w", encoding="utf-8") as file:
            file.writelines(["email\n", *(f"known@apart{n}.flood.sandbox.test\n" for n in range(rows))])
        with calm_sandbox(1) as sandbox:
            _tell_growth(rows, run_ours(sandbox, source, "medium"))


def _tell_growth(rows: int, done: Run) -> None:
    each, cpu = 1e6 * done.seconds / rows, 1e6 * sum(done.cpu.values()) / rows
    line = f"    {rows:>10,} rows: {done.seconds:6.2f} s, {each:6.2f} us a row, {cpu:6.2f} us CPU"
    print(f"{line}, peak {done.peak_mib:.0f} MiB")


def report(found: Compared) -> None:
    """Print the medians of all and how many times longer the others took."""
    seconds, peak = found.of_ours(lambda run: run.seconds), found.of_ours(lambda run: run.peak_mib)
    cpu = found.of_ours(lambda run: sum(run.cpu.values()))
    print(f"{found.title}; median of {len(found.ours)}, load {os.getloadavg()[0]:.1f}")
    print(
        f"    {'mailsift':11} {seconds:7.2f} s, {cpu:7.2f} s CPU, peak {peak:.0f} MiB, list to result file;"
    )
    print("                two worker processes; servers and worker up and warm, no fact known")
    roles = ", ".join(f"{role} {spent:.1f}" for role, spent in found.ours[-1].cpu.items() if spent >= 0.05)
    print(f"                CPU of the last run: {roles}")
    for name, runs in found.others.items():
        wall, used = (
            found.of_others(name, lambda run: run.seconds),
            found.of_others(name, lambda run: run.cpu),
        )
        most = max(run.peak_mib for run in runs)
        line = f"    {name:11} {wall:7.2f} s, {used:7.2f} s CPU, peak {most:.0f} MiB, one process"
        print(f"{line}: {found.ratio(name):.1f} x")


_WORDS = {
    "documented": "csv module, email-validator with its own DNS check, dnspython with an LRU cache",
    "tuned": "a loop tuned by hand, which asks once a domain",
    "naive": "one connection an address, as many at a time",
}


def print_table(compared: Sequence[Compared]) -> None:
    """Print README's table: a row for each of the others, of medians."""
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the end.")
    print("Ours: servers and worker up and warm, no fact known. The others start cold and use one core.\n")
    print("| what | Mailsift | the other | ratio |\n|---|---|---|---|")
    for found in compared:
        what, cpu = found.title.partition(" ")[2], found.of_ours(lambda run: sum(run.cpu.values()))
        seconds, peak = found.of_ours(lambda run: run.seconds), found.of_ours(lambda run: run.peak_mib)
        for name in found.others:
            wall = found.of_others(name, lambda run: run.seconds)
            used = found.of_others(name, lambda run: run.cpu)
            ours = f"{seconds:.1f} s, {cpu:.0f} s CPU, peak {peak:.0f} MiB"
            other = f"{wall:.1f} s, {used:.0f} s CPU: {_WORDS[name]}"
            print(f"| {what} | {ours} | {other} | {found.ratio(name):.1f}x |")


def main() -> None:
    """Run what was asked for; all of it by default."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=["medium", "deep", "apart", "growth", "long", "domains"])
    parser.add_argument("--table", action="store_true", help="(a) and (b) as rows of README's table")
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of (a)")
    parser.add_argument("--rounds", type=int, default=3, help="of each, in turns; medians are printed")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ms-lists-") as scratch:
        folder = Path(scratch)
        if chosen.table:
            print_table([medium(folder, chosen.rows, chosen.rounds), deep(folder, 20_000, 20, chosen.rounds)])
            return
        if chosen.only in {None, "medium"}:
            report(medium(folder, chosen.rows, chosen.rounds))
        if chosen.only in {None, "deep"}:
            report(deep(folder, 20_000, 20, chosen.rounds))
        if chosen.only in {None, "apart"}:
            report(apart(folder, 200, 400, chosen.rounds))
        if chosen.only in {None, "growth"}:
            growth(folder, [10_000, 100_000, 1_000_000], "medium")
        if chosen.only == "domains":
            distinct(folder, [100_000, 1_000_000])
        if chosen.only == "long":  # takes minutes to write the list
            growth(folder, [1_000_000, 3_000_000, 10_000_000], "fast")


if __name__ == "__main__":
    main()
