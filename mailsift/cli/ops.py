"""`mailsift ops`: what the operator pages show and do, in the terminal."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Any, Final, TypeVar

import typer
from rich.console import Console, RenderableType
from rich.live import Live

from mailsift.cli import ops_output
from mailsift.cli import outcomes as outcome_commands
from mailsift.cli.options import JsonOption
from mailsift.cli.service import print_json, show, with_container
from mailsift.cli.terminal import PLAIN, console
from mailsift.events.audit import COMMAND_LINE
from mailsift.jobs.admin.actions import ActionResult, JobAction, Operations
from mailsift.jobs.admin.alarm_table import RULES, prometheus_rules
from mailsift.jobs.admin.alarm_table import runbook as write_runbook
from mailsift.jobs.admin.console import BROKEN, read_filter
from mailsift.jobs.admin.models import Overview, ThrottleRow
from mailsift.pipeline.clock import system_clock
from mailsift.pipeline.errors import MailsiftError, SuppressCodes
from mailsift.pipeline.wording import counted
from mailsift.storage.redis.connection import redis_unavailable
from mailsift.storage.sql.opt_outs import OptedOut
from mailsift.storage.sql.throttle_edits import ANY_SOURCE
from mailsift.storage.sql.workers import Worker

T = TypeVar("T")

ops_app = typer.Typer(no_args_is_help=True)

_EVERY_SECONDS: Final = 1.0
_SHOWN_JOBS: Final = 10

StateOption = Annotated[str, typer.Option(help="A state, open, ended, or broken: failed through our fault.")]
AccountOption = Annotated[str, typer.Option(help="The account's name.")]
TextOption = Annotated[str, typer.Option(help="Part of the name or file, or how the id begins.")]
AgeOption = Annotated[str, typer.Option(help="<24h: younger than a day; >7d: older than a week.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]


def _with_operations(work: Callable[[Operations], Awaitable[T]]) -> T:
    return with_container(lambda container: work(container.operations))


@ops_app.command("accuracy")
def accuracy(
    by: outcome_commands.ByOption = None,
    days: outcome_commands.DaysOption = 90,
    *,
    as_csv: outcome_commands.CsvOption = False,
) -> None:
    """Show how often verdicts of all accounts were right; no account and no address is named."""
    outcome_commands.show_accuracy(None, by or [], days, as_csv=as_csv)


@ops_app.command("top")
def top(
    *,
    once: Annotated[bool, typer.Option("--once", help="Show one picture and exit.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Watch the whole installation; Ctrl-C ends it."""

    async def watch(operations: Operations) -> None:
        if as_json:
            print_json(await _top_shape(operations))
            return
        terminal = Console()
        with _screen(terminal, once=once) as draw:
            draw(await _top(operations))
            while not once:
                await asyncio.sleep(_EVERY_SECONDS)
                draw(await _top(operations))

    _with_operations(watch)


@ops_app.command("jobs")
def jobs(
    *,
    state: StateOption = "open",
    account: AccountOption = "",
    text: TextOption = "",
    age: AgeOption = "",
    limit: Annotated[int, typer.Option(min=1, max=1_000)] = 50,
    as_json: JsonOption = False,
) -> None:
    """List jobs of all accounts, newest first."""
    words = {"state": state, "account": account, "text": text, "age": age}
    wanted = read_filter(words, now=system_clock())
    page = _with_operations(lambda operations: operations.console.jobs(wanted, limit=limit))
    if as_json:
        print_json(*map(ops_output.job_shape, page.jobs))
        return
    Console().print(ops_output.job_table(page.jobs, now=system_clock()))
    if page.matching > len(page.jobs):
        console.print(f"{page.matching:,} match; --limit shows more.")


@ops_app.command("do")
def do(
    action: Annotated[JobAction, typer.Argument(help="What to do.")],
    *,
    state: Annotated[
        str | None, typer.Option(help="A state, open, ended or broken. [default: open; restart: broken]")
    ] = None,
    account: AccountOption = "",
    text: TextOption = "",
    age: AgeOption = "",
    yes: YesOption = False,
) -> None:
    """Act on ALL jobs that match.

    restart reaches what failed for our reasons (broken): a damaged store, a defect that was mended.
    """
    usual = BROKEN if action is JobAction.RESTART else "open"
    words = {"state": usual if state is None else state, "account": account, "text": text, "age": age}
    wanted = read_filter(words, now=system_clock())

    async def act(operations: Operations) -> ActionResult | None:
        matching = (await operations.console.jobs(wanted, limit=1)).matching
        asked = f"{action.value}: {counted(matching, 'job')}. Go on?"
        if matching and not yes and not typer.confirm(asked, err=True):
            return None
        return await operations.jobs.all_matching(COMMAND_LINE, action, wanted)

    done = _with_operations(act)
    if done is None:
        raise typer.Exit(1)
    refused = "".join(f", {count:,} not: {code}" for code, count in done.refused.items())
    console.print(f"{action.value}: {counted(done.done, 'job')}{refused}.", **PLAIN)


