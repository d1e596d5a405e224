"""The command line: which commands there are, and how their errors are shown."""

from __future__ import annotations

import errno
import gc
import io
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Annotated, Any, Final, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException
from typer.main import get_command, get_group
from typing_extensions import override

from mailsift.cli.streams import let_go, open_what_is_closed, printable
from mailsift.lazy_import import UNASKED, import_lazily, loading, without
from mailsift.pipeline.allocator import FREE_SOON, LITTLE_AHEAD, UNUSED_FRAMES, leave_out
from mailsift.pipeline.errors import MailsiftError, lacks_threads

_EXIT_ERROR = 2
_EXIT_INTERRUPTED = 130


class _CommandRow(NamedTuple):
    """Where a command is, a function or a Typer application with commands of its own, and what it does."""

    target: str
    summary: str


COMMANDS: Final[Mapping[str, _CommandRow]] = {
    "run": _CommandRow(
        "mailsift.cli.run:run", "Validate a list and write it back with a verdict on every row."
    ),
    "check": _CommandRow("mailsift.cli.check:check", "Check addresses now and print their verdicts."),
    "jobs": _CommandRow(
        "mailsift.cli.jobs:jobs_app", "List, show, resume, pause, cancel and retry jobs; fetch their results."
    ),
    "schedules": _CommandRow(
        "mailsift.cli.jobs:schedules_app", "Create, list, run, pause, resume and delete schedules."
    ),
    "serve": _CommandRow(
        "mailsift.cli.serve:serve",
        "Serve the API and work on its jobs; starts PostgreSQL and Valkey too when none are configured.",
    ),
    "api": _CommandRow("mailsift.cli.serve:api", "Serve the API alone; `mailsift worker` runs beside it."),
    "mcp": _CommandRow(
        "mailsift.cli.serve:mcp",
        "Serve an assistant over standard input and output (Model Context Protocol).",
    ),
    "keys": _CommandRow("mailsift.cli.accounts:keys_app", "Create, list, roll and revoke API keys."),
    "users": _CommandRow(
        "mailsift.cli.accounts:users_app", "Add, list and remove the people who sign in to the pages."
    ),
    "suppressions": _CommandRow(
        "mailsift.cli.outcomes:suppressions_app", "Manage the addresses an account may not send to."
    ),
    "outcomes": _CommandRow("mailsift.cli.outcomes:outcomes_app", "Report what became of messages you sent."),
    "accuracy": _CommandRow(
        "mailsift.cli.outcomes:accuracy",
        "Show how often the verdicts of an account's lists were right, with 95 % intervals.",
    ),
    "accounts": _CommandRow("mailsift.cli.accounts:accounts_app", "Delete accounts."),
    "ops": _CommandRow(
        "mailsift.cli.ops:ops_app",
        "The operator console in the terminal: what flows, what does not, and why.",
    ),
    "worker": _CommandRow(
        "mailsift.cli.operate:worker",
        "Work on jobs until stopped; SIGTERM finishes or gives back what is running.",
    ),
    "sweeper": _CommandRow(
        "mailsift.cli.operate:sweeper",
        "Clean up after dead workers, wake the others, send webhooks, start schedules; never work on lists.",
    ),
    "migrate": _CommandRow(
        "mailsift.cli.operate:migrate_command",
        "Bring the database to the schema of this release; the previous release still works with it.",
    ),
    "doctor": _CommandRow(
        "mailsift.cli.doctor:doctor",
        "Check the surroundings: port 25, resolver, reverse DNS, database, Redis, blobs, keys.",
    ),
    "settings": _CommandRow("mailsift.cli.operate:settings_command", "List every setting with its default."),
    "demo": _CommandRow(
        "mailsift.cli.demo:demo",
        "Validate a generated list in deep mode on the sandbox and compare every verdict with the truth.",
    ),
    "sandbox": _CommandRow(
        "mailsift.sandbox.server:sandbox_app",
        "A mail internet in a box: DNS and SMTP servers on loopback that know the truth.",
    ),
}
_THAT_LOG: Final = frozenset({"serve", "api", "worker", "sweeper"})
"""What else they have to say stands in their logs (`server_settings`)."""
_THAT_REPORT: Final = frozenset({"doctor"})
"""What their logs would say is in what they print."""
_NOT_TAKEN: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EPIPE})
"""What a system says of standard output, and of a disk that holds what is only on its way."""
_NO_TEXT: Final = "surrogates not allowed"
"""What Python says where bytes of an argument that are no UTF-8 should become text (PEP 383)."""
_NO_THREADS: Final = "No more threads are to be had here. Raise `ulimit -u`, `-v`, TasksMax= or pids."
_LISTING: Final = "mailsift.listing"
_NO_PLUGINS: Final = {"PYDANTIC_DISABLE_PLUGINS": "__all__"}
"""Spares pydantic to look for some through all packages that are installed."""
_UNUSED: Final = (
    UNUSED_FRAMES,
    "sqlalchemy.ext.asyncio.session",
    "sqlalchemy.ext.asyncio.scoping",
    *(
        f"sqlalchemy.dialects.postgresql.{driver}"
        for driver in ("asyncpg", "pg8000", "psycopg2", "psycopg2cffi")
    ),
)
"""They load SQLAlchemy's object mapper, a fifth of that library, and drivers; here are rows, and psycopg."""


