"""What may come in: JSON read strictly (I-JSON, RFC 7493), texts that are whole, numbers that are numbers.

And how much, of whom nobody knows yet who they are.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Annotated, Any, Final, get_args, get_origin

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from fastapi.routing import APIRoute
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
)
from starlette.convertors import IntegerConvertor, register_url_convertor
from typing_extensions import override

from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.facts import Mode
from mailsift.pipeline.syntax.address import LONGEST

Handler = Callable[[Request], Coroutine[Any, Any, Response]]

JSON: Final = "application/json"
FORM: Final = "multipart/form-data"


def read_json(body: bytes) -> Any:
    """Parse JSON; a name that stands twice in an object, NaN and Infinity are no JSON here.

    Raises:
        json.JSONDecodeError: it is none; its text says nothing of the body.
    """
    try:
        return _DECODE(body.decode(json.detect_encoding(body)))
    except (ValueError, RecursionError):  # numbers of thousands of digits, and nesting without end
        raise json.JSONDecodeError("not JSON", "", 0) from None


def unfit_body(text: str, kind: str) -> RequestValidationError:
    """Return the error of a body that is not what it should be, as FastAPI has it."""
    return RequestValidationError([{"loc": ("body",), "msg": text, "type": kind}])


def unfit_fields(error: ValidationError, where: str) -> RequestValidationError:
    """Return the same of fields that are not, without what they hold."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return RequestValidationError([{**one, "loc": (where, *one["loc"])} for one in found])


def _without_repeated_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands twice")
    return found


def _refuse(_: str) -> None:
    raise ValueError("no number")


_DECODE: Final = json.JSONDecoder(
    object_pairs_hook=_without_repeated_names, parse_constant=_refuse
).decode  # made once, not by request


class RequestModel(BaseModel):
    """The members of a body, or the parameters of a URL: others than these are refused."""

    model_config = ConfigDict(extra="forbid")

    def given(self, *, nullable: str) -> dict[str, Any]:
        """Return what to change: a null changes nothing but this member, which it takes away."""
        given = {name: getattr(self, name) for name in self.model_fields_set}
        return {name: value for name, value in given.items() if value is not None or name == nullable}


class _StrictRequest(Request):
    @override
    async def json(self) -> Any:
        return read_json(await self.body())


def media_type(request: Request) -> str:
    """Return what a body says it is, without parameters (RFC 9110, section 8.3.1)."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def accepted(header: str) -> dict[str, bool]:
    """Read Accept or Accept-Encoding: what it names, and whether with a weight above 0 (RFC 9110, 12.4.2)."""
    items = (item.replace(" ", "").partition(";q=") for item in header.lower().split(","))
    return {name: not weight or bool(weight.strip("0.")) for name, _, weight in items}


def check_json_type(request: Request) -> None:
    """Refuse a body that says it is something else than JSON, or does not say what it is (RFC 9110, 15.5.16).

    Raises:
        MailsiftError: `unsupported_media_type`.
    """
    kind = media_type(request)
    if kind != JSON and not (kind.startswith("application/") and kind.endswith("+json")):
        raise MailsiftError("unsupported_media_type", f"The body must be {JSON}.")


def _has_body(request: Request) -> bool:
    return "transfer-encoding" in request.headers or request.headers.get("content-length", "0") != "0"


class StrictRoute(APIRoute):
    """A route whose JSON is read strictly, and is nothing else."""

    @override
    def get_route_handler(self) -> Handler:
        """Return what FastAPI would call, with another way to read JSON."""
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            if self.body_field is not None and (
                self.body_field.field_info.is_required() or _has_body(request)
            ):
                check_json_type(request)
            return await handler(_StrictRequest(request.scope, request.receive))

        return handle


class _PathNumber(IntegerConvertor):
    """A whole number in a path, `{name:int}`; nothing has more digits, and Python reads no thousands."""

    regex = "[0-9]{1,40}"


register_url_convertor("int", _PathNumber())


def check_query(request: Request) -> None:
    """Refuse parameters the operation does not know: `?stauts=valid` must not mean everything.

    And those that stand twice and are no list: of `?mode=fast&mode=deep` some programs read the first.

    Raises:
        RequestValidationError: it names the nearest one.
    """
    route = request.scope.get("route")
    if not request.scope["query_string"] or not isinstance(route, APIRoute):
        return
    known = _parameters_of(route)
    unknown = [
        {"loc": ("query", name), "msg": _unknown(name, [*known]), "type": "extra_forbidden"}
        for name in dict.fromkeys(request.query_params)
        if name not in known
    ]
    names = [name for name, _ in request.query_params.multi_items() if known.get(name) is False]
    if found := [*unknown, *repeated(names, "query")]:
        raise RequestValidationError(found)


def repeated(names: Sequence[str], where: str) -> list[dict[str, Any]]:
    """Return an error for each name that stands more than once."""
    return [
        {"loc": (where, name), "msg": "Stands more than once", "type": "repeated"}
        for name, count in Counter(names).items()
        if count > 1
    ]


def _parameters_of(route: APIRoute) -> dict[str, bool]:
    """Return the names of an operation's parameters, and whether each is a list."""
    described = (route.openapi_extra or {}).get("parameters", ())
    declared = [
        item
        for one in route.dependant.query_params
        for item in _names_in(one.alias, one.field_info.annotation).items()
    ]
    return dict(declared) | {one["name"]: False for one in described if one["in"] == "query"}


