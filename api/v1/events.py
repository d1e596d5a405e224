"""/v1/events: what happened, so that a receiver can look whether it has heard of everything."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import Query, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from mailsift.api.http.openapi import operation, v1_router
from mailsift.api.http.paging import Cursor, PageResponse, page_of
from mailsift.api.http.responses import answer
from mailsift.api.parts import parts_of
from mailsift.api.v1.webhooks import Reader, Since
from mailsift.events.payloads import EventType
from mailsift.jobs.views import bad_cursor
from mailsift.storage.sql.events import EventFilter, EventRow

router = v1_router("/events", "events")


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


@router.get("", **operation("List events", EventsResponse, "bad_cursor"))
async def list_events(
    request: Request, caller: Reader, asked: Annotated[EventsQuery, Query()]
) -> JSONResponse:
    """List the account's events, oldest first, whether or not a webhook received them."""
    wanted = EventFilter(asked.type, asked.since, asked.job_id, _place_of(asked.cursor))
    found = await parts_of(request).webhooks.events(caller.account_id, wanted, limit=asked.limit + 1)
    page, end = page_of(found, asked.limit, _cursor)
    return answer({"events": [_event(row) for row in page], **end})


@router.get("/{event_id:uuid}", **operation("Look at an event", EventResponse, "event_not_found"))
async def get_event(request: Request, caller: Reader, event_id: UUID) -> JSONResponse:
    """Return an event by its id, which is the `webhook-id` of its deliveries."""
    return answer(_event(await parts_of(request).webhooks.event(caller.account_id, event_id)))


def _event(row: EventRow) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(row.body)
    return body | {"simulated": row.job_id is None and row.type != EventType.AUDIT}


def _cursor(last: EventRow) -> str:
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
