"""/account: members, invitations, retention, the audit log; /account/you: password, sessions, accounts.

/account/data: what is kept of the account and until when, erasing it, and receipts of that.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from markupsafe import Markup
from pydantic import Field

from mailsift.accounts.people import Members, Role, Visitor
from mailsift.accounts.second_factors import Enrolment
from mailsift.accounts.sessions import SESSION_LIFETIME
from mailsift.api.http.auth import client_of
from mailsift.api.http.downloads import streamed
from mailsift.api.http.errors import STATUS_OF
from mailsift.api.pages import cookies
from mailsift.api.pages.forms import Form, attempt, choice, id_from, mendable, secret_text, text
from mailsift.api.pages.jobs import DayRange
from mailsift.api.pages.page import HEADERS, LONGEST_GOAL, inside, our_address, render, see_other, with_query
from mailsift.api.pages.sign_in import let_in
from mailsift.api.pages.visitor import Owner, Reader
from mailsift.api.parts import parts_of
from mailsift.events.audit import AuditLine, actor_words, audit_line
from mailsift.events.outbox import JobMailKind
from mailsift.jobs.erasure import Erasable
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.wording import counted
from mailsift.storage.sql.people import NO_FILTER, AuditFilter

router = APIRouter(prefix="/account", include_in_schema=False)

_DAY: Final = 86_400
_RETENTIONS: Final = {
    "0": "For ever",
    **{str(days * _DAY): f"{days} days" for days in (7, 14, 30, 60, 90, 180)},
    str(365 * _DAY): "1 year",
}
_MAIL: Final = {
    JobMailKind.ENDED.value: "is validated",
    JobMailKind.FAILED.value: "could not be validated",
    JobMailKind.WAITING.value: "waits for more than an hour",
    JobMailKind.EXPIRING.value: "will be deleted in three days",
}
_LINES_AT_ONCE: Final = 1_000
_THINGS: Final[Mapping[str, tuple[str, Sequence[str]]]] = {
    "lists": ("Lists", ("job", "jobs", "chunk", "lease")),
    "members": ("Members", ("member", "person")),
    "sign-in": ("Signing in", ("session", "password", "factor")),
    "keys": ("Keys", ("key",)),
    "webhooks": ("Webhooks", ("webhook", "delivery")),
    "schedules": ("Schedules", ("schedule",)),
    "outcomes": ("Outcomes and policy", ("suppression", "receiver", "policy")),
    "account": ("The account", ("account",)),
}
"""What the log can be narrowed to: label, and what actions begin with."""
_ERASABLE: Final = {
    Erasable.LISTS.value: "Lists, with their results and evidence",
    Erasable.OUTCOMES.value: "Outcomes, and what was counted by them",
    Erasable.SUPPRESSIONS.value: "Suppressions",
}


@router.get("")
async def account(request: Request, visitor: Reader) -> Response:
    """Show the account: its members, its invitations and how long it keeps its jobs."""
    return await _account(request, visitor)


@router.post("/invite")
async def invite(request: Request, visitor: Owner, form: Form) -> Response:
    """Make an invitation; its link is shown this once."""
    email, role = text(form, "email"), Role(choice(form, "role", set(Role)))
    try:
        secret = await parts_of(request).people.links.invite(visitor, email, role)
    except MailsiftError as error:
        return await _account(request, visitor, email=email, role=role, error=mendable(error))
    link = f"{our_address(request)}/invite?token={secret}"
    return await _account(request, visitor, link=link, invited=email)


@router.post("/invitations/{link_id:uuid}/withdraw")
async def withdraw(request: Request, visitor: Owner, link_id: UUID, _form: Form) -> Response:
    """Withdraw an invitation."""
    change = parts_of(request).people.links.withdraw(visitor, link_id)
    return await attempt("/account", change, "The invitation is withdrawn.")


@router.post("/members/{person_id:uuid}/role")
async def set_role(request: Request, visitor: Owner, person_id: UUID, form: Form) -> Response:
    """Give a member another role."""
    role = Role(choice(form, "role", set(Role)))
    change = parts_of(request).people.members.set_role(visitor, person_id, role)
    return await attempt("/account", change, f"The role is now {role.value}.")


@router.post("/members/{person_id:uuid}/remove")
async def remove(request: Request, visitor: Owner, person_id: UUID, _form: Form) -> Response:
    """Remove a member."""
    change = parts_of(request).people.members.remove(visitor, person_id)
    return await attempt("/account", change, "The member is removed and signed out.")


@router.post("/retention")
async def set_retention(request: Request, visitor: Owner, form: Form) -> Response:
    """Set how long new jobs are kept."""
    chosen = choice(form, "retention", _RETENTIONS)
    change = parts_of(request).people.members.set_retention(visitor, float(chosen))
    return await attempt("/account", change, f"New jobs are kept: {_RETENTIONS[chosen].lower()}.")


@router.post("/zone")
async def set_account_zone(request: Request, visitor: Owner, form: Form) -> Response:
    """Set the time zone of the account."""
    zone = text(form, "zone", most=64)
    change = parts_of(request).people.members.set_account_zone(visitor, zone)
    return await attempt("/account", change, f"The account’s time zone is {zone}.")


class LogQuery(DayRange):
    """Which lines of the log: of whom, of what, from one day to another, older than a line."""

    who: str = Field(default="", max_length=254)
    what: str = Field(default="", max_length=20)
    before: int | None = Field(default=None, ge=0, lt=2**63)

    def wanted(self, zone: str) -> AuditFilter:
        """Return the filter; what is no choice and no date narrows nothing."""
        things = _THINGS[self.what][1] if self.what in _THINGS else ()
        since, until = self.days(zone)
        return AuditFilter(actor=self.who.replace("\0", ""), things=things, since=since, until=until)

    def address(self, path: str, **more: object) -> str:
        """Return where a page shows these lines."""
        return with_query(path, {**self.model_dump(exclude={"before"}), **more})


@router.get("/log")
async def log(request: Request, visitor: Reader, asked: Annotated[LogQuery, Query()]) -> Response:
    """Show what was done in the account, newest first."""
    members, wanted = parts_of(request).people.members, asked.wanted(visitor.zone)
    rows, following = await members.log(visitor.account_id, before=asked.before, wanted=wanted)
    actors = {actor: actor_words(actor, exactly=True) for actor in await members.actors(visitor.account_id)}
    return render(
        request,
        "account_log.html",
        lines=[audit_line(row) for row in rows],
        asked=asked,
        narrowed=wanted != NO_FILTER,
        whos=[("", "Everybody"), *actors.items()],
        whats=[("", "Everything"), *((word, label) for word, (label, _) in _THINGS.items())],
        older=asked.address("/account/log", before=following) if following else "",
        newest=asked.address("/account/log") if asked.before else "",
        export=asked.address("/account/log.jsonl"),
    )


@router.get("/log.jsonl")
async def export_log(request: Request, visitor: Reader, asked: Annotated[LogQuery, Query()]) -> Response:
    """Return what was done in the account as JSON lines, newest first; times are UTC (RFC 3339)."""
    lines = _log_lines(parts_of(request).people.members, visitor, asked.wanted(visitor.zone))
    return await streamed(lines, "application/jsonl", "audit-log.jsonl", HEADERS)


async def _log_lines(members: Members, visitor: Visitor, wanted: AuditFilter) -> AsyncGenerator[bytes, None]:
    before = None
    while True:
        rows, before = await members.log(
            visitor.account_id, before=before, wanted=wanted, limit=_LINES_AT_ONCE
        )
        yield "".join(_json_line(audit_line(row)) for row in rows).encode()
        if before is None:
            return


def _json_line(line: AuditLine) -> str:
    fields = {**asdict(line), "at": line.at.astimezone(UTC).isoformat(), "sentence": line.sentence}
    return json.dumps(fields, ensure_ascii=False) + "\n"


async def _account(
    request: Request,
    visitor: Visitor,
    *,
    error: MailsiftError | None = None,
    **fields: Any,
) -> Response:
    """Show the account; `fields`: email and role of the form, link and invited once an invitation is made."""
    people = parts_of(request).people
    kept = str(int(await people.members.retention(visitor.account_id)))
    return render(
        request,
        "account.html",
        members=await people.members.list(visitor.account_id),
        invitations=await people.links.invitations(visitor.account_id),
        roles=[(role.value, role.value.capitalize()) for role in Role],
        retentions=_RETENTIONS,
        retention=kept,
        retention_words=_RETENTIONS.get(kept, counted(int(kept) // _DAY, "day")),
        error=error,
        **{"email": "", "role": Role.MEMBER.value, "link": "", "invited": "", **fields},
    )


@router.get("/you")
async def you(request: Request, visitor: Reader) -> Response:
    """Show the visitor to themselves."""
    return await _profile_page(request, visitor)


@router.post("/you/password")
async def change_password(request: Request, visitor: Reader, form: Form) -> Response:
    """Change the password; every other session ends."""
    sessions = parts_of(request).people.sessions
    try:
        secret = await sessions.change_password(
            visitor, secret_text(form, "old"), secret_text(form, "new"), client=client_of(request)
        )
    except MailsiftError as error:
        return await _profile_page(request, visitor, error=error)
    return let_in(secret, "/account/you", "Your password is changed; your other sessions have ended.")


@router.post("/you/code")
async def enrol(request: Request, visitor: Reader, form: Form) -> Response:
    """Show a new secret to who types the password; it guards once a code of it is typed."""
    sessions = parts_of(request).people.sessions
    try:
        await sessions.authenticate(visitor.email, secret_text(form, "password"), client=client_of(request))
        return _enrol(request, await sessions.factors.enrol(visitor))
    except MailsiftError as error:
        return await _profile_page(request, visitor, code_error=error)


@router.post("/you/code/confirm")
async def confirm_code(request: Request, visitor: Reader, form: Form) -> Response:
    """Turn the second factor on and show the recovery codes, this once; every other session ends."""
    sessions = parts_of(request).people.sessions
    try:
        codes, secret = await sessions.confirm_factor(
            visitor, text(form, "code", most=100), client=client_of(request)
        )
    except MailsiftError as error:
        return await _profile_page(request, visitor, code_error=error)
    cookies.replace(request, cookies.SESSION, secret)  # what the forms of this page belong to
    response = render(request, "you_codes.html", codes=codes)
    cookies.put(response, cookies.SESSION, secret, seconds=int(SESSION_LIFETIME.total_seconds()))
    return response


@router.post("/you/code/off")
async def code_off(request: Request, visitor: Reader, form: Form) -> Response:
    """Turn the second factor off; needs a code."""
    sessions = parts_of(request).people.sessions
    try:
        await sessions.turn_factor_off(visitor, text(form, "code", most=100), client=client_of(request))
    except MailsiftError as error:
        return await _profile_page(request, visitor, code_error=error)
    return see_other("/account/you", "Your sign-in asks for no code any more.")


@router.post("/you/mail")
async def choose_mail(request: Request, visitor: Reader, form: Form) -> Response:
    """Choose what about jobs the visitor gets mail of."""
    chosen = [kind for kind in JobMailKind if kind.value in form.getlist("mail")]
    await parts_of(request).people.members.choose_mail(visitor, chosen)
    return see_other("/account/you", "Your choice is kept." if chosen else "You get no mail about jobs.")


@router.post("/you/zone")
async def set_zone(request: Request, visitor: Reader, form: Form) -> Response:
    """Set in which time zone the visitor reads times."""
    zone, goal = text(form, "zone", most=64), text(form, "next", most=LONGEST_GOAL)
    change = parts_of(request).people.members.set_zone(visitor, zone)
    message = f"Times are shown in {zone or visitor.account_zone}."
    return await attempt(inside(goal) if goal else "/account/you", change, message)


def _enrol(request: Request, enrolment: Enrolment) -> Response:
    import segno  # noqa: PLC0415 - for the few who set one up

    picture = segno.make(enrolment.uri, error="m").svg_inline(scale=5, border=4, dark="#000", light="#fff")
    secret = " ".join(enrolment.secret[at : at + 4] for at in range(0, len(enrolment.secret), 4))
    return render(request, "you_code.html", picture=Markup(picture), secret=secret)  # noqa: S704 - made of a URI


@router.post("/you/sign-out-everywhere")
async def sign_out_everywhere(request: Request, visitor: Reader, _form: Form) -> Response:
    """End every session, this one too."""
    await parts_of(request).people.sessions.sign_out_everywhere(visitor)
    response = see_other("/login", "You are signed out everywhere.")
    cookies.drop(response, cookies.SESSION)
    return response


@router.post("/you/switch")
async def switch(request: Request, visitor: Reader, form: Form) -> Response:
    """Look at another account of the visitor."""
    account_id = id_from(text(form, "account"), "account_not_found", "There is no such account.")
    secret = cookies.read(request, cookies.SESSION)
    await parts_of(request).people.sessions.choose_account(visitor, secret, account_id)
    return see_other("/")


async def _profile_page(
    request: Request,
    visitor: Visitor,
    *,
    error: MailsiftError | None = None,
    code_error: MailsiftError | None = None,
) -> Response:
    wrong, sessions = error or code_error, parts_of(request).people.sessions
    return render(
        request,
        "you.html",
        status=STATUS_OF.get(wrong.code, 500) if wrong else 200,
        accounts=await sessions.accounts(visitor),
        mail_kinds=_MAIL,
        mail=await parts_of(request).people.members.mail(visitor),
        factor=await sessions.factors.view(visitor.user_id),
        error=error,
        code_error=code_error,
    )


@router.get("/data")
async def data(request: Request, visitor: Reader) -> Response:
    """Show what is kept of the account."""
    return await _data(request, visitor)


@router.post("/data/erase")
async def erase(request: Request, visitor: Owner, form: Form) -> Response:
    """Erase what is ticked, once the account's name is typed."""
    what = [one for one in Erasable if one.value in form.getlist("what")]
    error = None
    if not what:
        error = MailsiftError("bad_option", "Select what to erase.")
    elif text(form, "name") != visitor.account_name:
        error = MailsiftError("bad_option", "Type the account name exactly as shown.")
    if error:
        return await _data(request, visitor, ticked=[one.value for one in what], error=error)
    receipt = await parts_of(request).holdings.erase(
        visitor.account_id, what, person_id=visitor.user_id, actor=visitor.email
    )
    return see_other("/account/data#receipts", f"It is erased. The receipt has the number {receipt}.")


@router.get("/data/receipts/{receipt_id:uuid}.json")
async def receipt(request: Request, visitor: Reader, receipt_id: UUID) -> Response:
    """Return a receipt: what was erased, when and by whom; no address is in it."""
    found = await parts_of(request).holdings.receipt(visitor.account_id, receipt_id)
    headers = {**HEADERS, "Content-Disposition": f'attachment; filename="receipt-{found.id}.json"'}
    fields = {
        "receipt": str(found.id),
        "account": str(visitor.account_id),
        "person": str(found.person_id),
        "erased_at": found.at.astimezone(UTC).isoformat(timespec="seconds"),
        "erased": found.erased,
    }
    body = json.dumps(fields, ensure_ascii=False, indent=2)
    return Response(body + "\n", media_type="application/json", headers=headers)


async def _data(
    request: Request,
    visitor: Visitor,
    *,
    ticked: list[str] | None = None,
    error: MailsiftError | None = None,
) -> Response:
    return render(
        request,
        "account_data.html",
        kept=await parts_of(request).holdings.kept_data(visitor.account_id),
        erasable=_ERASABLE,
        ticked=ticked or [],
        error=error,
    )
