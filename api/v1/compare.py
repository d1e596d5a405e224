"""/v1/bulk/jobs/{job_id}/diff: what changed since another run of the same list."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from api.described import errors
from api.envelope import Envelope, answer
from api.parts import parts_of
from api.v1.jobs import Reader
from jobs.views import JobId

router = APIRouter(prefix="/v1/bulk/jobs", tags=["jobs"])


class Side(BaseModel):
    """A verdict, or the class of one."""

    status: Literal["valid", "invalid", "risky"]
    result: str
    score: int | None = None


class Move(BaseModel):
    """How many addresses went from one result to another."""

    before: Side
    after: Side
    addresses: int


class Changed(BaseModel):
    """An address whose verdict changed."""

    email: str
    before: Side
    after: Side


class DiffShown(BaseModel):
    """Two runs compared."""

    compared: int
    only_before: int
    only_after: int
    moves: list[Move]
    changed: list[Changed]


@router.get(
    "/{job_id:uuid}/diff",
    summary="What changed between two runs",
    operation_id="get_diff",
    response_model=Envelope[DiffShown],
    responses=errors("job_not_found", "no_results_yet", "not_the_same_list"),
)
async def get_diff(
    request: Request,
    caller: Reader,
    job_id: UUID,
    against: Annotated[UUID, Query(description="the earlier run")],
    limit: Annotated[int, Query(ge=0, le=1_000, description="how many changed addresses are named")] = 100,
) -> JSONResponse:
    """Compare this run of a list with another one, address by address."""
    found = await parts_of(request).jobs.diff(caller.account_id, JobId(against), JobId(job_id), limit=limit)
    return answer(asdict(found))
