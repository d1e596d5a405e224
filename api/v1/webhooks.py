"""/v1/webhooks: endpoints, their secrets, their deliveries, and tests of them.

/v1/events: what happened, so that a receiver can look whether it has heard of everything.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import Depends, Query, Request
from fastapi.responses import JSONResponse
from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    StrictBool,
    StrictFloat,
)

from mailsift.accounts.keys import Caller, Scope
from mailsift.api.http.auth import RequireScope
from mailsift.api.http.inputs import Moment, RequestModel, Url, Whole
from mailsift.api.http.openapi import operation, v1_router
from mailsift.api.http.responses import (
    Cursor,
    Limit,
    PageResponse,
    UtcTime,
    ViewModel,
    after_cursor,
    answer,
    id_of_cursor,
    page_of,
)
from mailsift.api.parts import parts_of
from mailsift.events.endpoints import (
    DEFAULT_RATE,
    MAX_OVERLAP_S,
    MAX_RATE,
    MIN_RATE,
    DeliveryView,
    WebhookService,
)
from mailsift.events.payloads import EventType, SimulatedEvent
from mailsift.jobs.views import bad_cursor
from mailsift.pipeline.errors import MailsiftError
from mailsift.storage.sql.deliveries import EventFilter, EventRow

router = v1_router("/webhooks", "webhooks")

deliveries_router = v1_router("/deliveries", "webhooks")
events_router = v1_router("/events", "events")

_WebhookReader = Annotated[Caller, Depends(RequireScope(Scope.WEBHOOKS_READ))]
_WebhookWriter = Annotated[Caller, Depends(RequireScope(Scope.WEBHOOKS_WRITE))]
_FIELD_ERRORS: Final = (
    "webhook_url_invalid",
    "webhook_url_blocked",
    "webhook_type_unknown",
    "webhook_rate_invalid",
)


Rate = Annotated[StrictFloat, Field(ge=MIN_RATE, le=MAX_RATE, allow_inf_nan=False)]
_RATE = f"attempts a second at most, in the long run; null = {DEFAULT_RATE:g}"
Types = Annotated[
    list[EventType],
    Field(max_length=20, description="events; none = all but `audit.recorded`, which must be named"),
]


class WebhookResponse(ViewModel):
    """A registered webhook."""

    webhook_id: UUID = Field(validation_alias="id")
    id: UUID = Field(description="the old name of webhook_id; removed in the next release", deprecated=True)
    url: str
    types: list[str]
    rate_per_second: float | None
    enabled: bool
    disabled_reason: str
    failing_since: UtcTime | None
    paused_until: UtcTime | None
    previous_secret_until: UtcTime | None
    created_at: UtcTime


class NewWebhookResponse(WebhookResponse):
    """A new webhook; the secret is shown this once."""

    secret: str


class WebhooksResponse(PageResponse):
    """One page of the account's webhooks."""

    webhooks: list[WebhookResponse]


class SecretResponse(ViewModel):
    """A new secret, shown this once, and until when the one before signs too."""

    secret: str
    previous_secret_until: UtcTime | None


class AttemptResponse(ViewModel):
    """One request."""

    n: int
    at: UtcTime
    trigger: str
    ms: int
    status_code: int
    error: str
    response: str
    wish: str = Field(validation_alias="directive")


class DeliveryResponse(ViewModel):
    """An event on its way."""

    delivery_id: UUID = Field(validation_alias="id")
    event_id: UUID
    webhook_id: UUID = Field(validation_alias="endpoint_id")
    id: UUID = Field(description="the old name of delivery_id; removed in the next release", deprecated=True)
    endpoint_id: UUID = Field(
        description="the old name of webhook_id; removed in the next release", deprecated=True
    )
    type: str
    state: str
    trigger: str
    attempts: int
    next_attempt_at: UtcTime | None
    created_at: UtcTime
    finished_at: UtcTime | None


class DeliveryLogResponse(DeliveryResponse):
    """An event on its way, and every attempt so far."""

    log: list[AttemptResponse]


class DeliveriesResponse(PageResponse):
    """One page of deliveries."""

    deliveries: list[DeliveryResponse]


