"""`mailsift jobs`: look after the jobs of this installation."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar
from uuid import UUID

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mailsift.cli.lists import follow, working, write
from mailsift.cli.options import LOCAL_ACCOUNT, JsonOption
from mailsift.cli.pairs import check_writable
from mailsift.cli.progress import summary_of, wait_text
from mailsift.cli.service import print_json, show, with_local_account
from mailsift.cli.terminal import PLAIN, as_text, console, shortened, table_of
from mailsift.container import Container, open_service
from mailsift.events.audit import COMMAND_LINE, act_as
from mailsift.jobs.service import JobService
from mailsift.jobs.views import AccountId, JobId, JobView
from mailsift.pipeline.wording import counted
from mailsift.runtime.local_worker import LocalWorker
from mailsift.settings import Settings
from mailsift.storage.states import JobState

T = TypeVar("T")

_WIDE: Final = 100
"""Columns of a terminal from which on everything fits."""
_MOST: Final = 1_000_000
_COLUMNS: Final = ("job", "state", "list", "mode", "rows", "valid", "risky", "invalid", "created")
_WIDE_ONLY: Final = {"mode", "created"}

jobs_app = typer.Typer(no_args_is_help=True)

JobArgument = Annotated[str, typer.Argument(help="The job's id, or enough of its first letters.")]
OutputOption = Annotated[
    Path, typer.Option("--output", "-o", help="Result file: .csv, .xlsx, .jsonl or .parquet.")
]


async def find(service: JobService, account: AccountId, given: str) -> JobId:
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
        return await work(parts.jobs, account, await find(parts.jobs, account, job))

    return with_local_account(act)


@jobs_app.command("list")
def list_jobs(
    *, limit: Annotated[int, typer.Option(min=1, max=_MOST)] = 20, as_json: JsonOption = False
) -> None:
    """List the newest jobs."""
    views = with_local_account(lambda parts, account: parts.jobs.page(account, limit=limit)).jobs
    show(views, partial(job_table, is_wide=Console().width >= _WIDE), _job_fields, as_json=as_json)


def job_table(views: Iterable[JobView], *, is_wide: bool) -> Table:
    """Return jobs, one a line; a narrow terminal keeps its room for the lists' names."""
    names = [name for name in _COLUMNS if is_wide or name not in _WIDE_ONLY]
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
def pause(job: JobArgument) -> None:
    """Stop working on a job; `resume` continues it."""
    _with_job(job, JobService.pause)
    console.print("Paused.")


@jobs_app.command("cancel")
def cancel(job: JobArgument) -> None:
    """End a job now; the verdicts found so far can still be fetched."""
    _with_job(job, JobService.cancel)
    console.print("Cancelled.")


@jobs_app.command("results")
def results(job: JobArgument, *, output: OutputOption) -> None:
    """Write the results of a job; of one that has not completed, those found so far."""
    check_writable(output)
    found = _with_job(job, lambda service, account, job_id: write(service, account, job_id, output))
    rows = sum(found.values())
    console.print(f"{counted(rows, 'row')}: {output}", **PLAIN)


@jobs_app.command("resume")
def resume(job: JobArgument, *, output: OutputOption, as_json: JsonOption = False) -> None:
    """Continue a job that was paused or interrupted, and write its results."""

    async def go_on(service: JobService, account: AccountId, job_id: JobId) -> JobId:
        if (await service.get(account, job_id)).state is JobState.PAUSED:
            await service.resume(account, job_id)
        return job_id

    _follow(job, go_on, output, as_json=as_json)


@jobs_app.command("retry")
def retry(job: JobArgument, *, output: OutputOption, as_json: JsonOption = False) -> None:
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
            started = await start(service, account, await find(service, account, job))
            await follow(service, worker, account, started, output, as_json=as_json)

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
