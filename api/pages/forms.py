"""Forms as they come in, from our own pages only, and what follows: a page that says what happened.

A field that holds what it cannot is a `bad_option`.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from collections.abc import Awaitable, Callable, Container
from functools import partial, wraps
from typing import Annotated, Final, TypeVar
from urllib.parse import urlsplit
from uuid import UUID

from fastapi import Depends, Request
from fastapi.responses import Response
from starlette.datastructures import FormData, UploadFile

from mailsift.accounts.people import Visitor
from mailsift.api.http.errors import STATUS_OF
from mailsift.api.http.inputs import UNPRINTABLE, UNSTORABLE
from mailsift.api.http.middleware import STILL_MAY
from mailsift.api.pages import cookies
from mailsift.api.pages.page import our_hosts, see_other, visitor_known
from mailsift.api.parts import parts_of
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.wording import visible_name
from mailsift.storage.sql import idempotency

T = TypeVar("T")

CSRF_HEADER: Final = "X-CSRF-Token"
_FIELDS, _FIELD_BYTES = 200, 256 * 1024
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_WAITS, _WAIT_SECONDS = 50, 0.1
"""How often a second click looks for what became of the first."""
_MENDABLE: Final = frozenset({409, 422, 429})  # statuses of what a person can mend


async def read_form(request: Request) -> FormData:
    """Return the form of a POST, urlencoded or multipart with at most one file.

    Raises:
        MailsiftError: `csrf_failed` when it does not carry the token of the session (field `csrf` or header
            X-CSRF-Token) or comes from elsewhere; `other_account`, `bad_request`.
    """
    check_origin(request)
    request.scope[STILL_MAY] = partial(_is_still, request, visitor_known(request))
    form = await request.form(max_files=1, max_fields=_FIELDS, max_part_size=_FIELD_BYTES)
    try:
        check_token(request, request.headers.get(CSRF_HEADER) or form.get("csrf"))
        _check_texts(form)
    except MailsiftError:
        await form.close()  # what was set aside of a file: nobody else will see this form
        raise
    return form


Form = Annotated[FormData, Depends(read_form)]
"""The form of a POST, once it is known who sends it: it stands behind the visitor."""


async def _is_still(request: Request, visitor: Visitor | None) -> bool:
    """Say whether who sends a form is who began to: signed in, in the same account, with the same role."""
    secret = cookies.read(request, cookies.SESSION)
    return visitor is None or await parts_of(request).people.sessions.find(secret) == visitor


def _check_texts(form: FormData) -> None:
    if any(isinstance(value, str) and UNSTORABLE.search(value) for _, value in form.multi_items()):
        raise MailsiftError("bad_request", "A field contains a character that can’t be part of text.")


def check_token(request: Request, given: object) -> None:
    """Refuse what does not carry the token of the session, or of the anonymous browser, in its account.

    A session looks at one account, whatever tabs are open: what they show may be of the one before.

    Raises:
        MailsiftError: `csrf_failed`; `other_account`: of this session, but of a page of another account.
    """
    visitor = visitor_known(request)
    secret = cookies.read(request, cookies.SESSION if visitor else cookies.FORM)
    token = cookies.unmask(given) if isinstance(given, str) else ""
    wanted = cookies.csrf_token(secret, visitor.account_id if visitor else "")
    if secret and hmac.compare_digest(wanted, token):
        return
    if secret and visitor and cookies.is_of_session(token, wanted):
        text = f"This page is of another account: you now look at {visitor.account_name}. Nothing was done."
        raise MailsiftError("other_account", text)
    raise _form_refused(request)


def check_origin(request: Request) -> None:
    """Refuse to be changed from another site.

    Browsers say where a request comes from (Fetch Metadata; Origin, RFC 6454 section 7); what says nothing
    is no browser, and has no cookie that somebody else could use.

    Raises:
        MailsiftError: `csrf_failed`.
    """
    if request.method in _SAFE:
        return
    if request.headers.get("sec-fetch-site", "same-origin") not in {"same-origin", "none"}:
        raise _form_refused(request)
    origin = request.headers.get("origin")
    if origin is not None and _host_in(origin) not in our_hosts(request):
        raise _form_refused(request)


def _host_in(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def text(form: FormData, name: str, *, most: int = 200) -> str:
    """Return a field's line of text without spaces around it, "" when it is missing or shows nothing."""
    value = visible_name(typed_text(form, name, most=most))
    if UNPRINTABLE.search(value):
        raise MailsiftError("bad_option", f"The field “{name}” contains an invisible character.")
    return value


