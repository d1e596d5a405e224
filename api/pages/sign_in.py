"""What is open to who is not signed in: /login, /logout, /help, and who asks mail servers, /probing.

And behind one-time links /welcome for the first owner, /invite and /password.
"""

from __future__ import annotations

import asyncio
import base64
import re
import secrets
from typing import TYPE_CHECKING, Annotated, Final

from fastapi import APIRouter, Depends, Request
from fastapi.responses import RedirectResponse, Response
from starlette.datastructures import FormData

from mailsift.accounts.links import LinkKind, LinkView
from mailsift.accounts.second_factors import PENDING_S, CodeNeededError
from mailsift.accounts.sessions import SESSION_LIFETIME, SignInAttempt
from mailsift.api.http.auth import client_of
from mailsift.api.http.errors import STATUS_OF, error_headers
from mailsift.api.pages import cookies
from mailsift.api.pages.forms import read_form, secret_text, text
from mailsift.api.pages.page import HOME, LONGEST_GOAL, inside, our_address, render, see_other, visitor_known
from mailsift.api.pages.visitor import look_for_visitor
from mailsift.api.parts import parts_of
from mailsift.pipeline.errors import MailsiftError, SuppressCodes

if TYPE_CHECKING:
    from mailsift.accounts.sso import SingleSignOn

router = APIRouter(include_in_schema=False)

_SSO_SECONDS: Final = 600
_LONGEST_KEPT: Final = 600
_SSO_COOKIE: Final = re.compile(r"([0-9a-f]{64})\.((?:[\w-]{4})*(?:[\w-]{2}==|[\w-]{3}=)?)", re.ASCII)
"""A secret, and Base64 of where to go."""
_PAGE_OF: Final = {
    LinkKind.FIRST_OWNER: "/welcome",
    LinkKind.INVITE: "/invite",
    LinkKind.PASSWORD: "/password",
}


async def _form(request: Request) -> FormData:
    await look_for_visitor(request)
    return await read_form(request)


_SignInForm = Annotated[FormData, Depends(_form)]
"""A form of who may be signed in or not."""


@router.get("/login")
async def login(request: Request, next: str = "", ended: bool = False) -> Response:  # noqa: A002 - the name in the address
    """Show the form to sign in; `ended` is said to who was about to send a form."""
    if await look_for_visitor(request) is not None:
        return see_other(inside(next))
    return _login(request, next, ended=ended)


@router.post("/login")
async def sign_in(request: Request, form: _SignInForm) -> Response:
    """Sign in."""
    email, goal = text(form, "email", most=1_000), text(form, "next", most=LONGEST_GOAL)
    try:
        secret = await parts_of(request).people.sessions.sign_in(
            email, secret_text(form, "password"), client=client_of(request)
        )
    except CodeNeededError as needed:
        response = _sign_in_page(request, "login_code.html", next=goal)
        cookies.put(response, cookies.HALF, needed.pending, seconds=PENDING_S)
        return response
    except MailsiftError as error:
        return _login(request, goal, email=email, error=error)
    return let_in(secret, inside(goal))


@router.post("/login/code")
async def sign_in_with_code(request: Request, form: _SignInForm) -> Response:
    """Sign in who has typed the right password already."""
    goal, code = text(form, "next", most=LONGEST_GOAL), text(form, "code", most=100)
    try:
        secret = await parts_of(request).people.sessions.sign_in_with_code(
            cookies.read(request, cookies.HALF), code, client=client_of(request)
        )
    except MailsiftError as error:
        if error.code in {"wrong_code", "rate_limited"}:
            return _sign_in_page(request, "login_code.html", error, next=goal)
        return _login(request, goal, error=error)
    response = let_in(secret, inside(goal))
    cookies.drop(response, cookies.HALF)
    return response


@router.get("/login/sso")
async def begin_single_sign_on(request: Request, next: str = "") -> Response:  # noqa: A002 - same
    """Send the browser to the provider, with a secret of its own to come back with."""
    if await look_for_visitor(request) is not None:
        return see_other(inside(next))
    secret = secrets.token_bytes(32)
    try:
        place = await _sso(request).provider.authorization_url(SignInAttempt(secret), _callback(request))
    except MailsiftError as error:
        return _login(request, next, error=error)
    response = RedirectResponse(place, 303)
    goal = inside(next) if len(next) <= _LONGEST_KEPT else HOME  # a longer cookie would not come back
    value = f"{secret.hex()}.{base64.urlsafe_b64encode(goal.encode()).decode()}"
    cookies.put(response, cookies.SSO, value, seconds=_SSO_SECONDS)
    return response


@router.get("/login/sso/callback")
async def finish_single_sign_on(request: Request) -> Response:
    """Sign in who has come back from the provider; the secret of the attempt works once."""
    secret, goal = _attempt_of(request)
    try:
        session = await _sso(request).finish(
            SignInAttempt(secret), dict(request.query_params), _callback(request)
        )
        response = let_in(session, goal)
    except MailsiftError as error:
        response = _login(request, goal, error=error)
    cookies.drop(response, cookies.SSO)
    return response


def _attempt_of(request: Request) -> tuple[bytes, str]:
    """Return the secret this browser came with, a new one if it has none, and where it wanted to go."""
    found = _SSO_COOKIE.fullmatch(cookies.read(request, cookies.SSO))
    if found is None:
        return secrets.token_bytes(32), HOME
    return bytes.fromhex(found[1]), inside(base64.urlsafe_b64decode(found[2]).decode("ascii", "replace"))


