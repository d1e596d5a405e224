"""`mailsift jobs`: look after the jobs of this installation."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar
from uuid import UUID

import typer
import uvloop
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mailsift.cli.lists import LOCAL_ACCOUNT, follow, working, write
from mailsift.cli.pairs import check_writable
from mailsift.cli.progress import PLAIN, console, shortened, summary_of
from mailsift.container import open_service
from mailsift.events.audit import COMMAND_LINE, act_as
from mailsift.jobs.service import JobService
from mailsift.jobs.views import AccountId, JobId, JobView
from mailsift.runtime.installation import installation
from mailsift.runtime.local_worker import LocalWorker
from mailsift.settings import Settings
from mailsift.storage.states import JobState

T = TypeVar("T")

_WIDE: Final = 100
"""Columns of a terminal from which on everything fits."""
_MOST: Final = 1_000_000
_COLUMNS: Final = ("job", "state", "list", "mode", "rows", "valid", "risky", "invalid", "created")
_WIDE_ONLY: Final = {"mode", "created"}

jobs_app = typer.Typer(
    help="List, show, resume, pause, cancel and retry jobs; fetch their results.", no_args_is_help=True
)

JobArgument = Annotated[str, typer.Argument(help="The job's id, or enough of its first letters.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
OutputOption = Annotated[
    Path, typer.Option("--output", "-o", help="Result file: .csv, .xlsx, .jsonl or .parquet.")
]


def _with_service(work: Callable[[JobService, AccountId], Awaitable[T]]) -> T:
    async def run(settings: Settings) -> T:
        act_as(COMMAND_LINE)
        async with open_service(settings) as service:
            return await work(service, await service.account(LOCAL_ACCOUNT))

    with installation(Settings.from_env()) as settings:
        return uvloop.run(run(settings))


async def find(service: JobService, account: AccountId, given: str) -> JobId:
    """Return the job whose id starts with what was given.

    Raises:
        MailsiftError: `job_not_found`, `job_ambiguous`.
    """
    try:
        return JobId(UUID(given))
    except ValueError:
        return await service.beginning_with(account, given)


@jobs_app.command("list")
def list_jobs(
    *, limit: Annotated[int, typer.Option(min=1, max=_MOST)] = 20, as_json: JsonOption = False
) -> None:
    """List the newest jobs."""
    views = _with_service(lambda service, account: service.page(account, limit=limit)).jobs
    if as_json:
        for view in views:
            print(json.dumps(_job_fields(view)))  # noqa: T201 - the command's output
        return
    terminal = Console()
    terminal.print(job_table(views, is_wide=terminal.width >= _WIDE))


def job_table(views: Iterable[JobView], *, is_wide: bool) -> Table:
    """Return jobs, one a line; a narrow terminal keeps its room for the lists' names."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    names = [name for name in _COLUMNS if is_wide or name not in _WIDE_ONLY]
    for name in names:
        justify: Any = "right" if name in {"rows", "valid", "risky", "invalid"} else "left"
        table.add_column(name, justify=justify, no_wrap=True)
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
def show(job: JobArgument, *, as_json: JsonOption = False) -> None:
    """Show one job: where it stands and what it waits for."""

    async def get(service: JobService, account: AccountId) -> JobView:
        return await service.get(account, await find(service, account, job))

    view = _with_service(get)
    fields = _job_fields(view)
    if as_json:
        print(json.dumps(fields))  # noqa: T201 - the command's output
        return
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, value in fields.items():
        text = "\n".join(map(str, value)) if isinstance(value, list) else str(value)
        table.add_row(name, Text(text))
    Console().print(table)


@jobs_app.command("pause")
def pause(job: JobArgument) -> None:
    """Stop working on a job; `resume` continues it."""

    async def act(service: JobService, account: AccountId) -> None:
        await service.pause(account, await find(service, account, job))

    _with_service(act)
    console.print("Paused.")


@jobs_app.command("cancel")
def cancel(job: JobArgument) -> None:
    """End a job now; the verdicts found so far can still be fetched."""

    async def act(service: JobService, account: AccountId) -> None:
        await service.cancel(account, await find(service, account, job))

    _with_service(act)
    console.print("Cancelled.")


@jobs_app.command("results")
def results(job: JobArgument, *, output: OutputOption) -> None:
    """Write the results of a job; of one that has not completed, those found so far."""

    async def act(service: JobService, account: AccountId) -> int:
        found = await write(service, account, await find(service, account, job), output)
        return sum(found.values())

    check_writable(output)
    rows = _with_service(act)
    console.print(f"{rows:,} rows: {output}", **PLAIN)


@jobs_app.command("resume")
def resume(job: JobArgument, *, output: OutputOption, as_json: JsonOption = False) -> None:
    """Continue a job that was paused or interrupted, and write its results."""

    async def act(settings: Settings, worker: LocalWorker) -> None:
        act_as(COMMAND_LINE)
        async with open_service(settings) as service:
            account = await service.account(LOCAL_ACCOUNT)
            job_id = await find(service, account, job)
            if (await service.get(account, job_id)).state is JobState.PAUSED:
                await service.resume(account, job_id)
            await follow(service, worker, account, job_id, output, as_json=as_json)

    check_writable(output)
    with working(Settings.from_env()) as (settings, worker):
        uvloop.run(act(settings, worker))


@jobs_app.command("retry")
def retry(job: JobArgument, *, output: OutputOption, as_json: JsonOption = False) -> None:
    """Run the rows of an ended job again whose result said nothing about the mailbox."""

    async def act(settings: Settings, worker: LocalWorker) -> None:
        act_as(COMMAND_LINE)
        async with open_service(settings) as service:
            account = await service.account(LOCAL_ACCOUNT)
            again = await service.retry(account, await find(service, account, job))
            await follow(service, worker, account, again, output, as_json=as_json)

    check_writable(output)
    with working(Settings.from_env()) as (settings, worker):
        uvloop.run(act(settings, worker))


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
