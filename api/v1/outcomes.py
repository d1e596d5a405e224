"""What really happened, below /v1: outcomes and the receivers of mail senders, suppressions, the policy.

The policy says what the account wants done with verdicts and outcomes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias
from uuid import UUID

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from starlette.datastructures import UploadFile

from mailsift.api.http.downloads import streamed
from mailsift.api.http.inputs import FORM, Email, RequestModel, ShortText, media_type, read_body
from mailsift.api.http.openapi import error_responses, file_operation, operation, v1_router
from mailsift.api.http.responses import Cursor, Limit, PageResponse, UtcTime, ViewModel, answer, page_end
from mailsift.api.http.uploads import TierPolicyBody, file_pieces, file_with, form_of
from mailsift.api.parts import parts_of
from mailsift.api.v1.jobs import JobReader, JobWriter
from mailsift.jobs.outcomes.receivers import ReceivedPost
from mailsift.jobs.outcomes.suppressions import Suppression, SuppressionFormat, SuppressionReason
from mailsift.jobs.policies import AccountPolicy
from mailsift.pipeline.clock import utc_datetime
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.outcomes.outcome import MOST_DAYS, OutcomePolicy
from mailsift.pipeline.outcomes.senders import SenderKind
from mailsift.storage.sql.outcomes import ReceiverRow

router = v1_router("/outcomes", "outcomes")
policy_router = v1_router("/policy", "policy")
suppressions_router = v1_router("/suppressions", "suppressions")
receiving_router = APIRouter(prefix="/receivers", include_in_schema=False)

_FILE_TYPES: Final = (
    "application/json",
    "application/x-ndjson",
    "application/jsonl",
    "text/csv",
    "text/plain",
    "text/tab-separated-values",
    "application/vnd.apache.parquet",
    "message/rfc822",
    "application/mbox",
    "application/gzip",
    "application/octet-stream",
)
_TEXT_BYTES: Final = 1 << 20
_FILE_SCHEMA: Final = {"type": "string", "format": "binary", "minLength": 1}
_FILE_BODY: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/octet-stream": {
                "schema": {
                    **_FILE_SCHEMA,
                    "description": "the file itself, also as " + ", ".join(_FILE_TYPES[:-1]),
                },
                "example": "email,event\njane@example.com,delivered\n",
            },
            FORM: {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {"file": _FILE_SCHEMA},
                    "additionalProperties": False,
                }
            },
        },
    }
}
"""How a file in a request is described."""
_FILE_ERRORS: Final = (
    "unsupported_media_type",
    "empty_file",
    "unsupported_format",
    "bad_gzip",
    "compression_bomb",
    "too_many_rows",
    "no_address_column",
)
"""What may be wrong with it."""


@asynccontextmanager
async def _file_of(request: Request) -> AsyncIterator[Path]:
    """Give the body, or the file of a form, as a file of our own."""
    kind = media_type(request)
    if kind == FORM:
        async with form_of(request, fields=1, field_bytes=_TEXT_BYTES) as form:
            file = form.get("file")
            if not isinstance(file, UploadFile):
                raise MailsiftError("invalid_request", "The form has no `file`.")
            async with file_with(file_pieces(file)) as path:
                yield path
    elif kind in _FILE_TYPES:
        async with file_with(request.stream()) as path:
            yield path
    else:
        text = f"Outcomes come as {FORM} or as a file: {', '.join(_FILE_TYPES)}."
        raise MailsiftError("unsupported_media_type", text)


class TakenResponse(ViewModel):
    """What became of the reports."""

    taken: int = Field(description="outcomes that are new")
    repeated: int = Field(description="outcomes that were already known")
    malformed: int = Field(description="rows and messages that could not be read, or name no address")


@router.post(
    "",
    openapi_extra=_FILE_BODY,
    **operation("Tell what happened", TakenResponse, *_FILE_ERRORS, "no_outcome_column"),
)
async def create_outcomes(request: Request, caller: JobWriter) -> JSONResponse:
    """Import a file of outcomes: CSV, JSON, JSON lines or Parquet (columns are recognised), or bounces."""
    async with _file_of(request) as path:
        taken = await parts_of(request).outcomes.import_file(caller.account_id, path)
    return answer(TakenResponse.model_validate(taken), "The outcomes were taken.")


@router.get("/export", **file_operation("Fetch what happened as a file", "All outcomes.", "text/csv"))
async def export_outcomes(request: Request, caller: JobReader) -> StreamingResponse:
    """Fetch every outcome of the account with its address, as CSV that `POST /v1/outcomes` accepts."""
    pieces = parts_of(request).outcomes.export(caller.account_id)
    return await streamed(pieces, "text/csv; charset=utf-8", "outcomes.csv")


class ReceiverRequest(RequestModel):
    """A receiver to be."""

    sender: SenderKind
    name: ShortText = ""
    key: str = Field(
        default="",
        max_length=1_000,
        description="SendGrid: its verification key; Mailgun: its webhook signing key",
    )
    topic: str = Field(default="", max_length=300, description="SES: the ARN of the SNS topic")


class RotationRequest(RequestModel):
    """What a receiver believes from now on; of those that sign nothing a new password is drawn."""

    key: str = Field(default="", max_length=1_000, description="of SendGrid and Mailgun")
    topic: str = Field(default="", max_length=300, description="of SES")


class ReceiverResponse(ViewModel):
    """An address that a mail sender posts to."""

    receiver_id: UUID = Field(validation_alias="id")
    sender: SenderKind
    name: str
    topic: str
    created_at: UtcTime
    heard_at: UtcTime | None = Field(description="when something was last accepted")
    taken: int
    refused: int = Field(description="requests that were not from the sender")
    malformed: int


class NewReceiverResponse(ReceiverResponse):
    """A new receiver."""

    path: str = Field(description="where the sender posts, below this service's URL")
    password: str = Field(description="for senders that do not sign; shown only this once; else empty")


class ReceiversResponse(BaseModel):
    """The account's receivers."""

    receivers: list[ReceiverResponse]


