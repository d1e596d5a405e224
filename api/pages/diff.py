"""/jobs/{id}/runs: the other runs of a list, and what changed between two of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from api.pages import mix_chart
from api.pages.job_shown import JobOnPage, job_on_page
from api.pages.jobs import Viewer
from api.pages.page import now_of, render
from api.pages.words import result_name
from api.parts import parts_of
from jobs.diff import Diff
from jobs.views import AccountId, JobId
from pipeline.errors import MailsiftError
from pipeline.verdict import Status

router = APIRouter(include_in_schema=False)

_NAMED: Final = 200
_SOFT: Final = frozenset({"no_results_yet", "not_the_same_list", "job_not_found", "blob_not_found"})


@dataclass(frozen=True, slots=True)
class Table:
    """Addresses by status before and after: `cells[before][after]`, and how many changed theirs."""

    cells: dict[Status, dict[Status, int]]
    changed: int


@router.get("/jobs/{job_id:uuid}/runs")
async def runs(request: Request, visitor: Viewer, job_id: UUID, against: str = "") -> HTMLResponse:
    """Show the runs of a list; with `against`, what changed since that one."""
    parts = parts_of(request)
    view = await parts.jobs.get(visitor.account_id, JobId(job_id))
    about = await parts.history.about(visitor.account_id, JobId(job_id))
    others = [job_on_page(run, now_of(request)) for run in about.runs]
    earlier = next((run for run in others if str(run.view.id) == against), None)
    diff, trouble = None, None
    if earlier is not None:
        diff, trouble = await _compared(request, visitor.account_id, earlier, JobId(job_id))
    return render(
        request,
        "runs.html",
        job=job_on_page(view, now_of(request)),
        about=about,
        runs=others,
        against=against,
        earlier=earlier,
        diff=diff,
        table=_table(diff) if diff else None,
        trouble=trouble,
        named=_NAMED,
        statuses=mix_chart.ORDER,
        result_name=result_name,
    )


async def _compared(
    request: Request, account_id: AccountId, earlier: JobOnPage, job_id: JobId
) -> tuple[Diff | None, MailsiftError | None]:
    try:
        found = await parts_of(request).jobs.diff(account_id, earlier.view.id, job_id, limit=_NAMED)
    except MailsiftError as error:
        if error.code not in _SOFT:
            raise
        return None, error
    return found, None


def _table(diff: Diff) -> Table:
    cells: dict[Status, dict[Status, int]] = {
        before: dict.fromkeys(mix_chart.ORDER, 0) for before in mix_chart.ORDER
    }
    for move in diff.moves:
        cells[_status(move, "before")][_status(move, "after")] += move["addresses"]
    changed = sum(
        count for before, row in cells.items() for after, count in row.items() if before is not after
    )
    return Table(cells, changed)


def _status(move: dict[str, Any], side: str) -> Status:
    return Status(move[side]["status"])