def typed_text(form: FormData, name: str, *, most: int) -> str:
    """Return a field as it was typed or pasted, with what nobody sees, "" when it is missing."""
    value = form.get(name, "")
    if not isinstance(value, str) or len(value) > most:
        raise MailsiftError("bad_option", f"The field “{name}” is too long.")
    return value


def secret_text(form: FormData, name: str) -> str:
    """Return a password as it was typed, spaces and all."""
    value = form.get(name, "")
    return value[:1_000] if isinstance(value, str) else ""


def choice(form: FormData, name: str, known: Container[str]) -> str:
    """Return a field that must be one of the known words."""
    value = form.get(name, "")
    if not isinstance(value, str) or value not in known:
        raise MailsiftError("bad_option", f"Choose one of the options for “{name}”.")
    return value


def chosen_file(form: FormData) -> UploadFile:
    """Return the form's file, which must be chosen."""
    file = form.get("file")
    if not isinstance(file, UploadFile) or not file.filename:
        raise MailsiftError("bad_option", "Choose a file first.")
    return file


def _form_refused(request: Request) -> MailsiftError:
    why = "" if cookies.keeps_cookies(request) else " Browsers keep our cookies only over HTTPS."
    return MailsiftError("csrf_failed", f"This form is out of date. Reload the page and try again.{why}")


async def attempt(address: str, change: Awaitable[T], done: str | Callable[[T], Response]) -> Response:
    """Make a change and go to a page of ours, which says `done` or why not, or to what `done` makes.

    Raises:
        MailsiftError: whatever the person who asked cannot mend by asking otherwise.
    """
    try:
        made = await change
    except MailsiftError as error:
        return see_other(address, mendable(error).message, kind="bad")
    return see_other(address, done) if isinstance(done, str) else done(made)


def once(do: Callable[..., Awaitable[Response]]) -> Callable[..., Awaitable[Response]]:
    """Do what a form asks for once, and answer a second click as the first one, whose page nobody has seen.

    What is sent twice has the same token, which is masked anew for each page; a form that was changed is
    another one.

    Raises:
        MailsiftError: `idempotency_key_in_use`, `idempotency_key_lost`, or what `do` raises.
    """

    @wraps(do)
    async def answer(*, request: Request, visitor: Visitor, form: FormData, **place: UUID) -> Response:
        texts = [(name, value) for name, value in form.multi_items() if isinstance(value, str)]
        digest = hashlib.sha256(json.dumps([request.url.path, *texts]).encode()).hexdigest()
        wanted = idempotency.Request(visitor.account_id, f"form:{digest}", digest)
        work = partial(do, request=request, visitor=visitor, form=form, **place)
        waits = _WAITS
        while True:
            try:
                return await parts_of(request).answers.once(wanted, None, work)
            except MailsiftError as error:
                if not error.code.startswith("idempotency_key_"):
                    raise
                waits -= 1
                if error.code != "idempotency_key_in_use" or not waits:
                    text = "This form has been sent before. Look what is there before you send it again."
                    raise MailsiftError(error.code, text) from None
            await asyncio.sleep(_WAIT_SECONDS)

    return answer


def is_mendable(error: MailsiftError) -> bool:
    """Say whether a form should be shown again with the error: it was filled in wrongly, or too early."""
    return STATUS_OF.get(error.code, 500) in _MENDABLE


def mendable(error: MailsiftError) -> MailsiftError:
    """Return an error that a form is shown again with.

    Raises:
        MailsiftError: the error, where it is another one.
    """
    if not is_mendable(error):
        raise error
    return error


def id_from(given: str, code: str = "job_not_found", message: str = "There is no such job.") -> UUID:
    """Return an id from a path or a form; what is none is one nobody has, the error `code`."""
    try:
        return UUID(given)
    except ValueError:
        raise MailsiftError(code, message) from None


def number_from(given: str) -> int:
    """Return the number of a line or a chunk from a path or a form; what is none is a `bad_cursor`."""
    if not given.isdecimal() or len(given) > 18:
        raise MailsiftError("bad_cursor", "This list has no such page.")
    return int(given)
