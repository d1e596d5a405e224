"""What really happened: /outcomes and its receivers, /suppressions; /accuracy: were the verdicts right."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlsplit
from uuid import UUID

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, Response

from mailsift.accounts.people import Visitor
from mailsift.api.http.downloads import streamed
from mailsift.api.http.uploads import file_pieces, file_with
from mailsift.api.pages.charts import diagram, over_time
from mailsift.api.pages.forms import Form, attempt, choice, chosen_file, mendable, once, read_form, text
from mailsift.api.pages.page import HEADERS, our_address, render, see_other
from mailsift.api.pages.visitor import Member, Reader
from mailsift.api.pages.words import provider_name, result_name
from mailsift.api.parts import ApiParts, parts_of
from mailsift.api.v1.outcomes import SUPPRESSION_FILE_TYPES
from mailsift.jobs.outcomes.accuracy import GroupBy, to_csv
from mailsift.jobs.outcomes.service import ImportCounts
from mailsift.jobs.outcomes.suppressions import Suppression, SuppressionFormat, SuppressionReason
from mailsift.jobs.views import AccountId
from mailsift.pipeline.clock import utc_datetime
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.outcomes.chances import FEWEST
from mailsift.pipeline.outcomes.senders import SENDER_NAMES, SenderKind
from mailsift.pipeline.syntax.address import canonical_of
from mailsift.storage.sql.outcomes import ReceiverRow

router = APIRouter(include_in_schema=False)

_LONGEST_TEXT: Final = 1_000
"""Characters of a sender's key, of an address that is looked up, of a cursor."""


@router.get("/outcomes")
async def outcomes(request: Request, visitor: Reader) -> HTMLResponse:
    """Show where a file of outcomes is dropped, and which senders tell by themselves."""
    found = await parts_of(request).receivers.list(visitor.account_id)
    return render(request, "outcomes.html", receivers=found, senders=_SENDERS)


@router.post("/outcomes")
async def take_outcomes(request: Request, visitor: Member) -> Response:
    """Take a file of outcomes; what comes of it is said on the page."""
    take = parts_of(request).outcomes.import_file
    return await _import_upload(request, visitor.account_id, take, "/outcomes", "outcomes")


@router.get("/outcomes/export.csv")
async def export_outcomes(request: Request, visitor: Reader) -> Response:
    """Return every outcome of the account as CSV."""
    pieces = parts_of(request).outcomes.export(visitor.account_id)
    return await streamed(pieces, "text/csv; charset=utf-8", "outcomes.csv", HEADERS)


async def _import_upload(
    request: Request,
    account_id: UUID,
    read: Callable[[UUID, Path], Awaitable[ImportCounts]],
    address: str,
    what: str,
) -> Response:
    form = await read_form(request)
    try:
        async with file_with(file_pieces(chosen_file(form))) as path:
            taken = await read(account_id, path)
    except MailsiftError as error:
        return see_other(address, error.message, kind="bad")
    finally:
        await form.close()
    kind = "good" if taken.taken or taken.repeated else "bad"
    return see_other(address, _import_summary(taken, what), kind=kind)


def _import_summary(taken: ImportCounts, what: str) -> str:
    return (
        f"{taken.taken:,} new {what}, {taken.repeated:,} known already, {taken.malformed:,} not understood."
    )


@dataclass(frozen=True, slots=True)
class _SenderOnPage:
    """A mail sender: its name, where its users give it our address, and what it is believed by."""

    name: str
    where: str
    needs: str = ""  # `key`, `topic`, or "" for those that sign nothing
    label: str = ""  # what the key is called there


