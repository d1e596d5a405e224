"""GET /v1/usage: what the account used, by day.

GET /v1/accuracy: how often verdicts were right, by what happened to messages after them.
"""

from __future__ import annotations

from datetime import date, timedelta
from enum import StrEnum
from itertools import groupby
from typing import Annotated

from fastapi import Query, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, BeforeValidator, Field

from mailsift.api.http.openapi import error_responses, operation, v1_router
from mailsift.api.http.responses import Envelope, ViewModel, answer
from mailsift.api.parts import parts_of
from mailsift.api.v1.jobs import JobReader
from mailsift.jobs.outcomes.accuracy import SHARES, GroupBy, to_csv
from mailsift.pipeline.clock import utc_datetime
from mailsift.pipeline.errors import MailsiftError
from mailsift.storage.sql.accounts import Amounts

router = v1_router("/usage", "usage")
accuracy_router = v1_router("/accuracy", "outcomes")


def _day_text_only(value: object) -> object:
    """Take a day as a date only; a number could be anything."""
    if not isinstance(value, str) or len(value) != len("2026-01-31"):
        raise ValueError("expected YYYY-MM-DD")
    return value


Day = Annotated[date, BeforeValidator(_day_text_only)]


Until = Annotated[Day | None, Query(description="last day (UTC); else today")]


def _days_between(
    since: date | None, until: date | None, *, now: float, usual: int, most: int, code: str
) -> tuple[date, date]:
    """Return the first and the last day that are meant: the `usual` last ones where nothing is said.

    Raises:
        MailsiftError: `code` where these are none, or more than `most`.
    """
    last = until or utc_datetime(now).date()
    first = since or last - timedelta(days=min(usual - 1, last.toordinal() - 1))
    if not 0 <= (last - first).days < most:
        raise MailsiftError(code, f"From `since` to `until` there are 1 to {most} days.")
    return first, last


class AmountsResponse(ViewModel):
    """What was used."""

    rows: int = Field(description="rows of lists, and addresses sent alone or in a batch, with a verdict")
    addresses: int = Field(description="distinct addresses among them, within a list or a batch")
    probes: int = Field(description="mailboxes about which a mail server was asked and answered")


class DayResponse(AmountsResponse):
    """What was used on one day, in all and by mode."""

    day: date
    modes: dict[str, AmountsResponse] = Field(description="by `fast`, `medium` and `deep`, where used")


class UsageResponse(BaseModel):
    """What the account used; a day without use is left out."""

    since: date
    until: date
    total: AmountsResponse
    days: list[DayResponse] = Field(description="the oldest first")


@router.get("", **operation("What was used, by day", UsageResponse, "usage_range_invalid"))
async def get_usage(
    request: Request,
    caller: JobReader,
    since: Annotated[Day | None, Query(description="first day (UTC); else 29 days before `until`")] = None,
    until: Until = None,
) -> JSONResponse:
    """Show what the account used by day (UTC) and mode; single addresses are counted within seconds."""
    parts = parts_of(request)
    first, last = _days_between(
        since, until, now=parts.clock(), usual=30, most=366, code="usage_range_invalid"
    )
    found = await parts.usage.days(caller.account_id, first, last)
    days = []
    for day, of_day in groupby(found, lambda one: one.day):
        modes = {one.mode: one.amounts for one in of_day}
        amounts = AmountsResponse.model_validate(sum(modes.values(), Amounts()))
        days.append(DayResponse.model_validate({**amounts.model_dump(), "day": day, "modes": modes}))
    total = AmountsResponse.model_validate(sum((one.amounts for one in found), Amounts()))
    return answer(UsageResponse(since=first, until=last, total=total, days=days))


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


@accuracy_router.get(
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
    caller: JobReader,
    by: Annotated[list[GroupBy] | None, Query(max_length=4, description="what to break it down by")] = None,
    since: Annotated[Day | None, Query(description="first day (UTC); else 89 days before `until`")] = None,
    until: Until = None,
    format: AccuracyFormat = AccuracyFormat.JSON,  # noqa: A002 - the word for it
) -> Response:
    """Show how often the verdicts of these days were right; an outcome counts for the day of the verdict."""
    parts = parts_of(request)
    first, last = _days_between(
        since, until, now=parts.clock(), usual=90, most=731, code="accuracy_range_invalid"
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
    fields = {"since": first, "until": last, "rows": found, "calibration": held}
    return answer(AccuracyResponse.model_validate(fields))
