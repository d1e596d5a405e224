"""/v1/public-keys: what sign-up forms check addresses with, made and changed by programs."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Annotated, Any
from uuid import UUID

from fastapi import Depends, Request
from fastapi.responses import JSONResponse
from pydantic import Field, StringConstraints

from mailsift.accounts.keys import (
    CHECKS_A_MINUTE,
    MOST_CHECKS_A_MINUTE,
    MOST_ORIGINS,
    Caller,
    Scope,
    kind_of,
)
from mailsift.api.http.auth import RequireScope
from mailsift.api.http.inputs import WHOLE, RequestModel, ShortText
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
from mailsift.storage.sql.keys import KeyRow

router = v1_router("/public-keys", "public keys")

Writer = Annotated[Caller, Depends(RequireScope(Scope.PUBLIC_KEYS))]
Origins = Annotated[
    list[Annotated[str, StringConstraints(max_length=300)]],
    Field(
        min_length=1,
        max_length=MOST_ORIGINS,
        description="where the forms are, e.g. https://www.example.com; plain http only on localhost",
        examples=[["https://www.example.com"]],
    ),
]
Checks = Annotated[int, Field(ge=1, le=MOST_CHECKS_A_MINUTE), WHOLE]
_CHECKS = f"checks a minute at most, of all visitors together; null = {CHECKS_A_MINUTE:,}"


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

    origins: Origins
    name: ShortText = ""
    checks_per_minute: Checks | None = Field(default=None, description=_CHECKS)


class PublicKeyUpdateRequest(RequestModel):
    """What to change; what is left out stays."""

    origins: Origins | None = None
    name: ShortText | None = None
    checks_per_minute: Checks | None = Field(default=None, description=_CHECKS)

    def changed(self, row: KeyRow) -> KeyRow:
        """Return the key with what was given."""
        return replace(row, **self.given(nullable="checks_per_minute"))


@router.post(
    "",
    status_code=201,
    **operation("Make a public key", NewPublicKeyResponse, "bad_origin", "public_key_limit"),
)
async def create_public_key(request: Request, wanted: PublicKeyRequest, caller: Writer) -> JSONResponse:
    """Create a key for pages of these origins; it opens the checks of the widget and nothing else."""
    minted = await parts_of(request).keys.create_public(
        caller, name=wanted.name, origins=wanted.origins, checks_per_minute=wanted.checks_per_minute
    )
    headers = {"Location": f"/v1/public-keys/{minted.row.id}"}
    made = NewPublicKeyResponse.model_validate({**_fields_of(minted.row), "key": minted.secret})
    return answer(made, "The public key is made.", status=201, headers=headers)


@router.get("", **operation("List public keys", PublicKeysResponse, "bad_cursor"))
async def list_public_keys(
    request: Request, caller: Writer, limit: Limit = 100, cursor: Cursor = ""
) -> JSONResponse:
    """List the public keys that are still valid, oldest first."""
    rows = await parts_of(request).keys.public_keys(caller.account_id)
    page, end = page_of(after_cursor(rows, cursor), limit)
    shown = [_fields_of(row) for row in page]
    return answer(PublicKeysResponse.model_validate({"public_keys": shown, **end}))


@router.get("/{public_key_id:uuid}", **operation("Look at a public key", PublicKeyResponse, "key_not_found"))
async def get_public_key(request: Request, caller: Writer, public_key_id: UUID) -> JSONResponse:
    """Return a public key."""
    row = await parts_of(request).keys.public_key(caller.account_id, public_key_id)
    return answer(PublicKeyResponse.model_validate(_fields_of(row)))


@router.patch(
    "/{public_key_id:uuid}",
    **operation("Change a public key", PublicKeyResponse, "key_not_found", "bad_origin"),
)
async def update_public_key(
    request: Request, wanted: PublicKeyUpdateRequest, caller: Writer, public_key_id: UUID
) -> JSONResponse:
    """Change a public key's origins, limit or name; pages need no new key."""
    row = await parts_of(request).keys.change_public(caller.account_id, public_key_id, wanted.changed)
    return answer(PublicKeyResponse.model_validate(_fields_of(row)), "The public key is changed.")


@router.delete("/{public_key_id:uuid}", **operation("Revoke a public key", None, "key_not_found"))
async def revoke_public_key(request: Request, caller: Writer, public_key_id: UUID) -> JSONResponse:
    """Revoke a public key now; forms that use it continue without checks."""
    await parts_of(request).keys.revoke_public(caller.account_id, public_key_id)
    return answer(None, "The public key is revoked.")


def _fields_of(row: KeyRow) -> dict[str, Any]:
    return {**asdict(row), "test": kind_of(row.hint).test}
