"""`mailsift ops`: what the operator pages show and do, in the terminal; pictures are tables, or JSON."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any, Final, TypeVar

import typer
from rich.console import Console, Group, JustifyMethod, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mailsift.cli import outcomes as outcome_commands
from mailsift.cli.options import JsonOption
from mailsift.cli.service import print_json, show, with_container
from mailsift.cli.terminal import PLAIN, as_text, console, table_of
from mailsift.events.audit import COMMAND_LINE
from mailsift.jobs.admin.actions import ActionResult, JobAction, Operations
from mailsift.jobs.admin.alarms import RULES, Alarm, Level, prometheus_rules
from mailsift.jobs.admin.alarms import runbook as write_runbook
from mailsift.jobs.admin.console import (
    BROKEN,
    AccountJob,
    LedgerRow,
    Overview,
    SourceRow,
    ThrottleRow,
    read_filter,
)
from mailsift.jobs.views import Priority
from mailsift.pipeline.clock import system_clock
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.throttle import REFUSAL_LEDGER_KINDS, LedgerKind, SessionOutcome
from mailsift.pipeline.wording import counted
from mailsift.storage.redis.connection import redis_unavailable
from mailsift.storage.sql.stats import Interval, Snapshot
from mailsift.storage.sql.throttles import ANY_SOURCE, OptedOut
from mailsift.storage.sql.workers import Worker

T = TypeVar("T")

ops_app = typer.Typer(no_args_is_help=True)

_EVERY_SECONDS: Final = 1.0
_SHOWN_JOBS: Final = 10

_BARS: Final = " ▁▂▃▄▅▆▇█"
_MOST_WORKERS: Final = 12
_BAR_MINUTES: Final = 30  # fit into a line of 80 characters
_WIDE: Final = 140
"""Columns of a terminal from which on everything fits."""
_KINDS: Final = {kind.value: (kind,) for kind in LedgerKind}
_KINDS_IN_SHORT: Final = {
    "probes": (LedgerKind.PROBES,),
    "unknown": (LedgerKind.UNKNOWN,),
    "refused": REFUSAL_LEDGER_KINDS,
}
_COLOURS: Final = {
    "running": "cyan",
    "active": "green",
    "open": "green",
    "completed": "green",
    "draining": "yellow",
    "drained": "yellow",
    "paused": "yellow",
    "slowed": "yellow",
    "closed": "yellow",
    "held": "magenta",
    "refused": "red",
    "failed": "red",
    "gone": "red",
}

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
        print_json(*map(_job_shape, page.jobs))
        return
    Console().print(_job_table(page.jobs, now=system_clock()))
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
    show(found, _worker_table, _worker_shape, as_json=as_json)


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
        partial(throttle_table, is_wide=_is_wide()),
        _throttle_shape,
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
    show(found, partial(ledger_table, is_wide=_is_wide()), _ledger_shape, as_json=as_json)


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
    show(found, _opt_out_table, _opt_out_shape, as_json=as_json)


@ops_app.command("alarm-rules")
def alarm_rules(
    *, runbook: Annotated[bool, typer.Option("--runbook", help="Print the runbook instead.")] = False
) -> None:
    """Print the alarms as rules for Prometheus: what `/ops` says is wrong, and what only counters show."""
    print(  # noqa: T201 - the command's output
        write_runbook(RULES) if runbook else prometheus_rules(RULES), end=""
    )


def _is_wide() -> bool:
    return Console().width >= _WIDE


@contextmanager
def _screen(terminal: Console, *, once: bool) -> Iterator[Callable[[RenderableType], None]]:
    """Give what shows a picture: in place of the one before, or below it where nobody can watch."""
    if once or not terminal.is_terminal:
        yield terminal.print
        return
    with Live(console=terminal, screen=True, auto_refresh=False) as live:
        yield lambda picture: live.update(picture, refresh=True)


async def _top_shape(operations: Operations) -> dict[str, Any]:
    with suppress(MailsiftError):
        return _overview_shape(await operations.console.overview())
    return {"alarms": _alarm_shapes(await operations.console.alarms())}


async def _top(operations: Operations) -> RenderableType:
    """Return the picture: the alarms alone while the database is gone, also if it goes while this reads."""
    now = system_clock()
    with suppress(MailsiftError):
        overview = await operations.console.overview()
        page = await operations.console.jobs(read_filter({"state": "open"}, now=now), limit=_SHOWN_JOBS)
        return _top_picture(overview, page.jobs, await operations.console.sources(), now=now)
    return _alarm_list(await operations.console.alarms())


async def _drain(operations: Operations, names: list[str], *, drain: bool) -> int:
    """Tell the workers that were named; returns how many processes that are."""
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


def _top_picture(
    overview: Overview, jobs: Sequence[AccountJob], sources: Sequence[SourceRow], *, now: float
) -> RenderableType:
    """Return everything one looks at first; `now` is in seconds since the epoch."""
    workers = overview.stats.workers
    parts: list[RenderableType] = [_alarm_list(overview.alarms), Text(), _figures_table(overview)]
    parts += [Text(), _job_table(jobs, now=now), Text(), _worker_table(workers[:_MOST_WORKERS])]
    if len(workers) > _MOST_WORKERS:
        parts.append(Text(f"and {len(workers) - _MOST_WORKERS} more: mailsift ops workers", style="dim"))
    parts += [Text(), _source_table(sources)] if sources else []
    return Group(*parts)


def _alarm_list(alarms: Sequence[Alarm]) -> RenderableType:
    """Return what is wrong, and what to do about what is critical."""
    lines = [line for alarm in alarms for line in _alarm(alarm)]
    return Group(*lines) if lines else Text("No alarm.", style="green")


def _job_table(jobs: Iterable[AccountJob], *, now: float) -> Table:
    """Return jobs, one a line; `now` is in seconds since the epoch."""
    table = _table(("job", "account", "list", "state"), ("rows", "done", "%", "open", "age"))
    for one in jobs:
        view = one.view
        share = 100 * view.processed / view.total if view.total else 0.0
        urgent = view.options.priority
        table.add_row(
            str(view.id)[:8],
            Text(one.account),
            as_text(view.name),
            _state(view.state.value).append("" if urgent is Priority.NORMAL else f" {urgent.value}"),
            f"{view.total:,}",
            f"{view.processed:,}",
            f"{share:.0f}",
            f"{view.chunks_open:,}",
            span(now - view.created_at.timestamp()),
        )
    return table


def _worker_table(workers: Iterable[Worker]) -> Table:
    """Return worker processes, one a line; times are since then."""
    table = _table(("worker", "state", "version"), ("hand", "slots", "memory", "lag", "beat", "claim"))
    for one in workers:
        table.add_row(
            Text(f"{one.host}:{one.pid}"),
            _state(one.state),
            one.version,
            f"{max(one.in_hand, one.chunks)}",
            f"{one.slots}" if one.slots else "sweeps",
            f"{one.rss_bytes / 1e6:,.0f} MB",
            f"{one.lag_s * 1000:,.0f} ms",
            span(one.beat_age),
            "never" if one.claim_age is None else span(one.claim_age),
        )
    return table


def _source_table(rows: Iterable[SourceRow]) -> Table:
    """Return the sources of the fleet and who asks from them, one a line."""
    table = _table(("source", "state", "workers"), ("processes", "resting"))
    for row in rows:
        one = row.source
        table.add_row(
            Text(one.identity or "default"),
            _state(row.state),
            Text(", ".join(one.hosts)),
            f"{one.processes}",
            f"{one.resting}" if one.resting else "",
        )
    return table


def throttle_table(rows: Iterable[ThrottleRow], *, is_wide: bool) -> Table:
    """Return providers x sources; a narrow terminal keeps its room for where each stands."""
    limits, mix = (("limit /s", "table /s"), tuple(SessionOutcome)) if is_wide else ((), ())
    numbers = ("rate /s", *limits, "sessions", "closed for", "waiting", *mix)
    table = _table(("provider", "source", "state"), numbers, ("edited by",) if is_wide else ())
    for row in rows:
        one = row.learned
        cells: list[str | Text] = [Text(one.provider), Text(one.source or "default"), _state(row.state)]
        cells += [f"{row.rate:.2f}", *((f"{row.now.rate:g}", f"{row.base.rate:g}") if limits else ())]
        cells += [f"{one.in_use}/{row.now.sessions}", span(one.closed_s) if one.closed_s else ""]
        cells += [_count(row.waiting), *(_count(one.mix.get(outcome, 0)) for outcome in mix)]
        cells += [Text(row.edit.edited_by if row.edit else "")] if is_wide else []
        table.add_row(*cells)
    return table


def _opt_out_table(rows: Iterable[OptedOut]) -> Table:
    """Return the domains that do not want to be asked, one a line."""
    table = _table(("domain", "note", "added", "by"))
    for row in rows:
        table.add_row(Text(row.domain), Text(row.note), f"{row.added_at:%Y-%m-%d}", Text(row.added_by))
    return table


def ledger_table(rows: Iterable[LedgerRow], *, is_wide: bool) -> Table:
    """Return what each source asked of each provider; a narrow terminal has one number of all refusals."""
    kinds = _KINDS if is_wide else _KINDS_IN_SHORT
    table = _table(("provider", "source"), (*kinds, "unknown %", "step", "pace /s"))
    for row in rows:
        table.add_row(
            Text(row.provider),
            Text(row.source or "default"),
            *(_count(row.counts.of(*which)) for which in kinds.values()),
            f"{row.unknown_share:.0%}",
            f"{row.standing.step:+}" if row.standing else "",
            "" if row.rate is None else f"{row.rate:g}",
        )
    return table


def _count(number: int) -> str:
    return f"{number:,}" if number else ""


def span(seconds: float) -> str:
    """Write seconds as 45 s, 12 min, 3.5 h or 2.1 d."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            number = seconds / size
            return f"{number:.0f} {unit}" if unit == "min" else f"{number:.1f} {unit}"
    return f"{seconds:.0f} s"


