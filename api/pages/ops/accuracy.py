"""/ops/accuracy: how verdicts of all accounts held, as sums without addresses."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from mailsift.api.pages.accuracy import exported, reported
from mailsift.api.pages.page import render
from mailsift.api.pages.visitor import Operator
from mailsift.jobs.outcomes.accuracy import GroupBy

router = APIRouter(prefix="/ops/accuracy", include_in_schema=False)


@router.get("")
async def accuracy(
    request: Request, _: Operator, by: Annotated[GroupBy, Query()] = GroupBy.RESULT
) -> Response:
    """Show how the verdicts of the last 90 days held, of all accounts together."""
    return render(request, "ops/accuracy.html", **await reported(request, None, by))


@router.get("/export.csv")
async def export(request: Request, _: Operator) -> Response:
    """Return all numbers as CSV."""
    return await exported(request, None)
