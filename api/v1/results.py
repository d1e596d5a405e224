"""/v1/bulk/jobs/{job_id}/results: the verdicts, in the customer's order, in several formats."""

from __future__ import annotations

from contextlib import AsyncExitStack
from functools import partial
from pathlib import PurePosixPath
from typing import Annotated, Final
from uuid import UUID

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from api.described import errors
from api.parts import parts_of
from api.streaming import Download, Written, attachment
from api.texts import ShortText
from api.v1.jobs import Reader
from jobs.export import ExportFormat, choose_columns, export
from jobs.views import JobId, JobState
from pipeline.verdict import Status

router = APIRouter(prefix="/v1/bulk/jobs", tags=["jobs"])

_TYPES: Final = {
    ExportFormat.CSV: "text/csv; charset=utf-8",
    ExportFormat.XLSX: "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ExportFormat.JSONL: "application/x-ndjson",
    ExportFormat.PARQUET: "application/vnd.apache.parquet",
}


@router.get(
    "/{job_id:uuid}/results",
    summary="Fetch the results",
    operation_id="get_results",
    response_class=Response,
    responses={
        200: {
            "description": "The rows of the list, each with its verdict. `Mailsift-Complete` is false while"
            " the job runs: the rows are those with a verdict so far.",
            "content": {kind.partition(";")[0]: {"schema": {"type": "string"}} for kind in _TYPES.values()},
        },
        **errors("job_not_found", "no_results_yet", "unknown_column", "too_many_rows_for_xlsx"),
    },
)
async def results(
    request: Request,
    caller: Reader,
    job_id: UUID,
    format: Annotated[ExportFormat, Query(description="CSV and XLSX are safe to open")] = ExportFormat.CSV,  # noqa: A002 - the word for it
    status: Annotated[list[Status], Query(description="only these")] = [],  # noqa: B006 - pydantic copies it
    columns: Annotated[list[ShortText], Query(description="only these, in this order", max_length=250)] = [],  # noqa: B006 - same
) -> Response:
    """Fetch the results, also while the job runs."""
    jobs = parts_of(request).jobs
    async with AsyncExitStack() as stack:
        view = await jobs.get(caller.account_id, JobId(job_id))
        path = await stack.enter_async_context(jobs.results(caller.account_id, JobId(job_id)))
        chosen = choose_columns(path, columns) if columns else None
        written = Written(partial(export, path, format=format, statuses=set(status) or None, columns=chosen))
        await written.open()
        stack.push_async_callback(written.aclose)
        name = PurePosixPath(view.name).stem or "list"
        headers = {
            "Content-Disposition": attachment(f"{name}.mailsift.{format.value}"),
            "Mailsift-Complete": str(view.state is JobState.COMPLETED).lower(),
        }
        return Download(written, stack.pop_all(), media_type=_TYPES[format], headers=headers)