class CountResponse(BaseModel):
    """How many."""

    count: int


class TestResponse(ViewModel):
    """What came of a test; it arrived exactly when `error` is empty."""

    delivered: bool
    delivery_id: UUID
    event_id: UUID
    type: str
    error: str
    status_code: int
    ms: int


class WebhookRequest(RequestModel):
    """Where to send what."""

    url: Url = Field(examples=["https://example.com/hooks"])
    types: Types = Field(default=[])
    rate_per_second: Rate | None = Field(default=None, description=_RATE)


class WebhookUpdateRequest(RequestModel):
    """What to change; what is left out stays."""

    url: Url | None = None
    types: Types | None = None
    enabled: StrictBool | None = None
    rate_per_second: Rate | None = Field(default=None, description=_RATE)

    @property
    def new_rate(self) -> float | None:
        """The rate as WebhookService.update takes it: null, if it was said, is not the same as left out."""
        return self.rate_per_second or (0.0 if "rate_per_second" in self.model_fields_set else None)


class RotateRequest(RequestModel):
    """How long the secret before signs too."""

    overlap: Whole = Field(default=86_400, ge=0, le=MAX_OVERLAP_S, description="seconds")
    force: StrictBool = Field(
        default=False, description="also while an earlier secret still signs; that one ends now"
    )


_AS_USUAL: Final = RotateRequest()


def _moment_text_only(value: object) -> object:
    """Take a moment as a date only; a number could be seconds or milliseconds."""
    if not isinstance(value, str) or value[4:5] != "-":
        raise ValueError("expected ISO 8601")
    return value


Since = Annotated[Moment, BeforeValidator(_moment_text_only)]


class RedeliverRequest(RequestModel):
    """From when on."""

    since: Since


class TestRequest(RequestModel):
    """Which event to simulate, and where to send it."""

    test_type: SimulatedEvent
    webhook_id: UUID


@router.post(
    "",
    status_code=201,
    **operation("Register a webhook", NewWebhookResponse, *_FIELD_ERRORS, "webhook_limit"),
)
async def create_webhook(request: Request, wanted: WebhookRequest, caller: _WebhookWriter) -> JSONResponse:
    """Register a webhook; its secret is shown only in this answer."""
    view, secret = await parts_of(request).webhooks.create(
        caller.account_id, wanted.url, wanted.types, rate_per_second=wanted.rate_per_second
    )
    headers = {"Location": f"/v1/webhooks/{view.id}"}
    made = NewWebhookResponse.model_validate({**asdict(view), "secret": secret})
    return answer(made, "The webhook is registered.", status=201, headers=headers)


@router.get("", **operation("List webhooks", WebhooksResponse, "bad_cursor"))
async def list_webhooks(
    request: Request, caller: _WebhookReader, limit: Limit = 100, cursor: Cursor = ""
) -> JSONResponse:
    """List the account's webhooks, oldest first."""
    views = await parts_of(request).webhooks.list(caller.account_id)
    page, end = page_of(after_cursor(views, cursor), limit)
    return answer(WebhooksResponse.model_validate({"webhooks": page, **end}))


@router.post("/test", **operation("Test a webhook", TestResponse, "webhook_not_found", "webhook_test_limit"))
async def test_webhook(request: Request, wanted: TestRequest, caller: _WebhookWriter) -> JSONResponse:
    """Send a simulated event once, with the header `webhook-test: true`; it never counts as a failure."""
    outcome = await parts_of(request).webhooks.test(
        caller.account_id, wanted.webhook_id, wanted.test_type, test_mode=caller.test
    )
    return answer(TestResponse.model_validate(outcome), "The test event was sent.")


@router.get("/deliveries/{delivery_id:uuid}", include_in_schema=False)  # old; gone with the next release
@deliveries_router.get(
    "/{delivery_id:uuid}", **operation("Look at a delivery", DeliveryLogResponse, "delivery_not_found")
)
async def get_delivery(request: Request, caller: _WebhookReader, delivery_id: UUID) -> JSONResponse:
    """Return a delivery and its attempts."""
    service = parts_of(request).webhooks
    view = await service.delivery(caller.account_id, delivery_id)
    log = await service.attempts(caller.account_id, delivery_id)
    return answer(DeliveryLogResponse.model_validate({**asdict(view), "log": log}))


