"""Who looks at a page, and whether they may: the dependencies of every page but those of signing in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Annotated
from uuid import UUID

from fastapi import Depends, Request

from mailsift.accounts.people import Role, Visitor
from mailsift.api.pages import cookies
from mailsift.api.pages.forms import CSRF_HEADER, check_origin, check_token
from mailsift.api.parts import parts_of
from mailsift.events.audit import act_as
from mailsift.jobs.views import JobId
from mailsift.pipeline.errors import MailsiftError


async def look_for_visitor(request: Request) -> Visitor | None:
    """Return who is signed in, None when nobody is; `render` knows them from then on."""
    secret = cookies.read(request, cookies.SESSION)
    visitor = await parts_of(request).people.sessions.find(secret) if secret else None
    request.state.visitor = visitor
    return visitor


class RequireRole:
    """A dependency: the visitor of a page that needs this role."""

    def __init__(self, needed: Role) -> None:
        self._needed = needed

    async def __call__(self, request: Request) -> Visitor:
        """Return the visitor.

        Raises:
            MailsiftError: `sign_in_needed` (which sends a browser to /login), `role_needed`, `csrf_failed`,
                `other_account`.
        """
        visitor = await _signed_in(request)
        if not visitor.role.may(self._needed):
            text = f"This needs the role {self._needed.value}, and yours is {visitor.role.value}."
            raise MailsiftError("role_needed", f"{text} An owner of the account can change that.")
        act_as(visitor.email)
        return visitor


async def require_operator(request: Request) -> Visitor:
    """Return the operator of this installation who looks at a page; to anybody else nothing is there.

    Raises:
        MailsiftError: `sign_in_needed`, `not_found`, `csrf_failed`, `other_account`.
    """
    visitor = await _signed_in(request)
    if not visitor.operator:
        raise MailsiftError("not_found", "There is no such page.")
    return visitor


async def _signed_in(request: Request) -> Visitor:
    visitor = await look_for_visitor(request)
    if visitor is None:
        raise MailsiftError("sign_in_needed", "Sign in to see this page.")
    check_origin(request)
    if token := request.headers.get(CSRF_HEADER):  # of a page that asks for a piece of itself
        check_token(request, token)
    return visitor


def _in_account_of_job(required: RequireRole) -> Callable[[Request, UUID], Awaitable[Visitor]]:
    """Return a dependency: the visitor in the account whose job it is, theirs or its test account.

    Their session stays what it is: `render` marks what is shown as a test.
    """

    async def find(request: Request, job_id: UUID) -> Visitor:
        visitor = await required(request)
        owner = await parts_of(request).jobs.owner(visitor.account_id, JobId(job_id))
        request.state.test_mode = owner != visitor.account_id
        return replace(visitor, account_id=owner)

    return find


Reader = Annotated[Visitor, Depends(RequireRole(Role.VIEWER))]
"""A member of the account, whatever their role."""
Member = Annotated[Visitor, Depends(RequireRole(Role.MEMBER))]
"""Who may change things of the account."""
Owner = Annotated[Visitor, Depends(RequireRole(Role.OWNER))]
"""Who may change the account itself."""
Operator = Annotated[Visitor, Depends(require_operator)]
"""Who runs this installation, whatever their role."""
JobReader = Annotated[Visitor, Depends(_in_account_of_job(RequireRole(Role.VIEWER)))]
"""Who looks at a job, in the account that has it: theirs or its test account."""
JobMember = Annotated[Visitor, Depends(_in_account_of_job(RequireRole(Role.MEMBER)))]
"""Who may change a job, in the account that has it."""
