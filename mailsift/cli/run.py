"""`mailsift run`: a file in, a file with verdicts out, in one command."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
import uvloop

from mailsift.cli.check import ModeOption
from mailsift.cli.progress import PLAIN, console, duration_text, show_summary, summary_of, watch
from mailsift.container import open_container, open_service
from mailsift.jobs.plans import ListPlan
from mailsift.jobs.results.breakdown import rows_by_result
from mailsift.jobs.results.export import export, format_of
from mailsift.jobs.service import JobService, check_readable
from mailsift.jobs.views import AccountId, JobId, JobOptions
from mailsift.pipeline.errors import MailsiftError, outage_of
from mailsift.pipeline.facts import Mode
from mailsift.pipeline.providers import Providers
from mailsift.runtime.installation import LocalWorker, installation
from mailsift.settings import Settings
from mailsift.storage.states import JobState

LOCAL_ACCOUNT = "local"


def run(  # noqa: PLR0913 - one argument an option
    file: Annotated[Path, typer.Argument(help="CSV, TSV, TXT, XLSX, JSONL, JSON or Parquet; gzip is fine.")],
    *,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Result file: .csv, .xlsx, .jsonl or .parquet. [default: FILE.mailsift.csv]",
        ),
    ] = None,
    mode: ModeOption = Mode.DEEP,
    column: Annotated[
        str, typer.Option("--column", "-c", help="Address column: its name or number. [default: found]")
    ] = "",
    evidence: Annotated[
        bool, typer.Option("--evidence", help="Write the facts behind every verdict as a column.")
    ] = False,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair", help="Validate the address that a cell clearly means which is none; its row says so."
        ),
    ] = False,
    max_age: Annotated[
        float | None,
        typer.Option(
            "--max-age",
            min=0,
            metavar="SECONDS",
            help="Use mailbox verdicts again that are younger; 0: always ask. [default: MAILSIFT_MAX_AGE]",
        ),
    ] = None,
    deadline: Annotated[
        float,
        typer.Option(
            "--deadline",
            min=0,
            metavar="SECONDS",
            help='Then judge what is known: who says "later" is deferred; 0: no end.',
        ),
    ] = 0.0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the summary as one JSON object on the last line.")
    ] = False,
    plan: Annotated[
        bool, typer.Option("--plan", help="Only say how long it takes and who will be asked.")
    ] = False,
) -> None:
    """Validate a list and write it back with a verdict on every row.

    Starts what is not running. Ctrl-C pauses the job; `mailsift jobs resume` goes on where it stopped.
    """
    check_readable(file)
    if plan:
        show_plan(file, column, mode, as_json=as_json)
        return
    out = output or file.with_name(f"{file.name}.mailsift.csv")
    check_writable(out)
    if out.exists() and out.samefile(file):
        raise MailsiftError("output_is_input", "The result would overwrite the list.")
    with working(Settings.from_env()) as (settings, worker):
        options = JobOptions(
            mode=mode,
            column=column,
            evidence=evidence,
            repair=repair,
            max_age=settings.max_age if max_age is None else max_age,
            deadline_s=deadline,
        )
        uvloop.run(submit_and_follow(settings, worker, file, options, out, as_json=as_json))


def show_plan(file: Path, column: str, mode: Mode, *, as_json: bool) -> None:
    """Print what a list will take; nothing is started but the servers."""
    with installation(Settings.from_env()) as settings:
        found = uvloop.run(_plan(settings, file, column, mode))
    if as_json:
        left = {"seconds": found.left.seconds, "reason": found.left.reason}
        print(json.dumps({"addresses": found.addresses, "probes": dict(found.probes), **left}))  # noqa: T201 - the command's output
        return
    took = "nobody can say" if found.left.seconds is None else duration_text(found.left.seconds)
    console.print(f"{found.addresses:,} addresses in mode {mode.value}: {took}", **PLAIN)
    for line in found.left.lines:
        console.print(f"  {line.text}", **PLAIN)
    if found.unknown:
        share = f"{100 * found.unknown / max(1, found.addresses):.0f} %"
        console.print(f"  {share} are at domains whose mail servers nobody has looked up yet.", **PLAIN)


async def _plan(settings: Settings, file: Path, column: str, mode: Mode) -> ListPlan:
    async with open_container(settings) as container:
        return await container.plans.plan_file(file, column, mode)


def check_writable(out: Path) -> None:
    """Find out before the work, not after it, that the result could not be written.

    Raises:
        MailsiftError: `unknown_export_format`, `output_not_writable`.
    """
    format_of(out)
    if out.is_dir() or not os.access(out.parent, os.W_OK):
        raise MailsiftError("output_not_writable", f"Nothing can be written to {out}.")


@contextmanager
def working(settings: Settings) -> Iterator[tuple[Settings, LocalWorker]]:
    """Give an installation whose embedded servers run, and a worker: its own where there is none.

    Raises:
        MailsiftError: `bad_overrides`, and what `installation` raises.
    """
    Providers.load(settings.overrides)  # a mistake is told before anything starts, not by a dying worker
    with installation(settings) as found:
        worker = LocalWorker(found, spare=True)
        worker.ensure()
        try:
            yield found, worker
        finally:
            worker.stop()


async def submit_and_follow(
    settings: Settings, worker: LocalWorker, file: Path, options: JobOptions, out: Path, *, as_json: bool
) -> None:
    """Submit a list and follow its job to the end."""
    async with open_service(settings) as service:
        account = await service.account(LOCAL_ACCOUNT)
        job_id = await service.submit(account, file, options)
        await follow(service, worker, account, job_id, out, as_json=as_json)


async def follow(
    service: JobService, worker: LocalWorker, account: AccountId, job_id: JobId, out: Path, *, as_json: bool
) -> None:
    """Show the job's progress until it ends, then write its results and print the summary.

    Raises:
        MailsiftError: the job's own error code when it failed.
    """
    try:
        view = await watch(service, account, job_id, keep_alive=worker.ensure)
    except BaseException:
        await _pause(service, account, job_id)
        _say_how_to_go_on(job_id, out)
        raise
    if view.state is not JobState.COMPLETED:
        raise MailsiftError(view.error_code, view.error_detail)
    try:
        results = await write(service, account, job_id, out)
    except (KeyboardInterrupt, asyncio.CancelledError, MailsiftError):
        _say_how_to_go_on(job_id, out)
        raise
    show_summary(view, results, out)
    if as_json:
        print(json.dumps(summary_of(view)))  # noqa: T201 - the command's output


async def write(service: JobService, account: AccountId, job_id: JobId, out: Path) -> dict[str, int]:
    """Write the job's results, whole or not at all; returns rows by result code.

    Raises:
        MailsiftError: `output_not_writable`, and what the service says.
    """
    partial = out.with_name(f"{out.name}.partial")
    async with service.results(account, job_id) as results:
        try:
            export(results, partial, format=format_of(out))
            partial.replace(out)
        except Exception as error:
            if not (outage := outage_of(error)):
                raise
            text = f"{out} cannot be written: {os.strerror(outage)}."
            raise MailsiftError("output_not_writable", text) from error
        finally:
            partial.unlink(missing_ok=True)
        return rows_by_result(results)


async def _pause(service: JobService, account: AccountId, job_id: JobId) -> None:
    try:
        await service.pause(account, job_id)
    except MailsiftError as error:
        if error.code != "job_state_conflict":  # intake and finish go on by themselves next time
            raise


def _say_how_to_go_on(job_id: JobId, out: Path) -> None:
    again = shlex.join(["mailsift", "jobs", "resume", str(job_id), "--output", str(out)])
    console.print(f"\nStopped; nothing is lost. Go on with: {again}", **PLAIN)