@router.post("/deliveries/{delivery_id:uuid}/redeliver", status_code=202, include_in_schema=False)  # the same
@deliveries_router.post(
    "/{delivery_id:uuid}/redeliver",
    status_code=202,
    **operation(
        "Send an event again", DeliveryResponse, "delivery_not_found", "webhook_disabled", "delivery_conflict"
    ),
)
async def redeliver(request: Request, caller: _WebhookWriter, delivery_id: UUID) -> JSONResponse:
    """Send an event once more, now."""
    view = await parts_of(request).webhooks.redeliver(caller.account_id, delivery_id)
    return answer(DeliveryResponse.model_validate(view), "The event is sent again.", status=202)


@router.get("/{webhook_id:uuid}", **operation("Look at a webhook", WebhookResponse, "webhook_not_found"))
async def get_webhook(request: Request, caller: _WebhookReader, webhook_id: UUID) -> JSONResponse:
    """Return a webhook."""
    return answer(
        WebhookResponse.model_validate(await parts_of(request).webhooks.get(caller.account_id, webhook_id))
    )


@router.patch(
    "/{webhook_id:uuid}",
    **operation("Change a webhook", WebhookResponse, "webhook_not_found", *_FIELD_ERRORS),
)
async def update_webhook(
    request: Request, wanted: WebhookUpdateRequest, caller: _WebhookWriter, webhook_id: UUID
) -> JSONResponse:
    """Change a webhook; disabling skips waiting deliveries, enabling forgets past failures."""
    view = await parts_of(request).webhooks.update(
        caller.account_id,
        webhook_id,
        url=wanted.url,
        types=wanted.types,
        enabled=wanted.enabled,
        rate_per_second=wanted.new_rate,
    )
    return answer(WebhookResponse.model_validate(view), "The webhook is changed.")


@router.delete("/{webhook_id:uuid}", **operation("Delete a webhook", None, "webhook_not_found"))
async def delete_webhook(request: Request, caller: _WebhookWriter, webhook_id: UUID) -> JSONResponse:
    """Delete a webhook with its deliveries."""
    await parts_of(request).webhooks.delete(caller.account_id, webhook_id)
    return answer(None, "The webhook is deleted.")


@router.post(
    "/{webhook_id:uuid}/rotate",
    **operation(
        "Rotate a secret",
        SecretResponse,
        "webhook_not_found",
        "webhook_overlap_invalid",
        "webhook_secret_overlap",
    ),
)
async def rotate_webhook_secret(
    request: Request, caller: _WebhookWriter, webhook_id: UUID, wanted: RotateRequest = _AS_USUAL
) -> JSONResponse:
    """Give the webhook a new secret; during the overlap the previous one signs too."""
    service = parts_of(request).webhooks
    made = await service.rotate(caller.account_id, webhook_id, overlap_s=wanted.overlap, force=wanted.force)
    return answer(SecretResponse.model_validate(made), "The secret is rotated.")


@router.get(
    "/{webhook_id:uuid}/deliveries",
    **operation(
        "List deliveries", DeliveriesResponse, "webhook_not_found", "delivery_not_found", "bad_cursor"
    ),
)
async def list_deliveries(
    request: Request,
    caller: _WebhookReader,
    webhook_id: UUID,
    limit: Limit = 20,
    cursor: Cursor = "",
    before: Annotated[
        UUID | None,
        Query(description="the old name of cursor; removed in the next release", deprecated=True),
    ] = None,
) -> JSONResponse:
    """List the webhook's deliveries, newest first."""
    service = parts_of(request).webhooks
    seen = await _last_seen(service, caller, cursor)
    if seen is None and before is not None:
        seen = await service.delivery(caller.account_id, before)
    place = (seen.created_at, seen.id) if seen else None
    views = await service.deliveries(caller.account_id, webhook_id, limit=limit + 1, before=place)
    page, end = page_of(views, limit)
    return answer(DeliveriesResponse.model_validate({"deliveries": page, **end}))


