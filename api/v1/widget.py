"""What forms on other people's pages ask, and /v1/public-keys, by which they may.

/widget.js and the checks, which tell three things, are the widget's own protocol, not one for programs: they
are not in the OpenAPI description and change with the widget. docs/widget.md says what they refuse.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse, Response
from pydantic import Field, StringConstraints

from mailsift.accounts.keys import (
    CHECKS_A_MINUTE,
    MOST_CHECKS_A_MINUTE,
    MOST_ORIGINS,
    Caller,
    Scope,
    kind_of,
)
from mailsift.accounts.widget import MOST_CHECKS, TOKEN_SECONDS, FormVisit, check_origin
from mailsift.api.http.auth import RequireScope, client_of
from mailsift.api.http.inputs import WHOLE, Email, RequestModel, ShortText, StrictRoute, Whole
from mailsift.api.http.openapi import operation, v1_router
from mailsift.api.http.responses import (
    Cursor,
    Limit,
    PageResponse,
    UtcTime,
    ViewModel,
    after_cursor,
    answer,
    page_of,
)
from mailsift.api.parts import parts_of
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.facts import Mode
from mailsift.pipeline.single import SingleOptions
from mailsift.pipeline.verdict import Result, suggested_address
from mailsift.storage.sql.keys import KeyRow

router = APIRouter(include_in_schema=False, route_class=StrictRoute)

_DEADLINE: Final = 0.6
"""Seconds; the widget itself waits for 0.8."""
_WHY: Final = {
    Result.SYNTAX_ERROR: "syntax",
    Result.DISPOSABLE: "disposable",
    Result.DOMAIN_NOT_FOUND: "domain",
    Result.NO_MAIL_SERVER: "domain",
    Result.NULL_MX: "domain",
    Result.UNROUTABLE: "domain",
}
"""What is told of a verdict; nothing of it is about a mailbox."""
_PREFLIGHT: Final = {
    "Access-Control-Allow-Methods": "POST",
    "Access-Control-Allow-Headers": "content-type",
    "Access-Control-Max-Age": "7200",
}
_SCRIPT: Final = {
    "Access-Control-Allow-Origin": "*",  # so that a page may pin it (Subresource Integrity)
    "Cross-Origin-Resource-Policy": "cross-origin",
    "Cache-Control": "public, max-age=3600",
}

_Short = Annotated[str, StringConstraints(max_length=200)]


class WidgetSessionRequest(RequestModel):
    """A page wants to check addresses."""

    key: _Short


class WidgetCheckRequest(WidgetSessionRequest):
    """A page asks about one address."""

    token: _Short
    number: Whole
    email: Email


@router.get("/widget.js")
async def script(request: Request) -> Response:
    """Return the widget."""
    asset = request.app.state.theme.assets.get("widget.js")
    return Response(asset.content, media_type=asset.media_type, headers=_SCRIPT)


@router.options("/v1/widget/session")
@router.options("/v1/widget/check")
async def preflight(request: Request) -> Response:
    """Let a browser ask; whether the page may is seen when it comes with its key."""
    return Response(status_code=204, headers={**_PREFLIGHT, **_readable_by(_origin(request))})


@router.post("/v1/widget/session")
async def widget_session(request: Request, wanted: WidgetSessionRequest) -> JSONResponse:
    """Return a token for this page load."""
    visit = await _visit(request, wanted.key)
    token = await parts_of(request).widget.open(visit)
    return answer({"token": token, "seconds": TOKEN_SECONDS, "checks": MOST_CHECKS}, "The page may ask.")


@router.post("/v1/widget/check")
async def widget_check(request: Request, wanted: WidgetCheckRequest) -> JSONResponse:
    """Say whether mail can go there as far as everybody may know, and what was probably meant."""
    visit = await _visit(request, wanted.key)
    parts = parts_of(request)
    await parts.widget.admit(visit, wanted.token, wanted.number)
    caller = visit.caller
    options = SingleOptions(Mode.MEDIUM, _DEADLINE, owner=caller.owner, outcomes=False)
    verdict = await parts.single_of(caller).validate(wanted.email, options)
    return answer(_public(verdict), "The address was looked at.")


def _public(verdict: dict[str, Any]) -> dict[str, Any]:
    """Return what a stranger may know of a verdict."""
    meant = suggested_address(verdict)
    why = _WHY.get(verdict["result"], "")
    return {"ok": not why, "suggestion": meant, "why": "typo" if meant else why}


async def _visit(request: Request, key: str) -> FormVisit:
    caller = await parts_of(request).authenticator.admit_public(request, key)
    visit = FormVisit(caller, _origin(request), client_of(request))
    check_origin(visit)
    request.state.limit_headers = _readable_by(visit.origin)
    return visit


def _origin(request: Request) -> str:
    """Return where a page is from, by its browser."""
    found = request.headers.getlist("origin")
    if len(found) != 1:
        raise MailsiftError("origin_refused", "This key can’t be used on pages from this origin.")
    return found[0]


def _readable_by(origin: str) -> dict[str, str]:
    return {"Access-Control-Allow-Origin": origin}  # no cache keeps the answer


public_keys_router = v1_router("/public-keys", "public keys")

_KeyWriter = Annotated[Caller, Depends(RequireScope(Scope.PUBLIC_KEYS))]
_Origins = Annotated[
    list[Annotated[str, StringConstraints(max_length=300)]],
    Field(
        min_length=1,
        max_length=MOST_ORIGINS,
        description="where the forms are, e.g. https://www.example.com; plain http only on localhost",
        examples=[["https://www.example.com"]],
    ),
]
_ChecksAMinute = Annotated[int, Field(ge=1, le=MOST_CHECKS_A_MINUTE), WHOLE]
_CHECKS_TEXT = f"checks a minute at most, of all visitors together; null = {CHECKS_A_MINUTE:,}"


class PublicKeyResponse(ViewModel):
    """A public key."""

    public_key_id: UUID = Field(validation_alias="id")
    name: str
    hint: str = Field(description="what may be shown of the key: how it begins and ends")
    origins: list[str]
    checks_per_minute: int | None
    test: bool = Field(description="it checks in test mode")
    created_at: UtcTime
    last_used_at: UtcTime | None


class NewPublicKeyResponse(PublicKeyResponse):
    """A new public key."""

    key: str = Field(description="for your pages; only this answer has it")


class PublicKeysResponse(PageResponse):
    """One page of the account's public keys."""

    public_keys: list[PublicKeyResponse]


