"""/webhooks: endpoints are registered, changed, tested; their deliveries are looked at and sent again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Self
from uuid import UUID

from fastapi import APIRouter, Request
from fastapi.responses import Response
from starlette.datastructures import FormData

from mailsift.api.pages.forms import Form, attempt, choice, mendable, once, text
from mailsift.api.pages.page import now_of, render, see_other
from mailsift.api.pages.visitor import Member, Reader
from mailsift.api.parts import parts_of
from mailsift.events.endpoints import DEFAULT_RATE, MAX_RATE, MIN_RATE, EndpointView
from mailsift.events.payloads import EVENT_WORDS, ON_REQUEST, EventType, SimulatedEvent
from mailsift.pipeline.errors import MailsiftError

router = APIRouter(prefix="/webhooks", include_in_schema=False)

_ON_REQUEST: Final = {kind.value: EVENT_WORDS[kind] for kind in EventType if kind in ON_REQUEST}
"""What is sent only to webhooks that name it."""
EVENTS: Final = {
    kind.value: words for kind, words in EVENT_WORDS.items() if kind not in {*ON_REQUEST, EventType.TEST}
}
_SAMPLES: Final = {
    SimulatedEvent.WEBHOOK.value: "Send a plain test",
    SimulatedEvent.SUCCESS.value: "Send a completed job",
    SimulatedEvent.FAILED.value: "Send a failed job",
}
_OVERLAPS: Final = {"0": "Not at all", "3600": "For 1 hour", "86400": "For 24 hours", "604800": "For 7 days"}
_PAGE: Final = 25
_SPANS: Final = {"1": "the last day", "7": "the last 7 days", "30": "the last 30 days"}


@dataclass(frozen=True, slots=True)
class _WebhookForm:
    """The form as it was filled in: the types that are ticked; `rate` is a number or "" for the usual."""

    url: str = ""
    ticked: Sequence[str] = tuple(EVENTS)
    rate: str = ""

    @classmethod
    def of(cls, form: FormData) -> Self:
        ticked = [str(one) for one in form.getlist("type") if one in EVENTS | _ON_REQUEST]
        return cls(text(form, "url", most=2_000), ticked, text(form, "rate"))

    def types(self) -> Sequence[str]:
        """Return what the webhook is registered for, where no types are all that need not be asked for."""
        if not self.ticked:
            raise MailsiftError("bad_option", "Choose at least one event.")
        return [] if self.ticked == [*EVENTS] else self.ticked

    def attempts_a_second(self) -> float | None:
        try:
            rate = float(self.rate) if self.rate else None
        except ValueError:
            rate = 0.0
        if rate == 0.0:
            raise MailsiftError("webhook_rate_invalid", "Requests per second must be a number above 0.")
        return rate


@router.get("")
async def webhooks(request: Request, visitor: Reader) -> Response:
    """List the account's webhooks."""
    found = await parts_of(request).webhooks.list(visitor.account_id)
    return render(request, "webhooks.html", webhooks=found)


@router.get("/new")
async def new(request: Request, _: Member) -> Response:
    """Show the form for a webhook."""
    return _form(request, _WebhookForm())


@router.post("/new")
@once
async def create(request: Request, visitor: Member, form: Form) -> Response:
    """Register a webhook and show its secret, this once."""
    filled = _WebhookForm.of(form)
    try:
        view, secret = await parts_of(request).webhooks.create(
            visitor.account_id, filled.url, filled.types(), rate_per_second=filled.attempts_a_second()
        )
    except MailsiftError as error:
        return _form(request, filled, error=mendable(error))
    return _secret(request, view, secret, "Your new webhook")


@router.get("/{webhook_id:uuid}")
async def webhook(
    request: Request, visitor: Reader, webhook_id: UUID, tested: UUID | None = None
) -> Response:
    """Show a webhook; after a test, with what came of it."""
    service = parts_of(request).webhooks
    view = await service.get(visitor.account_id, webhook_id)
    outcome = await service.attempts(visitor.account_id, tested) if tested else ()
    deliveries = await service.deliveries(visitor.account_id, webhook_id, limit=10)
    return render(
        request,
        "webhook.html",
        webhook=view,
        rate=view.rate_per_second or DEFAULT_RATE,
        deliveries=deliveries,
        tested=tested,
        outcome=outcome[-1] if outcome else None,
        samples=_SAMPLES,
        overlaps=list(_OVERLAPS.items()),
    )


@router.get("/{webhook_id:uuid}/edit")
async def editing(request: Request, visitor: Member, webhook_id: UUID) -> Response:
    """Show the form to change a webhook."""
    view = await parts_of(request).webhooks.get(visitor.account_id, webhook_id)
    rate = view.rate_per_second
    filled = _WebhookForm(view.url, view.types or tuple(EVENTS), f"{rate:g}" if rate else "")
    return _form(request, filled, webhook=view)


