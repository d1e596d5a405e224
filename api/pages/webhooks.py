"""/webhooks: endpoints are registered, changed, tested; their deliveries are looked at and sent again."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Self
from uuid import UUID

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response
from starlette.datastructures import FormData

from api.pages.attempts import attempt, is_mendable
from api.pages.forms import choice, read_form, text
from api.pages.page import render, see
from api.pages.visitor import Role, Signed, Visitor
from api.pages.webhook_words import REASONS, STATES, WRONG
from api.parts import parts_of
from events.endpoints import FASTEST, SLOWEST, USUAL
from events.payloads import EventType
from events.samples import Sample
from events.views import EndpointView
from pipeline.errors import MailsiftError

router = APIRouter(prefix="/webhooks", include_in_schema=False)

Reader = Annotated[Visitor, Depends(Signed(Role.VIEWER))]
Member = Annotated[Visitor, Depends(Signed(Role.MEMBER))]

EVENTS: Final = {
    EventType.COMPLETED.value: "A list is validated",
    EventType.FAILED.value: "A list could not be validated, or was cancelled",
}
SAMPLES: Final = {
    Sample.WEBHOOK.value: "Send a plain test",
    Sample.SUCCESS.value: "Send a completed job",
    Sample.FAILED.value: "Send a failed job",
}
OVERLAPS: Final = {"0": "Not at all", "3600": "For 1 hour", "86400": "For 24 hours", "604800": "For 7 days"}


@dataclass(frozen=True, slots=True)
class _Filled:
    """The form as it was filled in; no types are all of them, `rate` is a number or "" for the usual."""

    url: str = ""
    types: Sequence[str] = ()
    rate: str = ""

    @classmethod
    def of(cls, form: FormData) -> Self:
        chosen = [str(one) for one in form.getlist("type") if one in EVENTS]
        types = [] if len(chosen) == len(EVENTS) else chosen
        return cls(text(form, "url", most=2_000), types, text(form, "rate"))

    def attempts_a_second(self) -> float | None:
        try:
            rate = float(self.rate) if self.rate else None
        except ValueError:
            rate = 0.0
        if rate == 0.0:
            raise MailsiftError("webhook_rate_invalid", "Requests a second are a number above 0.")
        return rate


@router.get("")
async def webhooks(request: Request, visitor: Reader) -> Response:
    """List the account's webhooks."""
    found = await parts_of(request).webhooks.list(visitor.account_id)
    return render(request, "webhooks.html", webhooks=found, reasons=REASONS)


@router.get("/new")
async def new(request: Request, _: Member) -> Response:
    """Show the form for a webhook."""
    return _form(request, _Filled())


@router.post("/new")
async def create(request: Request, visitor: Member) -> Response:
    """Register a webhook and show its secret, this once."""
    form, parts = await read_form(request), parts_of(request)
    filled = _Filled.of(form)
    try:
        view, secret = await parts.webhooks.create(
            visitor.account_id, filled.url, filled.types, rate_per_second=filled.attempts_a_second()
        )
    except MailsiftError as error:
        if not is_mendable(error):
            raise
        return _form(request, filled, error=error)
    await parts.people.members.note(visitor, "webhook.create", view.url, events=list(view.types) or "all")
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
        rate=view.rate_per_second or USUAL,
        deliveries=deliveries,
        tested=tested,
        outcome=outcome[-1] if outcome else None,
        samples=SAMPLES,
        reasons=REASONS,
        states=STATES,
        wrong=WRONG,
        overlaps=list(OVERLAPS.items()),
    )


@router.get("/{webhook_id:uuid}/edit")
async def editing(request: Request, visitor: Member, webhook_id: UUID) -> Response:
    """Show the form to change a webhook."""
    view = await parts_of(request).webhooks.get(visitor.account_id, webhook_id)
    rate = view.rate_per_second
    return _form(request, _Filled(view.url, view.types, f"{rate:g}" if rate else ""), webhook=view)


