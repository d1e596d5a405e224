"""GET /v1/usage: what the account used, by day."""

from __future__ import annotations

from datetime import date, timedelta
from itertools import groupby
from typing import Annotated, Final

from fastapi import Query, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, BeforeValidator, Field

from mailsift.api.http.openapi import operation, v1_router
from mailsift.api.http.responses import ViewModel, answer
from mailsift.api.parts import parts_of
from mailsift.api.v1.jobs import Reader
from mailsift.pipeline.clock import utc_datetime
from mailsift.pipeline.errors import MailsiftError
from mailsift.storage.sql.usage import Amounts

router = v1_router("/usage", "usage")

_USUAL_DAYS: Final = 30
_MOST_DAYS: Final = 366


def _day_text_only(value: object) -> object:
    """Take a day as a date only; a number could be anything."""
    if not isinstance(value, str) or len(value) != len("2026-01-31"):
        raise ValueError("expected YYYY-MM-DD")
    return value


Day = Annotated[date, BeforeValidator(_day_text_only)]


Until = Annotated[Day | None, Query(description="last day (UTC); else today")]


def days_between(
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
    caller: Reader,
    since: Annotated[Day | None, Query(description="first day (UTC); else 29 days before `until`")] = None,
    until: Until = None,
) -> JSONResponse:
    """Show what the account used by day (UTC) and mode; single addresses are counted within seconds."""
    parts = parts_of(request)
    first, last = days_between(
        since, until, now=parts.clock(), usual=_USUAL_DAYS, most=_MOST_DAYS, code="usage_range_invalid"
    )
    found = await parts.usage.days(caller.account_id, first, last)
    days = []
    for day, of_day in groupby(found, lambda one: one.day):
        modes = {one.mode: one.amounts for one in of_day}
        amounts = AmountsResponse.model_validate(sum(modes.values(), Amounts()))
        days.append(DayResponse.model_validate({**amounts.model_dump(), "day": day, "modes": modes}))
    total = AmountsResponse.model_validate(sum((one.amounts for one in found), Amounts()))
    return answer(UsageResponse(since=first, until=last, total=total, days=days))
