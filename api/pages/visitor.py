"""Who looks at a page, and whether they may: the dependencies of every page but the doors."""

from __future__ import annotations

from fastapi import Request

from api.pages import cookies
from api.pages.forms import check_origin
from api.parts import parts_of
from api.people_views import Role, Visitor
from pipeline.errors import MailsiftError

__all__ = ["Operator", "Role", "Signed", "Visitor", "look_for_visitor"]


async def look_for_visitor(request: Request) -> Visitor | None:
    """Return who is signed in, None when nobody is; `render` knows them from then on."""
    secret = cookies.read(request, cookies.SESSION)
    visitor = await parts_of(request).people.sessions.find(secret) if secret else None
    request.state.visitor = visitor
    return visitor


class Signed:
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
        return visitor


class Operator:
    """A dependency: the visitor of a page for operators of this installation, whatever their role."""

    async def __call__(self, request: Request) -> Visitor:
        """Return the visitor.

        Raises:
            MailsiftError: `sign_in_needed`, `operator_needed`, `csrf_failed`.
        """
        visitor = await _signed_in(request)
        if not visitor.operator:
            raise MailsiftError("operator_needed", "This page is for operators of this installation.")
        return visitor


async def _signed_in(request: Request) -> Visitor:
    visitor = await look_for_visitor(request)
    if visitor is None:
        raise MailsiftError("sign_in_needed", "Sign in to see this page.")
    check_origin(request)
    return visitor
