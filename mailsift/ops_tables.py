"""What `mailsift ops` shows in a terminal: the operator's pictures as tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from jobs.operations.alarms import Alarm, Level
from jobs.operations.looks import Overview, SeenJob, ThrottleRow
from jobs.views import Priority
from pipeline.ports import Outcome
from storage.throughput_rows import Minute
from storage.worker_rows import Worker

_BARS: Final = " ▁▂▃▄▅▆▇█"
_BAR_MINUTES: Final = 30  # fit into a line of 80 characters
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
_Column = tuple[str, Literal["left", "right"]]


def top_picture(
    seen: Overview, jobs: Sequence[SeenJob], workers: Sequence[Worker], *, now: float
) -> RenderableType:
    """Return everything one looks at first; `now` is in seconds since the epoch."""
    parts: list[RenderableType] = [_figures(seen), Text()]
    parts += [_alarm(alarm) for alarm in seen.alarms] or [Text("No alarm.", style="green")]
    parts += [Text(), job_table(jobs, now=now), Text(), worker_table(workers)]
    return Group(*parts)


def job_table(jobs: Iterable[SeenJob], *, now: float) -> Table:
    """Return jobs, one a line; `now` is in seconds since the epoch."""
    columns: list[_Column] = [(name, "left") for name in ("job", "account", "list", "state")]
    columns += [(name, "right") for name in ("rows", "done", "%", "open", "age")]
    table = _table(columns)
    for one in jobs:
        view = one.view
        share = 100 * view.processed / view.total if view.total else 0.0
        urgent = view.options.priority
        table.add_row(
            str(view.id)[:8],
            Text(one.account),
            Text(view.name),
            _state(view.state.value).append("" if urgent is Priority.NORMAL else f" {urgent.value}"),
            f"{view.total:,}",
            f"{view.processed:,}",
            f"{share:.0f}",
            f"{view.chunks_open:,}",
            span(now - view.created_at.timestamp()),
        )
    return table


def worker_table(workers: Iterable[Worker]) -> Table:
    """Return worker processes, one a line; times are since then."""
    columns: list[_Column] = [(name, "left") for name in ("worker", "state", "version")]
    columns += [(name, "right") for name in ("hand", "slots", "memory", "lag", "beat", "claim")]
    table = _table(columns)
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


def throttle_table(rows: Iterable[ThrottleRow]) -> Table:
    """Return providers x sources, one a line."""
    columns: list[_Column] = [(name, "left") for name in ("provider", "source", "state")]
    columns += [
        (name, "right") for name in ("rate /s", "limit /s", "table /s", "sessions", "closed for", "waiting")
    ]
    columns += [(outcome.value, "right") for outcome in Outcome]
    table = _table([*columns, ("edited by", "left")])
    for row in rows:
        one = row.learned
        table.add_row(
            Text(one.provider),
            Text(one.source or "default"),
            _state(row.state),
            f"{row.rate:.2f}",
            f"{row.now.rate:g}",
            f"{row.base.rate:g}",
            f"{one.in_use}/{row.now.sessions}",
            span(one.closed_s) if one.closed_s else "",
            f"{row.waiting:,}" if row.waiting else "",
            *(f"{count:,}" if (count := one.mix.get(outcome, 0)) else "" for outcome in Outcome),
            Text(row.edit.edited_by if row.edit else ""),
        )
    return table


def span(seconds: float) -> str:
    """Write seconds as 45 s, 12 min, 3.5 h or 2.1 d."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            shown = seconds / size
            return f"{shown:.0f} {unit}" if unit == "min" else f"{shown:.1f} {unit}"
    return f"{seconds:.0f} s"


def spark(minutes: Sequence[Minute]) -> str:
    """Write the addresses of each minute as a bar of text."""
    most = max((one.addresses for one in minutes), default=0)
    if not most:
        return _BARS[1] * len(minutes)
    return "".join(_BARS[max(1, round(one.addresses / most * 8))] for one in minutes)


def _figures(seen: Overview) -> Table:
    backlog, numbers = seen.numbers.backlog, seen.numbers
    table = Table(box=None, show_header=False, pad_edge=False, expand=False)
    table.add_column(style="dim", no_wrap=True, min_width=13)
    table.add_column(overflow="fold")
    empty = "nothing flows" if seen.empty_s is None else span(seen.empty_s)
    valid, invalid, risky = seen.today
    broker = "Redis does not answer"
    if numbers.broker is not None:
        broker = f"{numbers.broker.queued} queued, {numbers.broker.unacked} not acknowledged"
    slots = sum(one.slots for one in numbers.live)
    for name, shown in (
        ("throughput", f"{seen.rate:,.1f} addresses/s   {spark(numbers.minutes[-_BAR_MINUTES:])}"),
        ("backlog", _backlog(seen)),
        ("oldest ready", span(backlog.oldest_ready_s)),
        ("time to empty", empty),
        ("slots", f"{slots - numbers.free_slots} of {slots} in use, {len(numbers.live)} processes"),
        ("today", f"{valid:,} valid, {risky:,} risky, {invalid:,} invalid"),
        ("jobs", ", ".join(f"{count:,} {state}" for state, count in sorted(seen.jobs.items())) or "none"),
        ("broker", broker),
        ("webhooks", f"{numbers.outbox.pending:,} pending, {numbers.outbox.exhausted:,} given up in 24 h"),
    ):
        table.add_row(name, Text(shown))
    return table


def _backlog(seen: Overview) -> str:
    backlog = seen.numbers.backlog
    parts = (("ready", backlog.ready_addresses), ("waiting", backlog.waiting_addresses))
    told = ", ".join(f"{count:,} {name}" for name, count in (*parts, ("in work", backlog.leased_addresses)))
    return f"{told}" + (f", {backlog.steps} lists or results to do" if backlog.steps else "")


def _alarm(alarm: Alarm) -> Text:
    style = "bold red" if alarm.level is Level.CRITICAL else "yellow"
    return Text.assemble((f"{alarm.level.value}: ", style), alarm.text)


def _state(state: str) -> Text:
    return Text(state, style=_COLOURS.get(state, ""))


def _table(columns: Iterable[_Column]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name, justify in columns:
        named = name in {"account", "list", "provider"}  # these give way where there is no room
        table.add_column(name, justify=justify, no_wrap=True, min_width=6 if named else len(name))
    return table
