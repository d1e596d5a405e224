"""`mailsift schedules`: lists that this installation validates again by the clock."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated, Any
from uuid import UUID

import typer
from rich.table import Table
from rich.text import Text

from mailsift.cli.jobs import find
from mailsift.cli.options import JsonOption
from mailsift.cli.service import show, with_local_account
from mailsift.cli.terminal import PLAIN, console, shortened, table_of
from mailsift.container import Container
from mailsift.jobs.places.place import is_place
from mailsift.jobs.schedules import Recheck, ScheduleSpec, ScheduleView
from mailsift.jobs.views import AccountId, JobOptions
from mailsift.pipeline.facts import Mode

schedules_app = typer.Typer(no_args_is_help=True)

ScheduleArgument = Annotated[UUID, typer.Argument(help="The schedule's id, as `list` shows it.")]


@schedules_app.command("create")
def create(  # noqa: PLR0913 - options of a command
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
        job = None if is_place(source) else await find(container.jobs, account, source)
        theirs = (await container.jobs.get(account, job)).options if job else JobOptions()
        options = replace(theirs, mode=mode or theirs.mode, repair=repair or theirs.repair)
        spec = ScheduleSpec(cron, zone, name, recheck, options=options)
        place = "" if job else source
        return await container.schedules.create(account, job, spec, source=place, sink=sink)

    show([with_local_account(make)], _table, _fields, as_json=as_json)


@schedules_app.command("list")
def list_schedules(*, as_json: JsonOption = False) -> None:
    """List the schedules."""
    found = with_local_account(lambda container, account: container.schedules.list(account))
    show(found, _table, _fields, as_json=as_json)


@schedules_app.command("run")
def run_now(schedule: ScheduleArgument) -> None:
    """Start a run now, whatever still runs; a scheduled one then takes it for the run before."""
    job = with_local_account(lambda container, account: container.schedules.run_now(account, schedule))
    console.print(f"Job {job}.", **PLAIN)


@schedules_app.command("pause")
def pause(schedule: ScheduleArgument) -> None:
    """Pause a schedule until it is resumed."""
    with_local_account(lambda container, account: container.schedules.pause(account, schedule))
    console.print("Paused.")


@schedules_app.command("resume")
def resume(schedule: ScheduleArgument) -> None:
    """Resume a schedule with its next run."""
    with_local_account(lambda container, account: container.schedules.resume(account, schedule))
    console.print("It goes on.")


@schedules_app.command("delete")
def delete(schedule: ScheduleArgument) -> None:
    """Delete a schedule; its jobs stay."""
    with_local_account(lambda container, account: container.schedules.delete(account, schedule))
    console.print("Deleted.")


def _table(views: Iterable[ScheduleView]) -> Table:
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


def _fields(view: ScheduleView) -> dict[str, Any]:
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
