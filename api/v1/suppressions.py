"""/v1/suppressions: to whom the account may not send."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import Query, Request
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel, BeforeValidator, Field

from mailsift.api.http.downloads import streamed
from mailsift.api.http.inputs import Email, RequestModel
from mailsift.api.http.openapi import file_operation, operation, v1_router
from mailsift.api.http.responses import Cursor, Limit, PageResponse, UtcTime, ViewModel, answer, page_end
from mailsift.api.parts import parts_of
from mailsift.api.v1.jobs import Reader, Writer
from mailsift.api.v1.outcomes import FILE_BODY, FILE_ERRORS, TakenResponse, file_of
from mailsift.jobs.outcomes.suppressions import Suppression, SuppressionFormat, SuppressionReason
from mailsift.pipeline.clock import utc_datetime

router = v1_router("/suppressions", "suppressions")

_MOST: Final = 10_000
MOST_BYTES: Final = 4 * 1024**2
"""What so many addresses have as JSON: one has at most 254 octets (RFC 5321, section 4.5.3.1.3)."""
FILE_TYPES: Final = {
    SuppressionFormat.CSV: ("text/csv; charset=utf-8", "csv"),
    SuppressionFormat.SES: ("application/x-ndjson", "json"),
    SuppressionFormat.SENDGRID: ("text/csv; charset=utf-8", "csv"),
}
"""Media type and extension of the list, by its format."""


class SuppressionResponse(ViewModel):
    """An address the account may not send to."""

    email: str
    reason: SuppressionReason
    origin: str = Field(description="who said so: `api`, `file`, `page`, or who reported the outcome")
    since: Annotated[UtcTime, BeforeValidator(utc_datetime)]


class SuppressionPageResponse(PageResponse):
    """One page of the account's list."""

    suppressions: list[SuppressionResponse]


class SuppressionsRequest(RequestModel):
    """Addresses not to send to."""

    emails: list[Email] = Field(min_length=1, max_length=_MOST)
    reason: SuppressionReason = SuppressionReason.MANUAL


class RemovalRequest(RequestModel):
    """Addresses that may be sent to again."""

    emails: list[Email] = Field(min_length=1, max_length=_MOST)


class RemovedResponse(BaseModel):
    """How many stood on the list."""

    removed: int


@router.get("", **operation("List whom not to send to", SuppressionPageResponse, "bad_cursor"))
async def list_suppressions(
    request: Request,
    caller: Reader,
    email: Annotated[str, Query(max_length=1_000, description="only this address, in any spelling")] = "",
    reason: Annotated[SuppressionReason | None, Query(description="only with this reason")] = None,
    limit: Limit = 100,
    cursor: Cursor = "",
) -> JSONResponse:
    """List the addresses the account may not send to, or look one up."""
    service = parts_of(request).suppressions
    page = await service.page(
        caller.account_id, limit=limit, cursor=cursor, email=email, reason=reason.value if reason else ""
    )
    listed = {"suppressions": page.suppressions, **page_end(page.next)}
    return answer(SuppressionPageResponse.model_validate(listed))


@router.post("", **operation("Add addresses not to send to", TakenResponse))
async def create_suppressions(request: Request, wanted: SuppressionsRequest, caller: Writer) -> JSONResponse:
    """Add addresses to the list; those already on it stay as they are."""
    found = [Suppression(email, wanted.reason, "api") for email in wanted.emails]
    taken = await parts_of(request).suppressions.add(caller.account_id, found)
    return answer(TakenResponse.model_validate(taken), "The addresses are on the list.")


@router.post("/remove", **operation("Remove addresses from the list", RemovedResponse))
async def remove_suppressions(request: Request, wanted: RemovalRequest, caller: Writer) -> JSONResponse:
    """Remove addresses from the list."""
    removed = await parts_of(request).suppressions.remove(caller.account_id, wanted.emails)
    return answer(RemovedResponse(removed=removed), "The addresses are off the list.")


@router.post(
    "/import",
    openapi_extra=FILE_BODY,
    **operation("Add a file of addresses not to send to", TakenResponse, *FILE_ERRORS),
)
async def import_suppressions(request: Request, caller: Writer) -> JSONResponse:
    """Import a file: ours, Amazon SES's or SendGrid's, CSV or JSON; its columns are recognised."""
    async with file_of(request) as path:
        taken = await parts_of(request).suppressions.import_file(caller.account_id, path)
    return answer(TakenResponse.model_validate(taken), "The addresses are on the list.")


@router.get(
    "/export",
    **file_operation("Fetch the list as a file", "The whole list.", "text/csv", "application/x-ndjson"),
)
async def export_suppressions(
    request: Request,
    caller: Reader,
    format: Annotated[  # noqa: A002 - the word for it
        SuppressionFormat, Query(description="ours, or as Amazon SES's bulk import or SendGrid takes it")
    ] = SuppressionFormat.CSV,
) -> StreamingResponse:
    """Fetch the whole list."""
    kind, extension = FILE_TYPES[format]
    pieces = parts_of(request).suppressions.export(caller.account_id, format)
    return await streamed(pieces, kind, f"suppressions.{extension}")
