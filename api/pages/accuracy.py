"""/accuracy: how often the account's verdicts were right, as numbers and pictures."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from mailsift.api.pages.charts import diagram, over_time
from mailsift.api.pages.page import render
from mailsift.api.pages.visitor import Reader
from mailsift.api.pages.words import provider_name, result_name
from mailsift.api.parts import parts_of
from mailsift.api.v1.accuracy import to_csv
from mailsift.jobs.outcomes.accuracy import GroupBy
from mailsift.pipeline.outcomes.chances import FEWEST

router = APIRouter(prefix="/accuracy", include_in_schema=False)

_DAYS: Final = 90
_SHOWN: Final = 30  # groups in a table; the file has all
_TABS: Final = {GroupBy.RESULT: "By result", GroupBy.PROVIDER: "By provider", GroupBy.MODE: "By mode"}


def _provider(key: str) -> str:
    return provider_name(key) if key else "Not looked up"


_NAMED: Final = {GroupBy.RESULT: result_name, GroupBy.PROVIDER: _provider, GroupBy.MODE: str.capitalize}


@router.get("")
async def accuracy(
    request: Request, visitor: Reader, by: Annotated[GroupBy, Query()] = GroupBy.RESULT
) -> Response:
    """Show what became of the forecasts of the last 90 days."""
    parts = parts_of(request)
    last = datetime.fromtimestamp(parts.clock(), UTC).date()
    first = last - timedelta(days=_DAYS - 1)
    report = parts.accuracy.report
    whole = await report(visitor.account_id, (), first, last)
    rows = await report(visitor.account_id, (by,), first, last)
    days = await report(visitor.account_id, (GroupBy.DAY,), first, last)
    calibration = await parts.accuracy.calibration(visitor.account_id)
    sent = [row for row in days if row.delivered is not None]
    return render(
        request,
        "accuracy.html",
        whole=whole[0] if whole else None,
        rows=sorted(rows, key=lambda row: (-row.judged, row.group))[:_SHOWN],
        more=max(0, len(rows) - _SHOWN),
        by=by,
        named=_NAMED.get(by, str),
        tabs=_TABS,
        calibration=calibration,
        diagram=diagram(calibration) if calibration else "",
        history=over_time([(row.group[0], row.delivered) for row in sent if row.delivered]),
        fewest=FEWEST,
        days=_DAYS,
    )


@router.get("/export.csv")
async def export(request: Request, visitor: Reader) -> Response:
    """Return all numbers by provider, mode, result and day as CSV."""
    parts = parts_of(request)
    last = datetime.fromtimestamp(parts.clock(), UTC).date()
    groups = tuple(GroupBy)
    first = last - timedelta(days=_DAYS - 1)
    rows = await parts.accuracy.report(visitor.account_id, groups, first, last)
    headers = {"Content-Disposition": 'attachment; filename="accuracy.csv"'}
    return Response(to_csv(rows, groups), media_type="text/csv; charset=utf-8", headers=headers)
