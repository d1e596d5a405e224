"""The library inside Dask and Ray, with two workers: verdicts as of one process, no domain asked twice."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import polars as pl
import pytest

import mailsift
from mailsift.pipeline.frames import VERDICTS
from mailsift.sandbox.client import SandboxProcess
from mailsift.sandbox.listing import write_list
from mailsift.sandbox.world import SandboxWorld, WorldMix
from tests.support.required_programs import DATA_ENGINES
from tests.support.workers import ROOT

pytestmark = pytest.mark.needs("data-engines")

ROWS, DOMAINS = 3_000, 200
HERE = Path(__file__).parent


def run(script: str, *words: object, environment: Mapping[str, str]) -> None:
    """Run a script where the engines are; it finds the product behind their packages."""
    path = os.pathsep.join([str(ROOT), *(folder for folder in sys.path if "site-packages" in folder)])
    done = subprocess.run(
        [DATA_ENGINES / "bin/python", HERE / script, *map(str, words)],
        env={**environment, "PYTHONPATH": path, "HOME": str(Path.home()), "PATH": os.environ["PATH"]},  # noqa: TID251 - same
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3_000:]


def test_frames_of_pandas_and_pyarrow_come_back_as_such() -> None:
    run("families.py", environment={})


@pytest.mark.parametrize("engine", ["dask", "ray"])
def test_two_workers_say_what_one_process_says_and_ask_no_domain_twice(
    engine: str, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed, out = tmp_path / "list.csv", tmp_path / "out.csv"
    world = SandboxWorld(seed=1, domains=DOMAINS, mix=WorldMix.CALM)
    truth = write_list(world, listed, rows=ROWS)
    # What DNS fails for is asked about again after seconds, so how often depends on how long a run takes.
    is_known = (pl.read_csv(truth, infer_schema=False)["deep_result"] != "dns_unavailable").fill_null(
        value=True
    )
    pl.read_csv(listed, infer_schema=False).filter(is_known).write_csv(listed)
    with SandboxProcess(domains=DOMAINS, mix=WorldMix.CALM) as sandbox:
        # Canaries are asked by every process for itself; here each question is to count.
        environment = {**sandbox.env, "MAILSIFT_DNS_CANARIES": ","}
        shared = {**environment, "MAILSIFT_REDIS_URL": redis_url}
        run("drive.py", engine, "medium", listed, out, environment=shared)
        asked = sandbox.counters()["dns"]["MX"]
        sandbox.reset()
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        with mailsift.Checker() as alone:
            ours = alone.check_many(pl.read_csv(listed, infer_schema=False)["email"], mode="medium")
        theirs = pl.read_csv(out, infer_schema=False)
        words = [name for name in VERDICTS if VERDICTS[name] == pl.String]
        assert ours.select(words).equals(theirs.select(pl.col(words).fill_null("")))
        assert asked == sandbox.counters()["dns"]["MX"]
