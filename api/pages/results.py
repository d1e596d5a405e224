"""/jobs/{id}/results, /rows and /runs: rows and their evidence, and what changed between runs of a list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final
from uuid import UUID

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, Response
from pydantic import BaseModel, Field

from mailsift.api.http.downloads import ExportOptions, download
from mailsift.api.pages import cookies
from mailsift.api.pages.charts import STATUS_ORDER
from mailsift.api.pages.evidence import verdict_detail
from mailsift.api.pages.jobs import JobOnPage, job_on_page
from mailsift.api.pages.page import render, see, with_query
from mailsift.api.pages.tiers import COLOURS, NAMES, REASONS, tiers_of
from mailsift.api.pages.visitor import JobReader
from mailsift.api.pages.words import provider_key, provider_name, result_choices, result_name
from mailsift.api.parts import parts_of
from mailsift.jobs.results.breakdown import Diff
from mailsift.jobs.results.browse import PageRequest, RowFilter, SortBy, canonical_domain
from mailsift.jobs.results.export import ExportFormat
from mailsift.jobs.views import AccountId, JobId
from mailsift.pipeline.errors import MailsiftError, SuppressCodes
from mailsift.pipeline.tiers import Tier
from mailsift.pipeline.verdict import Result, Status

router = APIRouter(include_in_schema=False)

_A_PAGE: Final = 50
_SIZES: Final = (25, 50, 100)
_COLUMNS: Final = 8  # of the customer's, beside the address
_NARROWING: Final = ("tier", "status", "result", "domain", "provider", "q")
_SORTED: Final = {"row": "Row", "email": "Address", "score": "Score", "result": "Reason"}
_TEXT: Final = 320
_YEAR: Final = 31_536_000
_LAST: Final = 2**31
_CUT: Final = 60  # characters shown of a cell in the table
_CELL: Final = 2_000  # characters shown of a cell
_COMPARED: Final = 200_000  # rows of a run that is compared without being asked
_NAMED: Final = 200  # changed addresses on the page of runs
_NOT_COMPARABLE: Final = frozenset({"no_results_yet", "not_the_same_list", "job_not_found", "blob_not_found"})


class PageQuery(BaseModel):
    """What the address of the page says; the page begins behind the row `after`, or with the row `row`.

    `column` names the customer's columns to be shown; with `columns` they were chosen, even if none is named.
    """

    tier: str = ""
    status: str = ""
    result: str = ""
    domain: str = Field(default="", max_length=_TEXT)
    provider: str = Field(default="", max_length=_TEXT)
    q: str = Field(default="", max_length=_TEXT)
    at: str = ""
    sort: str = ""
    size: int = Field(default=_A_PAGE, ge=1, le=max(_SIZES))
    columns: str = ""
    column: list[str] = Field(default_factory=list, max_length=200)
    after: int = Field(default=-1, ge=-1, le=_LAST)
    row: str = Field(default="", max_length=12)

    @property
    def narrowed(self) -> bool:
        """Whether some rows are left out."""
        return any(getattr(self, name) for name in _NARROWING)

    @property
    def order(self) -> SortBy:
        """The order; a word that is none of ours is the list's."""
        return SortBy(self.sort) if self.sort in set(SortBy) else SortBy.ROW

    @property
    def chosen(self) -> list[str] | None:
        """The customer's columns that are shown, None where nobody has chosen."""
        return self.column[:_COLUMNS] if self.columns or self.column else None

    def wanted(self) -> RowFilter:
        """Return which rows are meant; a word that is none of ours narrows nothing."""
        return RowFilter(
            tiers=frozenset({Tier(self.tier)}) if self.tier in set(Tier) else frozenset(),
            statuses=frozenset({Status(self.status)}) if self.status in set(Status) else frozenset(),
            results=frozenset({self.result}) if self.result in set(Result) else frozenset(),
            domain=canonical_domain(self.domain),
            provider=provider_key(self.provider),
            text=self.q.strip(),
            at_start=self.at == "start",
        )

    def address(self, job_id: JobId, after: int | None = -1) -> str:
        """Return where the rows behind `after` are shown, "" for None."""
        if after is None:
            return ""
        return with_query(
            f"/jobs/{job_id}/results", {**self.query(), "after": str(after) if after >= 0 else ""}
        )

    def but(self, job_id: JobId, name: str, value: str = "") -> str:
        """Return where the same is shown, from the start, with one field asked otherwise."""
        return self.model_copy(update={name: value}).address(job_id)

    def query(self) -> dict[str, object]:
        """Return what the address has to say for these rows in this shape, from the start."""
        said = self.model_dump(exclude={"after", "row"})
        return {name: value for name, value in said.items() if value and (name, value) != ("size", _A_PAGE)}


