"""/account/you: what everybody may do about themselves: password, sessions, which account they look at."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response

from api.errors import STATUS_OF
from api.pages import cookies
from api.pages.doors import client_of, let_in
from api.pages.forms import read_form, secret_text, text
from api.pages.page import render, see
from api.pages.visitor import Role, Signed, Visitor
from api.parts import parts_of
from pipeline.errors import MailsiftError

router = APIRouter(prefix="/account/you", include_in_schema=False)

Anybody = Annotated[Visitor, Depends(Signed(Role.VIEWER))]


@router.get("")
async def you(request: Request, visitor: Anybody) -> Response:
    """Show the visitor to themselves."""
    return await _you(request, visitor)


@router.post("/password")
async def change_password(request: Request, visitor: Anybody) -> Response:
    """Change the password; every other session ends."""
    form = await read_form(request)
    sessions = parts_of(request).people.sessions
    try:
        secret = await sessions.change_password(
            visitor, secret_text(form, "old"), secret_text(form, "new"), client=client_of(request)
        )
    except MailsiftError as error:
        return await _you(request, visitor, error=error)
    return let_in(
        request, secret, "/account/you", "Your password is changed; your other sessions have ended."
    )


@router.post("/sign-out-everywhere")
async def sign_out_everywhere(request: Request, visitor: Anybody) -> Response:
    """End every session, this one too."""
    await read_form(request)
    await parts_of(request).people.sessions.sign_out_everywhere(visitor)
    response = see(request, "/login", "You are signed out everywhere.")
    cookies.drop(response, cookies.SESSION)
    return response


@router.post("/switch")
async def switch(request: Request, visitor: Anybody) -> Response:
    """Look at another account of the visitor."""
    form = await read_form(request)
    try:
        account_id = UUID(text(form, "account"))
    except ValueError:
        raise MailsiftError("account_not_found", "There is no such account.") from None
    secret = cookies.read(request, cookies.SESSION)
    await parts_of(request).people.sessions.choose_account(visitor, secret, account_id)
    return see(request, "/")


async def _you(request: Request, visitor: Visitor, *, error: MailsiftError | None = None) -> Response:
    return render(
        request,
        "you.html",
        status=STATUS_OF.get(error.code, 500) if error else 200,
        accounts=await parts_of(request).people.sessions.accounts(visitor),
        error=error,
    )