@router.post("/{webhook_id:uuid}/edit")
async def edit(request: Request, visitor: Member, webhook_id: UUID) -> Response:
    """Change a webhook."""
    form, parts = await read_form(request), parts_of(request)
    filled = _Filled.of(form)
    view = await parts.webhooks.get(visitor.account_id, webhook_id)
    try:
        view = await parts.webhooks.update(
            visitor.account_id,
            webhook_id,
            url=filled.url,
            types=filled.types,
            rate_per_second=filled.attempts_a_second() or 0.0,
        )
    except MailsiftError as error:
        if not is_mendable(error):
            raise
        return _form(request, filled, webhook=view, error=error)
    await parts.people.members.note(visitor, "webhook.update", view.url, events=list(view.types) or "all")
    return see(request, f"/webhooks/{webhook_id}", "The webhook is changed.")


@router.post("/{webhook_id:uuid}/switch")
async def switch(request: Request, visitor: Member, webhook_id: UUID) -> Response:
    """Enable or disable a webhook."""
    form, parts = await read_form(request), parts_of(request)
    enabled = choice(form, "enabled", {"yes": True, "no": False}) == "yes"
    change = parts.webhooks.update(visitor.account_id, webhook_id, enabled=enabled)
    done = "The webhook is enabled." if enabled else "The webhook is disabled: nothing is sent to it."
    return await _changed(
        request, visitor, webhook_id, change, ("webhook.enable" if enabled else "webhook.disable", done)
    )


@router.post("/{webhook_id:uuid}/rotate")
async def rotate(request: Request, visitor: Member, webhook_id: UUID) -> Response:
    """Give a webhook a new secret and show it, this once."""
    form, parts = await read_form(request), parts_of(request)
    overlap = choice(form, "overlap", OVERLAPS)
    view = await parts.webhooks.get(visitor.account_id, webhook_id)
    secret = await parts.webhooks.rotate(visitor.account_id, webhook_id, overlap_s=int(overlap))
    await parts.people.members.note(
        visitor, "webhook.rotate", view.url, old_secret_signs_too=OVERLAPS[overlap].lower()
    )
    return _secret(request, view, secret, "The new secret", overlap=OVERLAPS[overlap])


@router.post("/{webhook_id:uuid}/delete")
async def delete(request: Request, visitor: Member, webhook_id: UUID) -> Response:
    """Delete a webhook."""
    await read_form(request)
    parts = parts_of(request)
    view = await parts.webhooks.get(visitor.account_id, webhook_id)
    await parts.webhooks.delete(visitor.account_id, webhook_id)
    await parts.people.members.note(visitor, "webhook.delete", view.url)
    return see(request, "/webhooks", "The webhook is deleted with its deliveries.")


@router.post("/{webhook_id:uuid}/test")
async def test(request: Request, visitor: Member, webhook_id: UUID) -> Response:
    """Send a simulated event now."""
    form, parts = await read_form(request), parts_of(request)
    sample = Sample(choice(form, "sample", SAMPLES))
    view = await parts.webhooks.get(visitor.account_id, webhook_id)
    try:
        outcome = await parts.webhooks.test(visitor.account_id, webhook_id, sample)
    except MailsiftError as error:
        if not is_mendable(error):
            raise
        return see(request, f"/webhooks/{webhook_id}", error.message, kind="bad")
    await parts.people.members.note(visitor, "webhook.test", view.url, event=outcome.type)
    return see(request, f"/webhooks/{webhook_id}?tested={outcome.delivery_id}")


async def _changed(
    request: Request,
    visitor: Visitor,
    webhook_id: UUID,
    change: Awaitable[EndpointView],
    told: tuple[str, str],
) -> Response:
    """Make a change, note it, go back and say so; `told`: the audit log's action, and a sentence."""

    async def noted() -> None:
        view = await change
        await parts_of(request).people.members.note(visitor, told[0], view.url)

    return await attempt(request, f"/webhooks/{webhook_id}", noted(), told[1])


def _form(
    request: Request,
    filled: _Filled,
    *,
    webhook: EndpointView | None = None,
    error: MailsiftError | None = None,
) -> Response:
    return render(
        request,
        "webhook_form.html",
        status=422 if error else 200,
        webhook=webhook,
        filled=filled,
        types=filled.types or tuple(EVENTS),
        rates={"min": SLOWEST, "max": FASTEST},
        usual=USUAL,
        events=EVENTS,
        error=error,
    )


def _secret(
    request: Request, webhook: EndpointView, secret: str, heading: str, *, overlap: str = ""
) -> Response:
    return render(
        request, "webhook_secret.html", webhook=webhook, secret=secret, heading=heading, overlap=overlap
    )
