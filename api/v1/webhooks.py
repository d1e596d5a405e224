"""/v1/webhooks: endpoints, their secrets, their deliveries, and tests of them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import JSONResponse

from api.auth import Needs
from api.described import errors
from api.envelope import Envelope, answer
from api.keys import Caller, Scope
from api.parts import parts_of
from api.strict_json import StrictRoute
from api.v1.webhook_shapes import (
    Count,
    Deliveries,
    DeliveryLogged,
    DeliveryShown,
    NewWebhook,
    Rotation,
    Secret,
    Since,
    Tested,
    TestRequest,
    WebhookChange,
    WebhookMade,
    Webhooks,
    WebhookShown,
    plain,
)
from events.views import EndpointView

router = APIRouter(prefix="/v1/webhooks", tags=["webhooks"], route_class=StrictRoute)

Reader = Annotated[Caller, Depends(Needs(Scope.WEBHOOKS_READ))]
Writer = Annotated[Caller, Depends(Needs(Scope.WEBHOOKS_WRITE))]
_FIELD_ERRORS: Final = (
    "webhook_url_invalid",
    "webhook_url_blocked",
    "webhook_type_unknown",
    "webhook_rate_invalid",
)


def _shown(view: EndpointView) -> dict[str, Any]:
    return plain(asdict(view))


@router.post(
    "",
    status_code=201,
    summary="Register a webhook",
    operation_id="create_webhook",
    response_model=Envelope[WebhookMade],
    responses=errors(*_FIELD_ERRORS, "webhook_limit"),
)
async def create(request: Request, wanted: NewWebhook, caller: Writer) -> JSONResponse:
    """Register a webhook; its secret is shown only in this answer."""
    view, secret = await parts_of(request).webhooks.create(
        caller.account_id, wanted.url, wanted.types, rate_per_second=wanted.rate_per_second
    )
    headers = {"Location": f"/v1/webhooks/{view.id}"}
    return answer(
        {**_shown(view), "secret": secret}, "The webhook is registered.", status=201, headers=headers
    )


@router.get(
    "",
    summary="List webhooks",
    operation_id="list_webhooks",
    response_model=Envelope[Webhooks],
    responses=errors(),
)
async def list_webhooks(request: Request, caller: Reader) -> JSONResponse:
    """List the account's webhooks, oldest first."""
    views = await parts_of(request).webhooks.list(caller.account_id)
    return answer({"webhooks": [_shown(view) for view in views]})


@router.post(
    "/test",
    summary="Test a webhook",
    operation_id="test_webhook",
    response_model=Envelope[Tested],
    responses=errors("webhook_not_found", "webhook_test_limit"),
)
async def test(request: Request, wanted: TestRequest, caller: Writer) -> JSONResponse:
    """Send a simulated event once, with the header `webhook-test: true`; it never counts as a failure."""
    outcome = await parts_of(request).webhooks.test(caller.account_id, wanted.webhook_id, wanted.test_type)
    told = plain(asdict(outcome))
    return answer({"delivered": not told["error"], **told}, "The test event was sent.")


@router.get(
    "/deliveries/{delivery_id:uuid}",
    summary="Look at a delivery",
    operation_id="get_delivery",
    response_model=Envelope[DeliveryLogged],
    responses=errors("delivery_not_found"),
)
async def get_delivery(request: Request, caller: Reader, delivery_id: UUID) -> JSONResponse:
    """Look at a delivery and its attempts."""
    service = parts_of(request).webhooks
    view = await service.delivery(caller.account_id, delivery_id)
    log = await service.attempts(caller.account_id, delivery_id)
    return answer({**plain(asdict(view)), "log": [plain(asdict(one)) for one in log]})


@router.post(
    "/deliveries/{delivery_id:uuid}/redeliver",
    status_code=202,
    summary="Send an event again",
    operation_id="redeliver",
    response_model=Envelope[DeliveryShown],
    responses=errors("delivery_not_found", "webhook_disabled", "delivery_conflict"),
)
async def redeliver(request: Request, caller: Writer, delivery_id: UUID) -> JSONResponse:
    """Send an event once more, now."""
    view = await parts_of(request).webhooks.redeliver(caller.account_id, delivery_id)
    return answer(plain(asdict(view)), "The event is sent again.", status=202)


