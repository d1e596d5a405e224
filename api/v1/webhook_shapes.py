"""What /v1/webhooks takes and tells."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

from pydantic import (
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
)

from api.scalars import Whole
from api.texts import Url
from api.v1.shown import moment
from events.endpoints import FASTEST, SLOWEST, USUAL
from events.payloads import EventType
from events.samples import Sample

Rate = Annotated[StrictFloat, Field(ge=SLOWEST, le=FASTEST, allow_inf_nan=False)]
_RATE = f"attempts a second at most, in the long run; null = {USUAL:g}"
Types = Annotated[list[EventType], Field(max_length=20, description="events; none = all")]


class WebhookShown(BaseModel):
    """A registered webhook."""

    id: str
    url: str
    types: list[str]
    rate_per_second: float | None
    enabled: bool
    disabled_reason: str
    failing_since: datetime | None
    paused_until: datetime | None
    previous_secret_until: datetime | None
    created_at: datetime


class WebhookMade(WebhookShown):
    """A new webhook; the secret is shown this once."""

    secret: str


class Webhooks(BaseModel):
    """The account's webhooks."""

    webhooks: list[WebhookShown]


class Secret(BaseModel):
    """A new secret, shown this once."""

    secret: str


class AttemptShown(BaseModel):
    """One request."""

    n: int
    at: datetime
    trigger: str
    ms: int
    status_code: int
    error: str
    response: str
    wish: str


class DeliveryShown(BaseModel):
    """An event on its way."""

    id: str
    event_id: str
    endpoint_id: str
    type: str
    state: str
    trigger: str
    attempts: int
    next_attempt_at: datetime | None
    created_at: datetime
    finished_at: datetime | None


class DeliveryLogged(DeliveryShown):
    """An event on its way, and every attempt so far."""

    log: list[AttemptShown]


class Deliveries(BaseModel):
    """One page of deliveries."""

    deliveries: list[DeliveryShown]
    has_more: bool


class Count(BaseModel):
    """How many."""

    count: int


class Tested(BaseModel):
    """What came of a test; it arrived exactly when `error` is empty."""

    delivered: bool
    delivery_id: str
    event_id: str
    type: str
    error: str
    status_code: int
    ms: int


class NewWebhook(BaseModel):
    """Where to send what."""

    model_config = ConfigDict(extra="forbid")

    url: Url = Field(examples=["https://example.com/hooks"])
    types: Types = []
    rate_per_second: Rate | None = Field(default=None, description=_RATE)


class WebhookChange(BaseModel):
    """What to change; what is left out stays."""

    model_config = ConfigDict(extra="forbid")

    url: Url | None = None
    types: Types | None = None
    enabled: StrictBool | None = None
    rate_per_second: Rate | None = Field(default=None, description=_RATE)

    @property
    def new_rate(self) -> float | None:
        """The rate as WebhookService.update takes it: null, if it was said, is not the same as left out."""
        return self.rate_per_second or (0.0 if "rate_per_second" in self.model_fields_set else None)


class Rotation(BaseModel):
    """How long the secret before signs too."""

    model_config = ConfigDict(extra="forbid")

    overlap: Whole = Field(default=86_400, ge=0, le=7 * 86_400, description="seconds")


def _written(value: object) -> object:
    """Take a moment as text only; a number could be seconds or milliseconds."""
    if not isinstance(value, str):
        raise ValueError("expected ISO 8601")  # noqa: TRY004 - pydantic turns only this one into a 422
    return value


class Since(BaseModel):
    """From when on."""

    model_config = ConfigDict(extra="forbid")

    since: Annotated[AwareDatetime, BeforeValidator(_written)]


class TestRequest(BaseModel):
    """Which event to simulate, and where to send it."""

    model_config = ConfigDict(extra="forbid")

    test_type: Sample
    webhook_id: UUID


def plain(view: Mapping[str, Any]) -> dict[str, Any]:
    """Return a view as JSON types; whose it is the caller knows."""
    return {name: _plain(value) for name, value in view.items() if name != "account_id"}


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return moment(value)
    if isinstance(value, UUID | StrEnum):
        return str(value)
    return list(value) if isinstance(value, tuple) else value