@router.post(
    "/receivers",
    status_code=201,
    **operation("Make a receiver", NewReceiverResponse, "receiver_key_invalid", "receiver_limit"),
)
async def create_receiver(request: Request, wanted: ReceiverRequest, caller: JobWriter) -> JSONResponse:
    """Create an address for a mail sender's webhooks; what is posted there counts only if it is signed."""
    row, password = await parts_of(request).receivers.create(
        caller.account_id, wanted.sender, name=wanted.name, key=wanted.key, topic=wanted.topic
    )
    return answer(_with_password(row, password), "The receiver was made.", status=201)


@router.post(
    "/receivers/{receiver_id:uuid}/rotate",
    **operation(
        "Change what a receiver believes", NewReceiverResponse, "receiver_not_found", "receiver_key_invalid"
    ),
)
async def rotate_receiver(
    request: Request, wanted: RotationRequest, caller: JobWriter, receiver_id: UUID
) -> JSONResponse:
    """Give a receiver another key, topic or password, which replaces the old one now; its address stays."""
    row, password = await parts_of(request).receivers.rotate(
        caller.account_id, receiver_id, key=wanted.key, topic=wanted.topic
    )
    return answer(_with_password(row, password), "The receiver believes only this now.")


def _with_password(row: ReceiverRow, password: str) -> NewReceiverResponse:
    made = {**asdict(row), "path": f"/receivers/{row.id}", "password": password}
    return NewReceiverResponse.model_validate(made)


@router.get("/receivers", **operation("List receivers", ReceiversResponse))
async def list_receivers(request: Request, caller: JobReader) -> JSONResponse:
    """List the account's receivers, oldest first, with what they took and refused."""
    found = await parts_of(request).receivers.list(caller.account_id)
    return answer(ReceiversResponse(receivers=[ReceiverResponse.model_validate(row) for row in found]))


@router.delete(
    "/receivers/{receiver_id:uuid}",
    status_code=204,
    summary="Delete a receiver",
    responses=error_responses("receiver_not_found"),
    response_class=Response,
)
async def delete_receiver(request: Request, caller: JobWriter, receiver_id: UUID) -> Response:
    """Delete a receiver; what it brought stays."""
    await parts_of(request).receivers.delete(caller.account_id, receiver_id)
    return Response(status_code=204)


WEBHOOK_BYTES: Final = 4 * 1024**2
"""What a mail sender's webhook may have."""


@receiving_router.post("/{receiver_id:uuid}")
async def receive(request: Request, receiver_id: UUID) -> JSONResponse:
    """Take a mail sender's webhook; without a key, by its signature."""
    parts = parts_of(request)
    async with parts.floods.admit(request, receiver_id) as take:
        posted = ReceivedPost(dict(request.headers), await read_body(request, take))
        taken = await parts.receivers.receive(receiver_id, posted)
    return answer(TakenResponse.model_validate(taken), "Taken.")


