"""What it costs to start: CPU time of commands that do little, and the wall time of a small list.

The median of three; files are in the page cache. "up" means that the servers and a worker of another command
are running.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.measured import Measured, measure
from mailsift.cli.lists import working
from mailsift.settings import Settings

_ROUNDS = 3
_ROWS = 100


def median(command: Sequence[str], environment: Mapping[str, str], *, fresh: bool = False) -> str:
    """Run a command three times and return its median times; `fresh` gives each run a home of its own."""
    runs: list[Measured] = []
    for turn in range(_ROUNDS):
        own = {"MAILSIFT_HOME": f"{environment['MAILSIFT_HOME']}-{turn}"} if fresh else {}
        runs.append(measure([sys.executable, "-m", "mailsift", *command], environment={**environment, **own}))
    wall, cpu = (
        statistics.median(values) for values in zip(*((r.seconds, r.cpu) for r in runs), strict=True)
    )
    return f"{1000 * cpu:6.0f} ms CPU, {1000 * wall:6.0f} ms wall"


def main() -> None:
    """Time them all."""
    print(f"start-up, median of {_ROUNDS}; load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory(prefix="ms-start-", dir="/tmp") as folder:
        source = Path(folder) / "list.csv"
        source.write_text("email\n" + "".join(f"person{n}@example.org\n" for n in range(_ROWS)))
        environment = {
            **os.environ,  # noqa: TID251 - handed on to a child
            "MAILSIFT_HOME": f"{folder}/home",
            "PYTHONDONTWRITEBYTECODE": "",  # as on a user's machine, where modules are compiled but once
        }
        run = ["run", str(source), "-o", f"{folder}/out.csv", "--mode", "fast"]
        print(f"    mailsift --help              {median(['--help'], environment)}")
        check = ["check", "--mode", "fast", "ada@example.org"]
        print(f"    mailsift check --mode fast   {median(check, environment)}")
        print(f"    mailsift run, {_ROWS} rows      {median(run, environment, fresh=True)}")
        with working(Settings(home=Path(environment["MAILSIFT_HOME"]))):
            median(run, environment)  # the worker is there by then
            print(f"    the same, servers up         {median(run, environment)}")


if __name__ == "__main__":
    main()
