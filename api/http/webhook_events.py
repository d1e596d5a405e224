"""What webhooks are sent, as OpenAPI describes it: events with exactly the fields that are sent."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from mailsift.events.audit import audit_event
from mailsift.events.payloads import (
    EVENT_WORDS,
    ON_REQUEST,
    EventType,
    SimulatedEvent,
    envelope,
    simulated_event,
)
from mailsift.storage.sql.people import AuditRow

_EVENT_ID: Final = UUID("0192f1a4-5b6c-4d7e-8f90-a1b2c3d4e5f6")
_JOB_ID: Final = UUID("7f5c3a52-6f5e-4f44-9f0c-6d3f0f2f9f11")
_AT: Final = datetime(2026, 1, 31, 8, 0, tzinfo=UTC)
_LINE: Final = AuditRow(
    id=1,
    account_id=None,
    actor="ada@example.com",
    action="job.create",
    subject=str(_JOB_ID),
    detail={"list": "June newsletter", "mode": "deep", "addresses": 12_044},
    at=_AT,
)
_SAMPLES: Final = {
    **dict(simulated_event(kind, _JOB_ID, _AT) for kind in SimulatedEvent),
    EventType.AUDIT: audit_event(_LINE),
}
_FORMATS: Final = {"job_id": "uuid", "started_at": "date-time", "completed_at": "date-time"}
_TEXT: Final = {"type": "string"}
_HEADERS: Final = {
    "webhook-id": "the event's id: the same at every attempt",
    "webhook-timestamp": "seconds since the epoch: of this attempt",
    "webhook-signature": "`v1,` and base64, one for each secret that signs (Standard Webhooks)",
}


def webhooks_openapi() -> dict[str, Any]:
    """Return the `webhooks` of an OpenAPI 3.1 description."""
    return {kind.value: {"post": _operation(kind)} for kind in EventType}


def _operation(kind: EventType) -> dict[str, Any]:
    data = _SAMPLES[kind]
    example = json.loads(envelope(_EVENT_ID, kind, _AT, data))
    return {
        "operationId": f"on_{kind.value.replace('.', '_')}",
        "tags": ["webhooks"],
        "summary": EVENT_WORDS[kind],
        "description": "Signed by Standard Webhooks. Any 2xx within 15 seconds is success."
        + (" Sent to webhooks that name this event." if kind in ON_REQUEST else ""),
        "security": [],
        "parameters": [
            {
                "name": name,
                "in": "header",
                "required": True,
                "description": text,
                "schema": _TEXT,
            }
            for name, text in _HEADERS.items()
        ],
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": _schema(kind, data), "example": example}},
        },
        "responses": {
            "2XX": {"description": "It arrived."},
            "410": {"description": "Disable this webhook."},
        },
    }


def _schema(kind: EventType, data: dict[str, Any]) -> dict[str, Any]:
    """Describe an event; its data has exactly the members that the service sends."""
    return _closed_object(
        {
            "id": {"type": "string", "format": "uuid"},
            "type": {"const": kind.value},
            "created_at": {"type": "string", "format": "date-time"},
            "data": _closed_object({name: _member_shape(name, value) for name, value in data.items()}),
        }
    )


def _closed_object(members: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "required": list(members),
        "additionalProperties": False,
        "properties": members,
    }


def _member_shape(name: str, value: object) -> dict[str, Any]:
    if name == "status":
        return {"const": value}
    if isinstance(value, int):
        return {"type": "integer", "minimum": 0}
    return {"type": "string", **({"format": _FORMATS[name]} if name in _FORMATS else {})}
