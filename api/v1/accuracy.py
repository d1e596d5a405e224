"""GET /v1/accuracy: how often verdicts were right, by what happened to messages after them."""

from __future__ import annotations

from datetime import date
from enum import StrEnum
from typing import Annotated, Final

from fastapi import Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field

from mailsift.api.http.openapi import error_responses, v1_router
from mailsift.api.http.responses import Envelope, ViewModel, answer
from mailsift.api.parts import parts_of
from mailsift.api.v1.jobs import Reader
from mailsift.api.v1.usage import Day, Until, days_between
from mailsift.jobs.outcomes.accuracy import SHARES, GroupBy, to_csv

router = v1_router("/accuracy", "outcomes")

_USUAL_DAYS: Final = 90
_MOST_DAYS: Final = 731


class AccuracyFormat(StrEnum):
    """How the numbers are wanted."""

    JSON = "json"
    CSV = "csv"


class AccuracyShareResponse(ViewModel):
    """A share of what was counted, with its 95 % interval."""

    value: float = Field(ge=0, le=1)
    low: float = Field(ge=0, le=1)
    high: float = Field(ge=0, le=1)
    n: int = Field(description="how many were counted")


class AccuracyRowResponse(ViewModel):
    """How the verdicts of one group held; null where nothing was counted."""

    group: dict[GroupBy, str] = Field(description="the group's values, by what the report is broken down by")
    judged: int = Field(description="verdicts on addresses of lists")
    known: int = Field(
        description="messages to addresses whose verdict an outcome had decided; counted only here"
    )
    coverage: AccuracyShareResponse | None = Field(description="verdicts that are definite: valid or invalid")
    stability: AccuracyShareResponse | None = Field(
        description="share of verdicts given again within a week that stayed the same"
    )
    delivered: AccuracyShareResponse | None = Field(
        description="share of messages to these addresses that arrived"
    )
    false_valid: AccuracyShareResponse | None = Field(
        description="share of messages to addresses called valid whose mailbox does not exist"
    )
    false_invalid: AccuracyShareResponse | None = Field(
        description="share of messages to addresses called invalid that arrived"
    )


class CalibrationBinResponse(ViewModel):
    """Addresses with about the same chance."""

    said: float = Field(description="the mean of the chances")
    arrived: float = Field(description="the share that arrived")
    n: int


class CalibrationResponse(ViewModel):
    """How chances of delivery held for addresses they do not rest on."""

    error: float = Field(description="expected calibration error")
    n: int
    bins: list[CalibrationBinResponse]


class AccuracyResponse(BaseModel):
    """How verdicts held."""

    since: date
    until: date
    rows: list[AccuracyRowResponse]
    calibration: CalibrationResponse | None


@router.get(
    "",
    summary="How often verdicts were right",
    response_class=Response,
    responses={
        200: {
            "description": "The numbers, group by group.",
            "model": Envelope[AccuracyResponse],
            "content": {"text/csv": {"schema": {"type": "string"}}},
        },
        **error_responses("accuracy_range_invalid"),
    },
)
async def get_accuracy(
    request: Request,
    caller: Reader,
    by: Annotated[list[GroupBy] | None, Query(max_length=4, description="what to break it down by")] = None,
    since: Annotated[Day | None, Query(description="first day (UTC); else 89 days before `until`")] = None,
    until: Until = None,
    format: AccuracyFormat = AccuracyFormat.JSON,  # noqa: A002 - the word for it
) -> Response:
    """Show how often the verdicts of these days were right; an outcome counts for the day of the verdict."""
    parts = parts_of(request)
    first, last = days_between(
        since, until, now=parts.clock(), usual=_USUAL_DAYS, most=_MOST_DAYS, code="accuracy_range_invalid"
    )
    groups = tuple(dict.fromkeys(by or ()))
    rows = await parts.accuracy.report(caller.account_id, groups, first, last)
    if format is AccuracyFormat.CSV:
        return Response(to_csv(rows, groups), media_type="text/csv; charset=utf-8")
    names = ("judged", "known", *SHARES)
    found = [
        {name: getattr(row, name) for name in names} | {"group": dict(zip(groups, row.group, strict=True))}
        for row in rows
    ]
    held = await parts.accuracy.calibration(caller.account_id)
    shown = {"since": first, "until": last, "rows": found, "calibration": held}
    return answer(AccuracyResponse.model_validate(shown))