@router.get(
    "/{webhook_id:uuid}",
    summary="Look at a webhook",
    operation_id="get_webhook",
    response_model=Envelope[WebhookShown],
    responses=errors("webhook_not_found"),
)
async def get(request: Request, caller: Reader, webhook_id: UUID) -> JSONResponse:
    """Look at a webhook."""
    return answer(_shown(await parts_of(request).webhooks.get(caller.account_id, webhook_id)))


@router.patch(
    "/{webhook_id:uuid}",
    summary="Change a webhook",
    operation_id="update_webhook",
    response_model=Envelope[WebhookShown],
    responses=errors("webhook_not_found", *_FIELD_ERRORS),
)
async def update(request: Request, wanted: WebhookChange, caller: Writer, webhook_id: UUID) -> JSONResponse:
    """Change a webhook; disabling skips what waits, enabling forgets past failures."""
    view = await parts_of(request).webhooks.update(
        caller.account_id,
        webhook_id,
        url=wanted.url,
        types=wanted.types,
        enabled=wanted.enabled,
        rate_per_second=wanted.new_rate,
    )
    return answer(_shown(view), "The webhook is changed.")


@router.delete(
    "/{webhook_id:uuid}",
    summary="Delete a webhook",
    operation_id="delete_webhook",
    response_model=Envelope[None],
    responses=errors("webhook_not_found"),
)
async def delete(request: Request, caller: Writer, webhook_id: UUID) -> JSONResponse:
    """Delete a webhook with its deliveries."""
    await parts_of(request).webhooks.delete(caller.account_id, webhook_id)
    return answer(None, "The webhook is deleted.")


@router.post(
    "/{webhook_id:uuid}/rotate",
    summary="Rotate a secret",
    operation_id="rotate_webhook_secret",
    response_model=Envelope[Secret],
    responses=errors("webhook_not_found", "webhook_overlap_invalid"),
)
async def rotate(request: Request, wanted: Rotation, caller: Writer, webhook_id: UUID) -> JSONResponse:
    """Give the webhook a new secret; for the time of the overlap the one before signs too."""
    service = parts_of(request).webhooks
    secret = await service.rotate(caller.account_id, webhook_id, overlap_s=wanted.overlap)
    return answer({"secret": secret}, "The secret is rotated.")


@router.get(
    "/{webhook_id:uuid}/deliveries",
    summary="List deliveries",
    operation_id="list_deliveries",
    response_model=Envelope[Deliveries],
    responses=errors("webhook_not_found"),
)
async def deliveries(
    request: Request,
    caller: Reader,
    webhook_id: UUID,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    before: Annotated[UUID | None, Query(description="id of the last delivery of the page before")] = None,
) -> JSONResponse:
    """List the webhook's deliveries, newest first."""
    service = parts_of(request).webhooks
    last = await service.delivery(caller.account_id, before) if before else None
    place = (last.created_at, last.id) if last else None
    views = await service.deliveries(caller.account_id, webhook_id, limit=limit + 1, before=place)
    page = [plain(asdict(view)) for view in views[:limit]]
    return answer({"deliveries": page, "has_more": len(views) > limit})


@router.post(
    "/{webhook_id:uuid}/redeliver",
    status_code=202,
    summary="Send failed events again",
    operation_id="redeliver_failed",
    response_model=Envelope[Count],
    responses=errors("webhook_not_found", "webhook_disabled"),
)
async def redeliver_failed(request: Request, wanted: Since, caller: Writer, webhook_id: UUID) -> JSONResponse:
    """Send again what was given up or skipped since a moment."""
    service = parts_of(request).webhooks
    count = await service.redeliver_failed(caller.account_id, webhook_id, since=wanted.since)
    return answer({"count": count}, "They are sent again.", status=202)
