"""DNS and SMTP go silent in the middle of a list: are its verdicts the same as without, and what did it cost?

    python -m benchmarks.outage --seconds 20

The sandbox is stopped (SIGSTOP) while a list runs through the command line's own workers, so that its servers
keep their sockets and say nothing, and goes on after so many seconds. The same list runs before without.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import polars as pl

from benchmarks.sandboxed import home
from mailsift.sandbox.client import SandboxProcess
from mailsift.sandbox.listing import write_list
from mailsift.sandbox.world import SandboxWorld, WorldMix

SEED, DOMAINS = 7, 400
LATENCY_MS = 50  # for a reply, so that the list takes long enough to be cut in its middle


def main() -> None:
    """Run the list without and with an outage and print both."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=20.0, help="how long everything is silent")
    options.add_argument("--after", type=float, default=6.0, help="seconds after the start")
    options.add_argument("--rows", type=int, default=400)
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="mailsift-outage-") as folder:
        source = Path(folder, "list.csv")
        write_list(SandboxWorld(seed=SEED, domains=DOMAINS, mix=WorldMix.PLAIN), source, rows=given.rows)
        calm, calm_s = _run(source, silent_s=0.0, after_s=0.0)
        cut, cut_s = _run(source, silent_s=given.seconds, after_s=given.after)
    columns = ["mailsift_status", "mailsift_result"]
    differ = calm.hstack(cut.select(pl.col(columns).name.suffix("_cut"))).filter(
        pl.col("mailsift_status") != pl.col("mailsift_status_cut")
    )
    print(f"{given.rows} rows: {calm_s:.1f} s without, {cut_s:.1f} s with {given.seconds:.0f} s of silence")
    print(f"other status: {len(differ)}")
    print(differ.group_by("mailsift_result", "mailsift_result_cut").len())


def _run(source: Path, *, silent_s: float, after_s: float) -> tuple[pl.DataFrame, float]:
    out = source.with_name(f"out-{silent_s:.0f}.csv")
    with (
        SandboxProcess(seed=SEED, domains=DOMAINS, mix=WorldMix.PLAIN, latency_ms=LATENCY_MS) as sandbox,
        home(sandbox, MAILSIFT_GREYLIST_DELAYS="5,10,20") as (_, environment),
    ):
        began = time.perf_counter()
        running = subprocess.Popen(
            [sys.executable, "-m", "mailsift", "run", source, "--output", out, "--json"],
            env=environment,
            stdout=subprocess.DEVNULL,
        )
        if silent_s:
            time.sleep(after_s)
            stopped = sandbox.pid or sys.exit("the sandbox has ended")
            os.kill(stopped, signal.SIGSTOP)
            time.sleep(silent_s)
            os.kill(stopped, signal.SIGCONT)
        if running.wait():
            sys.exit("the list failed")
        return pl.read_csv(out, infer_schema=False), time.perf_counter() - began


if __name__ == "__main__":
    main()