_WHERE_TO_PASTE: Final = {
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
_SENDERS: Final = {kind: _SenderOnPage(SENDER_NAMES[kind], *where) for kind, where in _WHERE_TO_PASTE.items()}


@router.get("/outcomes/receivers/new")
async def new_receiver(request: Request, _: Member) -> HTMLResponse:
    """Show the form for a receiver."""
    return _receiver_form(request)


@router.post("/outcomes/receivers/new")
@once
async def create_receiver(request: Request, visitor: Member, form: Form) -> Response:
    """Make a receiver and show the address to paste, with its password this once."""
    sender = SenderKind(choice(form, "sender", _SENDERS))
    name, key = text(form, "name"), text(form, "key", most=_LONGEST_TEXT)
    try:
        row, password = await parts_of(request).receivers.create(
            visitor.account_id, sender, name=name, key=key, topic=key
        )
    except MailsiftError as error:
        return _receiver_form(request, sender=sender, name=name, error=mendable(error))
    return _receiver_page(request, row, password=password, made=True)


@router.get("/outcomes/receivers/{receiver_id:uuid}")
async def receiver(request: Request, visitor: Reader, receiver_id: UUID) -> HTMLResponse:
    """Show a receiver: its address, and what it took and refused."""
    return _receiver_page(request, await parts_of(request).receivers.get(visitor.account_id, receiver_id))


@router.post("/outcomes/receivers/{receiver_id:uuid}/rotate")
async def rotate_receiver(request: Request, visitor: Member, receiver_id: UUID, form: Form) -> Response:
    """Change what a receiver believes; a new password is shown, this once."""
    key = text(form, "key", most=_LONGEST_TEXT)
    return await attempt(
        f"/outcomes/receivers/{receiver_id}",
        parts_of(request).receivers.rotate(visitor.account_id, receiver_id, key=key, topic=key),
        lambda found: _receiver_page(request, found[0], password=found[1], made=True),
    )


@router.post("/outcomes/receivers/{receiver_id:uuid}/delete")
async def delete_receiver(request: Request, visitor: Member, receiver_id: UUID, _form: Form) -> Response:
    """Remove a receiver; what it brought stays."""
    await parts_of(request).receivers.delete(visitor.account_id, receiver_id)
    return see_other("/outcomes", "The receiver is removed; the outcomes it brought stay.")


def _receiver_form(
    request: Request,
    *,
    sender: SenderKind = SenderKind.SES,
    name: str = "",
    error: MailsiftError | None = None,
) -> HTMLResponse:
    return render(
        request,
        "receiver_new.html",
        senders=[(kind, one.name) for kind, one in _SENDERS.items()],
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
        sender=_SENDERS[SenderKind(row.sender)],
        address=_receiver_address(our_address(request), row.id, password),
        password=password,
        made=made,
    )


def _receiver_address(base: str, receiver_id: UUID, password: str) -> str:
    """Return what is pasted at the sender; a password stands in it as in any URL (RFC 3986 section 3.2.1)."""
    parts = urlsplit(base)
    user = f"mailsift:{password}@" if password else ""
    return f"{parts.scheme}://{user}{parts.netloc}/receivers/{receiver_id}"


_SUPPRESSIONS_A_PAGE: Final = 50
_MOST_AT_ONCE: Final = 20_000  # characters somebody pastes
_SUPPRESSION_REASONS: Final = (
    (SuppressionReason.MANUAL, "Added by hand"),
    (SuppressionReason.UNSUBSCRIBED, "Unsubscribed"),
    (SuppressionReason.COMPLAINED, "Complained"),
    (SuppressionReason.BOUNCED, "Bounced"),
)
_SUPPRESSION_NAMES: Final = {**dict(_SUPPRESSION_REASONS), SuppressionReason.MANUAL: "By hand"}
"""The same, beside an address."""


@router.get("/suppressions")
async def suppressions(request: Request, visitor: Reader, email: str = "", cursor: str = "") -> HTMLResponse:
    """Show whom the account may not send to, or look one up."""
    return await _suppressions_page(
        request, visitor, email=email[:_LONGEST_TEXT].strip(), cursor=cursor[:_LONGEST_TEXT]
    )


async def _suppressions_page(
    request: Request,
    visitor: Visitor,
    *,
    email: str = "",
    cursor: str = "",
    error: MailsiftError | None = None,
    **typed: Any,
) -> HTMLResponse:
    """Return the page of the list; `typed`: what was `pasted` and its `reason`, to be mended."""
    service = parts_of(request).suppressions
    page = await service.page(visitor.account_id, limit=_SUPPRESSIONS_A_PAGE, email=email, cursor=cursor)
    counts = await service.count(visitor.account_id)
    return render(
        request,
        "suppressions.html",
        found=[(one, utc_datetime(one.since)) for one in page.suppressions],
        following=page.next,
        email=email,
        is_address=bool(canonical_of(email)),
        total=sum(counts.values()),
        reasons=_SUPPRESSION_REASONS,
        names=_SUPPRESSION_NAMES,
        error=error,
        **{"pasted": "", "reason": "", **typed},
    )


@router.post("/suppressions")
async def add_suppressions(request: Request, visitor: Member, form: Form) -> Response:
    """Put pasted addresses on the list; what is none stays in the form."""
    reason = SuppressionReason.MANUAL
    if "reason" in form:
        reason = SuppressionReason(choice(form, "reason", set(SuppressionReason)))
    pasted = str(form.get("emails", ""))
    if len(pasted) > _MOST_AT_ONCE:
        error = MailsiftError("bad_option", "That’s too many at once. Upload a file instead.")
        return await _suppressions_page(request, visitor, pasted=pasted, reason=reason, error=error)
    named = re.split(r"[\s,;]+", pasted.strip(" \t\r\n,;"))
    found = [Suppression(email, reason, "page") for email in named]
    taken = await parts_of(request).suppressions.add(visitor.account_id, found)
    summary = _import_summary(taken, "addresses")
    if not taken.malformed:
        return see_other("/suppressions", summary)
    left = "\n".join(email for email in named if not canonical_of(email))
    error = MailsiftError("bad_option", f"{summary} What was not understood is still in the form.")
    return await _suppressions_page(request, visitor, pasted=left, reason=reason, error=error)


@router.post("/suppressions/remove")
async def remove_suppression(request: Request, visitor: Member, form: Form) -> Response:
    """Take an address off the list."""
    email = text(form, "email", most=_LONGEST_TEXT)
    removal = parts_of(request).suppressions.remove(visitor.account_id, [email])
    return await attempt("/suppressions", removal, "The address may be sent to again.")


@router.post("/suppressions/import")
async def take_suppressions(request: Request, visitor: Member) -> Response:
    """Put the addresses of a file on the list."""
    take = parts_of(request).suppressions.import_file
    return await _import_upload(request, visitor.account_id, take, "/suppressions", "addresses")


@router.get("/suppressions/export")
async def export_suppressions(
    request: Request,
    visitor: Reader,
    format: SuppressionFormat = SuppressionFormat.CSV,  # noqa: A002 - the word for it
) -> Response:
    """Return the whole list: ours, or for Amazon SES or SendGrid."""
    kind, extension = SUPPRESSION_FILE_TYPES[format]
    pieces = parts_of(request).suppressions.export(visitor.account_id, format)
    return await streamed(pieces, kind, f"suppressions.{extension}", HEADERS)


_ACCURACY_DAYS: Final = 90
_GROUPS_SHOWN: Final = 30  # groups in a table; the file has all
_ACCURACY_TABS: Final = {
    GroupBy.RESULT: "By result",
    GroupBy.PROVIDER: "By provider",
    GroupBy.MODE: "By mode",
}

_GROUP_NAMES: Final[Mapping[GroupBy, Callable[[str], str]]] = {
    GroupBy.RESULT: result_name,
    GroupBy.PROVIDER: lambda key: provider_name(key) if key else "Not looked up",
    GroupBy.MODE: str.capitalize,
}


@router.get("/accuracy")
async def accuracy(
    request: Request, visitor: Reader, by: Annotated[GroupBy, Query()] = GroupBy.RESULT
) -> Response:
    """Show what became of the forecasts of the last 90 days."""
    calibration = await parts_of(request).accuracy.calibration(visitor.account_id)
    return render(
        request,
        "accuracy.html",
        **await accuracy_context(request, visitor.account_id, by),
        calibration=calibration,
        diagram=diagram(calibration) if calibration else "",
        fewest=FEWEST,
    )


async def accuracy_context(request: Request, account_id: AccountId | None, by: GroupBy) -> dict[str, Any]:
    """Return what `accuracy_table.html` shows: of an account, or of all accounts where it is None."""
    parts = parts_of(request)
    first, last = _accuracy_span(parts)
    report = parts.accuracy.report
    whole = await report(account_id, (), first, last)
    rows = await report(account_id, (by,), first, last)
    days = await report(account_id, (GroupBy.DAY,), first, last)
    return {
        "whole": whole[0] if whole else None,
        "rows": sorted(rows, key=lambda row: (-row.judged, row.group))[:_GROUPS_SHOWN],
        "more": max(0, len(rows) - _GROUPS_SHOWN),
        "by": by,
        "named": _GROUP_NAMES.get(by, str),
        "tabs": _ACCURACY_TABS,
        "history": over_time([(row.group[0], row.delivered) for row in days if row.delivered]),
        "days": _ACCURACY_DAYS,
    }


def _accuracy_span(parts: ApiParts) -> tuple[date, date]:
    last = utc_datetime(parts.clock()).date()
    return last - timedelta(days=_ACCURACY_DAYS - 1), last


@router.get("/accuracy/export.csv")
async def export_accuracy(request: Request, visitor: Reader) -> Response:
    """Return all numbers by provider, mode, result and day as CSV."""
    return await accuracy_file(request, visitor.account_id)


async def accuracy_file(request: Request, account_id: AccountId | None) -> Response:
    """Return all numbers of an account, or of all accounts together, as CSV."""
    parts, groups = parts_of(request), tuple(GroupBy)
    rows = await parts.accuracy.report(account_id, groups, *_accuracy_span(parts))
    headers = {"Content-Disposition": 'attachment; filename="accuracy.csv"'}
    return Response(to_csv(rows, groups), media_type="text/csv; charset=utf-8", headers=headers)