@dataclass(frozen=True, slots=True)
class ActiveFilter:
    """A filter that is set, and where the page is without it."""

    words: str
    href: str


def chips_of(asked: PageQuery, job_id: JobId) -> list[ActiveFilter]:
    """Return the filters that are set, beside the verdict, which has tabs of its own."""
    said = {
        "status": asked.status.capitalize(),
        "result": result_name(asked.result),
        "domain": f"Domain: {asked.domain}",
        "provider": f"Provider: {provider_name(provider_key(asked.provider))}",
        "q": f"{'Starts with' if asked.at == 'start' else 'Contains'}: {asked.q}",
    }
    return [
        ActiveFilter(words, asked.but(job_id, name)) for name, words in said.items() if getattr(asked, name)
    ]


@dataclass(frozen=True, slots=True)
class SortLink:
    """A head of a column by which rows can be put in order; `state` is what aria-sort says."""

    label: str
    href: str
    state: str


def sort_links(asked: PageQuery, job_id: JobId) -> dict[str, SortLink]:
    """Return the heads of the columns that sort; a second click turns the order round."""
    links = {}
    for name, label in _SORTED.items():
        turned = SortBy.ROW if name == "row" else SortBy(f"-{name}")
        up, down = asked.order == name, asked.order is turned and name != "row"
        to = turned if up else SortBy(name)
        state = "ascending" if up else "descending" if down else "none"
        links[name] = SortLink(label, asked.but(job_id, "sort", "" if to is SortBy.ROW else to.value), state)
    return links


@dataclass(frozen=True, slots=True)
class StatusTable:
    """Addresses by status before and after: `cells[before][after]`."""

    cells: dict[Status, dict[Status, int]]

    @property
    def moves(self) -> list[tuple[Status, Status, int]]:
        """From which status to which other one how many went, the most first."""
        found = [
            (before, after, count)
            for before, row in self.cells.items()
            for after, count in row.items()
            if count and before is not after
        ]
        return sorted(found, key=lambda move: -move[2])

    @property
    def changed(self) -> int:
        """How many changed theirs."""
        return sum(count for _, _, count in self.moves)


@router.get("/jobs/{job_id:uuid}/results")
async def results(
    request: Request, visitor: JobReader, job_id: JobId, asked: Annotated[PageQuery, Query()]
) -> Response:
    """Show some rows with their verdicts."""
    view = await parts_of(request).jobs.get(visitor.account_id, job_id)
    begin = asked.row.replace(",", "")
    if begin.isdecimal():
        return see(asked.address(job_id, min(max(int(begin), 1), _LAST) - 2))
    page = None  # while there are no rows to be had
    with SuppressCodes("no_results_yet", "blob_not_found"):
        wanted = PageRequest(asked.size, asked.after, asked.order, asked.chosen)
        page = await parts_of(request).jobs.browser.page(visitor.account_id, job_id, asked.wanted(), wanted)
    return render(
        request,
        "results.html",
        job=job_on_page(view, request),
        page=page,
        asked=asked,
        chips=chips_of(asked, job_id),
        tabs=[
            (word, colour, label, count, asked.but(job_id, "tier", word))
            for word, colour, label, count in (
                ("", "", "All", view.processed),
                *((tier.tier.value, tier.colour.value, tier.label, tier.rows) for tier in tiers_of(view)),
            )
        ],
        heads=sort_links(asked, job_id),
        tier_names=NAMES,
        tier_colours=COLOURS,
        tier_reasons=REASONS,
        sizes=_SIZES,
        most_columns=_COLUMNS,
        cut=_CUT,
        results=result_choices(),
        format=cookies.read(request, cookies.FORMAT),
        next_href=asked.address(job_id, page.next) if page else "",
        previous_href=asked.address(job_id, page.previous) if page else "",
    )


class FileQuery(PageQuery):
    """Which rows are wanted as a file of which kind."""

    format: ExportFormat = ExportFormat.CSV


