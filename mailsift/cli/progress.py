"""What a person sees of a running job: a live line, and a summary at the end. All of it on stderr."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from rich.console import Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from mailsift.cli.terminal import PLAIN, STATUS_COLOURS, as_text, console, table_of
from mailsift.jobs.service import JobService
from mailsift.jobs.views import (
    WAITS_FOR_MEMORY,
    WAITS_FOR_PLACE,
    WAITS_FOR_STORAGE,
    WAITS_FOR_THREADS,
    AccountId,
    JobId,
    JobView,
)
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.wording import counted
from mailsift.storage.sql.chunks import Waiting
from mailsift.storage.states import DOING, JobState

_FIRST_LOOK_SECONDS = 0.05
_POLL_SECONDS = 0.3  # between looks, once a list has shown to be no small one
_OUTAGE_SECONDS = 600.0  # for which a server of ours is waited for
_QUIET_SECONDS = 5.0  # between lines when nobody watches a terminal
_RATE_WINDOW_SECONDS = 10.0
_WARNINGS = {
    "probe_unavailable": "this machine cannot reach mail servers, so mailboxes were not looked up. "
    "Run mailsift doctor, and open outbound port 25.",
    "no_trusted_resolver": "no resolver can be trusted now, so addresses wait; nothing is lost. "
    "Run mailsift doctor, and set MAILSIFT_DNS_SERVERS to resolvers that tell the truth.",
    "no_way_out": "this machine reaches nobody now, so addresses wait for its network; nothing is lost.",
}

_OWN_WAITS = {
    WAITS_FOR_STORAGE: "is a disk full, or the blob store away?",
    WAITS_FOR_PLACE: "the place of the list or of the results isn’t answering",
    WAITS_FOR_MEMORY: "the process that reads the list was killed",
    WAITS_FOR_THREADS: "the machine starts no more threads or processes",
}


class Speed:
    """Rows a second over the last moments."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def update(self, now: float, processed: int) -> float:
        """Take a reading (seconds, rows) and return the rate in rows a second."""
        self._seen.append((now, processed))
        while now - self._seen[0][0] > _RATE_WINDOW_SECONDS and len(self._seen) > 1:
            self._seen.popleft()
        (since, before) = self._seen[0]
        return (processed - before) / (now - since) if now > since else 0.0


async def watch(
    service: JobService,
    account: AccountId,
    job_id: JobId,
    *,
    keep_alive: Callable[[], None],
    quiet_seconds: float = _QUIET_SECONDS,
) -> JobView:
    """Show the job until it ends and return its last view; `keep_alive` is called at every look.

    Where nobody watches a terminal, what is new is told, a line in `quiet_seconds` at most: a list may
    wait for days.
    """
    speed, printed_at, pause, told = Speed(), float("-inf"), _FIRST_LOOK_SECONDS, ("", "")
    with Live(console=console, transient=True, auto_refresh=False) as live:
        while True:
            view = await _look(service, account, job_id)
            if view.finished_at is not None:
                return view
            keep_alive()
            now = time.monotonic()
            rate = speed.update(now, view.processed)
            if console.is_terminal:
                live.update(progress_bar(view, rate), refresh=True)
            elif now - printed_at >= quiet_seconds:
                line, before = _line(view, rate), told
                told = (line.plain, view.warning)
                if told != before:
                    printed_at = now
                    warnings = _warning_lines(view) if view.warning != before[1] else ()
                    console.print(line, *warnings, sep="\n", soft_wrap=True)
            await asyncio.sleep(pause)
            pause = min(1.1 * pause, _POLL_SECONDS)


async def _look(service: JobService, account: AccountId, job_id: JobId) -> JobView:
    """Return the job; while a server of ours is away, say so once and wait, as the job does, for a while."""
    away_since = 0.0
    while True:
        try:
            return await service.get(account, job_id)
        except MailsiftError as error:
            now = asyncio.get_running_loop().time()
            if not error.retryable or (away_since and now - away_since > _OUTAGE_SECONDS):
                raise
            if not away_since:
                away_since = now
                console.print(f"{error.message} Nothing is lost; waiting …", **PLAIN)
        await asyncio.sleep(_POLL_SECONDS)


