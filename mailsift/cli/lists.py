"""A list handed in, its job followed to the end and its results written: what `mailsift run` does.

Other commands do a part of it. What a person sees meanwhile, a live line and a summary at the end, goes to
standard error.
"""

from __future__ import annotations

import asyncio
import errno
import json
import math
import os
import shlex
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from glob import glob
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, TypeVar
from uuid import uuid4

from rich.console import Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text
from typing_extensions import override

from mailsift.cli.options import LOCAL_ACCOUNT
from mailsift.cli.pairs import PIPE, name_of
from mailsift.cli.service import print_json
from mailsift.cli.terminal import PLAIN, STATUS_COLOURS, as_text, console, table_of, warning_line
from mailsift.container import open_container, scratch_folder
from mailsift.jobs.places.place import Place, is_place, parse_sink, parse_source
from mailsift.jobs.places.service import Places
from mailsift.jobs.results.breakdown import rows_by_result
from mailsift.jobs.results.browse import RowFilter
from mailsift.jobs.results.export import ExportFormat, Selection, export, format_of
from mailsift.jobs.service import JobService, check_readable, read_pieces
from mailsift.jobs.submissions import Submitted
from mailsift.jobs.views import (
    WAITS_FOR_MEMORY,
    WAITS_FOR_PLACE,
    WAITS_FOR_STORAGE,
    WAITS_FOR_THREADS,
    AccountId,
    JobId,
    JobOptions,
    JobView,
)
from mailsift.pipeline.errors import MailsiftError, outage_of
from mailsift.pipeline.facts import Mode
from mailsift.pipeline.frames import load_frames
from mailsift.pipeline.tiers import TierPolicy
from mailsift.pipeline.wording import counted
from mailsift.runtime.embedded import installation
from mailsift.runtime.local_worker import LocalWorker, early_worker
from mailsift.settings import Settings
from mailsift.storage.sql.chunks import Waiting
from mailsift.storage.states import DOING, JobState

if TYPE_CHECKING:
    from mailsift.jobs.plans import ListPlan

T = TypeVar("T")


def policy_of(text: str) -> TierPolicy | None:
    """Return the policy of an option, JSON or the name of a file of it."""
    if not text:
        return None
    try:
        found = json.loads(text if text.lstrip().startswith("{") else Path(text).read_text(encoding="utf-8"))
        return TierPolicy.parse(found)
    except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise MailsiftError("policy_invalid", f"Can’t read the policy: {error}.") from error


async def find_lists(settings: Settings, texts: list[str]) -> list[str]:
    """Return the lists that these files, patterns and places name."""
    async with open_container(settings) as container:
        return await sources_of(texts, container.places.with_environment(), LOCAL_ACCOUNT)


_PATTERN_SIGNS: Final = ("*", "?")


async def sources_of(texts: Sequence[str], places: Places, account: str) -> list[str]:
    """Return what is meant by the arguments of the account's, patterns replaced by what they match.

    Raises:
        MailsiftError: `file_not_found`, for a pattern that matches nothing too, `not_a_file`, `bad_place`.
    """
    found = list[str]()
    for text in texts:
        if not (matches := await _matches(text, places, account)):
            raise MailsiftError("file_not_found", f"There is no file {text}.")
        found += matches
    for source in found:
        if is_place(source):
            parse_source(source)
        elif source != PIPE:
            try:
                check_readable(Path(source))
            except MailsiftError as error:  # what a program writes has no file to be read twice
                raise MailsiftError(error.code, f"{error.message} For standard input say {PIPE}.") from None
    return found


async def _matches(text: str, places: Places, account: str) -> list[str]:
    if not any(sign in text for sign in _PATTERN_SIGNS):
        return [text]
    if is_place(text):
        place = parse_source(text)
        return await places.matching(place, account) if place.is_store else [text]
    return _files_like(text)


def _files_like(text: str) -> list[str]:
    """Return the files a pattern matches, or the one that is called so."""
    if os.path.exists(text):  # noqa: PTH110 - says no to a name that is too long for one
        return [text]
    return sorted(glob(text.replace("[", "[[]"), recursive=True))  # noqa: PTH207 - may begin at /


_PIECE: Final = 1 << 20


def pieces_of(source: str, account: AccountId, places: Places) -> AsyncIterator[bytes]:
    """Yield what a source holds.

    Raises:
        MailsiftError: `file_not_readable`, or what a place says.
    """
    if source == PIPE:
        return _as_readable("Standard input", _standard_input())
    if is_place(source):
        return places.read(account, parse_source(source))
    return _as_readable("The file", read_pieces(Path(source)))


