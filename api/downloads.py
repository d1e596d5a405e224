"""Results on their way out as a file, for keys and for people."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath
from typing import Final

from fastapi.responses import Response

from api.parts import ApiParts
from api.streaming import Download, Written, attachment
from jobs.export import ExportFormat, choose_columns, export
from jobs.views import AccountId, JobId, JobState
from pipeline.verdict import Status

TYPES: Final = {
    ExportFormat.CSV: "text/csv; charset=utf-8",
    ExportFormat.XLSX: "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ExportFormat.JSONL: "application/x-ndjson",
    ExportFormat.PARQUET: "application/vnd.apache.parquet",
}
"""Media types."""


@dataclass(frozen=True, slots=True)
class Order:
    """What is wanted: rows with one of these statuses (all, when none is named), these columns (the same)."""

    format: ExportFormat = ExportFormat.CSV
    statuses: Collection[Status] = ()
    columns: Sequence[str] = ()


async def download(parts: ApiParts, account_id: AccountId, job_id: JobId, order: Order) -> Response:
    """Return the results of a job, also while it runs.

    Raises:
        MailsiftError: `job_not_found`, `no_results_yet`, `unknown_column`, `too_many_rows_for_xlsx`.
    """
    async with AsyncExitStack() as stack:
        view = await parts.jobs.get(account_id, job_id)
        path = await stack.enter_async_context(parts.jobs.results(account_id, job_id))
        chosen = choose_columns(path, order.columns) if order.columns else None
        statuses = set(order.statuses) or None
        written = Written(partial(export, path, format=order.format, statuses=statuses, columns=chosen))
        await written.open()
        stack.push_async_callback(written.aclose)
        name = PurePosixPath(view.name).stem or "list"
        headers = {
            "Content-Disposition": attachment(f"{name}.mailsift.{order.format.value}"),
            "Mailsift-Complete": str(view.state is JobState.COMPLETED).lower(),
        }
        return Download(written, stack.pop_all(), media_type=TYPES[order.format], headers=headers)