def progress_bar(view: JobView, rate: float) -> Group:
    """Return the bar, the counts and the rate, and what the job waits for."""
    bar = ProgressBar(total=max(1, view.total), completed=view.processed, width=40, pulse=not view.total)
    grid = Table.grid(padding=(0, 1))
    grid.add_row(bar, _line(view, rate))
    waits = [
        Text(f"  waits: {wait_text(wait)}", style="dim")
        for wait in view.waiting[:3]
        if wait.reason not in _OWN_WAITS
    ]
    return Group(grid, *_warning_lines(view), *waits)


def wait_text(wait: Waiting) -> str:
    """Say for what some addresses, or the job itself, wait and until when."""
    until = f"until {_clock(wait.until)}"
    if why := _OWN_WAITS.get(wait.reason):
        return f"{wait.reason} {until} ({why})"
    place = f" at {wait.throttle_key}" if len(wait.throttle_key) > 1 else ""  # else a lane of many
    return f"{counted(wait.addresses, 'address')}, {wait.reason.replace('_', ' ')}{place}, {until}"


def warning(code: str) -> Text:
    """Return the loud line about what makes verdicts poorer than they could be."""
    return Text(f"Warning: {code}: {_WARNINGS.get(code, '')}", style="bold red")


def _warning_lines(view: JobView) -> list[Text]:
    return [warning(view.warning)] if view.warning else []


def _line(view: JobView, rate: float) -> Text:
    percent = 100 * view.processed // view.total if view.total else 0
    line = Text(f"{_activity(view)}  {view.processed:,}/{view.total:,}  {percent}%  ")
    for status, count in (("valid", view.valid), ("risky", view.risky), ("invalid", view.invalid)):
        line.append(f"{status} {count:,}  ", style=STATUS_COLOURS[status])
    if rate > 0:
        line.append(f"{rate:,.0f}/s  ")
    line.append(_eta(view))
    return line


def _activity(view: JobView) -> str:
    """Say what the job does; what it waits for itself, not its addresses, before all else."""
    for wait in view.waiting:
        if wait.reason in _OWN_WAITS:
            return f"waiting for {wait_text(wait)}"
    return DOING[view.state].lower()


def _eta(view: JobView) -> str:
    """Say when it will be done and, while nobody can, when the first of what waits goes on."""
    if not view.total or view.state is JobState.FINALIZING:
        return ""
    if view.time_left and view.time_left.seconds is not None:
        return f"ETA {duration_text(view.time_left.seconds)}"
    if view.waiting:
        return f"waiting until {_clock(min(wait.until for wait in view.waiting))}"
    return ""


def duration_text(seconds: float) -> str:
    """Write seconds as hours, minutes and seconds."""
    return str(timedelta(seconds=round(seconds)))


def _clock(at: datetime) -> str:
    return at.astimezone().strftime("%H:%M:%S")


def summary_of(view: JobView) -> dict[str, Any]:
    """Return the summary of a job, as `--json` prints it; `seconds` is 0 until it has ended."""
    finished = view.finished_at or view.created_at
    return {
        "job_id": str(view.id),
        "status": view.state.value,
        "total_emails": view.total,
        "processed": view.processed,
        "valid": view.valid,
        "invalid": view.invalid,
        "risky": view.risky,
        "tiers": {tier.value: rows for tier, rows in view.tiers.items()},
        "duplicates": view.duplicates,
        "address_column": view.address_column,
        "seconds": round((finished - view.created_at).total_seconds(), 3),
    }


def show_summary(view: JobView, results: Mapping[str, int], out: object) -> None:
    """Print rows by status and by result, which column was judged, and where the file lies."""
    summary = summary_of(view)
    table = table_of(("", "rows", "share"), numbers={"rows", "share"})
    total = max(1, view.total)
    for status in ("valid", "risky", "invalid"):
        count = summary[status]
        table.add_row(
            Text(status, style=STATUS_COLOURS[status]), f"{count:,}", f"{100 * count / total:.1f} %"
        )
    table.add_section()
    for result, count in sorted(results.items(), key=lambda item: -item[1]):
        table.add_row(Text(f"  {result}", style="dim"), f"{count:,}", f"{100 * count / total:.1f} %")
    console.print(table, *_warning_lines(view), sep="\n", soft_wrap=True)
    seconds = summary["seconds"]
    speed = f"{view.total / seconds:,.0f} rows/s" if seconds else ""
    console.print(
        f"{counted(view.total, 'row')}, {counted(view.duplicates, 'duplicate')}, {seconds:.1f} s ({speed})\n"
        f"Address column: {as_text(view.address_column)}\n"
        f"Result: {out}",
        **PLAIN,
    )
