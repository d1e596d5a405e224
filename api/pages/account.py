"""/account: members and invitations, how long things are kept, and the audit log."""

from __future__ import annotations

from typing import Annotated, Final
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response

from api.pages.attempts import attempt, is_mendable
from api.pages.audit_words import told
from api.pages.forms import choice, read_form, text
from api.pages.page import render
from api.pages.visitor import Role, Signed, Visitor
from api.parts import parts_of
from pipeline.errors import MailsiftError

router = APIRouter(prefix="/account", include_in_schema=False)

Reader = Annotated[Visitor, Depends(Signed(Role.VIEWER))]
Owner = Annotated[Visitor, Depends(Signed(Role.OWNER))]

_DAY: Final = 86_400
RETENTIONS: Final = {
    "0": "For ever",
    **{str(days * _DAY): f"{days} days" for days in (7, 14, 30, 60, 90, 180)},
    str(365 * _DAY): "1 year",
}
_ROLES: Final = {role.value: role for role in Role}


@router.get("")
async def account(request: Request, visitor: Reader) -> Response:
    """Show the account: its members, its invitations and how long it keeps its jobs."""
    return await _account(request, visitor)


@router.post("/invite")
async def invite(request: Request, visitor: Owner) -> Response:
    """Make an invitation; its link is shown this once."""
    form = await read_form(request)
    people, email = parts_of(request).people, text(form, "email")
    role = _ROLES[choice(form, "role", _ROLES)]
    try:
        secret = await people.links.invite(visitor, email, role)
    except MailsiftError as error:
        if not is_mendable(error):
            raise
        return await _account(request, visitor, email=email, role=role, error=error)
    base = people.public_url or str(request.base_url).rstrip("/")
    return await _account(request, visitor, link=f"{base}/invite?token={secret}", invited=email)


@router.post("/invitations/{link_id:uuid}/withdraw")
async def withdraw(request: Request, visitor: Owner, link_id: UUID) -> Response:
    """Withdraw an invitation."""
    await read_form(request)
    change = parts_of(request).people.links.withdraw(visitor, link_id)
    return await attempt(request, "/account", change, "The invitation is withdrawn.")


@router.post("/members/{person_id:uuid}/role")
async def set_role(request: Request, visitor: Owner, person_id: UUID) -> Response:
    """Give a member another role."""
    form = await read_form(request)
    role = _ROLES[choice(form, "role", _ROLES)]
    change = parts_of(request).people.members.set_role(visitor, person_id, role)
    return await attempt(request, "/account", change, f"The role is now {role.value}.")


@router.post("/members/{person_id:uuid}/remove")
async def remove(request: Request, visitor: Owner, person_id: UUID) -> Response:
    """Remove a member."""
    await read_form(request)
    change = parts_of(request).people.members.remove(visitor, person_id)
    return await attempt(request, "/account", change, "The member is removed and signed out.")


@router.post("/retention")
async def set_retention(request: Request, visitor: Owner) -> Response:
    """Set how long new jobs are kept."""
    form = await read_form(request)
    chosen = choice(form, "retention", RETENTIONS)
    change = parts_of(request).people.members.set_retention(visitor, float(chosen))
    return await attempt(request, "/account", change, f"New jobs are kept: {RETENTIONS[chosen].lower()}.")


@router.get("/log")
async def log(
    request: Request, visitor: Reader, before: Annotated[int | None, Query(ge=0, lt=2**63)] = None
) -> Response:
    """Show what was done in the account, newest first."""
    rows, following = await parts_of(request).people.members.log(visitor.account_id, before=before)
    return render(
        request, "account_log.html", lines=[told(row) for row in rows], following=following, before=before
    )


async def _account(
    request: Request,
    visitor: Visitor,
    *,
    error: MailsiftError | None = None,
    **shown: str,
) -> Response:
    """Show the account; `shown`: email and role of the form, link and invited once an invitation is made."""
    people = parts_of(request).people
    kept = str(int(await people.members.retention(visitor.account_id)))
    return render(
        request,
        "account.html",
        status=422 if error else 200,
        members=await people.members.list(visitor.account_id),
        invitations=await people.links.invitations(visitor.account_id),
        roles=[(name, name.capitalize()) for name in _ROLES],
        retentions=list(RETENTIONS.items()),
        retention=kept,
        retention_words=RETENTIONS.get(kept, f"{int(kept) // _DAY} days"),
        error=error,
        **{"email": "", "role": Role.MEMBER.value, "link": "", "invited": "", **shown},
    )
