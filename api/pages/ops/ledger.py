"""/ops/ledger: what each source asked of each provider, how that was taken, and the pace it has earned."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import Response

from mailsift.api.pages.page import render
from mailsift.api.pages.visitor import Operator
from mailsift.api.parts import parts_of
from mailsift.pipeline.standing import LedgerKind

router = APIRouter(prefix="/ops", include_in_schema=False)

SPANS: Final = {"1": "1 day", "7": "7 days", "30": "30 days", "90": "90 days"}
MEANING: Final = {
    LedgerKind.RATE: "too fast",
    LedgerKind.REPUTATION: "listed or a bad name",
    LedgerKind.IDENTITY: "our name or sender",
    LedgerKind.POLICY: "another reason",
}


@router.get("/ledger")
async def ledger(request: Request, _: Operator, days: str = "1") -> Response:
    """Show the ledger of some days."""
    span = days if days in SPANS else "1"
    rows = await parts_of(request).operations.console.ledger(hours=24 * int(span))
    return render(
        request, "ops/ledger.html", rows=rows, span=span, spans=SPANS, kinds=LedgerKind, meaning=MEANING
    )
