"""`mailsift jobs`, and `mailsift schedules`, by which they begin again by the clock."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar
from uuid import UUID

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mailsift.cli.lists import export_job, follow_job, summary_of, wait_text, working
from mailsift.cli.options import LOCAL_ACCOUNT, JsonOption
from mailsift.cli.pairs import check_writable
from mailsift.cli.service import print_json, show, with_local_account
from mailsift.cli.terminal import PLAIN, as_text, console, shortened, table_of
from mailsift.container import Container, open_service
from mailsift.events.audit import COMMAND_LINE, act_as
from mailsift.jobs.places.place import is_place
from mailsift.jobs.schedules import Recheck, ScheduleSpec, ScheduleView
from mailsift.jobs.service import JobService
from mailsift.jobs.views import AccountId, JobId, JobOptions, JobView
from mailsift.pipeline.facts import Mode
from mailsift.pipeline.wording import counted
from mailsift.runtime.local_worker import LocalWorker
from mailsift.settings import Settings
from mailsift.storage.states import JobState

T = TypeVar("T")

_WIDE_FOR_JOBS: Final = 100
"""Columns of a terminal from which on everything fits."""
_MOST_LISTED: Final = 1_000_000
_JOB_COLUMNS: Final = ("job", "state", "list", "mode", "rows", "valid", "risky", "invalid", "created")
_WIDE_JOB_COLUMNS: Final = {"mode", "created"}

jobs_app = typer.Typer(no_args_is_help=True)

JobArgument = Annotated[str, typer.Argument(help="The job's id, or enough of its first letters.")]
OutputOption = Annotated[
    Path, typer.Option("--output", "-o", help="Result file: .csv, .xlsx, .jsonl or .parquet.")
]


async def find_job(service: JobService, account: AccountId, given: str) -> JobId:
    """Return the job whose id starts with what was given.

    Raises:
        MailsiftError: `job_not_found`, `job_ambiguous`.
    """
    try:
        return JobId(UUID(given))
    except ValueError:
        return await service.beginning_with(account, given)


def _with_job(job: str, work: Callable[[JobService, AccountId, JobId], Awaitable[T]]) -> T:
    """Return what comes of some work with the job that an argument names."""

    async def act(parts: Container, account: AccountId) -> T:
        return await work(parts.jobs, account, await find_job(parts.jobs, account, job))

    return with_local_account(act)


@jobs_app.command("list")
def list_jobs(
    *, limit: Annotated[int, typer.Option(min=1, max=_MOST_LISTED)] = 20, as_json: JsonOption = False
) -> None:
    """List the newest jobs."""
    views = with_local_account(lambda parts, account: parts.jobs.page(account, limit=limit)).jobs
    show(views, partial(job_table, is_wide=Console().width >= _WIDE_FOR_JOBS), _job_fields, as_json=as_json)


def job_table(views: Iterable[JobView], *, is_wide: bool) -> Table:
    """Return jobs, one a line; a narrow terminal keeps its room for the lists' names."""
    names = [name for name in _JOB_COLUMNS if is_wide or name not in _WIDE_JOB_COLUMNS]
    table = table_of(names, numbers={"rows", "valid", "risky", "invalid"}, no_wrap=True)
    for view in views:
        cells: dict[str, str | Text] = {
            "job": str(view.id)[:8],
            "state": _state(view),
            "list": shortened(view.name, 60 if is_wide else 18),
            "mode": view.mode.value,
            "rows": f"{view.total:,}",
            "valid": f"{view.valid:,}",
            "risky": f"{view.risky:,}",
            "invalid": f"{view.invalid:,}",
            "created": view.created_at.astimezone().strftime("%Y-%m-%d"),
        }
        table.add_row(*(cells[name] for name in names))
    return table


def _state(view: JobView) -> str:
    """Say how far a job is that has begun and not ended."""
    begun = view.finished_at is None and view.total
    return f"{view.state.value} {100 * view.processed // view.total} %" if begun else view.state.value


@jobs_app.command("show")
def show_job(job: JobArgument, *, as_json: JsonOption = False) -> None:
    """Show one job: where it stands and what it waits for."""
    view = _with_job(job, JobService.get)
    if as_json:
        print_json(_job_fields(view))
    else:
        Console().print(job_fields_table(view))


