"""How a list comes in over HTTP, and what to do with it: JSON, a form with a file, or the file itself.

Forms (multipart/form-data, RFC 7578) are read as they may be written, and refused with the cause.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Annotated, Any, Final, Literal, TypeAlias
from urllib.parse import unquote_to_bytes

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
)
from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData, Headers, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from typing_extensions import override

from mailsift.accounts.people import LONGEST_RETENTION
from mailsift.api.http.inputs import (
    FORM,
    JSON,
    UNSTORABLE,
    WHOLE,
    Amount,
    Count,
    Email,
    ModeOption,
    RequestModel,
    ShortText,
    Switch,
    media_type,
    read_json,
    repeated,
    unfit_body,
    unfit_fields,
)
from mailsift.jobs.submissions import json_lines, one_piece
from mailsift.jobs.views import JobOptions, Priority
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.facts import Mode
from mailsift.pipeline.tiers import Tier, TierPolicy

JSON_LIST_BYTES: Final = 16 * 1024**2
"""What a list as JSON may have; longer ones come as a file."""
_MOST_JSON_EMAILS: Final = 100_000
FORM_FIELDS: Final = 20
"""Texts that a form with a list may have beside it."""
FIELD_BYTES: Final = 16_384
"""What each of them may have."""
YEAR: Final = 366 * 86_400.0
MAX_AGE: Final = (
    "maximum age in seconds of a mail server's answer that is reused, a day if left out; if given, older"
    " outcomes no longer count either"
)
_RAW: Final = "application/octet-stream"
_RAW_TYPES: Final = (
    "text/csv",
    "text/plain",
    "text/tab-separated-values",
    "application/x-ndjson",
    "application/jsonl",
    "application/gzip",
    _RAW,
    "application/vnd.apache.parquet",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
)
"""Media types of a file as the body; what it is the worker tells from its first bytes."""


def _from_json(value: Any) -> Any:
    """Take an object that came as text, in a URL or a form."""
    if not isinstance(value, str):
        return value
    try:
        return read_json(value.encode())
    except ValueError:
        raise ValueError("expected a JSON object") from None


_NeverSend: TypeAlias = Literal[Tier.REVIEW, Tier.REMOVE]

_TIERS: Final = TierPolicy()

_Score: TypeAlias = Annotated[int, Field(ge=0, le=100), WHOLE]


class TierPolicyBody(BaseModel):
    """What to do with an address of which this holds, of several the strictest; the invalid is removed."""

    model_config = ConfigDict(extra="forbid", from_attributes=True)

    complained: _NeverSend = Field(default=Tier.REMOVE, description="the recipient called a message spam")
    unsubscribed: _NeverSend = Tier.REMOVE
    suppressed: _NeverSend = Field(default=Tier.REMOVE, description="on the account's suppression list")
    disposable: Tier = Field(default=_TIERS.disposable)
    mailbox_full: Tier = Field(default=_TIERS.mailbox_full)
    catch_all: Tier = Field(default=_TIERS.catch_all)
    unverifiable: Tier = Field(
        default=_TIERS.unverifiable, description="the provider answers the same for every mailbox"
    )
    unknown: Tier = Field(default=_TIERS.unknown, description="could not be decided this time")
    passed: Tier = Field(
        default=_TIERS.passed, description="good as far as the mode checks; it asks no mailbox"
    )
    suggestion: Tier = Field(default=_TIERS.suggestion, description="another address was probably meant")
    role: Tier = Field(default=_TIERS.role, description="info@, sales@")
    free: Tier = Field(default=_TIERS.free, description="at a provider of free mailboxes")
    low_score: Tier = Field(default=_TIERS.low_score, description="the score is below `minimum_score`")
    minimum_score: _Score = Field(default=_TIERS.minimum_score)

    def policy(self) -> TierPolicy:
        """Return what the engine takes."""
        return TierPolicy(**self.model_dump())


_TEXT: Final = TypeAdapter(ShortText).json_schema()
Metadata = Annotated[
    dict[ShortText, ShortText],
    Field(max_length=20),
    BeforeValidator(_from_json),
    # what pydantic says of the names does not forbid others
    WithJsonSchema(
        {"type": "object", "maxProperties": 20, "propertyNames": _TEXT, "additionalProperties": _TEXT}
    ),
]

PlaceText = Annotated[str, Field(max_length=8_192)]
Policy = Annotated[TierPolicyBody | None, BeforeValidator(_from_json)]
_OBJECTS: Final = ("metadata", "policy")
"""What is written as JSON where the others are texts."""


class ListOptions(RequestModel):
    """What to do with a list: members of the JSON, fields of the form or parameters of the URL."""

    mode: ModeOption = Mode.DEEP
    column: ShortText = Field(default="", description="address column: its name or number; found when empty")
    name: ShortText = Field(default="", description="what people call the list")
    metadata: Metadata = Field(
        default_factory=dict, description="up to 20 texts by name, given back with the job"
    )
    max_age: Amount = Field(default=86_400.0, ge=0, le=YEAR, description=MAX_AGE)
    priority: Priority = Field(default=Priority.NORMAL, description="among the jobs of the account")
    deadline: Amount = Field(
        default=0.0, ge=0, le=YEAR, description="seconds; then what waits is risky; 0 = none"
    )
    retention: Amount = Field(
        default=0.0,
        ge=0,
        le=LONGEST_RETENTION,
        description="seconds until everything is deleted; 0 = as the account says",
    )
    evidence: Switch = Field(default=False, description="write the facts behind every verdict")
    repair: Switch = Field(
        default=False,
        description="if a cell is not an address but clearly means one, validate that one",
    )
    policy: Policy = Field(
        default=None, description="the rules that turn verdicts into tiers; left out: the account's"
    )
    preview: Count = Field(
        default=0, ge=0, le=100_000, description="only a sample of this many addresses; 0 = all"
    )

    def options(self) -> JobOptions:
        """Return what the engine takes."""
        same = self.model_dump(include={field.name for field in fields(JobOptions)} - {"policy"})
        policy = self.policy.policy() if self.policy else None
        given = self.max_age if "max_age" in self.model_fields_set else None
        return JobOptions(
            **same, policy=policy, outcome_age=given, deadline_s=self.deadline, retention_s=self.retention
        )


class NamedEmail(RequestModel):
    """An address with the caller's own id."""

    email: Email
    id: ShortText = ""