@router.get("/jobs/{job_id:uuid}/download")
async def get_file(
    request: Request, visitor: JobReader, job_id: JobId, asked: Annotated[FileQuery, Query()]
) -> Response:
    """Return the results as a file, all rows or those the page shows."""
    options = ExportOptions(asked.format, asked.wanted())
    file = await download(request, parts_of(request).jobs, visitor.account_id, job_id, options)
    cookies.put(file, cookies.FORMAT, asked.format.value, seconds=_YEAR)
    return file


@router.get("/jobs/{job_id:uuid}/rows/{number:int}")
async def one_row(request: Request, visitor: JobReader, job_id: JobId, number: int) -> HTMLResponse:
    """Show one row, counted from 1, with its cells and what is behind its verdict."""
    if not 1 <= number <= _LAST:
        raise MailsiftError("row_not_found", "This list has no such row.")
    parts = parts_of(request)
    view = await parts.jobs.get(visitor.account_id, job_id)
    found = await parts.jobs.browser.row(visitor.account_id, job_id, number - 1)
    (chance,) = await parts.accuracy.chances_of_rows(
        visitor.account_id, job_id, [(found.judged, found.verdict)]
    )
    return render(
        request,
        "row.html",
        job=job_on_page(view, request),
        number=number,
        cells=[(name, cell[:_CELL]) for name, cell in found.cells],
        detail=verdict_detail(
            found.address, found.verdict, found.evidence, judged=found.judged, chance=chance
        ),
        tier=(NAMES[found.tier], COLOURS[found.tier], REASONS.get(found.tier_reason, "")),
    )


@router.get("/jobs/{job_id:uuid}/runs")
async def runs(request: Request, visitor: JobReader, job_id: JobId, against: str = "") -> HTMLResponse:
    """Show the runs of a list; with `against`, what changed since that one."""
    parts = parts_of(request)
    view = await parts.jobs.get(visitor.account_id, job_id)
    about = await parts.jobs.history(visitor.account_id, job_id)
    others = [job_on_page(run, request) for run in about.runs]
    earlier = next((run for run in others if str(run.view.id) == against), None)
    diff, trouble = None, None
    if earlier is not None:
        diff, trouble = await _compared(request, visitor.account_id, earlier, job_id)
    return render(
        request,
        "runs.html",
        job=job_on_page(view, request),
        about=about,
        runs=others,
        against=against,
        earlier=earlier,
        diff=diff,
        table=_table(diff) if diff else None,
        trouble=trouble,
        named=_NAMED,
    )


@router.get("/jobs/{job_id:uuid}/bounces")
async def bounces(request: Request, visitor: JobReader, job_id: JobId) -> HTMLResponse:
    """Return what would come back of the list, for a page that asks for it once."""
    found = None
    with SuppressCodes("blob_not_found"):  # as on every page of a job: results that are gone are none
        found = await parts_of(request).accuracy.expected_bounces(visitor.account_id, job_id)
    return render(request, "job_bounces.html", bounces=found)


@router.get("/jobs/{job_id:uuid}/changes")
async def changes(request: Request, visitor: JobReader, job_id: JobId, against: UUID) -> HTMLResponse:
    """Return one sentence about what changed since an earlier run, for a page that asks for it once."""
    parts = parts_of(request)
    earlier = job_on_page(await parts.jobs.get(visitor.account_id, JobId(against)), request)
    diff = None
    if earlier.view.total <= _COMPARED:
        diff, _ = await _compared(request, visitor.account_id, earlier, job_id)
    table = _table(diff) if diff else None
    return render(
        request,
        "job_changes.html",
        job_id=job_id,
        earlier=earlier.view,
        diff=diff,
        changed=table.changed if table else 0,
        moves=table.moves if table else [],
    )


async def _compared(
    request: Request, account_id: AccountId, earlier: JobOnPage, job_id: JobId
) -> tuple[Diff | None, MailsiftError | None]:
    try:
        found = await parts_of(request).jobs.diff(account_id, earlier.view.id, job_id, limit=_NAMED)
    except MailsiftError as error:
        if error.code not in _NOT_COMPARABLE:
            raise
        return None, error
    return found, None


def _table(diff: Diff) -> StatusTable:
    cells: dict[Status, dict[Status, int]] = {
        before: dict.fromkeys(STATUS_ORDER, 0) for before in STATUS_ORDER
    }
    for move in diff.moves:
        before, after = (Status(move[side]["status"]) for side in ("before", "after"))
        cells[before][after] += move["addresses"]
    return StatusTable(cells)
