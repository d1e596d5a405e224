"""How a request comes in at a door: its parameters wherever they stand, its key, and who that is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from json import JSONDecodeError
from typing import Any, Final
from urllib.parse import parse_qsl

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from pydantic import TypeAdapter, ValidationError

from mailsift.accounts.doors import Door
from mailsift.accounts.keys import Caller, Scope
from mailsift.api.http.inputs import Email, read_json
from mailsift.api.parts import ApiParts, parts_of
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.facts import Mode
from mailsift.pipeline.single import SingleOptions, SingleValidator

Params = Mapping[str, Any]
_FORM: Final = "application/x-www-form-urlencoded"
_EMAIL: Final = TypeAdapter[str](Email)
_TRUE: Final = frozenset({"1", "true", "yes"})


@dataclass(frozen=True, slots=True)
class KeyPlaces:
    """Where the clients of a door send their key.

    Attributes:
        params: names of parameters.
        scheme: word before it in Authorization; "" when it may stand there by itself, too.
        header: a header of its own, or "".
        bare: Authorization holds the key and nothing else.
    """

    params: tuple[str, ...] = ()
    scheme: str = ""
    header: str = ""
    bare: bool = False

    def find(self, request: Request, params: Params) -> str:
        """Return the key, "" where there is none."""
        scheme, _, secret = request.headers.get("authorization", "").partition(" ")
        if self.scheme and scheme.lower() == self.scheme:
            return secret.strip()
        if self.bare and scheme and not secret:
            return scheme
        if self.header and (found := request.headers.get(self.header)):
            return found.strip()
        return next((str(params[name]) for name in self.params if params.get(name)), "")


@dataclass(frozen=True, slots=True)
class VendorCall:
    """A request of somebody who may: the parts that serve it, its parameters, whose it is, when it began."""

    parts: ApiParts
    params: Params
    caller: Caller
    since: float

    @property
    def seconds(self) -> float:
        """How long it has taken so far."""
        return round(asyncio.get_running_loop().time() - self.since, 3)

    @property
    def single(self) -> SingleValidator:
        """What judges addresses for this caller."""
        return self.parts.test_single if self.caller.test else self.parts.single

    def options(self, deadline: float, mode: Mode = Mode.DEEP) -> SingleOptions:
        """Return how to look at an address; `deadline` is in seconds."""
        return SingleOptions(mode, deadline, owner=str(self.caller.account_id))


@dataclass(frozen=True, slots=True)
class VendorError:
    """An error as a vendor's clients understand it; `content` is its JSON."""

    content: Mapping[str, Any]
    status: int


@dataclass(frozen=True, slots=True)
class Entry:
    """A door and how one gets in."""

    door: Door
    places: KeyPlaces

    async def admit(self, request: Request, scope: Scope, params: Params | None = None) -> VendorCall:
        """Return the request as one of its caller.

        Args:
            request: with its parameters in the URL, in a form or in JSON.
            scope: what it does.
            params: its parameters, where they are known already.

        Raises:
            MailsiftError: `bad_request`, or what Authenticator.admit raises.
        """
        since, parts = asyncio.get_running_loop().time(), parts_of(request)
        known = await read_params(request) if params is None else params
        secret = self.places.find(request, known)
        caller = await parts.authenticator.admit(request, secret, scope, door=self.door)
        return VendorCall(parts, known, caller, since)


@dataclass(frozen=True, slots=True)
class VendorDoor:
    """All there is of a door.

    Attributes:
        entry: how one gets in.
        router: its paths.
        show: makes of a path, an error and its HTTP status what the vendor would answer.
        large: most bytes of the bodies of (method, path) that take long ones.
    """

    entry: Entry
    router: APIRouter
    show: Callable[[str, MailsiftError, int], VendorError]
    large: Mapping[tuple[str, str], int] = field(default_factory=dict)


async def read_params(request: Request) -> Params:
    """Return the parameters of the URL and of the body, a form or a JSON object; the body's go first.

    Raises:
        MailsiftError: `bad_request`.
    """
    found: dict[str, Any] = dict(request.query_params)
    body = await request.body()
    if not body:
        return found
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() == _FORM:
        return found | dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))
    try:
        members = read_json(body)
    except JSONDecodeError:
        raise MailsiftError("bad_request", "The body isn’t valid JSON.") from None
    if not isinstance(members, dict):
        raise MailsiftError("bad_request", "The body must be a JSON object.")
    return found | members


def email_in(params: Params, name: str = "email") -> str:
    """Return the address that is to be validated.

    Raises:
        MailsiftError: `bad_request`: there is none, or it is no text that an address could be.
    """
    return checked_email(params.get(name) or "", name)


def checked_email(value: object, name: str) -> str:
    """Return a text that may be validated; bad syntax is a verdict, not an error.

    Raises:
        MailsiftError: `bad_request`.
    """
    try:
        text = _EMAIL.validate_python(value, strict=True)
    except ValidationError:
        text = ""
    if not text:
        raise MailsiftError("bad_request", f"`{name}` is missing or isn’t an email address.")
    return text


def number_in(params: Params, name: str, usual: int, *, least: int = 1, most: int) -> int:
    """Return a whole number, brought within its bounds.

    Raises:
        MailsiftError: `bad_request`.
    """
    value = params.get(name)
    if value is None or value == "":
        return usual
    try:
        return min(max(int(float(value)), least), most)
    except (TypeError, ValueError, OverflowError):
        raise MailsiftError("bad_request", f"`{name}` isn’t a number.") from None


def switch_in(params: Params, name: str, *, usual: bool = False) -> bool:
    """Return a switch, which clients write in many ways."""
    value = params.get(name)
    return usual if value is None or value == "" else str(value).lower() in _TRUE


def refuse_callback(value: object) -> None:
    """Refuse what would be waited for in vain.

    Raises:
        MailsiftError: `bad_request`.
    """
    if value:
        text = "Nobody is called back from here: register a webhook with Mailsift, or look at the status."
        raise MailsiftError("bad_request", text)


def answered(content: Any) -> Response:
    """Return JSON as it stands, without our envelope."""
    return JSONResponse(content)


def door_router() -> APIRouter:
    """Return the router of a door; none of it is in our OpenAPI description."""
    return APIRouter(include_in_schema=False)


UNLIMITED: Final = 1_000_000_000
"""What is told where clients ask for credits: nobody counts them here."""
LIST_BYTES: Final = 16 * 1024**2
"""What a list as JSON may have."""