def spark(minutes: Sequence[Interval]) -> str:
    """Write the addresses of each minute as a bar of text."""
    most = max((one.addresses for one in minutes), default=0)
    if not most:
        return _BARS[1] * len(minutes)
    return "".join(_BARS[max(1, round(one.addresses / most * 8))] for one in minutes)


def _figures_table(overview: Overview) -> Table:
    stats = overview.stats
    table = Table(box=None, show_header=False, pad_edge=False, expand=False)
    table.add_column(style="dim", no_wrap=True, min_width=13)
    table.add_column(overflow="fold")
    empty = "unknown" if overview.left.seconds is None else span(overview.left.seconds)
    if overview.left.reason:
        empty = f"{empty}   {overview.left.reason}"
    valid, invalid, risky = stats.today
    broker = "Redis does not answer"
    if overview.broker is not None:
        broker = f"{overview.broker.queued} queued, {overview.broker.unacked} not acknowledged"
    processes = counted(len(stats.live), "process")
    for name, text in (
        ("throughput", f"{stats.rate:,.1f} addresses/s   {spark(stats.minutes[-_BAR_MINUTES:])}"),
        ("backlog", _backlog(stats)),
        ("oldest ready", span(stats.oldest_ready_s)),
        ("time to empty", empty),
        ("slots", f"{stats.slots - stats.free_slots} of {stats.slots} in use, {processes}"),
        ("today", f"{valid:,} valid, {risky:,} risky, {invalid:,} invalid"),
        ("jobs", ", ".join(f"{count:,} {state}" for state, count in sorted(stats.jobs.items())) or "none"),
        ("broker", broker),
        ("webhooks", f"{stats.outbox.pending:,} pending, {stats.outbox.exhausted:,} given up in 24 h"),
    ):
        table.add_row(name, Text(text))
    return table