@router.post("/{webhook_id:uuid}/edit")
async def edit(request: Request, visitor: Member, webhook_id: UUID, form: Form) -> Response:
    """Change a webhook."""
    parts = parts_of(request)
    filled = _WebhookForm.of(form)
    view = await parts.webhooks.get(visitor.account_id, webhook_id)
    try:
        view = await parts.webhooks.update(
            visitor.account_id,
            webhook_id,
            url=filled.url,
            types=filled.types(),
            rate_per_second=filled.attempts_a_second() or 0.0,
        )
    except MailsiftError as error:
        return _form(request, filled, webhook=view, error=mendable(error))
    return see_other(f"/webhooks/{webhook_id}", "Webhook saved.")


@router.post("/{webhook_id:uuid}/switch")
async def switch(request: Request, visitor: Member, webhook_id: UUID, form: Form) -> Response:
    """Enable or disable a webhook."""
    enabled = choice(form, "enabled", {"yes", "no"}) == "yes"
    change = parts_of(request).webhooks.update(visitor.account_id, webhook_id, enabled=enabled)
    done = "The webhook is enabled." if enabled else "The webhook is disabled: nothing is sent to it."
    return await attempt(f"/webhooks/{webhook_id}", change, done)


@router.post("/{webhook_id:uuid}/rotate")
async def rotate(request: Request, visitor: Member, webhook_id: UUID, form: Form) -> Response:
    """Give a webhook a new secret and show it, this once."""
    service, overlap = parts_of(request).webhooks, choice(form, "overlap", _OVERLAPS)
    view = await service.get(visitor.account_id, webhook_id)
    return await attempt(
        f"/webhooks/{webhook_id}",
        service.rotate(visitor.account_id, webhook_id, overlap_s=int(overlap), force="force" in form),
        lambda made: _secret(request, view, made.secret, "The new secret", overlap=_OVERLAPS[overlap]),
    )


@router.post("/{webhook_id:uuid}/delete")
async def delete(request: Request, visitor: Member, webhook_id: UUID, _form: Form) -> Response:
    """Delete a webhook."""
    await parts_of(request).webhooks.delete(visitor.account_id, webhook_id)
    return see_other("/webhooks", "The webhook is deleted with its deliveries.")


@router.post("/{webhook_id:uuid}/test")
async def test(request: Request, visitor: Member, webhook_id: UUID, form: Form) -> Response:
    """Send a simulated event now."""
    sample, here = SimulatedEvent(choice(form, "sample", _SAMPLES)), f"/webhooks/{webhook_id}"
    test = parts_of(request).webhooks.test(visitor.account_id, webhook_id, sample)
    return await attempt(here, test, lambda outcome: see_other(f"{here}?tested={outcome.delivery_id}"))


def _form(
    request: Request,
    filled: _WebhookForm,
    *,
    webhook: EndpointView | None = None,
    error: MailsiftError | None = None,
) -> Response:
    return render(
        request,
        "webhook_form.html",
        webhook=webhook,
        filled=filled,
        rates={"min": MIN_RATE, "max": MAX_RATE},
        usual=DEFAULT_RATE,
        events=EVENTS | _ON_REQUEST,
        error=error,
    )


def _secret(
    request: Request, webhook: EndpointView, secret: str, heading: str, *, overlap: str = ""
) -> Response:
    return render(
        request, "webhook_secret.html", webhook=webhook, secret=secret, heading=heading, overlap=overlap
    )


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
        spans=list(_SPANS.items()),
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
    )


@router.post("/deliveries/{delivery_id:uuid}/redeliver")
async def redeliver(request: Request, visitor: Member, delivery_id: UUID, _form: Form) -> Response:
    """Send one event again."""
    change = parts_of(request).webhooks.redeliver(visitor.account_id, delivery_id)
    return await attempt(f"/webhooks/deliveries/{delivery_id}", change, "The event is being sent again.")


@router.post("/{webhook_id:uuid}/redeliver")
async def redeliver_failed(request: Request, visitor: Member, webhook_id: UUID, form: Form) -> Response:
    """Send everything the webhook missed."""
    days = choice(form, "days", _SPANS)
    since = now_of(request) - timedelta(days=int(days))
    service = parts_of(request).webhooks
    change = service.resend(visitor.account_id, webhook_id, since=since, also_unqueued=True)
    done = f"What was missed in {_SPANS[days]} is sent."
    return await attempt(f"/webhooks/{webhook_id}/deliveries", change, done)
