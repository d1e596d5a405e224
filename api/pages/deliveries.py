"""/webhooks/…/deliveries: what was sent to a webhook, every attempt, and sending it again."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Final
from uuid import UUID

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response

from api.pages.attempts import attempt
from api.pages.forms import choice, read_form
from api.pages.page import now_of, render
from api.pages.visitor import Role, Signed, Visitor
from api.pages.webhook_words import STATES, WRONG
from api.parts import parts_of

router = APIRouter(prefix="/webhooks", include_in_schema=False)

Reader = Annotated[Visitor, Depends(Signed(Role.VIEWER))]
Member = Annotated[Visitor, Depends(Signed(Role.MEMBER))]

_PAGE: Final = 25
SPANS: Final = {"1": "the last day", "7": "the last 7 days", "30": "the last 30 days"}


@router.get("/{webhook_id:uuid}/deliveries")
async def deliveries(
    request: Request, visitor: Reader, webhook_id: UUID, before: UUID | None = None
) -> Response:
    """List what was sent to a webhook, newest first."""
    service = parts_of(request).webhooks
    webhook = await service.get(visitor.account_id, webhook_id)
    last = await service.delivery(visitor.account_id, before) if before else None
    found = await service.deliveries(
        visitor.account_id, webhook_id, limit=_PAGE + 1, before=(last.created_at, last.id) if last else None
    )
    return render(
        request,
        "deliveries.html",
        webhook=webhook,
        deliveries=found[:_PAGE],
        following=found[_PAGE - 1].id if len(found) > _PAGE else None,
        before=before,
        states=STATES,
        spans=list(SPANS.items()),
    )


@router.get("/deliveries/{delivery_id:uuid}")
async def delivery(request: Request, visitor: Reader, delivery_id: UUID) -> Response:
    """Show a delivery with every attempt and what the receiver said."""
    service = parts_of(request).webhooks
    view = await service.delivery(visitor.account_id, delivery_id)
    return render(
        request,
        "delivery.html",
        delivery=view,
        webhook=await service.get(visitor.account_id, view.endpoint_id),
        attempts=await service.attempts(visitor.account_id, delivery_id),
        states=STATES,
        wrong=WRONG,
    )


@router.post("/deliveries/{delivery_id:uuid}/redeliver")
async def redeliver(request: Request, visitor: Member, delivery_id: UUID) -> Response:
    """Send one event again."""
    await read_form(request)
    parts = parts_of(request)

    async def change() -> None:
        view = await parts.webhooks.redeliver(visitor.account_id, delivery_id)
        webhook = await parts.webhooks.get(visitor.account_id, view.endpoint_id)
        await parts.people.members.note(visitor, "webhook.redeliver", webhook.url, event=str(view.event_id))

    return await attempt(request, f"/webhooks/deliveries/{delivery_id}", change(), "The event is sent again.")


@router.post("/{webhook_id:uuid}/redeliver")
async def redeliver_failed(request: Request, visitor: Member, webhook_id: UUID) -> Response:
    """Send again everything that was given up or skipped."""
    form, parts = await read_form(request), parts_of(request)
    days = choice(form, "days", SPANS)

    async def change() -> None:
        since = now_of(request) - timedelta(days=int(days))
        count = await parts.webhooks.redeliver_failed(visitor.account_id, webhook_id, since=since)
        webhook = await parts.webhooks.get(visitor.account_id, webhook_id)
        await parts.people.members.note(
            visitor, "webhook.redeliver_failed", webhook.url, of=SPANS[days], events=count
        )

    done = f"What had failed in {SPANS[days]} is sent again."
    return await attempt(request, f"/webhooks/{webhook_id}/deliveries", change(), done)