def _backlog(stats: Snapshot) -> str:
    places = (("ready", "ready"), ("waiting", "waiting"), ("leased", "in work"))
    counts = ", ".join(f"{stats.addresses(state):,} {name}" for state, name in places)
    steps = counted(stats.steps, "list or result", "lists or results")
    return counts + (f", {steps} to do" if stats.steps else "")


def _alarm(alarm: Alarm) -> list[RenderableType]:
    style = "bold red" if alarm.level is Level.CRITICAL else "yellow"
    line = Text.assemble((f"{alarm.level.value}: ", style), alarm.text)
    if alarm.level is not Level.CRITICAL:
        return [line]
    return [line, Padding(Text(alarm.rule.action.replace("`", ""), style="dim"), (0, 0, 0, 2))]


def _state(state: str) -> Text:
    return Text(state, style=_COLOURS.get(state, ""))


def _table(names: Sequence[str], numbers: Sequence[str] = (), last: Sequence[str] = ()) -> Table:
    """Return a table with these columns, numbers to the right."""
    table = table_of(())
    for name in (*names, *numbers, *last):
        named = name in {"account", "list", "worker"}  # these give way where there is no room
        justify: JustifyMethod = "right" if name in numbers else "left"
        folds = name in {"provider", "source", "edited by"}  # these go on in the next line
        table.add_column(
            name,
            justify=justify,
            no_wrap=not folds,
            overflow="fold",
            min_width=6 if named or folds else len(name),
        )
    return table