def _sso(request: Request) -> SingleSignOn:
    sso = parts_of(request).people.sso
    if sso is None:
        raise MailsiftError("not_found", "Single sign-on isn’t set up here.")
    return sso


def _callback(request: Request) -> str:
    """Return where the provider sends the browser back to; it must know this address."""
    return f"{our_address(request)}/login/sso/callback"


@router.post("/logout")
async def sign_out(request: Request) -> Response:
    """Sign out; needs no role, and does nothing for who is not signed in."""
    if await look_for_visitor(request) is not None:
        with SuppressCodes("other_account"):
            await read_form(request)
        await parts_of(request).people.sessions.sign_out(cookies.read(request, cookies.SESSION))
    response = see_other("/login", "You are signed out.")
    cookies.drop(response, cookies.SESSION)
    return response


@router.get("/welcome")
async def welcome(request: Request, token: str = "") -> Response:
    """Show the first owner the form that makes them one."""
    await _link_for(request, token, LinkKind.FIRST_OWNER)
    account = await parts_of(request).people.links.suggested_account()
    return _sign_in_page(request, "welcome.html", token=token, account=account, email="")


@router.post("/welcome")
async def first_owner(request: Request, form: _SignInForm) -> Response:
    """Make the first owner."""
    token, account, email = (text(form, name, most=1_000) for name in ("token", "account", "email"))
    try:
        secret = await parts_of(request).people.links.accept_first_owner(
            token,
            account=account,
            email=email,
            password=secret_text(form, "password"),
            zone=text(form, "zone"),
        )
    except MailsiftError as error:
        return _sign_in_page(request, "welcome.html", error, token=token, account=account, email=email)
    return let_in(secret, HOME)


@router.get("/invite")
async def invitation(request: Request, token: str = "") -> Response:
    """Show an invitation."""
    view = await _link_for(request, token, LinkKind.INVITE)
    return _sign_in_page(request, "invite.html", token=token, view=view)


@router.post("/invite")
async def accept(request: Request, form: _SignInForm) -> Response:
    """Take an invitation: as who is signed in, or with a password."""
    visitor = visitor_known(request)
    token = text(form, "token", most=1_000)
    links = parts_of(request).people.links
    view = await _link_for(request, token, LinkKind.INVITE)
    if visitor is not None and visitor.email == view.email:
        await links.join(token, visitor, cookies.read(request, cookies.SESSION))
        return see_other(HOME)
    try:
        secret = await links.accept(token, password=secret_text(form, "password"), client=client_of(request))
    except MailsiftError as error:
        return _sign_in_page(request, "invite.html", error, token=token, view=view)
    return let_in(secret, HOME)


@router.get("/password")
async def forgotten(request: Request, token: str = "") -> Response:
    """Show the form for a new password."""
    view = await _link_for(request, token, LinkKind.PASSWORD)
    return _sign_in_page(request, "password.html", token=token, view=view)


@router.post("/password")
async def set_password(request: Request, form: _SignInForm) -> Response:
    """Set a new password; every session of the person ends."""
    token = text(form, "token", most=1_000)
    view = await _link_for(request, token, LinkKind.PASSWORD)
    try:
        await parts_of(request).people.links.set_password(token, secret_text(form, "password"))
    except MailsiftError as error:
        return _sign_in_page(request, "password.html", error, token=token, view=view)
    response = see_other("/login", "Your new password is set. Sign in with it.")
    cookies.drop(response, cookies.SESSION)
    return response


@router.get("/help")
async def show_help(request: Request) -> Response:
    """Show what every page is for and what its words mean; the topics of operators to operators."""
    await look_for_visitor(request)
    return render(request, "help.html")


@router.get("/probing")
async def probing(request: Request) -> Response:
    """Tell a mail server's owner, who looks up the name that asked it, who asks and how to opt out."""
    return render(request, "probing.html", **await asyncio.to_thread(parts_of(request).probing))


def let_in(secret: str, goal: str, message: str = "") -> Response:
    """Return the way into the pages with a new session."""
    response = see_other(goal, message)
    cookies.put(response, cookies.SESSION, secret, seconds=int(SESSION_LIFETIME.total_seconds()))
    cookies.drop(response, cookies.FORM)
    return response


async def _link_for(request: Request, token: str, kind: LinkKind) -> LinkView:
    """Return what a link is for; one of another kind is no link for this page."""
    if request.method == "GET":
        await look_for_visitor(request)
    view = await parts_of(request).people.links.find(token)
    if view.kind is not kind:
        raise MailsiftError("link_gone", f"This link belongs to {_PAGE_OF[view.kind]}.")
    return view


def _login(
    request: Request, goal: str, *, email: str = "", error: MailsiftError | None = None, ended: bool = False
) -> Response:
    people = parts_of(request).people
    return _sign_in_page(
        request,
        "login.html",
        error,
        next=goal,
        email=email,
        sso_name=people.sso_name if people.sso else "",
        passwords=people.sessions.local is None,
        ended=ended,
    )


def _sign_in_page(
    request: Request, template: str, error: MailsiftError | None = None, **context: object
) -> Response:
    """Return a form; after an error once more, with what that says of when to come back.

    Raises:
        MailsiftError: the error, where the link of the form is gone.
    """
    if error and error.code == "link_gone":
        raise error
    status = STATUS_OF.get(error.code, 500) if error else 200
    page = render(
        request, template, status=status, error=error, keeps_cookies=cookies.keeps_cookies(request), **context
    )
    if error:
        page.headers.update(error_headers(error))
    return page
