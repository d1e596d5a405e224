"""The one shape of every answer, `{data, message, status, success}`, and how its data is made from views.

Lists come by pages, all in one style: `limit` and `cursor` come in, `next_cursor` and `has_more` go out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from operator import attrgetter
from typing import Annotated, Any, Final, Generic, Literal, TypeVar
from uuid import UUID

from fastapi import Query, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, TypeAdapter, WithJsonSchema
from typing_extensions import override

from mailsift.accounts.keys import Caller
from mailsift.jobs.views import bad_cursor
from mailsift.pipeline.outcomes.chances import MeasuredShare

T = TypeVar("T")


def _without_default(schema: dict[str, Any]) -> None:
    schema.pop("default")


class Envelope(BaseModel, Generic[T]):
    """An answer; `status` repeats the HTTP status."""

    data: T
    message: str
    status: int
    success: Literal[True]
    test: Literal[True] = Field(
        default=True,
        description="only in answers to a test-mode key",
        json_schema_extra=_without_default,
    )


class FieldError(BaseModel):
    """One thing that is wrong with a request; the value itself is never repeated."""

    loc: list[str | int]
    msg: str
    type: str


class Problem(BaseModel):
    """An error: the envelope with the members of RFC 9457 beside it."""

    model_config = ConfigDict(extra="allow")

    data: None
    message: str
    status: int
    success: Literal[False]
    type: str = Field(description="names the kind of problem; a URI reference")
    title: str
    detail: str
    instance: str
    code: str = Field(description="stable machine code")
    request_id: str
    errors: list[FieldError]


class ViewModel(BaseModel):
    """What an answer tells of a view: each field is the attribute of its name, or of its alias."""

    model_config = ConfigDict(from_attributes=True)


def iso_utc(at: datetime) -> str:
    """Write a time as ISO 8601 in UTC, to the millisecond."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


UtcTime = Annotated[
    datetime, PlainSerializer(iso_utc), WithJsonSchema({"type": "string", "format": "date-time"})
]


_JSON: Final = TypeAdapter[Any](Any).serializer


class EnvelopeResponse(JSONResponse):
    """Written by pydantic: of all we do for a small answer, Python's own JSON took the most time."""

    def __init__(self, content: dict[str, Any], status: int, headers: dict[str, str] | None) -> None:
        self._content = content
        super().__init__(content, status, headers)

    def of_test_mode(self) -> EnvelopeResponse:
        """Return the same answer, marked as one of test mode."""
        names = ("content-length", "content-type")
        headers = {name: value for name, value in self.headers.items() if name not in names}
        return EnvelopeResponse({**self._content, "test": True}, self.status_code, headers)

    @override
    def render(self, content: Any) -> bytes:
        return _JSON.to_json(content)


def server_event(name: str, fields: Mapping[str, Any]) -> bytes:
    """Write a server-sent event (WHATWG HTML, section 9.2)."""
    return f"event: {name}\ndata: {json.dumps(fields)}\n\n".encode()


def is_test(request: Request) -> bool:
    """Tell whether the request came with a key of test mode."""
    caller: Caller | None = request.scope.get("caller")
    return caller is not None and caller.test


def answer(
    data: Any, message: str = "OK", *, status: int = 200, headers: dict[str, str] | None = None
) -> JSONResponse:
    """Return a good answer; `data` holds JSON types and ViewModels."""
    body = {"data": data, "message": message, "status": status, "success": True}
    return EnvelopeResponse(body, status, headers)


Limit = Annotated[int, Query(ge=1, le=100)]
Cursor = Annotated[str, Query(max_length=1_000, description="next_cursor of the page before")]


class PageResponse(BaseModel):
    """What every page says beside what is on it."""

    next_cursor: str = Field(description="the cursor of the next page; empty on the last one")
    has_more: bool


def id_of_cursor(cursor: str) -> UUID | None:
    """Return the id of the last one seen, None at the beginning.

    Raises:
        MailsiftError: `bad_cursor`.
    """
    if not cursor:
        return None
    try:
        return UUID(cursor)
    except ValueError:
        raise bad_cursor() from None


_ID: Final = attrgetter("id")


def page_of(
    found: Sequence[T], limit: int, cursor_of: Callable[[T], object] = _ID
) -> tuple[Sequence[T], dict[str, Any]]:
    """Return a page, and what it says beside what is on it; one more was `found` if another page follows."""
    page = found[:limit]
    return page, page_end(str(cursor_of(page[-1])) if len(found) > limit else "")


def page_end(next_cursor: str) -> dict[str, Any]:
    """Return the fields of a PageResponse."""
    return {"next_cursor": next_cursor, "has_more": bool(next_cursor)}


def after_cursor(found: Sequence[T], cursor: str) -> Sequence[T]:
    """Return what of a whole list stands behind the cursor, an id.

    Raises:
        MailsiftError: `bad_cursor`.
    """
    last = id_of_cursor(cursor)
    if last is None:
        return found
    places = [place for place, one in enumerate(found) if _ID(one) == last]
    if not places:
        raise bad_cursor()
    return found[places[0] + 1 :]


PROBABILITY: Final = (
    "add `mailsift_p`, the chance that a message arrives, from what became of others, with its 95 % interval"
    " (`mailsift_p_low`, `mailsift_p_high`); nothing where too few outcomes are known"
)


class ChanceFields(BaseModel):
    """What `probability` adds to a verdict; it is no part of it."""

    mailsift_p: float | None = Field(
        default=None, ge=0, le=1, description="with `probability`: the chance; null where too little is known"
    )
    mailsift_p_low: float | None = Field(default=None, ge=0, le=1, description="its 95 % interval")
    mailsift_p_high: float | None = Field(default=None, ge=0, le=1)


def chance_fields(chance: MeasuredShare | None) -> dict[str, float | None]:
    """Return a chance as the fields of an answer."""
    found = (chance.value, chance.low, chance.high) if chance else (None, None, None)
    return dict(zip(ChanceFields.model_fields, found, strict=True))


def provider_in(evidence: Mapping[str, Any]) -> str:
    """Return who runs the mail server, by the evidence of a verdict; "" where nobody looked."""
    fact = evidence.get("domain")
    return str(fact["provider"]) if fact else ""
