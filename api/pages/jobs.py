"""/jobs: every list that was started, newest first, with live progress."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import HTMLResponse

from api.pages.job_shown import job_on_page
from api.pages.page import now_of, render
from api.pages.visitor import Role, Signed, Visitor
from api.parts import parts_of
from jobs.views import TERMINAL, JobState

router = APIRouter(include_in_schema=False)

Viewer = Annotated[Visitor, Depends(Signed(Role.VIEWER))]

_A_PAGE: Final = 25
_NAME: Final = 100

FILTERS: Final[Mapping[str, tuple[str, frozenset[JobState]]]] = {
    "": ("All", frozenset()),
    "active": ("Active", frozenset(JobState) - TERMINAL),
    "completed": ("Completed", frozenset({JobState.COMPLETED})),
    "failed": ("Failed", frozenset({JobState.FAILED})),
    "cancelled": ("Cancelled", frozenset({JobState.CANCELLED})),
}
"""Label and states by the word in the address."""


@router.get("/jobs")
async def jobs(
    request: Request,
    visitor: Viewer,
    state: str = "",
    q: Annotated[str, Query(max_length=_NAME)] = "",
    cursor: Annotated[str, Query(max_length=1_000)] = "",
) -> HTMLResponse:
    """List the jobs."""
    return render(request, "jobs.html", **await _listed(request, visitor, state, q.strip(), cursor))


@router.get("/jobs/rows")
async def rows(
    request: Request,
    visitor: Viewer,
    state: str = "",
    q: Annotated[str, Query(max_length=_NAME)] = "",
    cursor: Annotated[str, Query(max_length=1_000)] = "",
) -> HTMLResponse:
    """Return the table alone, for a page that keeps it up to date."""
    return render(request, "jobs_rows.html", **await _listed(request, visitor, state, q.strip(), cursor))


async def _listed(request: Request, visitor: Visitor, state: str, q: str, cursor: str) -> dict[str, Any]:
    state = state if state in FILTERS else ""
    name = q.replace("\0", "")
    page = await parts_of(request).queries.page(
        visitor.account_id, limit=_A_PAGE, cursor=cursor, states=FILTERS[state][1], name=name
    )
    asked = {"state": state, "q": name}
    listed = [job_on_page(view, now_of(request)) for view in page.jobs]
    return {
        "jobs": listed,
        "filters": [(word, label, _address(q=name, state=word)) for word, (label, _) in FILTERS.items()],
        "state": state,
        "q": name,
        "again": _address("/jobs/rows", **asked, cursor=cursor),
        "lively": any(not job.ended for job in listed),
        "next_href": _address(**asked, cursor=page.next_cursor) if page.next_cursor else "",
        "first_href": _address(**asked) if cursor else "",
    }


def _address(path: str = "/jobs", **asked: str) -> str:
    told = urlencode({name: value for name, value in asked.items() if value})
    return f"{path}?{told}" if told else path
