"""The command line: the commands, and how their errors are shown."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group
from typing_extensions import override

from mailsift.late import put_off
from mailsift.logs import configure_logs
from pipeline.errors import MailsiftError

EXIT_ERROR = 2
EXIT_INTERRUPTED = 130

COMMANDS: Final[Mapping[str, str]] = {
    "run": "mailsift.commands.run:run",
    "check": "mailsift.commands.check:check",
    "jobs": "mailsift.commands.jobs:jobs_app",
    "serve": "mailsift.commands.serve:serve",
    "api": "mailsift.commands.serve:api",
    "keys": "mailsift.commands.keys:keys_app",
    "users": "mailsift.commands.users:users_app",
    "accounts": "mailsift.commands.accounts:accounts_app",
    "ops": "mailsift.commands.ops:ops_app",
    "worker": "mailsift.commands.operate:worker",
    "sweeper": "mailsift.commands.operate:sweeper",
    "migrate": "mailsift.commands.operate:migrate_command",
    "doctor": "mailsift.commands.operate:doctor",
    "settings": "mailsift.commands.operate:settings_command",
    "demo": "mailsift.commands.demo:demo",
    "sandbox": "sandbox.cli:sandbox_app",
}
"""Where each command is: a function, or a Typer application with commands of its own."""


@contextmanager
def _loading() -> Iterator[None]:
    """Load modules: they stay, and looking through them for rubbish meanwhile takes a third of the time."""
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        gc.enable()


class _Commands(TyperGroup):
    """Loads a command when it is called: a worker needs nothing of what serves the API."""

    @override
    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    @override
    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].partition(":")
        with _loading():
            found = getattr(import_module(module), name)
        if isinstance(found, typer.Typer):
            command: Any = get_group(found)
        else:
            alone = typer.Typer(pretty_exceptions_enable=False, add_completion=False)
            alone.command(cmd_name)(found)
            command = get_command(alone)
        command.name = cmd_name
        return command


app = typer.Typer(
    name="mailsift", cls=_Commands, no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False
)


@app.callback()
def about() -> None:
    """Self-hosted email list validation: a verdict, a score and a reason for every address."""


def main() -> None:
    """Run the command line; an expected error is one line with its stable code, and exit status 2."""
    configure_logs()
    for library in ("polars", "xlsxwriter"):
        put_off(library)
    try:
        app()
    except MailsiftError as error:
        print(f"mailsift: {error.code}: {error.message}", file=sys.stderr)  # noqa: T201 - the command line speaks
        sys.exit(EXIT_ERROR)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
