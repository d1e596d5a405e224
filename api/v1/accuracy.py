"""GET /v1/accuracy: how often verdicts were right, by what happened to messages after them."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from datetime import date, timedelta
from enum import StrEnum
from typing import Annotated, Final

from fastapi import Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field

from mailsift.api.http.openapi import error_responses
from mailsift.api.http.responses import Envelope, ViewModel, answer
from mailsift.api.http.routing import v1_router
from mailsift.api.parts import parts_of
from mailsift.api.v1.jobs import Reader
from mailsift.api.v1.usage import Day
from mailsift.jobs.outcomes.accuracy import SHARES, AccuracyRow, GroupBy
from mailsift.pipeline.clock import utc_datetime
from mailsift.pipeline.errors import MailsiftError

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
    until: Annotated[Day | None, Query(description="last day (UTC); else today")] = None,
    format: AccuracyFormat = AccuracyFormat.JSON,  # noqa: A002 - the word for it
) -> Response:
    """Show how often the verdicts of these days were right; an outcome counts for the day of the verdict."""
    parts = parts_of(request)
    last = until or utc_datetime(parts.clock()).date()
    first = since or last - timedelta(days=min(_USUAL_DAYS - 1, last.toordinal() - 1))
    if not 0 <= (last - first).days < _MOST_DAYS:
        text = f"From `since` to `until` there are 1 to {_MOST_DAYS} days."
        raise MailsiftError("accuracy_range_invalid", text)
    groups = tuple(dict.fromkeys(by or ()))
    rows = await parts.accuracy.report(caller.account_id, groups, first, last)
    if format is AccuracyFormat.CSV:
        return Response(to_csv(rows, groups), media_type="text/csv; charset=utf-8")
    held = await parts.accuracy.calibration(caller.account_id)
    found = AccuracyResponse(
        since=first,
        until=last,
        rows=[_row_response(row, groups) for row in rows],
        calibration=CalibrationResponse.model_validate(held) if held else None,
    )
    return answer(found)


def to_csv(rows: Sequence[AccuracyRow], groups: Sequence[GroupBy]) -> str:
    """Return a report as CSV: a line a group, four columns a share."""
    out = io.StringIO()
    writer = csv.writer(out)
    ends = ("", "_low", "_high", "_n")
    writer.writerow([*groups, "judged", "known", *(f"{name}{end}" for name in SHARES for end in ends)])
    for row in rows:
        shares = [getattr(row, name) for name in SHARES]
        cells = [
            cell
            for one in shares
            for cell in ([one.value, one.low, one.high, one.n] if one else ["", "", "", 0])
        ]
        writer.writerow([*row.group, row.judged, row.known, *cells])
    return out.getvalue()


def _row_response(row: AccuracyRow, groups: Sequence[GroupBy]) -> AccuracyRowResponse:
    shares = {name: getattr(row, name) for name in SHARES}
    return AccuracyRowResponse.model_validate(
        {
            "group": dict(zip(groups, row.group, strict=True)),
            "judged": row.judged,
            "known": row.known,
            **{
                name: AccuracyShareResponse.model_validate(one) if one else None
                for name, one in shares.items()
            },
        }
    )
