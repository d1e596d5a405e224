"""The operator's commands: worker, sweeper, migrate, doctor, settings."""

from __future__ import annotations

import json
import sys
import time
from typing import Annotated

import typer
import uvloop
from rich.console import Console
from rich.table import Table

from mailsift.installation import installation
from mailsift.logs import configure_server_logs
from mailsift.preflight import Finding, Health, examine
from mailsift.settings import Settings
from mailsift.sweeper import run_sweeper
from mailsift.worker import run_worker
from pipeline.errors import MailsiftError
from storage.schema import migrate, revision, serves

_LOOK_SECONDS = 1.0
_MARKS = {Health.OK: "[green]ok[/]", Health.WARNING: "[yellow]warning[/]", Health.FAILED: "[red]failed[/]"}


def worker(
    *,
    processes: Annotated[
        int | None, typer.Option("--processes", "-p", min=1, help="Worker processes. [default: one a core]")
    ] = None,
    with_parent: Annotated[
        int, typer.Option("--with-parent", hidden=True, help="Stop when this process is gone.")
    ] = 0,
) -> None:
    """Work on jobs until stopped. SIGTERM finishes or gives back what runs."""
    settings = _server_settings()
    if processes is not None:
        settings = settings.model_copy(update={"worker_processes": processes})
    with installation(settings) as found:
        run_worker(found, parent=with_parent)


def sweeper() -> None:
    """Mend what dead workers left, wake the living, send webhooks, start schedules; works on no list.

    Workers do the same; this is for machines where none may be up, or where only this may reach webhooks.
    """
    with installation(_server_settings()) as settings:
        uvloop.run(run_sweeper(settings))


def _server_settings() -> Settings:
    settings = Settings.from_env()
    configure_server_logs(settings.log_level)
    return settings


def migrate_command(
    *,
    wait: Annotated[
        bool, typer.Option("--wait", help="Change nothing; wait until somebody else has done it.")
    ] = False,
) -> None:
    """Bring the database to the schema of this release; the release before works on with it."""
    with installation(Settings.from_env()) as settings:
        if settings.database_url is not None:
            url = settings.database_url.get_secret_value()
            found = _awaited(url) if wait else migrate(url)
            Console().print(f"The database is at revision {found}.")


def _awaited(url: str) -> str:
    while not serves(found := _revision(url)):
        time.sleep(_LOOK_SECONDS)
    return found


def _revision(url: str) -> str:
    """Return the database's revision; one that does not answer has none yet."""
    try:
        return revision(url)
    except MailsiftError as error:
        if not error.retryable:
            raise
        return ""


def doctor(*, as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Check what must be true outside: port 25, resolver, reverse name, database, Redis, blobs.

    The exit status is 1 when a check failed.
    """
    with installation(Settings.from_env()) as settings:
        findings = uvloop.run(examine(settings))
    if as_json:
        told = [{"name": f.name, "health": f.health.value, "detail": f.detail} for f in findings]
        print(json.dumps(told))  # noqa: T201 - the command's output
    else:
        _show(findings)
    if any(finding.health is Health.FAILED for finding in findings):
        sys.exit(1)


def _show(findings: list[Finding]) -> None:
    table = Table(box=None, show_header=False, pad_edge=False)
    for finding in findings:
        table.add_row(finding.name, _MARKS[finding.health], finding.detail)
    Console().print(table)


def settings_command() -> None:
    """List every setting with its default."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("variable", "default", "meaning"):
        table.add_column(name, overflow="fold")
    for row in Settings.describe():
        table.add_row(*row)
    Console().print(table)
