"""The operator's commands: worker, sweeper, migrate, settings."""

from __future__ import annotations

import os
import signal
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import structlog
import typer
import uvloop

from mailsift.lazy_import import UNASKED, loading, without
from mailsift.logs import configure_server_logs
from mailsift.pipeline.errors import MailsiftError
from mailsift.runtime.embedded import installation
from mailsift.settings import Settings, server_url
from mailsift.storage.database import sentence_of
from mailsift.storage.schema import migrate, revision, serves

_LOOK_SECONDS = 1.0
_log = structlog.get_logger()


def worker(
    *,
    processes: Annotated[
        int | None, typer.Option("--processes", "-p", min=1, help="Worker processes. [default: one per core]")
    ] = None,
    with_parent: Annotated[
        int, typer.Option("--with-parent", hidden=True, help="Stop when this process is gone.")
    ] = 0,
) -> None:
    """Work on jobs until stopped; SIGTERM finishes or gives back what is running."""
    settings = server_settings(worker_processes=processes)
    share_processors(settings.worker_processes)
    counts = share_counts(settings)
    with loading(), without("cffi", *UNASKED):  # celery would make one system call by a parser of C
        from mailsift.runtime.worker import run_worker  # noqa: PLC0415 - nothing that counts is loaded before
    # another command, perhaps, has started the servers meanwhile
    with installation(settings, forks=True, watched=with_parent != 0) as found:
        run_worker(found, parent=with_parent, counts=counts)


def share_processors(processes: int) -> None:
    """Let each of so many processes compute in as many threads as there are processors for it.

    By itself polars starts a thread a processor in every one of them. They wait for each other: beside small
    lists a big one then takes a sixth longer.
    """
    threads = max(1, (os.cpu_count() or 1) // processes)
    os.environ.setdefault("POLARS_MAX_THREADS", str(threads))  # noqa: TID251 - for a library


def share_counts(settings: Settings) -> Path | None:
    """Let this process and all that it forks count into files of a new folder, if anybody wants to read them.

    Files stay when their process dies, so nothing that was counted is lost. Prometheus' library looks for the
    folder when it is loaded, and what counts does so from then on.
    """
    if settings.metrics_port is None:
        return None
    if "prometheus_client" in sys.modules:
        raise AssertionError("too late: what is loaded counts for itself")
    parent = settings.home / "metrics" / f"{socket.gethostname()}-{settings.metrics_port}"
    parent.mkdir(parents=True, exist_ok=True)
    folder = tempfile.mkdtemp(dir=parent)
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder  # noqa: TID251 - the only way to tell the library
    return Path(folder)


def sweeper() -> None:
    """Clean up after dead workers, wake the others, send webhooks, start schedules; never work on lists.

    Workers do the same; this is for machines where none may be up, or where only this may reach webhooks.
    """
    from mailsift.runtime.worker import run_sweeper  # noqa: PLC0415 - see share_counts

    with installation(server_settings()) as settings:
        uvloop.run(run_sweeper(settings))


def server_settings(**given: object) -> Settings:
    """Return the settings of a process that serves, whose home is there, log is set up and end is prepared.

    What is given on the command line goes before the environment; None = nothing.

    Raises:
        MailsiftError: `bad_settings`.
    """
    _end_with_terminal()
    options = {name: value for name, value in given.items() if value is not None}
    settings = Settings.from_env().model_copy(update=options)
    settings.make_home()
    configure_server_logs(settings.log_level)
    for name, meant in Settings.mistyped().items():
        _log.warning("settings.unknown", variable=name, meant=meant)
    return settings


def _end_with_terminal() -> None:
    """Take SIGHUP for SIGTERM, once: the shell tells that the terminal is closed, and then the system does.

    One that is ignored (`nohup`) stays so.
    """

    def end(*_: object) -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.raise_signal(signal.SIGTERM)

    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, end)


def migrate_command(
    *,
    wait: Annotated[
        bool,
        typer.Option("--wait", help="Change nothing; wait until another process has migrated the database."),
    ] = False,
) -> None:
    """Bring the database to the schema of this release; the previous release still works with it."""
    with installation(Settings.from_env()) as settings:
        url = server_url(settings.database_url)
        found = _awaited(url) if wait else migrate(url)
        typer.echo(f"The database is at revision {found}.")


def _awaited(url: str) -> str:
    """Return the database's revision once it serves; tells what it waits for, each reason once."""
    printed = ""
    while True:
        try:
            if serves(found := revision(url)):
                return found
            reason = "Waiting for another process to migrate the database."
        except MailsiftError as error:
            if not error.retryable:
                raise
            reason = f"Waiting. {sentence_of(error)}"
        if reason != printed:
            typer.echo(printed := reason, err=True)
        time.sleep(_LOOK_SECONDS)


def settings_command() -> None:
    """List every setting with its default."""
    from rich.console import Console  # noqa: PLC0415 - a worker writes nothing

    from mailsift.cli.terminal import table_of  # noqa: PLC0415

    table = table_of(("variable", "default", "meaning"), overflow="fold")
    for row in Settings.describe():
        table.add_row(*row)
    Console().print(table)