def _names_in(alias: str, annotation: object) -> dict[str, bool]:
    """Return the names of a parameter, and whether each is a list: of a model each of its fields is one."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return {name: _is_list(field.annotation) for name, field in annotation.model_fields.items()}
    return {alias: _is_list(annotation)}


def _is_list(annotation: object) -> bool:
    """Say whether this is a list, also one that may be left out (`list[X] | None`)."""
    return get_origin(annotation) is list or any(map(_is_list, get_args(annotation)))


def _unknown(name: str, known: Sequence[str]) -> str:
    nearest = get_close_matches(name, known, 1)
    if nearest:
        return f"There is no such parameter; did you mean `{nearest[0]}`?"
    return f"There is no such parameter; there are {', '.join(known)}" if known else "There are no parameters"


UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
# C0 and C1 controls, line and paragraph separators, direction marks (CVE-2021-42574)
UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def _unbroken(value: str) -> str:
    if UNSTORABLE.search(value):
        raise ValueError("holds a NUL or half of a surrogate pair")
    return value


def _printable(value: str) -> str:
    if UNPRINTABLE.search(value):
        raise ValueError("holds a control character")
    return value


# What OpenAPI says of them: the same in the words of ECMA 262.
_WHOLE = {"pattern": r"^[^\u0000]*$"}
_PRINTABLE = {"pattern": r"^[^\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]*$"}
_URL = (
    r"^https://([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+[A-Za-z]{2,63}(:(443|8443))?"
    r"(/([A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})*)?$"
)

Email = Annotated[
    str, StringConstraints(max_length=LONGEST), AfterValidator(_unbroken), Field(json_schema_extra=_WHOLE)
]
"""What is to be validated; bad syntax is a verdict, not an error."""

ShortText = Annotated[
    str, StringConstraints(max_length=200), AfterValidator(_printable), Field(json_schema_extra=_PRINTABLE)
]
"""A name, a column, an id."""

ModeOption = Annotated[Mode, Field(description="fast: syntax and lists; medium: also DNS; deep: also SMTP")]
"""The mode of addresses that are validated."""

Url = Annotated[
    str,
    StringConstraints(max_length=2_000),
    AfterValidator(_printable),
    Field(json_schema_extra={"format": "uri", "pattern": _URL}),
]
"""Where a webhook is sent; what it may be, the service says."""


MAYBE_THOUSANDS: Final = re.compile(r"[+-]?[0-9]{1,3}(\.[0-9]{3})+")
"""A typed number that is a thousand times as much in half of the world: in German, 1.000 is a thousand."""


def _whole_number(value: Any) -> Any:
    """Let `2.0` be a whole number (JSON Schema Validation, section 6.1.1)."""
    value = _no_boolean(value)
    if isinstance(value, str) and MAYBE_THOUSANDS.fullmatch(value.strip()):
        raise ValueError("has a point that may part thousands: leave it out")
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _json_whole_number(value: Any) -> Any:
    if isinstance(value, str):
        raise ValueError("is not a number")  # noqa: TRY004 - pydantic turns only this one into a 422
    return _whole_number(value)


def _no_boolean(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("is not a number")  # noqa: TRY004 - same
    return value


def _in_utc(at: datetime) -> datetime:
    try:
        return at.astimezone(UTC)
    except OverflowError:
        raise ValueError("lies outside the years 1 to 9999") from None


def _boolean_word(value: Any) -> Any:
    if not isinstance(value, bool) and str(value).lower() not in {"true", "false"}:
        raise ValueError("is neither true nor false")
    return value


WHOLE: Final = BeforeValidator(_json_whole_number)
"""Makes of an `int` a Whole; goes last, for OpenAPI forgets the bounds that come after it."""

Whole = Annotated[int, WHOLE]
"""A whole number in JSON."""

Count = Annotated[int, BeforeValidator(_whole_number)]
"""A whole number, also as the text of a URL or a form."""

AMOUNT: Final = BeforeValidator(_no_boolean)
"""Makes of a `float` an Amount; goes last, as WHOLE does."""

Amount = Annotated[float, AMOUNT]
"""A number, also as the text of a URL or a form."""

Switch = Annotated[bool, BeforeValidator(_boolean_word)]
"""True or false, also as a word in a URL or a form."""

Moment = Annotated[AwareDatetime, AfterValidator(_in_utc)]
"""A moment, which came with its zone, in UTC."""


class Strangers:
    """So many bytes at most, all together, for the bodies of whom nobody knows yet who they are.

    Clients of some services send their key within the body, behind a list, and mail senders sign theirs; so
    whoever has no key could fill memory and disk.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken = 0

    @contextmanager
    def one(self) -> Iterator[Callable[[int], None]]:
        """Give what is to be called with the size of each piece of a body; it is forgotten with the block.

        Raises:
            MailsiftError: `service_unavailable`, when it is called and there is no room left.
        """
        own = 0

        def take(size: int) -> None:
            nonlocal own
            if self._taken + size > self._most:
                text = "Too much is on its way in. Try again later."
                raise MailsiftError("service_unavailable", text, retryable=True)
            self._taken += size
            own += size

        try:
            yield take
        finally:
            self._taken -= own


async def read_body(request: Request, take: Callable[[int], None]) -> bytes:
    """Return the body of a request; `take` is called with the size of each piece of it.

    Raises:
        MailsiftError: what `take` raises.
    """
    body = bytearray()
    async for piece in request.stream():
        take(len(piece))
        body += piece
    return bytes(body)