async def _as_readable(name: str, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Say that a list cannot be read before who stores it takes that for a fault of the store."""
    try:
        async for piece in pieces:
            yield piece
    except OSError as error:
        text = f"{name} cannot be read: {error.strerror}."
        raise MailsiftError("file_not_readable", text) from None


async def _standard_input() -> AsyncIterator[bytes]:
    descriptor = sys.stdin.fileno()
    while data := await _in_daemon_thread(partial(os.read, descriptor, _PIECE)):
        yield data


@asynccontextmanager
async def _read_through(
    source: str, account: AccountId, places: Places, scratch: Path
) -> AsyncIterator[Path]:
    """Give the file of a source, for as long as the block one of its own for what is none."""
    if source != PIPE and not is_place(source):
        yield Path(source)
        return
    with tempfile.TemporaryDirectory(dir=scratch, prefix="source-") as folder:
        file = Path(folder) / "list"
        with file.open("wb") as out:
            async for piece in pieces_of(source, account, places):
                out.write(piece)
        yield file


def show_plans(sources: list[str], options: JobOptions, *, as_json: bool) -> None:
    """Print what lists will take, one after the other; nothing is started but the servers."""
    with installation(Settings.from_env()) as settings:
        plans = asyncio.run(_plans(settings, sources, options))
    for source, found in zip(sources, plans, strict=True):
        if as_json:
            left = {"seconds": found.left.seconds, "reason": found.left.reason}
            entry = {"list": name_of(source), "addresses": found.addresses, "probes": dict(found.probes)}
            print_json({**entry, **left})
        else:
            _show_plan(f"{as_text(name_of(source))}: " if len(plans) > 1 else "", found, options.mode)
    if len(plans) > 1 and not as_json:
        addresses = counted(sum(plan.addresses for plan in plans), "address")
        took = _total_duration([plan.left.seconds for plan in plans])
        console.print(f"{len(plans)} lists, {addresses}, one after the other: {took}", **PLAIN)


async def _plans(settings: Settings, sources: list[str], options: JobOptions) -> list[ListPlan]:
    async with open_container(settings) as container:
        places, account = container.places.with_environment(), await container.jobs.account(LOCAL_ACCOUNT)
        plans, deadline_s = [], options.deadline_s or math.inf
        for source in sources:
            async with _read_through(source, account, places, scratch_folder(settings)) as file:
                plans.append(await container.plans.plan_file(account, file, options, deadline_s=deadline_s))
        return plans


def _show_plan(name: str, found: ListPlan, mode: Mode) -> None:
    took = _total_duration([found.left.seconds])
    console.print(f"{name}{counted(found.addresses, 'address')} in mode {mode.value}: {took}", **PLAIN)
    for line in found.left.lines:
        console.print(f"  {line.text}", **PLAIN)
    if found.unknown:
        share = f"{100 * found.unknown / max(1, found.addresses):.0f} %"
        console.print(f"  {share} are at domains whose mail servers nobody has looked up yet.", **PLAIN)


def _total_duration(seconds: list[float | None]) -> str:
    known = [one for one in seconds if one is not None]
    return _duration_text(sum(known)) if len(known) == len(seconds) else "nobody can say"


@contextmanager
def working(settings: Settings, loading: LocalWorker | None = None) -> Iterator[tuple[Settings, LocalWorker]]:
    """Give an installation whose embedded servers run, and a worker: its own unless one is `loading`.

    Raises:
        MailsiftError: `bad_overrides`, and what `installation` raises.
    """
    with ExitStack() as stack:
        early = loading or stack.enter_context(early_worker(settings))
        found = stack.enter_context(installation(settings))
        worker = early or LocalWorker(found, spare=True)
        stack.callback(worker.stop)
        worker.ensure()
        yield found, worker


async def submit_and_follow(
    settings: Settings, worker: LocalWorker, source: str, options: JobOptions, out: str, *, as_json: bool
) -> None:
    """Submit a list and follow its job to the end."""
    async with open_container(settings) as container:
        service, places = container.jobs, container.places.with_environment()
        account = await service.account(LOCAL_ACCOUNT)
        sink = _sink_of(out, places, scratch_folder(settings))

        async def submit(once: str) -> Submitted:
            pieces = pieces_of(source, account, places)
            return await service.receive(account, pieces, options, source_name=name_of(source), once=once)

        # what came from a pipe is read, and does not come again
        submitted = await (submit("") if source == PIPE else _patiently(partial(submit, str(uuid4()))))
        await follow_job(service, worker, account, submitted.job_id, sink, as_json=as_json)


async def follow_job(
    service: JobService,
    worker: LocalWorker,
    account: AccountId,
    job_id: JobId,
    out: Path | ResultSink,
    *,
    as_json: bool,
) -> None:
    """Show the job's progress until it ends, then write its results and print the summary.

    Raises:
        MailsiftError: the job's own error code when it failed.
    """
    load_frames()  # what writes results, while others work
    try:
        await _until_small_list_ends(service, account, job_id)
        view = await watch_job(service, account, job_id, keep_alive=worker.ensure)
    except BaseException:
        # intake and finish go on by themselves next time, and all of it where nobody can be told to pause it
        with suppress(MailsiftError):
            await service.pause(account, job_id)
        _say_how_to_go_on(job_id, out)
        raise
    if view.state is not JobState.COMPLETED:
        raise MailsiftError(view.error_code, view.error_detail)
    try:
        results = await _patiently(lambda: export_job(service, account, job_id, out))
    except (KeyboardInterrupt, asyncio.CancelledError, MailsiftError):
        _say_how_to_go_on(job_id, out)
        raise
    show_summary(view, results, out)
    if as_json:
        print_json(summary_of(view))


def _say_how_to_go_on(job_id: JobId, out: Path | ResultSink) -> None:
    file = out if isinstance(out, Path) else Path("results.csv")
    again = shlex.join(["mailsift", "jobs", "resume", str(job_id), "--output", str(file)])
    console.print(f"\nStopped; nothing is lost. Continue with: {as_text(again)}", **PLAIN)


_SMALL_LIST_SECONDS: Final = 0.06
_SMALL_LOOKS: Final = 12
_SMALL_LOOK_SECONDS: Final = 0.02
"""How soon, how often and how soon again one looks whether a small list has ended: to say when it will
takes longer than to judge it, and loads a twentieth of the command. None has ended sooner than what writes
results is loaded, which a look only holds up."""


async def _until_small_list_ends(service: JobService, account: AccountId, job_id: JobId) -> None:
    await asyncio.sleep(_SMALL_LIST_SECONDS)
    with suppress(MailsiftError):  # who watches the job then waits, or says what it is
        for _ in range(_SMALL_LOOKS):
            if await service.has_ended(account, job_id):
                return
            await asyncio.sleep(_SMALL_LOOK_SECONDS)


_FIRST_LOOK_SECONDS = 0.05
_POLL_SECONDS = 0.3  # between looks, once a list has shown to be no small one
_OUTAGE_SECONDS = 600.0  # for which a server of ours is waited for
_QUIET_SECONDS = 5.0  # between lines when nobody watches a terminal
_RATE_WINDOW_SECONDS = 10.0


async def watch_job(
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
    speed, printed_at, pause, printed = Speed(), float("-inf"), _FIRST_LOOK_SECONDS, ("", "")
    with Live(console=console, transient=True, auto_refresh=False) as live:
        while True:
            view = await _patiently(lambda: service.get(account, job_id))
            if view.finished_at is not None:
                return view
            keep_alive()
            now = time.monotonic()
            rate = speed.update(now, view.processed)
            if console.is_terminal:
                live.update(progress_bar(view, rate), refresh=True)
            elif now - printed_at >= quiet_seconds:
                line, before = _progress_line(view, rate), printed
                printed = (line.plain, view.warning)
                if printed != before:
                    printed_at = now
                    warnings = _warning_lines(view) if view.warning != before[1] else ()
                    console.print(line, *warnings, sep="\n", soft_wrap=True)
            await asyncio.sleep(pause)
            pause = min(1.1 * pause, _POLL_SECONDS)


async def _patiently(ask: Callable[[], Awaitable[T]]) -> T:
    """Return the answer; while what it needs is away, say so once and wait, as a job does, for a while."""
    away_since = 0.0
    while True:
        try:
            return await ask()
        except MailsiftError as error:
            now = asyncio.get_running_loop().time()
            if not error.retryable or (away_since and now - away_since > _OUTAGE_SECONDS):
                raise
            if not away_since:
                away_since = now
                console.print(f"{error.message} Nothing is lost; waiting …", **PLAIN)
        await asyncio.sleep(_POLL_SECONDS)


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


_OWN_WAITS = {
    WAITS_FOR_STORAGE: "is a disk full, or the blob store away?",
    WAITS_FOR_PLACE: "the place of the list or of the results isn’t answering",
    WAITS_FOR_MEMORY: "the process that reads the list was killed",
    WAITS_FOR_THREADS: "the machine starts no more threads or processes",
}


def progress_bar(view: JobView, rate: float) -> Group:
    """Return the bar, the counts and the rate, and what the job waits for."""
    bar = ProgressBar(total=max(1, view.total), completed=view.processed, width=40, pulse=not view.total)
    grid = Table.grid(padding=(0, 1))
    grid.add_row(bar, _progress_line(view, rate))
    waits = [
        Text(f"  waits: {wait_text(wait)}", style="dim")
        for wait in view.waiting[:3]
        if wait.reason not in _OWN_WAITS
    ]
    return Group(grid, *_warning_lines(view), *waits)


def _progress_line(view: JobView, rate: float) -> Text:
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
        return f"ETA {_duration_text(view.time_left.seconds)}"
    if view.waiting:
        return f"waiting until {_clock(min(wait.until for wait in view.waiting))}"
    return ""


def wait_text(wait: Waiting) -> str:
    """Say for what some addresses, or the job itself, wait and until when."""
    until = f"until {_clock(wait.until)}"
    if why := _OWN_WAITS.get(wait.reason):
        return f"{wait.reason} {until} ({why})"
    place = f" at {wait.throttle_key}" if len(wait.throttle_key) > 1 else ""  # else a lane of many
    return f"{counted(wait.addresses, 'address')}, {wait.reason.replace('_', ' ')}{place}, {until}"


def _duration_text(seconds: float) -> str:
    """Write seconds as hours, minutes and seconds."""
    return str(timedelta(seconds=round(seconds)))


def _clock(at: datetime) -> str:
    return at.astimezone().strftime("%H:%M:%S")


def _warning_lines(view: JobView) -> list[Text]:
    return [warning_line(view.warning)] if view.warning else []


async def export_job(
    service: JobService, account: AccountId, job_id: JobId, out: Path | ResultSink
) -> dict[str, int]:
    """Write the job's results, whole or not at all; returns rows by result code.

    Raises:
        MailsiftError: `output_not_writable`, and what the service or the place says.
    """
    async with service.browser.selection(account, job_id, RowFilter()) as found:
        if isinstance(out, Path):
            _write_file(found, out)
        else:
            await out.write(found, account, job_id)  # noqa: ASYNC240 - no path
        return rows_by_result(found.results)


def _write_file(found: Selection, out: Path) -> None:
    """Write the result under a name that is nobody's, not even the list's own, and then give it its own.

    A link stays: the result goes where it leads.
    """
    with _told_where(out), _partial_file((place := out.resolve()).parent) as written:
        export(found.results, written, format=format_of(out), policy=found.policy)
        written.replace(place)


def _sink_of(output: str, places: Places, scratch: Path) -> Path | ResultSink:
    """Return where an output leads."""
    if output == PIPE:
        return PipeSink()
    return PlaceSink(parse_sink(output), places, scratch) if is_place(output) else Path(output)


@dataclass(frozen=True, slots=True)
class PipeSink:
    """Standard output, where a list is CSV."""

    async def write(self, found: Selection, _account: AccountId, _job: JobId) -> None:
        """Put results there, whole or not at all."""
        with _told_where(self), tempfile.TemporaryFile() as out:  # no half a list for who reads from us
            await asyncio.to_thread(export, found.results, out, format=ExportFormat.CSV, policy=found.policy)
            out.seek(0)
            sys.stdout.flush()
            await _in_daemon_thread(partial(_copy_to_descriptor, out, sys.stdout.fileno()))

    @override
    def __str__(self) -> str:
        return "standard output"


@dataclass(frozen=True, slots=True)
class PlaceSink:
    """An object or a table; its credentials are those of the environment."""

    place: Place
    places: Places
    scratch: Path

    async def write(self, found: Selection, account: AccountId, job: JobId) -> None:
        """Put results there, whole or not at all."""
        with _told_where(self):
            await self.places.write(
                account, self.place, found.results, job=job, scratch=self.scratch, policy=found.policy
            )

    @override
    def __str__(self) -> str:
        return self.place.label


ResultSink = PipeSink | PlaceSink
"""Where results go that is no file."""


@contextmanager
def _told_where(out: object) -> Iterator[None]:
    """Turn what a disk or a pipe says while a result is written into one line that names the result."""
    try:
        yield
    except MailsiftError:
        raise
    except Exception as error:
        if not (trouble := errno.EPIPE if isinstance(error, BrokenPipeError) else outage_of(error)):
            raise
        text = f"{out} cannot be written: {os.strerror(trouble)}."
        raise MailsiftError("output_not_writable", text) from error


@contextmanager
def _partial_file(folder: Path) -> Iterator[Path]:
    """Give a new file in the folder, of a name that no other file has; it is gone afterwards, or moved."""
    descriptor, name = tempfile.mkstemp(dir=folder, prefix="mailsift-", suffix=".partial")
    os.close(descriptor)
    try:
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def _copy_to_descriptor(file: IO[bytes], descriptor: int) -> None:
    while piece := file.read(_PIECE):
        while piece:
            piece = piece[os.write(descriptor, piece) :]


async def _in_daemon_thread(work: Callable[[], T]) -> T:
    """Do what may block in a thread whose end nobody awaits: Ctrl-C need not wait for a pipe's other side.

    Not with the buffers of standard streams, which the interpreter locks when it ends.
    """
    done = Future[T]()
    done.set_running_or_notify_cancel()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # noqa: BLE001 - for who awaits it
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return await asyncio.wrap_future(done)


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
        f"Result: {as_text(str(out))}",
        **PLAIN,
    )


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