class UploadOptions(ListOptions):
    """What to do with a list, and with its results."""

    sink: PlaceText = Field(
        default="",
        description="where a copy of the results goes: s3://, gs://, az:// (its name ends in .csv, .xlsx, "
        ".jsonl or .parquet) or postgresql://host/database?table=NAME",
    )


class JsonList(UploadOptions):
    """A list as JSON."""

    emails: list[Email | NamedEmail] = Field(min_length=1, max_length=_MOST_JSON_EMAILS)


class JsonPlaces(UploadOptions):
    """A list that is fetched, as JSON."""

    source: PlaceText = Field(
        min_length=1,
        description="https://, s3://, gs://, az:// or postgresql://host/database?query=SELECT…; a store or "
        "database only where the account has a connection, and never with credentials",
    )


_OPTIONS: Final = UploadOptions.model_json_schema(ref_template="#/components/schemas/{model}")["properties"]


def _option_parameters() -> list[dict[str, Any]]:
    """Describe the options as parameters of the URL."""
    return [
        {
            "name": name,
            "in": "query",
            "required": False,
            "description": shape.get("description", ""),
            # an object is written as JSON, not in one of OpenAPI's styles
            **(
                {"content": {"application/json": {"schema": shape}}}
                if name in _OBJECTS
                else {"schema": shape}
            ),
        }
        for name, shape in _OPTIONS.items()
    ]


def _form_schema() -> dict[str, Any]:
    file = {"type": "string", "format": "binary", "description": "CSV, XLSX, JSON lines, Parquet or text"}
    described = {
        "type": "object",
        "required": ["file"],
        "properties": {"file": file, **_OPTIONS},
        "additionalProperties": False,
    }
    return {
        "schema": described,
        "encoding": {name: {"contentType": "application/json"} for name in _OBJECTS},
    }


UPLOAD_OPENAPI: Final = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "anyOf": [
                        {"$ref": "#/components/schemas/JsonList"},
                        {"$ref": "#/components/schemas/JsonPlaces"},
                    ]
                }
            },
            "multipart/form-data": _form_schema(),
            _RAW: {
                "schema": {
                    "type": "string",
                    "format": "binary",
                    "minLength": 1,
                    "description": "the file itself; its own media type is taken, too: "
                    + ", ".join(kind for kind in _RAW_TYPES if kind != _RAW),
                }
            },
        },
    },
    "parameters": _option_parameters(),
}
"""The body and the parameters of an upload as OpenAPI describes them."""