def job_fields_table(view: JobView) -> Table:
    """Return everything about a job, a field a line, for people to read."""
    table = Table(box=None, show_header=False, pad_edge=False)
    words = {
        "tiers": ", ".join(f"{tier.value} {rows:,}" for tier, rows in view.tiers.items()),
        "waiting": "\n".join(map(wait_text, view.waiting)),
    }
    for name, value in (_job_fields(view) | words).items():
        table.add_row(name, Text("\n").join(map(as_text, str(value).split("\n"))))
    return table


@jobs_app.command("pause")
def pause_job(job: JobArgument) -> None:
    """Stop working on a job; `resume` continues it."""
    _with_job(job, JobService.pause)
    console.print("Paused.")


@jobs_app.command("cancel")
def cancel_job(job: JobArgument) -> None:
    """End a job now; the verdicts found so far can still be fetched."""
    _with_job(job, JobService.cancel)
    console.print("Cancelled.")


@jobs_app.command("results")
def write_results(job: JobArgument, *, output: OutputOption) -> None:
    """Write the results of a job; of one that has not completed, those found so far."""
    check_writable(output)
    found = _with_job(job, lambda service, account, job_id: export_job(service, account, job_id, output))
    rows = sum(found.values())
    console.print(f"{counted(rows, 'row')}: {as_text(str(output))}", **PLAIN)


@jobs_app.command("resume")
def resume_job(job: JobArgument, *, output: OutputOption, as_json: JsonOption = False) -> None:
    """Continue a job that was paused or interrupted, and write its results."""

    async def go_on(service: JobService, account: AccountId, job_id: JobId) -> JobId:
        if (await service.get(account, job_id)).state is JobState.PAUSED:
            await service.resume(account, job_id)
        return job_id

    _follow(job, go_on, output, as_json=as_json)


@jobs_app.command("retry")
def retry_job(job: JobArgument, *, output: OutputOption, as_json: JsonOption = False) -> None:
    """Run the rows of an ended job again whose result said nothing about the mailbox."""
    _follow(job, JobService.retry, output, as_json=as_json)


def _follow(
    job: str,
    start: Callable[[JobService, AccountId, JobId], Awaitable[JobId]],
    output: Path,
    *,
    as_json: bool,
) -> None:
    """Do what starts a job, then show its progress and write its results."""

    async def act(settings: Settings, worker: LocalWorker) -> None:
        act_as(COMMAND_LINE)
        async with open_service(settings) as service:
            account = await service.account(LOCAL_ACCOUNT)
            started = await start(service, account, await find_job(service, account, job))
            await follow_job(service, worker, account, started, output, as_json=as_json)

    check_writable(output)
    with working(Settings.from_env()) as (settings, worker):
        asyncio.run(act(settings, worker))


def _job_fields(view: JobView) -> dict[str, Any]:
    waits = [
        {
            "lane": wait.throttle_key,
            "reason": wait.reason,
            "addresses": wait.addresses,
            "until": wait.until.isoformat(),
        }
        for wait in view.waiting
    ]
    return {
        **summary_of(view),
        "name": view.name,
        "mode": view.mode.value,
        "parent_id": str(view.parent_id) if view.parent_id else "",
        "addresses": view.addresses,
        "chunks": view.chunks,
        "chunks_open": view.chunks_open,
        "created_at": view.created_at.isoformat(),
        "started_at": view.started_at.isoformat() if view.started_at else "",
        "finished_at": view.finished_at.isoformat() if view.finished_at else "",
        "warning": view.warning,
        "error": f"{view.error_code}: {view.error_detail}" if view.error_code else "",
        "waiting": waits,
    }


schedules_app = typer.Typer(no_args_is_help=True)

ScheduleArgument = Annotated[UUID, typer.Argument(help="The schedule's id, as `list` shows it.")]