async def _last_seen(service: WebhookService, caller: Caller, cursor: str) -> DeliveryView | None:
    """Return the delivery a cursor names."""
    delivery_id = id_of_cursor(cursor)
    if delivery_id is None:
        return None
    try:
        return await service.delivery(caller.account_id, delivery_id)
    except MailsiftError:
        raise bad_cursor() from None


@router.post(
    "/{webhook_id:uuid}/redeliver",
    status_code=202,
    **operation("Send failed events again", CountResponse, "webhook_not_found", "webhook_disabled"),
)
async def redeliver_failed(
    request: Request, wanted: RedeliverRequest, caller: _WebhookWriter, webhook_id: UUID
) -> JSONResponse:
    """Send again what was given up or skipped since a given time."""
    service = parts_of(request).webhooks
    count = await service.resend(caller.account_id, webhook_id, since=wanted.since, also_unqueued=False)
    return answer(CountResponse(count=count), "They are sent again.", status=202)


@router.post(
    "/{webhook_id:uuid}/recover",
    status_code=202,
    **operation("Send missed events", CountResponse, "webhook_not_found", "webhook_disabled"),
)
async def recover_webhook(
    request: Request,
    caller: _WebhookWriter,
    webhook_id: UUID,
    since: Annotated[Since, Query(description="ISO 8601 with a time zone; `Z` needs no escaping")],
) -> JSONResponse:
    """Send everything the webhook missed since a given time.

    That is what was given up or skipped, and what happened while it was disabled or not registered yet. Its
    events come with the `webhook-id` they always had.
    """
    count = await parts_of(request).webhooks.resend(
        caller.account_id, webhook_id, since=since, also_unqueued=True
    )
    return answer(CountResponse(count=count), "What was missed is sent.", status=202)


class EventResponse(BaseModel):
    """An event: the four members that webhooks are sent, and whether it was only simulated."""

    id: UUID = Field(description="the `webhook-id` of its deliveries")
    type: EventType
    created_at: datetime
    data: dict[str, Any]
    simulated: bool = Field(description="made by POST /v1/webhooks/test: nothing has happened")


class EventsResponse(PageResponse):
    """One page of events, oldest first."""

    events: list[EventResponse]


class EventsQuery(BaseModel):
    """Which events are wanted."""

    type: list[EventType] = Field(default=[], description="only these")
    since: Since | None = Field(default=None, description="only from then on; ISO 8601 with a time zone")
    job_id: UUID | None = Field(default=None, description="only of this job")
    limit: int = Field(default=100, ge=1, le=100)
    cursor: Cursor = ""


@events_router.get("", **operation("List events", EventsResponse, "bad_cursor"))
async def list_events(
    request: Request, caller: _WebhookReader, asked: Annotated[EventsQuery, Query()]
) -> JSONResponse:
    """List the account's events, oldest first, whether or not a webhook received them."""
    wanted = EventFilter(asked.type, asked.since, asked.job_id, _place_of(asked.cursor))
    found = await parts_of(request).webhooks.events(caller.account_id, wanted, limit=asked.limit + 1)
    page, end = page_of(found, asked.limit, _event_cursor)
    return answer({"events": [_event_fields(row) for row in page], **end})


@events_router.get("/{event_id:uuid}", **operation("Look at an event", EventResponse, "event_not_found"))
async def get_event(request: Request, caller: _WebhookReader, event_id: UUID) -> JSONResponse:
    """Return an event by its id, which is the `webhook-id` of its deliveries."""
    return answer(_event_fields(await parts_of(request).webhooks.event(caller.account_id, event_id)))


def _event_fields(row: EventRow) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(row.body)
    return body | {"simulated": row.job_id is None and row.type != EventType.AUDIT}


def _event_cursor(last: EventRow) -> str:
    return f"{last.created_at.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}~{last.id}"


def _place_of(cursor: str) -> tuple[datetime, UUID] | None:
    if not cursor:
        return None
    at, _, event_id = cursor.partition("~")
    try:
        place = datetime.fromisoformat(at), UUID(event_id)
    except ValueError:
        raise bad_cursor() from None
    if place[0].tzinfo is None:
        raise bad_cursor()
    return place