@dataclass(frozen=True, slots=True)
class Upload:
    """A list on its way in, or the place it is to be fetched from, and where its results are put."""

    pieces: AsyncIterator[bytes]
    options: JobOptions
    source_name: str = ""
    source: str = ""
    sink: str = ""


@asynccontextmanager
async def upload_of(request: Request) -> AsyncIterator[Upload]:
    """Give the list a request carries.

    Raises:
        RequestValidationError: the options or the JSON are not what they should be.
        MailsiftError: `unsupported_media_type`, `content_too_large`.
    """
    kind = media_type(request)
    if kind == JSON:
        yield await _json_list(request)
    elif kind == FORM:
        async with form_of(request, fields=FORM_FIELDS, field_bytes=FIELD_BYTES) as form:
            yield _form_list(form.multi_items(), request)
    elif kind in _RAW_TYPES:
        given = _checked_options(dict(request.query_params), "query")
        yield Upload(request.stream(), given.options(), sink=given.sink)
    else:
        text = f"A list comes as {JSON}, {FORM} or as a file: {', '.join(_RAW_TYPES)}."
        raise MailsiftError("unsupported_media_type", text)


async def _json_list(request: Request) -> Upload:
    length = request.headers.get("content-length", "0")
    if (
        length.isdecimal() and int(length[:19]) > JSON_LIST_BYTES
    ):  # before anything is read: it may wait for a 100
        raise _json_too_large()
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > JSON_LIST_BYTES:
            raise _json_too_large()
    try:
        found = await asyncio.to_thread(_list_of, bytes(body))
    except ValidationError as error:
        raise unfit_fields(error, "body") from None
    except json.JSONDecodeError as error:
        raise unfit_body(error.msg, "json_invalid") from None
    given = _checked_options(dict(request.query_params), "query").model_dump(exclude_unset=True)
    given |= found.model_dump(exclude_unset=True, exclude={"emails", "source"})
    options, sink = UploadOptions(**given).options(), given.get("sink", "")
    if isinstance(found, JsonPlaces):
        return Upload(one_piece(b""), options, source=found.source, sink=sink)
    lines = await asyncio.to_thread(_lines, found.emails)
    return Upload(one_piece(lines), replace(options, column="email"), sink=sink)


def _json_too_large() -> MailsiftError:
    text = f"A list as JSON may have {JSON_LIST_BYTES:,} bytes; send longer ones as a file."
    return MailsiftError("content_too_large", text)


def _list_of(body: bytes) -> JsonList | JsonPlaces:
    """Parse a list, read as every other body is: a name that stands twice would make half of it disappear."""
    found = read_json(body)
    kind = JsonPlaces if isinstance(found, dict) and "source" in found and "emails" not in found else JsonList
    # Half of a surrogate pair, at which pydantic's parser ends, is told by its place as a NUL is.
    text = UNSTORABLE.sub(r"\\u0000", json.dumps(found, ensure_ascii=False))
    return kind.model_validate_json(text, strict=True)


def _lines(emails: Sequence[str | NamedEmail]) -> bytes:
    """Write the list as JSON lines; ids stand beside the addresses when there are any."""
    named = any(isinstance(one, NamedEmail) and one.id for one in emails)
    rows = (
        one if isinstance(one, NamedEmail) else NamedEmail.model_construct(email=one, id="") for one in emails
    )
    return json_lines({"email": row.email, "id": row.id} if named else {"email": row.email} for row in rows)


def _form_list(items: Sequence[tuple[str, str | UploadFile]], request: Request) -> Upload:
    texts = [(name, value) for name, value in items if isinstance(value, str)]
    if twice := repeated([name for name, _ in texts], "body"):
        raise RequestValidationError(twice)
    files = [value for name, value in items if isinstance(value, UploadFile) and name == "file"]
    if len(files) != 1:
        message = "Came as a text: a file has a filename" if "file" in dict(texts) else "Field required"
        missing = {"loc": ("body", "file"), "msg": message, "type": "missing", "input": None}
        raise RequestValidationError([missing])
    given = _checked_options({**dict(request.query_params), **dict(texts)}, "body")
    name = printable_name(files[0].filename or "")
    return Upload(file_pieces(files[0]), given.options(), source_name=name, sink=given.sink)