@ops_app.command("workers")
def workers(
    *,
    drain: Annotated[list[str] | None, typer.Option(help="Host or host:pid to drain, or all.")] = None,
    undrain: Annotated[list[str] | None, typer.Option(help="The same, to let it claim again.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show the worker processes; drain some, so that they can be stopped or upgraded."""

    async def act(operations: Operations) -> Sequence[Worker]:
        for names, on in ((drain, True), (undrain, False)):
            if names:
                count = await _drain(operations, names, drain=on)
                console.print(
                    f"{count} processes {'drain' if on else 'claim again'} from their next heartbeat."
                )
        return await operations.console.workers()

    found = _with_operations(act)
    show(found, ops_output.worker_table, ops_output.worker_shape, as_json=as_json)


@ops_app.command("throttles")
def throttles(
    *,
    hold: Annotated[str, typer.Option(help="Stop asking this provider.")] = "",
    minutes: Annotated[float, typer.Option(min=0, help="How long a hold lasts; 0: until --let-go.")] = 0.0,
    let_go: Annotated[str, typer.Option("--let-go", help="End the hold of this provider.")] = "",
    reset: Annotated[str, typer.Option(help="Forget what was learned of this provider.")] = "",
    source: Annotated[str, typer.Option(help="For this source only.")] = ANY_SOURCE,
    as_json: JsonOption = False,
) -> None:
    """Show how providers may be asked; hold one, let go of it, or reset what was learned."""

    async def act(operations: Operations) -> Sequence[ThrottleRow]:
        if hold:
            await operations.throttles.hold(COMMAND_LINE, hold, source, seconds=minutes * 60)
        if let_go and not await operations.throttles.let_go(COMMAND_LINE, let_go, source):
            console.print("It was not held.")
        if reset:
            await operations.throttles.reset(COMMAND_LINE, reset, source)
        rows = await operations.console.throttles()
        if rows is None:
            raise redis_unavailable()
        return rows

    found = _with_operations(act)
    show(
        found,
        partial(ops_output.throttle_table, is_wide=_is_wide()),
        ops_output.throttle_shape,
        as_json=as_json,
    )


@ops_app.command("ledger")
def ledger(
    *,
    days: Annotated[int, typer.Option(min=1, max=90, help="How many days.")] = 1,
    as_json: JsonOption = False,
) -> None:
    """Show what each source asked each provider, how the provider took it, and the rate it has earned."""
    found = _with_operations(lambda operations: operations.console.ledger(hours=24 * days))
    show(
        found, partial(ops_output.ledger_table, is_wide=_is_wide()), ops_output.ledger_shape, as_json=as_json
    )


@ops_app.command("opt-outs")
def opt_outs(
    *,
    add: Annotated[list[str] | None, typer.Option(help="Stop asking this domain and its subdomains.")] = None,
    remove: Annotated[list[str] | None, typer.Option(help="Let this domain be asked again.")] = None,
    note: Annotated[str, typer.Option(help="Who asked for it.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Show, add or remove domains that opted out, except those of MAILSIFT_OPT_OUTS."""

    async def act(operations: Operations) -> Sequence[OptedOut]:
        for name in add or []:
            await operations.throttles.opt_out(COMMAND_LINE, name, note=note)
        for name in remove or []:
            if not await operations.throttles.opt_in(COMMAND_LINE, name):
                console.print(f"{name} had not opted out.", **PLAIN)
        return await operations.throttles.opt_outs()

    found = _with_operations(act)
    show(found, ops_output.opt_out_table, ops_output.opt_out_shape, as_json=as_json)


@ops_app.command("alarm-rules")
def alarm_rules(
    *, runbook: Annotated[bool, typer.Option("--runbook", help="Print the runbook instead.")] = False
) -> None:
    """Print the alarms as rules for Prometheus: what `/ops` says is wrong, and what only counters show."""
    print(  # noqa: T201 - the command's output
        write_runbook(RULES) if runbook else prometheus_rules(RULES), end=""
    )


def _is_wide() -> bool:
    return Console().width >= ops_output.WIDE


@contextmanager
def _screen(terminal: Console, *, once: bool) -> Iterator[Callable[[RenderableType], None]]:
    """Give what shows a picture: in place of the one before, or below it where nobody can watch."""
    if once or not terminal.is_terminal:
        yield terminal.print
        return
    with Live(console=terminal, screen=True, auto_refresh=False) as live:
        yield lambda picture: live.update(picture, refresh=True)


async def _overview(operations: Operations) -> Overview | None:
    """Return the overview; None while the database does not answer."""
    with SuppressCodes("database_unavailable"):
        return await operations.console.overview()
    return None


async def _top_shape(operations: Operations) -> dict[str, Any]:
    if (overview := await _overview(operations)) is not None:
        return ops_output.overview_shape(overview)
    return {"alarms": ops_output.alarm_shapes(await operations.console.alarms())}


async def _top(operations: Operations) -> RenderableType:
    overview, now = await _overview(operations), system_clock()
    if overview is None:
        return ops_output.alarm_list(await operations.console.alarms())
    page = await operations.console.jobs(read_filter({"state": "open"}, now=now), limit=_SHOWN_JOBS)
    sources = await operations.console.sources()
    return ops_output.top_picture(overview, page.jobs, sources, now=now)


async def _drain(operations: Operations, names: list[str], *, drain: bool) -> int:
    """Tell the workers that were named; returns how many processes that are.

    Raises:
        MailsiftError: `worker_not_found`.
    """
    known = await operations.console.workers()
    everywhere = "all" in names
    hosts = {one.host for one in known} & set(names)
    owners = [one.owner for one in known if f"{one.host}:{one.pid}" in names]
    if not everywhere and not hosts and not owners:
        raise MailsiftError("worker_not_found", "There is no such worker.")
    drained = await operations.actions.drain(
        COMMAND_LINE, drain=drain, owners=owners, hosts=hosts, everywhere=everywhere
    )
    return len(drained)
