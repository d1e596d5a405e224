"""Who looks at a page, and whether they may: the dependencies of every page but those of signing in."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from mailsift.accounts.people import Role, Visitor
from mailsift.api.pages import cookies
from mailsift.api.pages.forms import check_origin
from mailsift.api.parts import parts_of
from mailsift.events.audit import act_as
from mailsift.pipeline.errors import MailsiftError


async def look_for_visitor(request: Request) -> Visitor | None:
    """Return who is signed in, None when nobody is; `render` knows them from then on."""
    secret = cookies.read(request, cookies.SESSION)
    visitor = await parts_of(request).people.sessions.find(secret) if secret else None
    request.state.visitor = visitor
    return visitor


class RequireRole:
    """A dependency: the visitor of a page that needs this role.

    Args:
        needed: the least role.
    """

    def __init__(self, needed: Role) -> None:
        self._needed = needed

    async def __call__(self, request: Request) -> Visitor:
        """Return the visitor.

        Raises:
            MailsiftError: `sign_in_needed` (which sends a browser to /login), `role_needed`, `csrf_failed`.
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
        MailsiftError: `sign_in_needed`, `not_found`, `csrf_failed`.
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
    return visitor


Reader = Annotated[Visitor, Depends(RequireRole(Role.VIEWER))]
"""A member of the account, whatever their role."""
Member = Annotated[Visitor, Depends(RequireRole(Role.MEMBER))]
"""Who may change things of the account."""
Owner = Annotated[Visitor, Depends(RequireRole(Role.OWNER))]
"""Who may change the account itself."""
Operator = Annotated[Visitor, Depends(require_operator)]
"""Who runs this installation, whatever their role."""