@schedules_app.command("create")
def create_schedule(  # noqa: PLR0913 - options of a command
    source: Annotated[
        str,
        typer.Argument(
            metavar="JOB|PLACE",
            help="A job, whose list is used, or a place to fetch the list from for every run: https://, "
            "s3://, gs://, az://, postgresql://host/database?query=...",
        ),
    ],
    *,
    cron: Annotated[str, typer.Option(help="Minute, hour, day, month, weekday: '0 6 * * 1'.")],
    zone: Annotated[str, typer.Option(help="IANA time zone of the cron line. [default: the account's]")] = "",
    name: Annotated[str, typer.Option(help="What to call it. [default: the list's name]")] = "",
    recheck: Annotated[
        Recheck,
        typer.Option(help="all addresses; stale: whose answer is older than a day; risky: of the last run."),
    ] = Recheck.ALL,
    sink: Annotated[
        str,
        typer.Option(
            help="Where the results of every run go: s3://, gs://, az:// or postgresql://...?table="
        ),
    ] = "",
    mode: Annotated[
        Mode | None,
        typer.Option("--mode", "-m", help="fast, medium or deep. [default: the job's, or deep for a place]"),
    ] = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Validate the address a malformed cell clearly means.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Validate a list again on a schedule, while `mailsift serve` or a worker runs."""

    async def make(container: Container, account: AccountId) -> ScheduleView:
        job = None if is_place(source) else await find_job(container.jobs, account, source)
        theirs = (await container.jobs.get(account, job)).options if job else JobOptions()
        options = replace(theirs, mode=mode or theirs.mode, repair=repair or theirs.repair)
        spec = ScheduleSpec(cron, zone, name, recheck, options=options)
        place = "" if job else source
        return await container.schedules.create(account, job, spec, source=place, sink=sink)

    show([with_local_account(make)], _schedules_table, _schedule_fields, as_json=as_json)


@schedules_app.command("list")
def list_schedules(*, as_json: JsonOption = False) -> None:
    """List the schedules."""
    found = with_local_account(lambda container, account: container.schedules.list(account))
    show(found, _schedules_table, _schedule_fields, as_json=as_json)


@schedules_app.command("run")
def run_schedule(schedule: ScheduleArgument) -> None:
    """Start a run now, whatever still runs; a scheduled one then takes it for the run before."""
    job = with_local_account(lambda container, account: container.schedules.run_now(account, schedule))
    console.print(f"Job {job}.", **PLAIN)


@schedules_app.command("pause")
def pause_schedule(schedule: ScheduleArgument) -> None:
    """Pause a schedule until it is resumed."""
    with_local_account(lambda container, account: container.schedules.pause(account, schedule))
    console.print("Paused.")


@schedules_app.command("resume")
def resume_schedule(schedule: ScheduleArgument) -> None:
    """Resume a schedule with its next run."""
    with_local_account(lambda container, account: container.schedules.resume(account, schedule))
    console.print("It goes on.")


@schedules_app.command("delete")
def delete_schedule(schedule: ScheduleArgument) -> None:
    """Delete a schedule; its jobs stay."""
    with_local_account(lambda container, account: container.schedules.delete(account, schedule))
    console.print("Deleted.")


def _schedules_table(views: Iterable[ScheduleView]) -> Table:
    table = table_of(["schedule"], no_wrap=True)
    for column in ("list", "cron", "zone", "next run"):
        table.add_column(column)
    for view in views:
        cells = map(Text, (view.spec.cron, view.spec.zone, _next_run(view)))
        table.add_row(str(view.id), shortened(view.spec.name, 24), *cells)
    return table


def _next_run(view: ScheduleView) -> str:
    if view.next_runs:
        return view.next_runs[0].astimezone().strftime("%Y-%m-%d %H:%M")
    return "ended" if view.ended else "paused"


def _schedule_fields(view: ScheduleView) -> dict[str, Any]:
    spec = view.spec
    return {
        "schedule_id": str(view.id),
        "job_id": str(view.source_job_id) if view.source_job_id else None,
        "name": spec.name,
        "cron": spec.cron,
        "zone": spec.zone,
        "recheck": spec.recheck.value,
        "enabled": view.enabled,
        "next_runs": [at.isoformat() for at in view.next_runs],
        "last_run_at": view.last_run_at.isoformat() if view.last_run_at else None,
        "last_error": view.last_error,
    }
