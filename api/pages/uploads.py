"""/uploads: lists that come in piece by piece, in tus 1.0.0 (core, creation, termination)."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from typing import Final
from uuid import UUID

from fastapi import APIRouter, Request
from fastapi.responses import Response
from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect
from typing_extensions import override

from mailsift.api.http.errors import RefusedError
from mailsift.api.http.inputs import Handler
from mailsift.api.http.uploads import printable_name
from mailsift.api.pages.forms import HEADER, check_token
from mailsift.api.pages.visitor import Member, Reader
from mailsift.api.parts import parts_of
from mailsift.jobs.drafts import ListUpload
from mailsift.pipeline.errors import MailsiftError

_VERSION: Final = {"Tus-Resumable": "1.0.0"}
_OFFERED: Final = {**_VERSION, "Tus-Version": "1.0.0", "Tus-Extension": "creation,termination"}
_TYPE: Final = "application/offset+octet-stream"
_DIGITS: Final = 15


class _TusRoute(APIRoute):
    """A route whose answers say which version of the protocol they speak, errors too."""

    @override
    def get_route_handler(self) -> Handler:
        """Return what FastAPI would call, with the protocol's header on whatever follows."""
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            try:
                response = await handler(request)
            except MailsiftError as error:
                raise RefusedError(error.code, error.message, _OFFERED) from error
            response.headers.update(_VERSION)
            return response

        return handle


router = APIRouter(include_in_schema=False, route_class=_TusRoute)


@router.options("/uploads")
async def offered(request: Request, _: Reader) -> Response:
    """Say what is spoken here."""
    return Response(status_code=204, headers={**_OFFERED, "Tus-Max-Size": str(parts_of(request).max_bytes)})


@router.post("/uploads")
async def begin(request: Request, visitor: Member) -> Response:
    """Make room for a list: Upload-Length says its bytes, Upload-Metadata its `filename`, and `modified`."""
    _check(request)
    known = _metadata(request.headers.get("upload-metadata", ""))
    upload = await parts_of(request).uploads.begin(
        visitor.account_id,
        printable_name(known.get("filename", "")) or "list",
        _number(request, "upload-length"),
        known.get("modified", "")[:40],
    )
    return Response(status_code=201, headers={"Location": f"/uploads/{upload.id}", **_state(upload)})


@router.get("/uploads/{upload_id:uuid}")
async def find(request: Request, visitor: Member, upload_id: UUID) -> Response:
    """Say how much has come in; asked with HEAD."""
    found = await parts_of(request).uploads.find(visitor.account_id, upload_id)
    return Response(status_code=204, headers=_state(found))


@router.patch("/uploads/{upload_id:uuid}")
async def append(request: Request, visitor: Member, upload_id: UUID) -> Response:
    """Take the bytes from Upload-Offset on; what came before the connection broke is kept."""
    _check(request)
    if request.headers.get("content-type", "").lower() != _TYPE:
        raise MailsiftError("unsupported_media_type", f"Send the bytes of the list as {_TYPE}.")
    upload = await parts_of(request).uploads.append(
        visitor.account_id, upload_id, _number(request, "upload-offset"), _until_cut(request)
    )
    return Response(status_code=204, headers=_state(upload))


@router.delete("/uploads/{upload_id:uuid}")
async def cancel(request: Request, visitor: Member, upload_id: UUID) -> Response:
    """Delete what has come in."""
    _check(request)
    await parts_of(request).drafts.discard(visitor.account_id, upload_id)
    return Response(status_code=204)


def _state(upload: ListUpload) -> dict[str, str]:
    return {
        "Upload-Offset": str(upload.offset),
        "Upload-Length": str(upload.length),
        "Cache-Control": "no-store",
    }


def _check(request: Request) -> None:
    """Refuse what does not come from our page, or speaks another version."""
    check_token(request, request.headers.get(HEADER))
    if request.headers.get("tus-resumable") != _VERSION["Tus-Resumable"]:
        raise MailsiftError("upload_version", "Uploads use version 1.0.0 of tus here.")


def _number(request: Request, name: str) -> int:
    given = request.headers.get(name, "")
    if not (given.isascii() and given.isdecimal() and len(given) <= _DIGITS):
        raise MailsiftError("bad_option", f"The header {name.title()} must be a number of bytes.")
    return int(given)


def _metadata(given: str) -> dict[str, str]:
    """Return what a client says of a file: names and Base64, with commas between."""
    pairs = (pair.strip().partition(" ") for pair in given.split(","))
    try:
        return {
            name: base64.b64decode(value.strip(), validate=True).decode(errors="replace")
            for name, _, value in pairs
        }
    except ValueError:
        raise MailsiftError(
            "bad_option", "The header Upload-Metadata must hold names and Base64 values."
        ) from None


async def _until_cut(request: Request) -> AsyncIterator[bytes]:
    try:
        async for piece in request.stream():
            yield piece
    except ClientDisconnect:
        return
