"""/: one address and its evidence, or a list to be dropped."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse

from api.pages.evidence import Points, Section, points, sections
from api.pages.forms import choice, read_form, text
from api.pages.mix_chart import gauge
from api.pages.page import render
from api.pages.visitor import Role, Signed, Visitor
from api.pages.words import MODES, result_name
from api.parts import parts_of
from jobs.drafts import Draft
from pipeline.errors import MailsiftError
from pipeline.facts import Mode
from pipeline.single import Wish
from pipeline.verdict import Status

router = APIRouter(include_in_schema=False)

FRAGMENT: Final = "X-Fragment"
"""Header of a script that wants only the piece of a page it asked for, and errors as JSON."""
_LONGEST: Final = 1_000
_DEADLINE: Final = 20.0  # seconds; what is not known by then makes the verdict risky


@dataclass(frozen=True, slots=True)
class VerdictShown:
    """A verdict with everything behind it, as pages show it; `chart` is SVG."""

    address: str
    verdict: dict[str, Any]
    result: str
    chart: str
    sections: list[Section]
    points: list[Points]
    seconds: float = 0.0


def verdict_shown(
    address: str, verdict: dict[str, Any], evidence: dict[str, Any], seconds: float = 0.0
) -> VerdictShown:
    """Lay a verdict out; `evidence` is {} when none was kept."""
    return VerdictShown(
        address=address,
        verdict=verdict,
        result=result_name(verdict["result"]),
        chart=gauge(verdict["score"], Status(verdict["status"])),
        sections=sections(verdict, evidence),
        points=points(evidence),
        seconds=seconds,
    )


@router.get("/")
async def validate(
    request: Request, visitor: Annotated[Visitor, Depends(Signed(Role.VIEWER))]
) -> HTMLResponse:
    """Show the form for one address and the place for a list."""
    return _page(request, await _drafts(request, visitor))


@router.post("/")
async def validate_one(
    request: Request, visitor: Annotated[Visitor, Depends(Signed(Role.MEMBER))]
) -> HTMLResponse:
    """Validate one address; the answer shows it, and nothing of it is kept."""
    form = await read_form(request)
    email = text(form, "email", most=_LONGEST)
    mode = Mode(choice(form, "mode", {mode.value: mode for mode in Mode}))
    if not email:
        raise MailsiftError("bad_option", "Type an address first.")
    started = time.monotonic()
    wish = Wish(mode, _DEADLINE, owner=str(visitor.account_id), evidence=True)
    told = await parts_of(request).single.judge(email, wish)
    evidence = json.loads(told.pop("evidence") or "{}")
    shown = verdict_shown(email, told, evidence, time.monotonic() - started)
    if FRAGMENT in request.headers:
        return render(request, "verdict.html", shown=shown)
    return _page(request, await _drafts(request, visitor), mode=mode, shown=shown)


async def _drafts(request: Request, visitor: Visitor) -> list[Draft]:
    return await parts_of(request).drafts.waiting(visitor.account_id)


def _page(
    request: Request, drafts: list[Draft], *, mode: Mode = Mode.DEEP, shown: VerdictShown | None = None
) -> HTMLResponse:
    return render(
        request,
        "validate.html",
        drafts=drafts,
        mode=mode,
        modes=MODES,
        shown=shown,
        max_bytes=parts_of(request).max_bytes,
    )
