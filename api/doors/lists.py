"""Lists behind doors: ordinary jobs, with a number for clients that know no other ids.

What is wrong with a list is told as a `bad_request`; the rest are errors of JobService.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, Final
from uuid import UUID

import polars as pl
from fastapi.responses import Response

from mailsift.accounts.doors import Door
from mailsift.api.doors.codes import Code, CodeTable
from mailsift.api.doors.entry import Params, VendorCall, listed_email
from mailsift.api.http.downloads import Download, SpooledWriter, attachment
from mailsift.api.http.inputs import BROKEN
from mailsift.api.http.uploads import printable_name
from mailsift.jobs.columns import (
    JUDGED_ADDRESS,
    VERDICT_PREFIX,
    cell_text,
    column_id,
    names_metadata,
    read_address_place,
    read_names,
)
from mailsift.jobs.results.browse import RowFilter
from mailsift.jobs.results.export import ExportFormat, export
from mailsift.jobs.submissions import json_lines
from mailsift.jobs.views import JobId, JobOptions, JobView
from mailsift.pipeline.errors import MailsiftError, SuppressCodes
from mailsift.pipeline.verdict import Result
from mailsift.storage.sql.jobs import job_not_found
from mailsift.storage.states import JobState

CAME_BY: Final = "door"
"""Member of a job's metadata: the door its list came by."""
_RESULT, _ROLE = f"{VERDICT_PREFIX}result", f"{VERDICT_PREFIX}is_role_based"


@dataclass(frozen=True, slots=True)
class JudgedRow:
    """A row with a verdict: the cell that was judged, all cells by name, and the 13 fields."""

    email: str
    cells: Mapping[str, str]
    verdict: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Tally:
    """How many rows were called what; `rows` have a verdict so far."""

    by_code: Mapping[Code, int]

    @property
    def rows(self) -> int:
        """How many rows have a verdict."""
        return sum(self.by_code.values())

    def of(self, word: str, place: int = 0) -> int:
        """Return how many rows have this word at this place of their code."""
        return sum(count for code, count in self.by_code.items() if code[place] == word)


def job_options(
    door: Door, name: str, *, column: str = "", kept: Mapping[str, str] | None = None
) -> JobOptions:
    """Return the options of a list that came by a door, which finds what it `kept` again with the job."""
    return JobOptions(
        column=column, name=printable_name(name), metadata={CAME_BY: door.value, **(kept or {})}
    )


async def submit(call: VendorCall, pieces: AsyncIterator[bytes], options: JobOptions) -> JobId:
    """Start the job of a list."""
    submitted = await call.parts.jobs.receive(
        call.caller.account_id, pieces, options, source_name=options.name
    )
    return submitted.job_id


def emails_as_lines(emails: object, name: str, *, most: int) -> bytes:
    """Write addresses as JSON lines, if they are a list of texts, and not too long a one."""
    if not isinstance(emails, Sequence) or isinstance(emails, str) or not emails:
        raise MailsiftError("bad_request", f"`{name}` must be a list of addresses.")
    if len(emails) > most:
        raise MailsiftError("bad_request", f"`{name}` can have at most {most:,} addresses.")
    return json_lines({"email": listed_email(email, name)} for email in emails)


async def find_job(call: VendorCall, text: object) -> JobView:
    """Return the job with this number."""
    try:
        number = int(str(text))
    except ValueError:
        raise job_not_found() from None
    jobs = call.parts.jobs
    return await jobs.get(call.caller.account_id, await jobs.numbered(call.caller.account_id, number))


async def get_job(call: VendorCall, text: object) -> JobView:
    """Return the job with this id."""
    try:
        job_id = JobId(UUID(str(text)))
    except ValueError:
        raise job_not_found() from None
    return await call.parts.jobs.get(call.caller.account_id, job_id)


def text_in(params: Params, name: str) -> str:
    """Return a parameter as text, without what none can hold; "" where there is none."""
    value = params.get(name)
    return "" if value is None else BROKEN.sub("", str(value))


async def tally(call: VendorCall, view: JobView, table: CodeTable) -> Tally:
    """Count a job's rows by what they are called; of one that runs, as if no address were a role's."""
    account_id, counts = call.caller.account_id, dict[Code, int]()
    found: list[tuple[Result, bool, int]] = []
    with SuppressCodes("no_results_yet"):
        if view.state is JobState.COMPLETED:
            async with call.parts.jobs.browser.results(account_id, view.id) as results:
                found = await asyncio.to_thread(_count, results)
        else:
            breakdown = await call.parts.jobs.browser.breakdown(account_id, view.id)
            found = [(Result(one.result), False, one.rows) for one in breakdown.reasons]
    for result, role, rows in found:
        code = table.named(result, role=role)
        counts[code] = counts.get(code, 0) + rows
    return Tally(counts)


def _count(results: Path) -> list[tuple[Result, bool, int]]:
    frame = pl.scan_parquet(results, glob=False).group_by(_RESULT, _ROLE).len().collect()
    return [(Result(result), bool(role), rows) for result, role, rows in frame.iter_rows()]


