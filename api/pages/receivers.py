"""/outcomes/receivers: where mail senders post what happened; made, changed and removed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit
from uuid import UUID

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from mailsift.api.pages.forms import Form, choice, mendable, text
from mailsift.api.pages.page import our_address, render, see
from mailsift.api.pages.visitor import Member, Reader
from mailsift.api.parts import parts_of
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.outcomes.senders import SENDER_NAMES, SenderKind
from mailsift.storage.sql.receivers import ReceiverRow

router = APIRouter(prefix="/outcomes/receivers", include_in_schema=False)

_LONGEST_KEY: Final = 1_000


@dataclass(frozen=True, slots=True)
class SenderOnPage:
    """A mail sender: its name, what it is believed by, and where its users give it our address.

    Attributes:
        needs: `key`, `topic`, or "" for those that sign nothing.
        label: what the key is called there.
    """

    name: str
    where: str
    needs: str = ""
    label: str = ""


_WHERE: Final = {
    SenderKind.SES: (
        "Subscribe this address to the SNS topic of your configuration set, by HTTPS. It confirms itself.",
        "topic",
        "ARN of the SNS topic",
    ),
    SenderKind.SENDGRID: (
        "Settings, Mail settings, Event webhooks. Turn the signature on there.",
        "key",
        "Verification key",
    ),
    SenderKind.MAILGUN: ("Sending, Webhooks: one for each event.", "key", "Webhook signing key"),
    SenderKind.POSTMARK: ("Your server, a message stream, Webhooks.",),
    SenderKind.BREVO: ("Transactional, Settings, Webhook; and the same for campaigns.",),
    SenderKind.SPARKPOST: ("Configuration, Webhooks.",),
    SenderKind.LISTMONK: ("Whatever forwards its bounces: its own webhook takes them in.",),
}
SENDERS: Final = {kind: SenderOnPage(SENDER_NAMES[kind], *where) for kind, where in _WHERE.items()}


@router.get("/new")
async def new(request: Request, _: Member) -> HTMLResponse:
    """Show the form for a receiver."""
    return _form(request)


@router.post("/new")
async def create(request: Request, visitor: Member, form: Form) -> Response:
    """Make a receiver and show the address to paste, with its password this once."""
    parts = parts_of(request)
    sender = SenderKind(choice(form, "sender", SENDERS))
    name, key = text(form, "name"), text(form, "key", most=_LONGEST_KEY)
    try:
        row, password = await parts.receivers.create(
            visitor.account_id, sender, name=name, key=key, topic=key
        )
    except MailsiftError as error:
        return _form(request, sender=sender, name=name, error=mendable(error))
    return _receiver_page(request, row, password=password, made=True)


@router.get("/{receiver_id:uuid}")
async def receiver(request: Request, visitor: Reader, receiver_id: UUID) -> HTMLResponse:
    """Show a receiver: its address, and what it took and refused."""
    return _receiver_page(request, await parts_of(request).receivers.get(visitor.account_id, receiver_id))


@router.post("/{receiver_id:uuid}/rotate")
async def rotate(request: Request, visitor: Member, receiver_id: UUID, form: Form) -> Response:
    """Change what a receiver believes; a new password is shown, this once."""
    key = text(form, "key", most=_LONGEST_KEY)
    parts = parts_of(request)
    try:
        row, password = await parts.receivers.rotate(visitor.account_id, receiver_id, key=key, topic=key)
    except MailsiftError as error:
        return see(f"/outcomes/receivers/{receiver_id}", mendable(error).message, kind="bad")
    return _receiver_page(request, row, password=password, made=True)


@router.post("/{receiver_id:uuid}/delete")
async def delete(request: Request, visitor: Member, receiver_id: UUID, _form: Form) -> Response:
    """Remove a receiver; what it brought stays."""
    parts = parts_of(request)
    await parts.receivers.delete(visitor.account_id, receiver_id)
    return see("/outcomes", "The receiver is removed; the outcomes it brought stay.")


def _form(
    request: Request,
    *,
    sender: SenderKind = SenderKind.SES,
    name: str = "",
    error: MailsiftError | None = None,
) -> HTMLResponse:
    return render(
        request,
        "receiver_new.html",
        status=422 if error else 200,
        senders=[(kind, one.name) for kind, one in SENDERS.items()],
        sender=sender,
        name=name,
        error=error,
    )


def _receiver_page(
    request: Request, row: ReceiverRow, *, password: str = "", made: bool = False
) -> HTMLResponse:
    return render(
        request,
        "receiver.html",
        receiver=row,
        sender=SENDERS[SenderKind(row.sender)],
        address=_address(our_address(request), row.id, password),
        password=password,
        made=made,
    )


def _address(base: str, receiver_id: UUID, password: str) -> str:
    """Return what is pasted at the sender; a password stands in it as in any URL (RFC 3986 section 3.2.1)."""
    parts = urlsplit(base)
    user = f"mailsift:{password}@" if password else ""
    return f"{parts.scheme}://{user}{parts.netloc}/receivers/{receiver_id}"
