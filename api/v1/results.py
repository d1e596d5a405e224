"""/v1/bulk/jobs/{job_id}/results: the verdicts, in the customer's order, in several formats."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from api.described import errors
from api.downloads import TYPES, Order, download
from api.parts import parts_of
from api.texts import ShortText
from api.v1.jobs import Reader
from jobs.export import ExportFormat
from jobs.views import JobId
from pipeline.verdict import Status

router = APIRouter(prefix="/v1/bulk/jobs", tags=["jobs"])


@router.get(
    "/{job_id:uuid}/results",
    summary="Fetch the results",
    operation_id="get_results",
    response_class=Response,
    responses={
        200: {
            "description": "The rows of the list, each with its verdict. `Mailsift-Complete` is false while"
            " the job runs: the rows are those with a verdict so far.",
            "content": {kind.partition(";")[0]: {"schema": {"type": "string"}} for kind in TYPES.values()},
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
    order = Order(format, set(status), columns)
    return await download(parts_of(request), caller.account_id, JobId(job_id), order)
