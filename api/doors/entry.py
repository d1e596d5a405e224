"""How a request comes in at a door: its parameters wherever they stand, its key, and who that is.

What is wrong with a parameter is told as a `bad_request`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from json import JSONDecodeError
from typing import Any, Final
from urllib.parse import parse_qsl

from fastapi import APIRouter, Request
from pydantic import TypeAdapter, ValidationError
from starlette.datastructures import FormData

from mailsift.accounts.doors import Door
from mailsift.accounts.keys import Caller, Scope
from mailsift.api.http.forms import FormReader
from mailsift.api.http.inputs import BROKEN, FORM, Email, Strangers, media_type, read_body, read_json
from mailsift.api.parts import ApiParts, parts_of
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.facts import Mode
from mailsift.pipeline.single import SingleOptions, SingleValidator

Params = Mapping[str, Any]
_FORM: Final = "application/x-www-form-urlencoded"
_FIELD_BYTES: Final = 16_384
_FORM_FIELDS: Final = 20
_EMAIL: Final = TypeAdapter[str](Email)
_TRUE: Final = frozenset({"1", "true", "yes"})


@dataclass(frozen=True, slots=True)
class KeyPlaces:
    """Where the clients of a door send their key."""

    params: tuple[str, ...] = ()
    scheme: str = ""  # word before it in Authorization
    header: str = ""  # one of its own
    bare: bool = False  # Authorization may hold the key and nothing else

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
        return self.parts.single_of(self.caller)

    def options(self, deadline: float, mode: Mode = Mode.DEEP) -> SingleOptions:
        """Return how to look at an address; `deadline` is in seconds."""
        return SingleOptions(mode, deadline, owner=self.caller.owner)


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
    listed: str = ""  # what may come several times, as NAME, NAME[] or NAME[0]: it is a list then

    async def admit(self, request: Request, scope: Scope, params: Params | None = None) -> VendorCall:
        """Return the request as one of its caller.

        A key that stands before the body is looked at before the body; `params` are known already if given.

        Raises:
            MailsiftError: `bad_request`, `service_unavailable`, or what Authenticator.admit raises.
        """
        since = asyncio.get_running_loop().time()
        secret = self.places.find(request, request.query_params if params is None else params)
        if params is None and not secret and self.places.params:
            with strangers_of(request).one() as take:
                params = await read_params(request, take, listed=self.listed)
            secret = self.places.find(request, params)
        caller = await self._caller(request, secret, scope)
        known = await read_params(request, listed=self.listed) if params is None else params
        return VendorCall(parts_of(request), known, caller, since)

    @asynccontextmanager
    async def admit_form(self, request: Request) -> AsyncIterator[tuple[VendorCall, FormData]]:
        """Give a form with a list as one of its caller, whose key may stand in the URL or in the form.

        A wrong key is refused before the file if it stands before that; some clients send it last.

        Raises:
            MailsiftError: `bad_request`, `service_unavailable`, or what Authenticator.admit raises.
        """
        since = asyncio.get_running_loop().time()
        caller: Caller | None = None

        def params_in(items: Iterable[tuple[str, object]]) -> dict[str, str]:
            texts = {name: value for name, value in items if isinstance(value, str)}
            return {**request.query_params, **texts}

        async def pieces() -> AsyncGenerator[bytes, None]:
            nonlocal caller
            async for piece in request.stream():
                if caller is None:
                    take(len(piece))
                yield piece  # and when it goes on, this has been read
                if caller is None and (secret := self.places.find(request, params_in(parser.items))):
                    caller = await self._caller(request, secret, Scope.JOBS_WRITE)

        with strangers_of(request).one() as take:
            if media_type(request) != FORM:
                raise MailsiftError("bad_request", "The body must be a form with a file.")
            parser = FormReader(request.headers, pieces(), fields=_FORM_FIELDS, field_bytes=_FIELD_BYTES)
            form = await parser.parse()
        try:
            params = params_in(form.multi_items())
            if caller is None:
                caller = await self._caller(request, self.places.find(request, params), Scope.JOBS_WRITE)
            yield VendorCall(parts_of(request), params, caller, since), form
        finally:
            await form.close()

    async def _caller(self, request: Request, secret: str, scope: Scope) -> Caller:
        return await parts_of(request).authenticator.admit(request, secret, scope, door=self.door)


def strangers_of(request: Request) -> Strangers:
    """Return what counts the bodies of strangers."""
    strangers: Strangers = request.app.state.strangers
    return strangers


@dataclass(frozen=True, slots=True)
class VendorDoor:
    """All there is of a door."""

    router: APIRouter  # its paths, none of which is in our OpenAPI description
    show: Callable[[str, MailsiftError, int], VendorError]  # what it says of a path, an error, a status
    large: Mapping[tuple[str, str], int]  # most bytes of the bodies of (method, path) that take long ones


async def read_params(
    request: Request, take: Callable[[int], None] = lambda _: None, *, listed: str = ""
) -> Params:
    """Return the parameters of the URL and of the body, a form or a JSON object; the body's go first.

    `take` is called with the size of each piece of the body, `listed` is that of the Entry.
    """
    found = _named(request.query_params.multi_items(), listed)
    body = await read_body(request, take)
    if not body:
        return found
    if media_type(request) == _FORM:
        return found | _named(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True), listed)
    if media_type(request) == FORM:
        return found | _named(await _texts_of_form(request, body), listed)
    try:
        members = read_json(body)
    except JSONDecodeError:
        raise MailsiftError("bad_request", "The body isn’t valid JSON.") from None
    if not isinstance(members, dict):
        raise MailsiftError("bad_request", "The body must be a JSON object.")
    return found | members


def _named(items: Iterable[tuple[str, str]], listed: str) -> dict[str, Any]:
    """Return parameters by name, the last of each; of those that may be a list all, if there are several."""
    pairs = list(items)
    found: dict[str, Any] = dict(pairs)
    several = [(name, value) for name, value in pairs if listed and name.partition("[")[0] == listed]
    is_list = len(several) > 1 or listed not in found
    return found | {listed: [value for _, value in several]} if several and is_list else found


async def _texts_of_form(request: Request, body: bytes) -> list[tuple[str, str]]:
    async def pieces() -> AsyncGenerator[bytes, None]:
        yield body

    form = await FormReader(
        request.headers, pieces(), files=0, fields=len(body), field_bytes=len(body)
    ).parse()
    return [(name, value) for name, value in form.multi_items() if isinstance(value, str)]


def email_in(params: Params, name: str = "email") -> str:
    """Return the address that is to be validated; bad syntax is a verdict, not an error."""
    try:
        text = _EMAIL.validate_python(params.get(name) or "", strict=True)
    except ValidationError:
        text = ""
    if not text:
        raise MailsiftError("bad_request", f"`{name}` is missing or isn’t an email address.")
    return text


def listed_email(value: object, name: str) -> str:
    """Return a text of a list: a blank or a long one has a verdict, too, and nobody else's waits."""
    if value is not None and not isinstance(value, str):
        raise MailsiftError("bad_request", f"`{name}` must be a list of addresses.")
    return BROKEN.sub("\N{REPLACEMENT CHARACTER}", value or "")


def number_in(params: Params, name: str, usual: int, *, least: int = 1, most: int) -> int:
    """Return a whole number, brought within its bounds."""
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
    """Refuse what would be waited for in vain."""
    if value:
        text = "Nobody is called back from here: register a webhook with Mailsift, or look at the status."
        raise MailsiftError("bad_request", text)


UNLIMITED: Final = 1_000_000_000
"""What is told where clients ask for credits: nobody counts them here."""
LIST_BYTES: Final = 16 * 1024**2
"""What a list as JSON may have."""
