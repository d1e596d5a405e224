"""/accuracy and /ops/accuracy: how often an account's verdicts, or all, were right; numbers and pictures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, timedelta
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from mailsift.api.pages.charts import diagram, over_time
from mailsift.api.pages.page import render
from mailsift.api.pages.visitor import Operator, Reader
from mailsift.api.pages.words import provider_name, result_name
from mailsift.api.parts import ApiParts, parts_of
from mailsift.jobs.outcomes.accuracy import GroupBy, to_csv
from mailsift.jobs.views import AccountId
from mailsift.pipeline.clock import utc_datetime
from mailsift.pipeline.outcomes.chances import FEWEST

router = APIRouter(prefix="/accuracy", include_in_schema=False)
ops_router = APIRouter(prefix="/ops/accuracy", include_in_schema=False)

_DAYS: Final = 90
_SHOWN: Final = 30  # groups in a table; the file has all
_TABS: Final = {GroupBy.RESULT: "By result", GroupBy.PROVIDER: "By provider", GroupBy.MODE: "By mode"}


_NAMED: Final[Mapping[GroupBy, Callable[[str], str]]] = {
    GroupBy.RESULT: result_name,
    GroupBy.PROVIDER: lambda key: provider_name(key) if key else "Not looked up",
    GroupBy.MODE: str.capitalize,
}


@router.get("")
async def accuracy(
    request: Request, visitor: Reader, by: Annotated[GroupBy, Query()] = GroupBy.RESULT
) -> Response:
    """Show what became of the forecasts of the last 90 days."""
    calibration = await parts_of(request).accuracy.calibration(visitor.account_id)
    return render(
        request,
        "accuracy.html",
        **await reported(request, visitor.account_id, by),
        calibration=calibration,
        diagram=diagram(calibration) if calibration else "",
        fewest=FEWEST,
    )


async def reported(request: Request, account_id: AccountId | None, by: GroupBy) -> dict[str, Any]:
    """Return what `accuracy_table.html` shows: of an account, or of all accounts where it is None."""
    parts = parts_of(request)
    first, last = _span(parts)
    report = parts.accuracy.report
    whole = await report(account_id, (), first, last)
    rows = await report(account_id, (by,), first, last)
    days = await report(account_id, (GroupBy.DAY,), first, last)
    return {
        "whole": whole[0] if whole else None,
        "rows": sorted(rows, key=lambda row: (-row.judged, row.group))[:_SHOWN],
        "more": max(0, len(rows) - _SHOWN),
        "by": by,
        "named": _NAMED.get(by, str),
        "tabs": _TABS,
        "history": over_time([(row.group[0], row.delivered) for row in days if row.delivered]),
        "days": _DAYS,
    }


def _span(parts: ApiParts) -> tuple[date, date]:
    last = utc_datetime(parts.clock()).date()
    return last - timedelta(days=_DAYS - 1), last


@router.get("/export.csv")
async def export(request: Request, visitor: Reader) -> Response:
    """Return all numbers by provider, mode, result and day as CSV."""
    return await exported(request, visitor.account_id)


async def exported(request: Request, account_id: AccountId | None) -> Response:
    """Return all numbers of an account, or of all accounts together, as CSV."""
    parts, groups = parts_of(request), tuple(GroupBy)
    rows = await parts.accuracy.report(account_id, groups, *_span(parts))
    headers = {"Content-Disposition": 'attachment; filename="accuracy.csv"'}
    return Response(to_csv(rows, groups), media_type="text/csv; charset=utf-8", headers=headers)


@ops_router.get("")
async def ops_accuracy(
    request: Request, _: Operator, by: Annotated[GroupBy, Query()] = GroupBy.RESULT
) -> Response:
    """Show how the verdicts of the last 90 days held, of all accounts together."""
    return render(request, "ops/accuracy.html", **await reported(request, None, by))


@ops_router.get("/export.csv")
async def ops_export(request: Request, _: Operator) -> Response:
    """Return all numbers as CSV."""
    return await exported(request, None)
