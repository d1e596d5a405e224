"""The command line: the commands, and how their errors are shown."""

from __future__ import annotations

import sys

import typer

from mailsift.commands.check import check
from mailsift.commands.demo import demo
from mailsift.commands.jobs import jobs_app
from mailsift.commands.keys import keys_app
from mailsift.commands.operate import doctor, migrate_command, settings_command, worker
from mailsift.commands.run import run
from mailsift.commands.serve import api, serve
from mailsift.logs import configure_logs
from pipeline.errors import MailsiftError
from sandbox.cli import sandbox_app

EXIT_ERROR = 2
EXIT_INTERRUPTED = 130

app = typer.Typer(
    name="mailsift",
    help="Self-hosted email list validation: a verdict, a score and a reason for every address.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.command("run")(run)
app.command("check")(check)
app.add_typer(jobs_app, name="jobs")
app.command("serve")(serve)
app.command("api")(api)
app.add_typer(keys_app, name="keys")
app.command("worker")(worker)
app.command("migrate")(migrate_command)
app.command("doctor")(doctor)
app.command("settings")(settings_command)
app.command("demo")(demo)
app.add_typer(sandbox_app, name="sandbox")


def main() -> None:
    """Run the command line; an expected error is one line with its stable code, and exit status 2."""
    configure_logs()
    try:
        app()
    except MailsiftError as error:
        print(f"mailsift: {error.code}: {error.message}", file=sys.stderr)  # noqa: T201 - the command line speaks
        sys.exit(EXIT_ERROR)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
