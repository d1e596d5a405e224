"""POST /v1/email/single-validate: one address, now."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from api.auth import Needs
from api.described import errors
from api.direct import DirectRoute
from api.envelope import Envelope, answer
from api.keys import Caller, Scope
from api.parts import parts_of
from api.scalars import Whole
from api.texts import Email
from pipeline.facts import Mode
from pipeline.single import Wish

router = APIRouter(prefix="/v1/email", tags=["email"], route_class=DirectRoute)

LONGEST_MS: Final = 60_000
_MINIMAL: Final = ("is_valid", "status", "score", "reason")


_PREFER: Final = {
    "name": "Prefer",
    "in": "header",
    "description": "`return=minimal` shortens the answer (RFC 7240)",
    "schema": {"type": "string"},
}


class SingleRequest(BaseModel):
    """One address and how far to look."""

    model_config = ConfigDict(extra="forbid")

    email: Email = Field(examples=["jane@example.com"])
    mode: Mode = Field(
        default=Mode.DEEP, description="fast: syntax and lists; medium: and DNS; deep: and SMTP"
    )
    deadline_ms: Whole = Field(
        default=10_000,
        ge=100,
        le=LONGEST_MS,
        description="when time runs out the verdict is risky, not an error",
    )


class FullVerdict(BaseModel):
    """The 13 fields; none is ever null."""

    catch_all: bool
    is_disposable: bool
    is_free: bool
    is_role_based: bool
    is_valid: bool
    mx_valid: bool
    syntax_valid: bool
    reason: str
    result: str
    suggestion: str
    score: int = Field(ge=0, le=100)
    smtp_code: int = Field(description="0 when no mail server answered")
    status: Literal["valid", "invalid", "risky"]


class MinimalVerdict(BaseModel):
    """The shortened form, with `Prefer: return=minimal`."""

    model_config = ConfigDict(extra="forbid")

    is_valid: bool
    status: Literal["valid", "invalid", "risky"]
    score: int
    reason: str


@router.post(
    "/single-validate",
    summary="Validate one address",
    operation_id="validate_email",
    response_model=Envelope[FullVerdict | MinimalVerdict],
    responses=errors(),
    openapi_extra={"parameters": [_PREFER]},
)
async def single_validate(
    request: Request,
    wanted: SingleRequest,
    caller: Annotated[Caller, Depends(Needs(Scope.VALIDATE))],
) -> JSONResponse:
    """Validate one address by the rules of lists; `Prefer: return=minimal` shortens the answer."""
    wish = Wish(wanted.mode, wanted.deadline_ms / 1000, owner=str(caller.account_id))
    data = await parts_of(request).single.judge(wanted.email, wish)
    headers = {}
    if _wants_minimal(request.headers.get("prefer", "")):
        data = {name: data[name] for name in _MINIMAL}
        headers = {"Preference-Applied": "return=minimal"}  # RFC 7240
    return answer(data, "The address was validated.", headers=headers)


def _wants_minimal(prefer: str) -> bool:
    """Read the Prefer header (RFC 7240)."""
    wishes = (wish.partition(";")[0].replace(" ", "").replace('"', "").lower() for wish in prefer.split(","))
    return "return=minimal" in wishes
