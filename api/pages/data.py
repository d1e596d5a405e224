"""/account/data: what is kept of the account and until when, erasing it, and receipts of that."""

from __future__ import annotations

import json
from datetime import UTC
from typing import Final
from uuid import UUID

from fastapi import APIRouter, Request
from fastapi.responses import Response

from mailsift.accounts.people import Visitor
from mailsift.api.pages.forms import Form, text
from mailsift.api.pages.page import HEADERS, render, see
from mailsift.api.pages.visitor import Owner, Reader
from mailsift.api.parts import parts_of
from mailsift.jobs.holdings import Erasable
from mailsift.pipeline.errors import MailsiftError
from mailsift.storage.sql.holdings import Receipt

router = APIRouter(prefix="/account/data", include_in_schema=False)

_ERASABLE: Final = {
    Erasable.LISTS.value: "Lists, with their results and evidence",
    Erasable.OUTCOMES.value: "Outcomes, and what was counted by them",
    Erasable.SUPPRESSIONS.value: "Suppressions",
}


@router.get("")
async def data(request: Request, visitor: Reader) -> Response:
    """Show what is kept of the account."""
    return await _data(request, visitor)


@router.post("/erase")
async def erase(request: Request, visitor: Owner, form: Form) -> Response:
    """Erase what is ticked, once the account's name is typed."""
    what = [one for one in Erasable if one.value in form.getlist("what")]
    error = None
    if not what:
        error = MailsiftError("bad_option", "Select what to erase.")
    elif text(form, "name") != visitor.account_name:
        error = MailsiftError("bad_option", "Type the account name exactly as shown.")
    if error:
        return await _data(request, visitor, ticked=[one.value for one in what], error=error)
    receipt = await parts_of(request).holdings.erase(
        visitor.account_id, what, person_id=visitor.user_id, actor=visitor.email
    )
    return see("/account/data#receipts", f"It is erased. The receipt has the number {receipt}.")


@router.get("/receipts/{receipt_id:uuid}.json")
async def receipt(request: Request, visitor: Reader, receipt_id: UUID) -> Response:
    """Return a receipt: what was erased, when and by whom; no address is in it."""
    found = await parts_of(request).holdings.receipt(visitor.account_id, receipt_id)
    headers = {**HEADERS, "Content-Disposition": f'attachment; filename="receipt-{found.id}.json"'}
    body = json.dumps(_receipt_fields(found, visitor), ensure_ascii=False, indent=2)
    return Response(body + "\n", media_type="application/json", headers=headers)


def _receipt_fields(found: Receipt, visitor: Visitor) -> dict[str, object]:
    return {
        "receipt": str(found.id),
        "account": str(visitor.account_id),
        "person": str(found.person_id),
        "erased_at": found.at.astimezone(UTC).isoformat(timespec="seconds"),
        "erased": found.erased,
    }


async def _data(
    request: Request,
    visitor: Visitor,
    *,
    ticked: list[str] | None = None,
    error: MailsiftError | None = None,
) -> Response:
    return render(
        request,
        "account_data.html",
        status=422 if error else 200,
        kept=await parts_of(request).holdings.kept_data(visitor.account_id),
        erasable=_ERASABLE,
        ticked=ticked or [],
        error=error,
    )
