"""POST /v1/email/single-validate: one address, now."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Final, Literal

import polars as pl
from fastapi import APIRouter, Depends, Header, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, StrictInt

from api.auth import Needs
from api.described import errors
from api.envelope import Envelope, answer
from api.keys import Caller, Scope
from api.parts import parts_of
from api.texts import Email
from pipeline import sift, syntax
from pipeline.facts import Mode
from pipeline.frames import VERDICTS
from pipeline.sift import Sifter
from pipeline.verdict import Verdict

router = APIRouter(prefix="/v1/email", tags=["email"])

LONGEST_MS: Final = 60_000
_RESERVE: Final = 0.25  # seconds kept of a deadline, to judge what was found
_MINIMAL: Final = ("is_valid", "status", "score", "reason")


class SingleRequest(BaseModel):
    """One address and how far to look."""

    model_config = ConfigDict(extra="forbid")

    email: Email = Field(examples=["jane@example.com"])
    mode: Mode = Field(
        default=Mode.DEEP, description="fast: syntax and lists; medium: and DNS; deep: and SMTP"
    )
    deadline_ms: StrictInt = Field(
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
)
async def single_validate(
    request: Request,
    wanted: SingleRequest,
    _: Annotated[Caller, Depends(Needs(Scope.VALIDATE))],
    prefer: Annotated[str, Header(max_length=200)] = "",
) -> JSONResponse:
    """Validate one address by the rules of lists; `Prefer: return=minimal` shortens the answer."""
    data = await validated(parts_of(request).sifter, wanted.email, wanted.mode, wanted.deadline_ms / 1000)
    headers = {}
    if _wants_minimal(prefer):
        data = {name: data[name] for name in _MINIMAL}
        headers = {"Preference-Applied": "return=minimal"}  # RFC 7240
    return answer(data, "The address was validated.", headers=headers)


async def validated(sifter: Sifter, email: str, mode: Mode, deadline: float) -> dict[str, Any]:
    """Return the 13 fields within `deadline` seconds; what is not known by then makes the verdict risky."""
    if mode is Mode.FAST:
        return _told(*sifter.sift_fast(email))
    parsed = syntax.parse(pl.Series("raw", [email], pl.String))
    frame = parsed.with_columns(pl.lit(0, pl.UInt32).alias("n"), pl.lit(1, pl.UInt32).alias("rows"))
    seconds = max(deadline - _RESERVE, deadline / 2)
    request = sift.Request(mode, budget_s=seconds, session_s=seconds, max_age=sift_age(mode))
    try:
        async with asyncio.timeout(deadline):
            sifted = await sifter.sift(frame, request)
    except TimeoutError:
        sifted = sifter.give_up(frame, mode)
    return sifted.finished.select(list(VERDICTS)).row(0, named=True)


def sift_age(mode: Mode) -> float:
    """Return how old a remembered answer of a mail server may be, in seconds: a day, as for lists."""
    return 86_400.0 if mode is Mode.DEEP else 0.0


def _told(verdict: Verdict, suggestion: str) -> dict[str, Any]:
    told: dict[str, Any] = {name: getattr(verdict, name) for name in VERDICTS}
    return {**told, "suggestion": suggestion}


def _wants_minimal(prefer: str) -> bool:
    """Read the Prefer header (RFC 7240)."""
    wishes = (wish.partition(";")[0].replace(" ", "").replace('"', "").lower() for wish in prefer.split(","))
    return "return=minimal" in wishes