class PublicKeyRequest(RequestModel):
    """A public key to be."""

    origins: _Origins
    name: ShortText = ""
    checks_per_minute: _ChecksAMinute | None = Field(default=None, description=_CHECKS_TEXT)


class PublicKeyUpdateRequest(RequestModel):
    """What to change; what is left out stays."""

    origins: _Origins | None = None
    name: ShortText | None = None
    checks_per_minute: _ChecksAMinute | None = Field(default=None, description=_CHECKS_TEXT)

    def changed(self, row: KeyRow) -> KeyRow:
        """Return the key with what was given."""
        return replace(row, **self.given(nullable="checks_per_minute"))


@public_keys_router.post(
    "",
    status_code=201,
    **operation("Make a public key", NewPublicKeyResponse, "bad_origin", "public_key_limit"),
)
async def create_public_key(request: Request, wanted: PublicKeyRequest, caller: _KeyWriter) -> JSONResponse:
    """Create a key for pages of these origins; it opens the checks of the widget and nothing else."""
    minted = await parts_of(request).keys.create_public(
        caller, name=wanted.name, origins=wanted.origins, checks_per_minute=wanted.checks_per_minute
    )
    headers = {"Location": f"/v1/public-keys/{minted.row.id}"}
    made = NewPublicKeyResponse.model_validate({**_key_fields(minted.row), "key": minted.secret})
    return answer(made, "The public key is made.", status=201, headers=headers)


@public_keys_router.get("", **operation("List public keys", PublicKeysResponse, "bad_cursor"))
async def list_public_keys(
    request: Request, caller: _KeyWriter, limit: Limit = 100, cursor: Cursor = ""
) -> JSONResponse:
    """List the public keys that are still valid, oldest first."""
    rows = await parts_of(request).keys.public_keys(caller.account_id)
    page, end = page_of(after_cursor(rows, cursor), limit)
    fields = [_key_fields(row) for row in page]
    return answer(PublicKeysResponse.model_validate({"public_keys": fields, **end}))


@public_keys_router.get(
    "/{public_key_id:uuid}", **operation("Look at a public key", PublicKeyResponse, "key_not_found")
)
async def get_public_key(request: Request, caller: _KeyWriter, public_key_id: UUID) -> JSONResponse:
    """Return a public key."""
    row = await parts_of(request).keys.public_key(caller.account_id, public_key_id)
    return answer(PublicKeyResponse.model_validate(_key_fields(row)))


@public_keys_router.patch(
    "/{public_key_id:uuid}",
    **operation("Change a public key", PublicKeyResponse, "key_not_found", "bad_origin"),
)
async def update_public_key(
    request: Request, wanted: PublicKeyUpdateRequest, caller: _KeyWriter, public_key_id: UUID
) -> JSONResponse:
    """Change a public key's origins, limit or name; pages need no new key."""
    row = await parts_of(request).keys.change_public(caller.account_id, public_key_id, wanted.changed)
    return answer(PublicKeyResponse.model_validate(_key_fields(row)), "The public key is changed.")


@public_keys_router.delete("/{public_key_id:uuid}", **operation("Revoke a public key", None, "key_not_found"))
async def revoke_public_key(request: Request, caller: _KeyWriter, public_key_id: UUID) -> JSONResponse:
    """Revoke a public key now; forms that use it continue without checks."""
    await parts_of(request).keys.revoke_public(caller.account_id, public_key_id)
    return answer(None, "The public key is revoked.")


def _key_fields(row: KeyRow) -> dict[str, Any]:
    return {**asdict(row), "test": kind_of(row.hint).test}