@contextmanager
def _refusing() -> Iterator[None]:
    """Refuse what is mistyped like everything else, below how the command is typed; help is no refusal.

    Raises:
        MailsiftError: `bad_usage`.
    """
    try:
        yield
    except TyperException as error:
        context: Any = getattr(error, "ctx", None)
        sentence = error.format_message()
        if context is None or (usage := context.get_usage()) in sentence:
            raise
        hint = f"Try '{context.command_path} --help' for help."
        with suppress(OSError):
            print(usage, hint, "", sep="\n", file=sys.stderr)  # noqa: T201 - the command line speaks
        raise MailsiftError("bad_usage", sentence) from None


class _Commands(TyperGroup):
    """Loads a command when it is called: a worker needs nothing of what serves the API."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = {name: TyperCommand(name, short_help=row.summary) for name, row in COMMANDS.items()}

    @override
    def format_help(self, ctx: Any, formatter: Any) -> None:
        """List the commands by their summaries, without loading one."""
        ctx.meta[_LISTING] = True
        super().format_help(ctx, formatter)

    @override
    def make_context(self, *args: Any, **extra: Any) -> Any:
        with _refusing():
            return super().make_context(*args, **extra)

    @override
    def invoke(self, ctx: Any) -> Any:
        with _refusing():
            return super().invoke(ctx)

    @override
    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        row = COMMANDS.get(cmd_name)
        if row is None:
            return None
        if ctx is not None and ctx.meta.get(_LISTING):
            return self.commands[cmd_name]
        module, _, name = row.target.partition(":")
        with loading():
            # Since Python 3.12 every record looks for its task, and the first loads what that takes.
            import_module("logging").logAsyncioTasks = False  # type: ignore[attr-defined]
            with without("rich"):  # for tracebacks in colour, which our logs never have
                import_module("structlog")
            with without(*UNASKED):
                found = getattr(import_module(module), name)
        if isinstance(found, typer.Typer):
            found.rich_markup_mode = None
            command: Any = get_group(found)
            command.help = row.summary
            for below in command.commands.values():
                below.short_help = below.help.partition("\n\n")[0]  # whole, not cut off
        else:
            alone = typer.Typer(pretty_exceptions_enable=False, add_completion=False, rich_markup_mode=None)
            alone.command(cmd_name)(found)
            command = get_command(alone)
        command.name = cmd_name
        return command


app = typer.Typer(
    name="mailsift",
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,  # help is shown plainly: to load rich takes longer than all else it needs
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # noqa: PLC0415 - asked for but once

        print(f"mailsift {version('mailsift')}")  # noqa: T201 - the command line speaks
        raise typer.Exit


@app.callback()
def about(
    context: typer.Context,
    *,
    _version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and exit."),
    ] = False,
) -> None:
    """Self-hosted email list validation: a verdict, a score and a reason for every address."""
    prepare: Callable[[str | None], None] | None = context.obj
    if prepare is not None:
        prepare(context.invoked_subcommand)


def main() -> None:
    """Run the command line; an expected error is one line with its stable code, and exit status 2.

    Whatever it and the processes it starts create is for this user alone.
    """
    os.umask(0o077)
    open_what_is_closed()
    _settle_signals()
    _settle_environment()
    prepare()
    try:
        _obey()
    except MailsiftError as error:
        _print_error(f"{error.code}: {_sentence_of(error)}")
        sys.exit(_EXIT_ERROR)
    except UnicodeEncodeError as error:
        if error.reason != _NO_TEXT:
            raise
        _print_error("bad_text: An argument or what was typed is no UTF-8.")
        sys.exit(_EXIT_ERROR)
    except KeyboardInterrupt:
        sys.exit(_EXIT_INTERRUPTED)
    except BaseException as error:  # a panic of polars' is no Exception
        if isinstance(error, SystemExit | BlockingIOError) or not lacks_threads(error):
            raise
        _print_error(f"no_threads: {_NO_THREADS}")
        sys.exit(_EXIT_ERROR)
    finally:
        gc.freeze()  # or the interpreter looks through everything that is loaded once more before it ends


def _sentence_of(error: MailsiftError) -> str:
    if error.code != "database_unavailable":
        return error.message
    from mailsift.storage.database import sentence_of  # noqa: PLC0415 - most commands that fail did not load it

    return sentence_of(error)


def _obey() -> None:
    """Do what was typed.

    Raises:
        MailsiftError: among others `output_not_writable` where standard output, or a disk on the way to it,
            does not take what is written.
    """
    try:
        try:
            app(obj=logs_for)
        finally:
            sys.stdout.flush()  # what is told by now can still be told
    except OSError as error:
        if error.errno not in _NOT_TAKEN:
            raise
        let_go(sys.stdout)
        raise MailsiftError("output_not_writable", f"Can’t write: {os.strerror(error.errno)}.") from None


def _print_error(line: str) -> None:
    """Say what ended the command, to who can hear it."""
    try:
        print(f"mailsift: {printable(line)}", file=sys.stderr, flush=True)  # noqa: T201 - the command line speaks
    except OSError:
        let_go(sys.stderr)


_WITHOUT_SENSE: Final = (("POLARS_MAX_THREADS", "0"), ("COLUMNS", "0"))
"""To who writes it, zero is as many as there are; one library panics at it, one shows tables of no width."""


def _settle_signals() -> None:
    """Hear what the program that started us did not want to: the end of a child, and what it held back.

    Servers and workers of ours inherit it: they would take a child's failure for its success, and not be
    stopped. What is ignored for our sake (`nohup`) stays so.
    """
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _settle_environment() -> None:
    """Let nothing that is meant for other programs end a command, or a process that it starts."""
    for name, value in _WITHOUT_SENSE:
        if os.environ.get(name) == value:  # noqa: TID251 - for a library
            del os.environ[name]  # noqa: TID251 - for a library
    # a folder of somebody else's counts: a worker makes its own
    os.environ.pop("PROMETHEUS_MULTIPROC_DIR", None)  # noqa: TID251 - for a library
    if any(option.startswith("e") for option in sys.warnoptions):
        warnings.simplefilter("default")  # an error is what a warning is in tests, and a line of the log here


def prepare() -> None:
    """Say what libraries are to do, and to leave undone, for a command; before any of them is loaded."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # where a terminal knows only some letters
    for name, value in {**FREE_SOON, **LITTLE_AHEAD, **_NO_PLUGINS}.items():
        os.environ.setdefault(name, value)  # noqa: TID251 - for a library
    for library in ("polars", "asyncio"):
        import_lazily(library)
    for module in _UNUSED:
        leave_out(module)


def logs_for(command: str | None) -> None:
    """Log what a command does, and tell of settings that are mistyped."""
    from logging import CRITICAL, WARNING  # noqa: PLC0415 - loaded by the next one

    from mailsift.logs import configure_logs  # noqa: PLC0415 - `--help` needs none
    from mailsift.settings import Settings  # noqa: PLC0415 - loaded by that

    configure_logs(CRITICAL if command in _THAT_REPORT else WARNING)
    if command not in _THAT_LOG:
        for name, meant in Settings.mistyped().items():
            _print_error(f"{name} is no setting and changes nothing. Did you mean {meant}?")
