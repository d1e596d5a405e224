"""`mailsift demo`: the whole product against the sandbox, compared with the truth."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import polars as pl
import typer
import uvloop

from mailsift.cli.lists import submit_and_follow, working
from mailsift.cli.terminal import console
from mailsift.jobs.views import JobOptions
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.facts import Mode
from mailsift.sandbox.client import SandboxProcess
from mailsift.sandbox.listing import write_list
from mailsift.sandbox.world import SandboxWorld, WorldMix
from mailsift.settings import Settings

# The sandbox is nobody's mail server: polite, but for a machine of its own.
_OVERRIDES = """\
[limits]
rate = 2000
burst = 200
"""
_DELAYS = (2.0, 4.0, 8.0)


def demo(
    *,
    rows: Annotated[int, typer.Option(min=1, help="Rows of the generated list.")] = 20_000,
    seed: Annotated[int, typer.Option(help="A different seed makes a different list.")] = 1,
    folder: Annotated[Path, typer.Option(help="Where the list, the result and the data go.")] = Path("demo"),
) -> None:
    """Validate a generated list in deep mode on the sandbox and compare every verdict with the truth.

    The exit status is 1 when a single status differs.
    """
    folder = folder.absolute()
    source, truth, out = folder / "list.csv", folder / "list.truth.csv", folder / "list.mailsift.csv"
    domains = max(50, rows // 10)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        console.print(f"Writing a list of {rows:,} rows, and what is true about them …")
        write_list(SandboxWorld(seed=seed, domains=domains, mix=WorldMix.HOSTILE), source, rows=rows)
    except OSError as error:
        text = f"{folder} cannot be written ({error.strerror}). Name another one with --folder."
        raise MailsiftError("output_not_writable", text) from error
    console.print("Starting the sandbox: a mail internet on loopback, with every hostile behaviour …")
    with _sandbox_settings(folder, seed, domains) as settings, working(settings) as (found, worker):
        uvloop.run(
            submit_and_follow(found, worker, str(source), JobOptions(mode=Mode.DEEP), str(out), as_json=False)
        )
    wrong = disagreements(out, truth)
    agreed = rows - len(wrong)
    console.print(f"Agreement with the truth: {agreed:,} of {rows:,} rows ({100 * agreed / rows:.2f} %)")
    if len(wrong):
        console.print(str(wrong.head(10)), markup=False)
        sys.exit(1)


@contextmanager
def _sandbox_settings(folder: Path, seed: int, domains: int) -> Iterator[Settings]:
    """Give settings that know nothing but the sandbox; two worker processes."""
    overrides = folder / "overrides.toml"
    overrides.write_text(_OVERRIDES)
    with SandboxProcess(seed=seed, domains=domains, mix=WorldMix.HOSTILE) as sandbox:
        address: dict[str, Any] = {
            name.removeprefix("MAILSIFT_").lower(): value for name, value in sandbox.env.items()
        }
        yield Settings(
            home=folder / "home",
            overrides=overrides,
            greylist_delays=_DELAYS,
            worker_processes=2,
            database_url=None,
            redis_url=None,
            blob_url=None,
            helo_name="mailsift.sandbox.test",
            **address,
        )


def disagreements(results: Path, truth: Path) -> pl.DataFrame:
    """Return the rows whose status differs from the truth, if every row came back."""
    found = pl.read_csv(results, infer_schema=False).select("mailsift_status", "mailsift_result")
    expected = pl.read_csv(truth, infer_schema=False).select("row", "email", "deep", "deep_result")
    if len(found) != len(expected):
        raise MailsiftError("results_incomplete", f"{len(found)} of {len(expected)} rows came back.")
    return pl.concat([expected, found], how="horizontal").filter(pl.col("deep") != pl.col("mailsift_status"))
