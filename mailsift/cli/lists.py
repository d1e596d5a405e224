"""A list handed in, followed to its end and written: what `mailsift run` does, and others do a part of."""

from __future__ import annotations

import asyncio
import json
import math
import shlex
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from mailsift.cli.ends import (
    ResultSink,
    partial_file,
    pieces_of,
    read_through,
    sink_of,
    sources_of,
    told_where,
)
from mailsift.cli.options import LOCAL_ACCOUNT
from mailsift.cli.pairs import name_of
from mailsift.cli.progress import duration_text, show_summary, summary_of, watch
from mailsift.cli.service import print_json
from mailsift.cli.terminal import PLAIN, console
from mailsift.container import open_container, scratch_folder
from mailsift.jobs.results.breakdown import rows_by_result
from mailsift.jobs.results.browse import RowFilter
from mailsift.jobs.results.export import Selection, export, format_of
from mailsift.jobs.service import JobService
from mailsift.jobs.views import AccountId, JobId, JobOptions
from mailsift.pipeline.errors import MailsiftError, SuppressCodes
from mailsift.pipeline.facts import Mode
from mailsift.pipeline.frames import load_frames
from mailsift.pipeline.tiers import TierPolicy
from mailsift.pipeline.wording import counted
from mailsift.runtime.embedded import installation
from mailsift.runtime.local_worker import LocalWorker, early_worker
from mailsift.settings import Settings
from mailsift.storage.states import JobState

if TYPE_CHECKING:
    from mailsift.jobs.plans import ListPlan


def policy_of(text: str) -> TierPolicy | None:
    """Return the policy of an option, JSON or the name of a file of it."""
    if not text:
        return None
    try:
        found = json.loads(text if text.lstrip().startswith("{") else Path(text).read_text(encoding="utf-8"))
        return TierPolicy.parse(found)
    except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise MailsiftError("policy_invalid", f"Can’t read the policy: {error}.") from error


async def find(settings: Settings, texts: list[str]) -> list[str]:
    """Return the lists that these files, patterns and places name."""
    async with open_container(settings) as container:
        return await sources_of(texts, container.places.with_environment(), LOCAL_ACCOUNT)


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
            _show_plan(f"{name_of(source)}: " if len(plans) > 1 else "", found, options.mode)
    if len(plans) > 1 and not as_json:
        addresses = counted(sum(plan.addresses for plan in plans), "address")
        took = _duration_text([plan.left.seconds for plan in plans])
        console.print(f"{len(plans)} lists, {addresses}, one after the other: {took}", **PLAIN)


def _duration_text(seconds: list[float | None]) -> str:
    known = [one for one in seconds if one is not None]
    return duration_text(sum(known)) if len(known) == len(seconds) else "nobody can say"


def _show_plan(name: str, found: ListPlan, mode: Mode) -> None:
    took = _duration_text([found.left.seconds])
    console.print(f"{name}{counted(found.addresses, 'address')} in mode {mode.value}: {took}", **PLAIN)
    for line in found.left.lines:
        console.print(f"  {line.text}", **PLAIN)
    if found.unknown:
        share = f"{100 * found.unknown / max(1, found.addresses):.0f} %"
        console.print(f"  {share} are at domains whose mail servers nobody has looked up yet.", **PLAIN)


async def _plans(settings: Settings, sources: list[str], options: JobOptions) -> list[ListPlan]:
    async with open_container(settings) as container:
        places, account = container.places.with_environment(), await container.jobs.account(LOCAL_ACCOUNT)
        plans, deadline_s = [], options.deadline_s or math.inf
        for source in sources:
            async with read_through(source, account, places, scratch_folder(settings)) as file:
                plans.append(await container.plans.plan_file(account, file, options, deadline_s=deadline_s))
        return plans


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
        pieces = pieces_of(source, account, places)
        submitted = await service.receive(account, pieces, options, source_name=name_of(source))
        sink = sink_of(out, places, scratch_folder(settings))
        await follow(service, worker, account, submitted.job_id, sink, as_json=as_json)


async def follow(
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
        view = await watch(service, account, job_id, keep_alive=worker.ensure)
    except BaseException:
        # intake and finish go on by themselves next time, and all of it where nobody can be told to pause it
        with SuppressCodes("job_state_conflict", "database_unavailable"):
            await service.pause(account, job_id)
        _say_how_to_go_on(job_id, out)
        raise
    if view.state is not JobState.COMPLETED:
        raise MailsiftError(view.error_code, view.error_detail)
    try:
        results = await write(service, account, job_id, out)
    except (KeyboardInterrupt, asyncio.CancelledError, MailsiftError):
        _say_how_to_go_on(job_id, out)
        raise
    show_summary(view, results, out)
    if as_json:
        print_json(summary_of(view))


async def write(
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
    with told_where(out), partial_file((place := out.resolve()).parent) as partial:
        export(found.results, partial, format=format_of(out), policy=found.policy)
        partial.replace(place)


def _say_how_to_go_on(job_id: JobId, out: Path | ResultSink) -> None:
    file = out if isinstance(out, Path) else Path("results.csv")
    again = shlex.join(["mailsift", "jobs", "resume", str(job_id), "--output", str(file)])
    console.print(f"\nStopped; nothing is lost. Continue with: {again}", **PLAIN)
