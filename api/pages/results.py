"""/jobs/{id}/results: the rows, a page at a time, filtered and searched; and one row with its evidence."""

from __future__ import annotations

from typing import Annotated, Final
from urllib.parse import urlencode
from uuid import UUID

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, Response
from pydantic import BaseModel, Field

from api.pages.job_shown import job_on_page
from api.pages.jobs import Viewer
from api.pages.page import now_of, render, see
from api.pages.validate import verdict_shown
from api.pages.visitor import Visitor
from api.pages.words import result_choices, result_name
from api.parts import parts_of
from jobs.export import ExportFormat
from jobs.result_views import ResultsPage, Wanted
from jobs.views import JobId
from pipeline.errors import MailsiftError
from pipeline.syntax_exact import parse_exact
from pipeline.verdict import Result, Status

router = APIRouter(include_in_schema=False)

_A_PAGE: Final = 50
_TEXT: Final = 320
_LAST: Final = 2**31
_CELL: Final = 2_000  # characters shown of a cell


class Asked(BaseModel):
    """What the address of the page says; the page begins behind the row `after`, or with the row `row`."""

    status: str = ""
    result: str = ""
    domain: str = Field(default="", max_length=_TEXT)
    provider: str = Field(default="", max_length=_TEXT)
    q: str = Field(default="", max_length=_TEXT)
    at: str = ""
    after: int = Field(default=-1, ge=-1, le=_LAST)
    row: str = Field(default="", max_length=12)

    @property
    def narrowed(self) -> bool:
        """Whether some rows are left out."""
        return any((self.status, self.result, self.domain, self.provider, self.q))

    def wanted(self) -> Wanted:
        """Return which rows are meant; a word that is none of ours narrows nothing."""
        return Wanted(
            statuses=frozenset({Status(self.status)}) if self.status in set(Status) else frozenset(),
            result=self.result if self.result in set(Result) else "",
            domain=_canonical(self.domain),
            provider=self.provider.strip(),
            text=self.q.strip(),
            at_start=self.at == "start",
        )

    def address(self, job_id: UUID, after: int | None) -> str:
        """Return where the rows behind `after` are shown, "" for None."""
        if after is None:
            return ""
        told = {name: value for name, value in self.model_dump(exclude={"after", "row"}).items() if value}
        if after >= 0:
            told["after"] = after
        return f"/jobs/{job_id}/results" + (f"?{urlencode(told)}" if told else "")


@router.get("/jobs/{job_id:uuid}/results")
async def results(
    request: Request, visitor: Viewer, job_id: UUID, asked: Annotated[Asked, Query()]
) -> Response:
    """Show some rows with their verdicts."""
    view = await parts_of(request).jobs.get(visitor.account_id, JobId(job_id))
    begin = asked.row.replace(",", "")
    if begin.isdecimal():
        return see(request, asked.address(job_id, min(max(int(begin), 1), _LAST) - 2))
    page = await _page(request, visitor, JobId(job_id), asked)
    return render(
        request,
        "results.html",
        job=job_on_page(view, now_of(request)),
        page=page,
        asked=asked,
        results=result_choices(),
        result_name=result_name,
        statuses=list(Status),
        formats=list(ExportFormat),
        next_href=asked.address(job_id, page.next) if page else "",
        previous_href=asked.address(job_id, page.previous) if page else "",
    )


@router.get("/jobs/{job_id:uuid}/rows/{number:int}")
async def one_row(request: Request, visitor: Viewer, job_id: UUID, number: int) -> HTMLResponse:
    """Show one row, counted from 1, with its cells and what is behind its verdict."""
    if not 1 <= number <= _LAST:
        raise MailsiftError("row_not_found", "The list has no such row.")
    parts = parts_of(request)
    view = await parts.jobs.get(visitor.account_id, JobId(job_id))
    found = await parts.browser.row(visitor.account_id, JobId(job_id), number - 1)
    return render(
        request,
        "row.html",
        job=job_on_page(view, now_of(request)),
        number=number,
        cells=[(name, cell[:_CELL]) for name, cell in found.cells],
        shown=verdict_shown(found.address, found.verdict, found.evidence),
    )


async def _page(request: Request, visitor: Visitor, job_id: JobId, asked: Asked) -> ResultsPage | None:
    """Return the rows, None while there are none to be had."""
    try:
        return await parts_of(request).browser.page(
            visitor.account_id, job_id, asked.wanted(), after=asked.after, limit=_A_PAGE
        )
    except MailsiftError as error:
        if error.code not in {"no_results_yet", "blob_not_found"}:
            raise
        return None


def _canonical(domain: str) -> str:
    """Return a domain as the canonical form of addresses writes it; what is none stays as it is."""
    typed = domain.strip().removeprefix("@").lower()
    return parse_exact(f"x@{typed}").domain or typed if typed else ""