def _overview_shape(overview: Overview) -> dict[str, Any]:
    """Return the overview; ages and spans in seconds."""
    stats, broker = overview.stats, overview.broker
    valid, invalid, risky = stats.today
    return {
        "rate": round(stats.rate, 2),
        "empty_s": None if overview.left.seconds is None else round(overview.left.seconds),
        "empty_reason": overview.left.reason,
        "backlog": {
            "ready": stats.addresses("ready"),
            "waiting": stats.addresses("waiting"),
            "leased": stats.addresses("leased"),
            "ready_chunks": stats.chunk_count("ready"),
            "oldest_ready_s": round(stats.oldest_ready_s, 1),
            "steps": stats.steps,
        },
        "today": {"valid": valid, "invalid": invalid, "risky": risky},
        "minutes": [{"minute": one.at.isoformat(), "addresses": one.addresses} for one in stats.minutes],
        "jobs": dict(stats.jobs),
        "slots": {
            "all": stats.slots,
            "free": stats.free_slots,
        },
        "broker": None if broker is None else {"queued": broker.queued, "unacked": broker.unacked},
        "deliveries": {
            "pending": stats.outbox.pending,
            "oldest_due_s": round(stats.outbox.oldest_due_s, 1),
        },
        "troubled_chunks": stats.failing_chunks,
        "alarms": _alarm_shapes(overview.alarms),
    }


def _alarm_shapes(alarms: Iterable[Alarm]) -> list[dict[str, str]]:
    return [{"code": alarm.code, "level": alarm.level.value, "text": alarm.text} for alarm in alarms]


def _job_shape(job: AccountJob) -> dict[str, Any]:
    view = job.view
    return {
        "id": str(view.id),
        "account": job.account,
        "name": view.name,
        "state": view.state.value,
        "priority": view.options.priority.value,
        "total": view.total,
        "processed": view.processed,
        "valid": view.valid,
        "invalid": view.invalid,
        "risky": view.risky,
        "chunks": view.chunks,
        "chunks_open": view.chunks_open,
        "created_at": view.created_at.isoformat(),
        "finished_at": view.finished_at.isoformat() if view.finished_at else None,
        "error": view.error_code,
    }


def _worker_shape(worker: Worker) -> dict[str, Any]:
    return {
        "owner": worker.owner,
        "host": worker.host,
        "pid": worker.pid,
        "state": worker.state,
        "version": worker.version,
        "slots": worker.slots,
        "in_hand": worker.in_hand,
        "chunks": worker.chunks,
        "lag_s": round(worker.lag_s, 3),
        "rss_bytes": worker.rss_bytes,
        "started_at": worker.started_at.isoformat(),
        "beat_age_s": round(worker.beat_age, 1),
        "sources": list(worker.sources),
        "claim_age_s": None if worker.claim_age is None else round(worker.claim_age, 1),
    }


def _throttle_shape(row: ThrottleRow) -> dict[str, Any]:
    return {
        "provider": row.learned.provider,
        "source": row.learned.source,
        "state": row.state,
        "rate": round(row.rate, 4),
        "edited_rate": row.now.rate,
        "table_rate": row.base.rate,
        "sessions": row.now.sessions,
        "in_use": row.learned.in_use,
        "closed_s": round(row.learned.closed_s, 1),
        "strikes": row.learned.strikes,
        "blocks": row.learned.blocks,
        "waiting": row.waiting,
        "mix": {outcome.value: count for outcome, count in row.learned.mix.items()},
        "edited_by": row.edit.edited_by if row.edit else "",
    }


def _opt_out_shape(row: OptedOut) -> dict[str, Any]:
    return {**asdict(row), "added_at": row.added_at.isoformat()}


def _ledger_shape(row: LedgerRow) -> dict[str, Any]:
    return {
        "provider": row.provider,
        "source": row.source,
        **{kind.value: row.counts.of(kind) for kind in LedgerKind},
        "unknown_share": round(row.unknown_share, 4),
        "step": row.standing.step if row.standing else None,
        "pace": row.rate,
    }
