"""`mailsift run`: a file in, a file with verdicts out, in one command."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Final

import typer

from mailsift.cli.options import ModeOption, without_broken_bytes
from mailsift.cli.pairs import PIPE, pair
from mailsift.lazy_import import UNASKED, loading, without
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.facts import Mode
from mailsift.runtime.local_worker import early_worker
from mailsift.settings import Settings

_YEAR_S: Final = 366 * 86_400.0
"""What these times may be over HTTP, too."""


@contextmanager
def _with_the_option() -> Iterator[None]:
    """Say how a column is named here."""
    try:
        yield
    except MailsiftError as error:
        if error.code != "no_address_column":
            raise
        hints = {"name the column": "--column", "`repair`": "--repair"}
        here = " and ".join(option for words, option in hints.items() if words in error.message)
        raise MailsiftError(
            error.code, f"{error.message} Here with {here}." if here else error.message
        ) from None


@_with_the_option()
def run(  # noqa: PLR0913 - one argument an option
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...",
            help="CSV, TSV, TXT, XLSX, JSONL, JSON or Parquet; gzip is fine. Also patterns, - for standard "
            "input, and places: https://, s3://, gs://, az://, postgresql://host/database?query=...",
        ),
    ],
    *,
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            help="Result file: .csv, .xlsx, .jsonl or .parquet; - for standard output; a place: s3://, "
            "gs://, az://, postgresql://host/database?table=...; or a folder. [default: "
            "FILE.mailsift.csv]",
        ),
    ] = "",
    mode: ModeOption = Mode.DEEP,
    column: Annotated[
        str, typer.Option("--column", "-c", help="Address column: its name or number. [default: found]")
    ] = "",
    evidence: Annotated[
        bool, typer.Option("--evidence", help="Add a column with the facts behind every verdict.")
    ] = False,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair", help="Validate the address a malformed cell clearly means; its row says so."
        ),
    ] = False,
    max_age: Annotated[
        float | None,
        typer.Option(
            "--max-age",
            min=0,
            max=_YEAR_S,
            metavar="SECONDS",
            help="Reuse mailbox verdicts and outcomes younger than this; 0: always ask."
            " [default: MAILSIFT_MAX_AGE, and outcomes as the account's policy says]",
        ),
    ] = None,
    deadline: Annotated[
        float,
        typer.Option(
            "--deadline",
            min=0,
            max=_YEAR_S,
            metavar="SECONDS",
            help='Then judge what is known; servers that still say "later" mean deferred; 0: no end.',
        ),
    ] = 0.0,
    policy: Annotated[
        str,
        typer.Option(
            metavar="JSON",
            help="The policy that turns verdicts into tiers: JSON, or a file of it. [default: the account's]",
        ),
    ] = "",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the summary as one JSON object on the last line.")
    ] = False,
    plan: Annotated[
        bool, typer.Option("--plan", help="Only say how long it would take and who would be asked.")
    ] = False,
) -> None:
    """Validate a list and write it back with a verdict on every row.

    Starts what is not running. Ctrl-C pauses the job; `mailsift jobs resume` goes on where it stopped.
    """
    given = Settings.from_env()
    reused = given.max_age if max_age is None else max_age
    if not all(map(os.path.isfile, sources)):  # says no to a name that is too long for one
        from mailsift.cli.lists import find_lists  # noqa: PLC0415 - patterns and places need the whole service

        sources = asyncio.run(find_lists(given, sources))
    if plan:
        from mailsift.cli.lists import show_plans  # noqa: PLC0415
        from mailsift.jobs.views import JobOptions  # noqa: PLC0415

        options = JobOptions(mode=mode, column=column, max_age=reused, deadline_s=deadline)
        show_plans(sources, options, as_json=as_json)
        return
    pairs = pair(sources, output)
    if as_json and any(out == PIPE for _, out in pairs):
        raise MailsiftError("output_not_writable", "Results and summary can’t both go to standard output.")
    with early_worker(given) as early:
        with loading(), without("opentelemetry.metrics", *UNASKED):
            from mailsift.cli import lists  # noqa: PLC0415 - loads while the worker does
            from mailsift.jobs import tasks  # noqa: F401, PLC0415 - what wakes it, loaded while servers start
            from mailsift.jobs.views import JobOptions  # noqa: PLC0415

        with lists.working(given, early) as (settings, worker):
            options = JobOptions(
                mode=mode,
                column=without_broken_bytes(column),
                evidence=evidence,
                repair=repair,
                max_age=reused,
                outcome_age=max_age,
                deadline_s=deadline,
                policy=lists.policy_of(policy),
            )
            for source, out in pairs:
                asyncio.run(lists.submit_and_follow(settings, worker, source, options, out, as_json=as_json))