def _checked_options(values: Mapping[str, Any], where: str) -> UploadOptions:
    try:
        return UploadOptions.model_validate(values)
    except ValidationError as error:
        raise unfit_fields(error, where) from None


_PREAMBLE_BYTES: Final = 8_192
_FILENAME: Final = re.compile(rb";\s*filename\s*=(?!\s*\"=\?)", re.IGNORECASE)
"""A plain one: .NET writes an encoded word (RFC 2047) beside the name of RFC 5987."""
_EXTENDED: Final = re.compile(rb";\s*filename\*\s*=\s*\"?[\w.-]+'[^']*'([^;\"\s]*)", re.IGNORECASE)


@asynccontextmanager
async def form_of(request: Request, *, fields: int, field_bytes: int) -> AsyncIterator[FormData]:
    """Give the form of a request, with a file at most.

    Raises:
        MailsiftError: `bad_request`, with what is wrong.
    """
    form = await FormReader(request.headers, request.stream(), fields=fields, field_bytes=field_bytes).parse()
    try:
        yield form
    finally:
        await form.close()


class FormReader(MultiPartParser):
    """Reads a form with a preamble or without, and takes none for whole that breaks off.

    At most `files` of its parts are files, and `fields` of them texts, of `field_bytes` each.
    """

    def __init__(
        self, headers: Headers, pieces: AsyncIterator[bytes], *, files: int = 1, fields: int, field_bytes: int
    ) -> None:
        self._has_ended = False
        super().__init__(
            headers,
            self._without_preamble(pieces),
            max_files=files,
            max_fields=fields,
            max_part_size=field_bytes,
        )

    @override
    def on_headers_finished(self) -> None:
        """Take a name of RFC 5987 where there is no other, though RFC 7578, section 4.2, forbids it."""
        given = self._current_part.content_disposition or b""
        if (name := _EXTENDED.search(given)) and not _FILENAME.search(given):
            plain = unquote_to_bytes(name[1]).translate(None, b'"\\\r\n')
            self._current_part.content_disposition = given + b'; filename="' + plain + b'"'
        elif b"*=" not in given:  # HTML, "Multipart form data": browsers write so what RFC 9110 quotes
            self._current_part.content_disposition = given.replace(b"%22", b'\\"')
        super().on_headers_finished()

    @override
    def on_end(self) -> None:
        self._has_ended = True

    @override
    async def parse(self) -> FormData:
        """Return the form.

        Raises:
            MailsiftError: `bad_request`, with what is wrong.
        """
        if not self._boundary():
            raise _unreadable("Its Content-Type names no boundary.")
        try:
            return await super().parse()
        except MultiPartException as error:
            raise _unreadable(error.message) from None

    def _boundary(self) -> bytes:
        return parse_options_header(self.headers.get("content-type"))[1].get(b"boundary", b"")

    async def _without_preamble(self, pieces: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
        """Yield what begins with the first boundary: what is before it is to be ignored (RFC 2046, 5.1.1)."""
        line, held = b"\r\n--" + self._boundary(), b"\r\n"
        async for piece in pieces:
            if not line:
                yield piece
                continue
            held += piece
            place = held.find(line)
            if place >= 0:
                line = b""
                yield held[place + 2 :]
            elif len(held) > _PREAMBLE_BYTES:
                break
        if line:
            raise _unreadable("The boundary that its Content-Type names is not in it.")
        if not self._has_ended:
            raise _unreadable("It ends before its last boundary.")


def _unreadable(cause: str) -> MailsiftError:
    return MailsiftError("bad_request", f"The form cannot be read. {cause}")


_PIECE: Final = 1 << 20


async def file_pieces(file: UploadFile) -> AsyncIterator[bytes]:
    """Give an uploaded file piece by piece."""
    while data := await file.read(_PIECE):
        yield data


@asynccontextmanager
async def file_with(pieces: AsyncIterator[bytes]) -> AsyncIterator[Path]:
    """Give a file of our own with what comes in, for as long as the block."""
    with NamedTemporaryFile(prefix="upload-") as held:
        async for piece in pieces:
            held.write(piece)
        held.flush()
        yield Path(held.name)


def printable_name(name: str) -> str:
    """Keep of a file's name what can be shown; it is never a path."""
    last = name.replace("\\", "/").rpartition("/")[2]
    return "".join(letter for letter in last if letter.isprintable())[:200]
