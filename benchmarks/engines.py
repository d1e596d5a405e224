"""The library inside Dask and Ray with two workers: seconds, verdicts beside one process's, domains asked.

Runs the script of tests/external/engines in the environment of `.ci/install-data-engines`.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import polars as pl

import mailsift
from benchmarks.measured import measure
from benchmarks.sandboxed import calm_list, calm_sandbox, surrounded
from mailsift.pipeline.frames import VERDICTS
from mailsift.runtime.embedded import EmbeddedServers
from tests.support.required_programs import DATA_ENGINES
from tests.support.workers import ROOT

ENGINES = ("dask", "ray")
SCRIPT = ROOT / "tests/external/engines/drive.py"


def run(
    engine: str, mode: str, source: Path, out: Path, environment: Mapping[str, str]
) -> tuple[float, float]:
    """Return the seconds and CPU seconds of an engine over the list, its start and end included."""
    packages = [folder for folder in sys.path if "site-packages" in folder]
    needed = {"PYTHONPATH": os.pathsep.join([str(ROOT), *packages]), "HOME": str(Path.home())}
    command = [str(DATA_ENGINES / "bin/python"), str(SCRIPT), engine, mode, str(source), str(out)]
    took = measure(command, environment={**environment, **needed, "PATH": os.environ["PATH"]})  # noqa: TID251 - for a child
    return took.seconds, took.cpu


def alone(source: Path, mode: str, environment: Mapping[str, str]) -> pl.DataFrame:
    """Return the verdicts of one process."""
    with surrounded(environment), mailsift.Checker() as checker:
        found: pl.DataFrame = checker.check_many(pl.read_csv(source, infer_schema=False)["email"], mode=mode)
        return found


def compare(engine: str, mode: str, source: Path, domains: int) -> None:
    """Run the list in one process and in an engine, and print what came of it."""
    words = [name for name in VERDICTS if VERDICTS[name] == pl.String]
    with (
        tempfile.TemporaryDirectory() as folder,
        calm_sandbox(domains) as sandbox,
        EmbeddedServers(Path(folder) / "home", postgres=False) as servers,
    ):
        environment = {**sandbox.env, "MAILSIFT_DNS_CANARIES": ","}  # here each question is to count
        ours = alone(source, mode, environment)
        asked_alone = sandbox.counters()["dns"].get("MX", 0)
        sandbox.reset()
        shared = {**environment, "MAILSIFT_REDIS_URL": servers.redis_url}
        seconds, cpu = run(engine, mode, source, Path(folder) / "out.csv", shared)
        asked = sandbox.counters()["dns"].get("MX", 0)
        theirs = pl.read_csv(Path(folder) / "out.csv", infer_schema=False).select(pl.col(words).fill_null(""))
    different = sum(int((ours[name] != theirs[name]).sum()) for name in words)
    asked_as = f"MX asked {asked:,} times, by one process {asked_alone:,}"
    took = f"{seconds:.1f} s, {cpu:.1f} CPU s"
    print(f"{engine} {mode}: {ours.height:,} rows, {different} words differ; {asked_as}; {took}")


def main() -> None:
    """Compare as the arguments say."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=1_000_000)
    options.add_argument("--domains", type=int, default=20_000)
    options.add_argument("--engines", nargs="+", choices=ENGINES, default=ENGINES)
    options.add_argument("--modes", nargs="+", choices=("fast", "medium"), default=("fast", "medium"))
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "list.csv"
        calm_list(source, given.rows, given.domains)
        for mode in given.modes:
            for engine in given.engines:
                compare(engine, mode, source, given.domains)


if __name__ == "__main__":
    main()