async def rows_of(
    call: VendorCall, view: JobView, *, first: int, most: int, only: pl.Expr | None = None
) -> tuple[list[JudgedRow], int]:
    """Return `most` rows of a job behind the `first`, and how many there are: of all, or of `only` those."""
    account_id = call.caller.account_id
    history = await call.parts.jobs.history(account_id, view.id, runs=0)
    async with call.parts.jobs.browser.selection(account_id, view.id, RowFilter()) as found:
        return await asyncio.to_thread(read_rows, found.results, history.column, first, most, only)


def read_rows(
    results: Path, column: str, first: int, most: int, only: pl.Expr | None = None
) -> tuple[list[JudgedRow], int]:
    """Return the same of a file of results, the address column of which is called so."""
    frame, names = pl.scan_parquet(results, glob=False), read_names(results)
    schema = frame.collect_schema()
    if only is not None:
        frame = frame.filter(only)
    total = int(frame.select(pl.len()).collect().item())
    texts = [cell_text(id_, schema[id_]) for id_ in names]
    ours = [name for name in schema if name not in names]
    page = frame.select(*texts, *ours).slice(first, most).collect()
    address = column_id(read_address_place(results, column))
    return [_row(values, names, address) for values in page.iter_rows(named=True)], total


def _row(values: Mapping[str, Any], names: dict[str, str], address: str) -> JudgedRow:
    cells: dict[str, str] = {}
    for id_, name in names.items():
        cells.setdefault(name, values[id_])  # of equal names the first is meant
    verdict = {
        name.removeprefix(VERDICT_PREFIX): value for name, value in values.items() if name not in names
    }
    return JudgedRow(values[address], cells, verdict)


def first_of_each() -> pl.Expr:
    """Return which rows are the first with their address; what is no address stays."""
    address = pl.col(JUDGED_ADDRESS)
    return address.is_first_distinct() | (address == "")


async def as_csv(
    call: VendorCall, view: JobView, columns: Mapping[str, pl.Expr], *, only: pl.Expr | None = None
) -> Response:
    """Return a job's rows as CSV, safe to open as every CSV of ours: the customer's columns, then these."""
    async with AsyncExitStack() as stack:
        account_id, jobs = call.caller.account_id, call.parts.jobs
        found = await stack.enter_async_context(jobs.browser.selection(account_id, view.id, RowFilter()))
        writer = SpooledWriter(account_id, partial(_write_csv, found.results, columns, only))
        await writer.open(stack)
        headers = {"Content-Disposition": attachment(f"{Path(view.name).stem or 'list'}.csv")}
        return Download(
            writer.pieces(), stack.pop_all(), media_type="application/octet-stream", headers=headers
        )


def _write_csv(results: Path, columns: Mapping[str, pl.Expr], only: pl.Expr | None, out: IO[bytes]) -> None:
    frame, names = pl.scan_parquet(results, glob=False), read_names(results)
    if only is not None:
        frame = frame.filter(only)
    places = range(len(names), len(names) + len(columns))
    added = [made.alias(column_id(place)) for place, made in zip(places, columns.values(), strict=True)]
    with TemporaryDirectory() as folder:
        recoded = Path(folder) / "recoded.parquet"
        titles = names_metadata([*names.values(), *columns])
        frame.select(*names, *added).sink_parquet(recoded, metadata=titles, engine="streaming")
        export(recoded, out, format=ExportFormat.CSV)


def supplied_rows(rows: object, *, most: int) -> list[dict[str, Any]]:
    """Return the rows of `input`, which were sent as objects, as lists of cells or as bare addresses."""
    if not isinstance(rows, list) or not 1 <= len(rows) <= most:
        raise MailsiftError("bad_request", f"`input` must be a list of 1 to {most:,} rows.")
    return [_as_row(row) for row in rows]


def _as_row(row: object) -> dict[str, Any]:
    if isinstance(row, str):
        row = {"email": row}
    if isinstance(row, list):
        row = {str(place): cell for place, cell in enumerate(row)}
    if not isinstance(row, dict):
        raise MailsiftError("bad_request", "A row of `input` must be an object, a list or an address.")
    text = json.dumps(row, ensure_ascii=False)
    # as in other doors, what is no text refuses no other row
    return json.loads(BROKEN.sub("\N{REPLACEMENT CHARACTER}", text)) if BROKEN.search(text) else row


async def mean_score(call: VendorCall, view: JobView) -> float:
    """Return the mean score of a job's rows."""
    async with call.parts.jobs.browser.results(call.caller.account_id, view.id) as results:
        return await asyncio.to_thread(_mean_score, results)


def _mean_score(results: Path) -> float:
    score = pl.col(f"{VERDICT_PREFIX}score").mean()
    return round(pl.scan_parquet(results, glob=False).select(score).collect().item() or 0.0, 2)
