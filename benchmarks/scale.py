"""The plan for a very long list: what it takes of PostgreSQL, Valkey, workers, blobs, DNS and sources.

    python -m benchmarks.scale [--rows N] [--mix google=0.35,microsoft365=0.15,...] [--sources N] [--cores N]
    python -m benchmarks.scale --measure [--sample N]

The second command measures what an address costs on this machine, on the sandbox, and prints the table below
(`MEASURED`) anew; the first multiplies. Rates are those of the provider table, `--mix` the shares of the
addresses at providers of that table; what is left over is the tail, where each host is small.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from benchmarks.engine import OVERRIDES
from benchmarks.sandboxed import calm_list, calm_sandbox, home, run_job
from mailsift.pipeline.providers import Providers

DAY: Final = 86_400.0
MIX: Final = "google=0.35,microsoft365=0.15,outlook=0.05,yahoo=0.08"


@dataclass(frozen=True, slots=True)
class Unit:
    """What one address of a mode costs: CPU microseconds by role, and bytes of blobs."""

    cpu_us: Mapping[str, float]
    blob_bytes: float


MEASURED: Final[Mapping[str, Unit]] = {
    "medium": Unit(
        {"workers": 23.2, "intake": 10.0, "PostgreSQL": 6.6, "Valkey": 0.8, "submitter": 9.8}, 142.7
    ),
    "deep": Unit(
        {"workers": 380.0, "intake": 41.0, "PostgreSQL": 57.0, "Valkey": 19.0, "submitter": 88.0}, 140.9
    ),
}
"""By `python -m benchmarks.scale --measure` on two cores; a busy machine makes it 10 to 40 % too high."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is to be planned.

    Attributes:
        rows: distinct addresses.
        mix: their shares at providers of the table.
        domains: distinct ones.
        known: the share that needs no probe: a verdict that is young enough, bad syntax, no mail server.
        sources: source addresses.
        cores: of all machines together, for the workers.
    """

    rows: float
    mix: Mapping[str, float] = field(default_factory=dict)
    domains: float = 1e7
    known: float = 0.2
    sources: int = 54
    cores: int = 8


def source_days(question: Question, providers: Providers) -> dict[str, float]:
    """Return the days one source would ask each provider whose answers mean something."""
    probes = question.rows * (1 - question.known)
    return {
        key: probes * share / providers.row(key).rate / DAY
        for key, share in question.mix.items()
        if providers.row(key).informative
    }


def plan(question: Question, units: Mapping[str, Unit], providers: Providers) -> Iterator[str]:
    """Yield the lines of the plan."""
    days = source_days(question, providers)
    silent = [key for key in question.mix if key not in days]
    asked = question.rows * (1 - question.known) * (1 - sum(question.mix[key] for key in silent))
    yield f"{question.rows:,.0f} addresses, {question.domains:,.0f} domains, {asked:,.0f} probes"
    yield "sources"
    for key, found in sorted(days.items(), key=lambda one: -one[1]):
        took = found / question.sources
        about = f"{found:>10,.0f} source-days at {providers.row(key).rate:g}/s"
        yield f"  {key:<14}{about}: {took:,.1f} days with {question.sources}"
    yield f"  asked nothing: {', '.join(silent) or 'nobody'} (answers mean nothing)"
    hours = {role: _core_hours(role, question.rows, asked, units) for role in units["medium"].cpu_us}
    wall = max(days.values(), default=0.0) / question.sources
    whole = max(wall, sum(hours.values()) / 24 / question.cores)
    yield "processors"
    for role, spent in hours.items():
        share = spent / 24 / whole if whole else 0.0
        yield f"  {role:<14}{spent:>10,.1f} core-hours, {100 * share:.1f} % of a core over those days"
    rest = question.rows * units["medium"].blob_bytes
    probed_bytes = asked * max(0.0, units["deep"].blob_bytes - units["medium"].blob_bytes)
    yield f"blobs         {(rest + probed_bytes) / 1e9:>12,.0f} GB"
    compute = question.rows * sum(units["medium"].cpu_us.values()) / 1e6 / question.cores
    yield f"without probes (medium): {compute / 3600:,.1f} h on {question.cores} cores"
    pace = asked / (whole * DAY) if whole else 0.0
    yield f"the whole: {whole:,.1f} days, {pace:,.0f} probes/s"


def _core_hours(role: str, rows: float, asked: float, units: Mapping[str, Unit]) -> float:
    """Return what a role takes: every address costs what it costs in `medium`, a probe the rest."""
    medium, deep = (units[mode].cpu_us[role] for mode in ("medium", "deep"))
    return (rows * medium + asked * max(0.0, deep - medium)) / 1e6 / 3600


def measure_unit(mode: str, rows: int) -> Unit:
    """Run a list of so many rows on the sandbox, limits lifted, and return what one of them cost."""
    domains = max(50, rows * 57 // 1000)
    with calm_sandbox(domains) as sandbox, home(sandbox, OVERRIDES) as (folder, environment):
        source = calm_list(folder / "list.csv", rows, domains)
        _, summary = run_job(folder, environment, source, mode)
        stored = sum(path.stat().st_size for path in (folder / "home/blobs").rglob("*") if path.is_file())
    cpu = summary["cpu"]
    cpu["intake"] = cpu.get("intake", 0.0) + cpu.pop("ended", 0.0)  # what has ended is what read the list
    return Unit({role: round(1e6 * spent / rows, 1) for role, spent in cpu.items()}, round(stored / rows, 1))


def _number(kind: Callable[[str], float], low: float, high: float, wanted: str) -> Callable[[str], float]:
    """Return what reads a number of an option, and refuses one that makes no sense there."""

    def read(typed: str) -> float:
        try:
            number = kind(typed)
        except ValueError:
            number = math.nan
        if not low <= number <= high:
            raise argparse.ArgumentTypeError(f"{typed!r} is not {wanted}")
        return number

    return read


_SHARE: Final = _number(float, 0, 1, "a share from 0 to 1")
_COUNT: Final = _number(float, 0, 1e15, "a number from 0 to 1e15")
_AT_LEAST_ONE: Final = _number(int, 1, 1e9, "a whole number from 1")


def _mix(typed: str) -> dict[str, float]:
    """Read the shares at providers of the table."""
    providers, mix = Providers.load(), dict[str, float]()
    for one in filter(None, typed.split(",")):
        key, _, share = one.partition("=")
        if not providers.knows(key.strip()):
            raise argparse.ArgumentTypeError(f"{key.strip()!r} is not in the provider table")
        mix[key.strip()] = _SHARE(share)
    if sum(mix.values()) > 1 + 1e-9:
        raise argparse.ArgumentTypeError("the shares are more than all")
    return mix


def main() -> None:
    """Print the plan, or measure the units."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--rows", type=_COUNT, default=1e9)
    parser.add_argument("--mix", type=_mix, default=MIX)
    parser.add_argument("--domains", type=_COUNT, default=1e7)
    parser.add_argument("--known", type=_SHARE, default=0.2, help="share that needs no probe")
    parser.add_argument("--sources", type=_AT_LEAST_ONE, default=54)
    parser.add_argument("--cores", type=_AT_LEAST_ONE, default=8)
    parser.add_argument("--measure", action="store_true")
    parser.add_argument(
        "--sample", type=_AT_LEAST_ONE, default=100_000, help="rows of --measure; a fifth in deep"
    )
    args = parser.parse_args()
    if args.measure:
        for mode, rows in (("medium", args.sample), ("deep", args.sample // 5)):
            unit = measure_unit(mode, rows)
            print(f'    "{mode}": Unit({json.dumps(dict(unit.cpu_us))}, {unit.blob_bytes}),', flush=True)
        return
    question = Question(args.rows, args.mix, args.domains, args.known, args.sources, args.cores)
    print("\n".join(plan(question, MEASURED, Providers.load())))


if __name__ == "__main__":
    main()