_MOST_SUPPRESSIONS: Final = 10_000
SUPPRESSIONS_BYTES: Final = 4 * 1024**2
"""What so many addresses have as JSON: one has at most 254 octets (RFC 5321, section 4.5.3.1.3)."""
SUPPRESSION_FILE_TYPES: Final = {
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

    emails: list[Email] = Field(min_length=1, max_length=_MOST_SUPPRESSIONS)
    reason: SuppressionReason = SuppressionReason.MANUAL


class RemovalRequest(RequestModel):
    """Addresses that may be sent to again."""

    emails: list[Email] = Field(min_length=1, max_length=_MOST_SUPPRESSIONS)


class RemovedResponse(BaseModel):
    """How many stood on the list."""

    removed: int


@suppressions_router.get("", **operation("List whom not to send to", SuppressionPageResponse, "bad_cursor"))
async def list_suppressions(
    request: Request,
    caller: JobReader,
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


@suppressions_router.post("", **operation("Add addresses not to send to", TakenResponse))
async def create_suppressions(
    request: Request, wanted: SuppressionsRequest, caller: JobWriter
) -> JSONResponse:
    """Add addresses to the list; those already on it stay as they are."""
    found = [Suppression(email, wanted.reason, "api") for email in wanted.emails]
    taken = await parts_of(request).suppressions.add(caller.account_id, found)
    return answer(TakenResponse.model_validate(taken), "The addresses are on the list.")


@suppressions_router.post("/remove", **operation("Remove addresses from the list", RemovedResponse))
async def remove_suppressions(request: Request, wanted: RemovalRequest, caller: JobWriter) -> JSONResponse:
    """Remove addresses from the list."""
    removed = await parts_of(request).suppressions.remove(caller.account_id, wanted.emails)
    return answer(RemovedResponse(removed=removed), "The addresses are off the list.")


@suppressions_router.post(
    "/import",
    openapi_extra=_FILE_BODY,
    **operation("Add a file of addresses not to send to", TakenResponse, *_FILE_ERRORS),
)
async def import_suppressions(request: Request, caller: JobWriter) -> JSONResponse:
    """Import a file: ours, Amazon SES's or SendGrid's, CSV or JSON; its columns are recognised."""
    async with _file_of(request) as path:
        taken = await parts_of(request).suppressions.import_file(caller.account_id, path)
    return answer(TakenResponse.model_validate(taken), "The addresses are on the list.")


@suppressions_router.get(
    "/export",
    **file_operation("Fetch the list as a file", "The whole list.", "text/csv", "application/x-ndjson"),
)
async def export_suppressions(
    request: Request,
    caller: JobReader,
    format: Annotated[  # noqa: A002 - the word for it
        SuppressionFormat, Query(description="ours, or as Amazon SES's bulk import or SendGrid takes it")
    ] = SuppressionFormat.CSV,
) -> StreamingResponse:
    """Fetch the whole list."""
    kind, extension = SUPPRESSION_FILE_TYPES[format]
    pieces = parts_of(request).suppressions.export(caller.account_id, format)
    return await streamed(pieces, kind, f"suppressions.{extension}")


_OUTCOMES: Final = OutcomePolicy()
_Days: TypeAlias = Annotated[float, Field(ge=0, le=MOST_DAYS, strict=True, allow_inf_nan=False)]


class OutcomePolicyBody(BaseModel):
    """For how many days what happened is believed."""

    model_config = ConfigDict(extra="forbid", from_attributes=True)

    delivered_days: _Days = Field(
        default=_OUTCOMES.delivered_days, description="a delivery shows the mailbox; 0 = never"
    )
    bounced_days: _Days = Field(
        default=_OUTCOMES.bounced_days, description="a bounce shows that it is gone; 0 = never"
    )


class AccountPolicyBody(BaseModel):
    """What an account wants done; what is left out is the default."""

    model_config = ConfigDict(extra="forbid", from_attributes=True)

    tiers: TierPolicyBody = Field(default_factory=TierPolicyBody)
    outcomes: OutcomePolicyBody = Field(default_factory=OutcomePolicyBody)

    def policy(self) -> AccountPolicy:
        """Return what the engine takes."""
        return AccountPolicy(self.tiers.policy(), OutcomePolicy(**self.outcomes.model_dump()))


@policy_router.get("", **operation("Look at the policy", AccountPolicyBody))
async def get_policy(request: Request, caller: JobReader) -> JSONResponse:
    """Return the rules that turn verdicts into tiers, and for how long outcomes are believed."""
    found = await parts_of(request).policies.get(caller.account_id)
    return answer(AccountPolicyBody.model_validate(found))


@policy_router.put("", **operation("Set the policy", AccountPolicyBody))
async def put_policy(request: Request, wanted: AccountPolicyBody, caller: JobWriter) -> JSONResponse:
    """Set the account's policy; jobs that begin from now on use its tiers."""
    await parts_of(request).policies.put(caller.account_id, wanted.policy())
    return answer(wanted, "The policy is set.")
