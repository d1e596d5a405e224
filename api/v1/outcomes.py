"""/v1/outcomes: what became of messages that were really sent, and where mail senders tell of it.

/v1/policy: what the account wants done with verdicts and outcomes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import BaseModel, Field
from starlette.datastructures import UploadFile

from mailsift.api.http.downloads import streamed
from mailsift.api.http.forms import form_of
from mailsift.api.http.inputs import FORM, RequestModel, ShortText, media_type, read_body
from mailsift.api.http.openapi import error_responses, file_operation, operation, v1_router
from mailsift.api.http.policies import AccountPolicyBody
from mailsift.api.http.responses import UtcTime, ViewModel, answer
from mailsift.api.http.uploads import file_pieces, file_with
from mailsift.api.parts import parts_of
from mailsift.api.v1.jobs import Reader, Writer
from mailsift.jobs.outcomes.receivers import ReceivedPost
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.outcomes.senders import SenderKind
from mailsift.storage.sql.outcomes import ReceiverRow

router = v1_router("/outcomes", "outcomes")
policy_router = v1_router("/policy", "policy")
receiving_router = APIRouter(prefix="/receivers", include_in_schema=False)

WEBHOOK_BYTES: Final = 4 * 1024**2
"""What a mail sender's webhook may have."""
_TEXT_BYTES: Final = 1 << 20
_TYPES: Final = (
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


class TakenResponse(ViewModel):
    """What became of the reports."""

    taken: int = Field(description="outcomes that are new")
    repeated: int = Field(description="outcomes that were already known")
    malformed: int = Field(description="rows and messages that could not be read, or name no address")


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


_FILE: Final = {"type": "string", "format": "binary", "minLength": 1}
FILE_BODY: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/octet-stream": {
                "schema": {**_FILE, "description": "the file itself, also as " + ", ".join(_TYPES[:-1])},
                "example": "email,event\njane@example.com,delivered\n",
            },
            FORM: {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {"file": _FILE},
                    "additionalProperties": False,
                }
            },
        },
    }
}
"""How a file in a request is described."""
FILE_ERRORS: Final = (
    "unsupported_media_type",
    "empty_file",
    "unsupported_format",
    "bad_gzip",
    "compression_bomb",
    "too_many_rows",
    "no_address_column",
)
"""What may be wrong with it."""


@router.post(
    "",
    openapi_extra=FILE_BODY,
    **operation("Tell what happened", TakenResponse, *FILE_ERRORS, "no_outcome_column"),
)
async def create_outcomes(request: Request, caller: Writer) -> JSONResponse:
    """Import a file of outcomes: CSV, JSON, JSON lines or Parquet (columns are recognised), or bounces."""
    async with file_of(request) as path:
        taken = await parts_of(request).outcomes.import_file(caller.account_id, path)
    return answer(TakenResponse.model_validate(taken), "The outcomes were taken.")


@asynccontextmanager
async def file_of(request: Request) -> AsyncIterator[Path]:
    """Give the body, or the file of a form, as a file of our own."""
    kind = media_type(request)
    if kind == FORM:
        async with form_of(request, fields=1, field_bytes=_TEXT_BYTES) as form:
            file = form.get("file")
            if not isinstance(file, UploadFile):
                raise MailsiftError("invalid_request", "The form has no `file`.")
            async with file_with(file_pieces(file)) as path:
                yield path
    elif kind in _TYPES:
        async with file_with(request.stream()) as path:
            yield path
    else:
        text = f"Outcomes come as {FORM} or as a file: {', '.join(_TYPES)}."
        raise MailsiftError("unsupported_media_type", text)


@router.get("/export", **file_operation("Fetch what happened as a file", "All outcomes.", "text/csv"))
async def export_outcomes(request: Request, caller: Reader) -> StreamingResponse:
    """Fetch every outcome of the account with its address, as CSV that `POST /v1/outcomes` accepts."""
    pieces = parts_of(request).outcomes.export(caller.account_id)
    return await streamed(pieces, "text/csv; charset=utf-8", "outcomes.csv")


@router.post(
    "/receivers",
    status_code=201,
    **operation("Make a receiver", NewReceiverResponse, "receiver_key_invalid", "receiver_limit"),
)
async def create_receiver(request: Request, wanted: ReceiverRequest, caller: Writer) -> JSONResponse:
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
    request: Request, wanted: RotationRequest, caller: Writer, receiver_id: UUID
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
async def list_receivers(request: Request, caller: Reader) -> JSONResponse:
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
async def delete_receiver(request: Request, caller: Writer, receiver_id: UUID) -> Response:
    """Delete a receiver; what it brought stays."""
    await parts_of(request).receivers.delete(caller.account_id, receiver_id)
    return Response(status_code=204)


@receiving_router.post("/{receiver_id:uuid}")
async def receive(request: Request, receiver_id: UUID) -> JSONResponse:
    """Take a mail sender's webhook; without a key, by its signature."""
    parts = parts_of(request)
    async with parts.floods.admit(request, receiver_id) as take:
        posted = ReceivedPost(dict(request.headers), await read_body(request, take))
        taken = await parts.receivers.receive(receiver_id, posted)
    return answer(TakenResponse.model_validate(taken), "Taken.")


@policy_router.get("", **operation("Look at the policy", AccountPolicyBody))
async def get_policy(request: Request, caller: Reader) -> JSONResponse:
    """Return the rules that turn verdicts into tiers, and for how long outcomes are believed."""
    found = await parts_of(request).policies.get(caller.account_id)
    return answer(AccountPolicyBody.model_validate(found))


@policy_router.put("", **operation("Set the policy", AccountPolicyBody))
async def put_policy(request: Request, wanted: AccountPolicyBody, caller: Writer) -> JSONResponse:
    """Set the account's policy; jobs that begin from now on use its tiers."""
    await parts_of(request).policies.put(caller.account_id, wanted.policy())
    return answer(wanted, "The policy is set.")
