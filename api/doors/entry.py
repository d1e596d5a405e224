"""How a request comes in at a door: its parameters wherever they stand, its key, who that is, and its list.

What is wrong with a parameter or a list is told as a `bad_request`. Lists are ordinary jobs, with a number
for clients that know no other ids; what else may be wrong with them are errors of JobService.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from json import JSONDecodeError
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, Final
from urllib.parse import parse_qsl
from uuid import UUID

import polars as pl
from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import TypeAdapter, ValidationError
from starlette.datastructures import FormData

from mailsift.accounts.doors import Door
from mailsift.accounts.keys import Caller, Scope
from mailsift.api.doors.codes import Code, CodeTable
from mailsift.api.http.downloads import Download, SpooledWriter, attachment
from mailsift.api.http.inputs import FORM, UNSTORABLE, Email, Strangers, media_type, read_body, read_json
from mailsift.api.http.uploads import FIELD_BYTES, FORM_FIELDS, FormReader, printable_name
from mailsift.api.parts import ApiParts, parts_of
from mailsift.jobs.columns import (
    JUDGED_ADDRESS,
    VERDICT_PREFIX,
    cell_text,
    column_id,
    names_metadata,
    read_address_place,
    read_names,
)
from mailsift.jobs.results.browse import RowFilter
from mailsift.jobs.results.export import ExportFormat, export
from mailsift.jobs.submissions import json_lines
from mailsift.jobs.views import JobId, JobOptions, JobView
from mailsift.pipeline.errors import MailsiftError, SuppressCodes
from mailsift.pipeline.facts import Mode
from mailsift.pipeline.single import SingleOptions, SingleValidator
from mailsift.pipeline.verdict import Result
from mailsift.storage.sql.jobs import job_not_found
from mailsift.storage.states import JobState

Params = Mapping[str, Any]
_URL_ENCODED: Final = "application/x-www-form-urlencoded"

UNLIMITED: Final = 1_000_000_000
"""What is told where clients ask for credits: nobody counts them here."""


@dataclass(frozen=True, slots=True)
class VendorDoor:
    """All there is of a door."""

    router: APIRouter  # its paths, none of which is in our OpenAPI description
    show: Callable[[str, MailsiftError, int], VendorError]  # what it says of a path, an error, a status
    large: Mapping[tuple[str, str], int]  # most bytes of the bodies of (method, path) that take long ones


@dataclass(frozen=True, slots=True)
class VendorError:
    """An error as a vendor's clients understand it; `content` is its JSON."""

    content: Mapping[str, Any]
    status: int


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
            with _strangers_of(request).one() as take:
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

        with _strangers_of(request).one() as take:
            if media_type(request) != FORM:
                raise MailsiftError("bad_request", "The body must be a form with a file.")
            parser = FormReader(request.headers, pieces(), fields=FORM_FIELDS, field_bytes=FIELD_BYTES)
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


def _strangers_of(request: Request) -> Strangers:
    """Return what counts the bodies of strangers."""
    strangers: Strangers = request.app.state.strangers
    return strangers


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
    if media_type(request) == _URL_ENCODED:
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


_EMAIL: Final = TypeAdapter[str](Email)


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
    return UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", value or "")


def number_in(params: Params, name: str, usual: int, *, least: int = 1, most: int) -> int:
    """Return a whole number, brought within its bounds."""
    value = params.get(name)
    if value is None or value == "":
        return usual
    try:
        return min(max(int(float(value)), least), most)
    except (TypeError, ValueError, OverflowError):
        raise MailsiftError("bad_request", f"`{name}` isn’t a number.") from None


_TRUE: Final = frozenset({"1", "true", "yes"})


def switch_in(params: Params, name: str, *, usual: bool = False) -> bool:
    """Return a switch, which clients write in many ways."""
    value = params.get(name)
    return usual if value is None or value == "" else str(value).lower() in _TRUE


def text_in(params: Params, name: str) -> str:
    """Return a parameter as text, without what none can hold; "" where there is none."""
    value = params.get(name)
    return "" if value is None else UNSTORABLE.sub("", str(value))


def refuse_callback(value: object) -> None:
    """Refuse what would be waited for in vain."""
    if value:
        text = "Nobody is called back from here: register a webhook with Mailsift, or look at the status."
        raise MailsiftError("bad_request", text)


_CAME_BY: Final = "door"
"""Member of a job's metadata: the door its list came by."""


def job_options(
    door: Door, name: str, *, column: str = "", kept: Mapping[str, str] | None = None
) -> JobOptions:
    """Return the options of a list that came by a door, which finds what it `kept` again with the job."""
    return JobOptions(
        column=column, name=printable_name(name), metadata={_CAME_BY: door.value, **(kept or {})}
    )


async def submit_list(call: VendorCall, pieces: AsyncIterator[bytes], options: JobOptions) -> JobId:
    """Start the job of a list."""
    submitted = await call.parts.jobs.receive(
        call.caller.account_id, pieces, options, source_name=options.name
    )
    return submitted.job_id


def emails_as_lines(emails: object, name: str, *, most: int) -> bytes:
    """Write addresses as JSON lines, if they are a list of texts, and not too long a one."""
    if not isinstance(emails, Sequence) or isinstance(emails, str) or not emails:
        raise MailsiftError("bad_request", f"`{name}` must be a list of addresses.")
    if len(emails) > most:
        raise MailsiftError("bad_request", f"`{name}` can have at most {most:,} addresses.")
    return json_lines({"email": listed_email(email, name)} for email in emails)


def supplied_rows(rows: object, *, most: int) -> list[dict[str, Any]]:
    """Return the rows of `input`, which were sent as objects, as lists of cells or as bare addresses."""
    if not isinstance(rows, list) or not 1 <= len(rows) <= most:
        raise MailsiftError("bad_request", f"`input` must be a list of 1 to {most:,} rows.")
    return [_as_row(row) for row in rows]


def _as_row(row: object) -> dict[str, Any]:
    if isinstance(row, str):
        row = {"email": row}
    if isinstance(row, list):
        row = {str(place): cell for place, cell in enumerate(row)}
    if not isinstance(row, dict):
        raise MailsiftError("bad_request", "A row of `input` must be an object, a list or an address.")
    text = json.dumps(row, ensure_ascii=False)
    # as in other doors, what is no text refuses no other row
    return json.loads(UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", text)) if UNSTORABLE.search(text) else row


async def job_by_number(call: VendorCall, text: object) -> JobView:
    """Return the job with this number."""
    try:
        number = int(str(text))
    except ValueError:
        raise job_not_found() from None
    jobs = call.parts.jobs
    return await jobs.get(call.caller.account_id, await jobs.numbered(call.caller.account_id, number))


async def job_by_id(call: VendorCall, text: object) -> JobView:
    """Return the job with this id."""
    try:
        job_id = JobId(UUID(str(text)))
    except ValueError:
        raise job_not_found() from None
    return await call.parts.jobs.get(call.caller.account_id, job_id)


@dataclass(frozen=True, slots=True)
class JudgedRow:
    """A row with a verdict: the cell that was judged, all cells by name, and the 13 fields."""

    email: str
    cells: Mapping[str, str]
    verdict: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Tally:
    """How many rows were called what; `rows` have a verdict so far."""

    by_code: Mapping[Code, int]

    @property
    def rows(self) -> int:
        """How many rows have a verdict."""
        return sum(self.by_code.values())

    def of(self, word: str, place: int = 0) -> int:
        """Return how many rows have this word at this place of their code."""
        return sum(count for code, count in self.by_code.items() if code[place] == word)


async def tally_rows(call: VendorCall, view: JobView, table: CodeTable) -> Tally:
    """Count a job's rows by what they are called; of one that runs, as if no address were a role's."""
    account_id, counts = call.caller.account_id, dict[Code, int]()
    found: list[tuple[Result, bool, int]] = []
    with SuppressCodes("no_results_yet"):
        if view.state is JobState.COMPLETED:
            async with call.parts.jobs.browser.results(account_id, view.id) as results:
                found = await asyncio.to_thread(_count_results, results)
        else:
            breakdown = await call.parts.jobs.browser.breakdown(account_id, view.id)
            found = [(Result(one.result), False, one.rows) for one in breakdown.reasons]
    for result, role, rows in found:
        code = table.named(result, role=role)
        counts[code] = counts.get(code, 0) + rows
    return Tally(counts)


_RESULT, _ROLE = f"{VERDICT_PREFIX}result", f"{VERDICT_PREFIX}is_role_based"


def _count_results(results: Path) -> list[tuple[Result, bool, int]]:
    frame = pl.scan_parquet(results, glob=False).group_by(_RESULT, _ROLE).len().collect()
    return [(Result(result), bool(role), rows) for result, role, rows in frame.iter_rows()]


async def judged_rows(
    call: VendorCall, view: JobView, *, first: int, most: int, only: pl.Expr | None = None
) -> tuple[list[JudgedRow], int]:
    """Return `most` rows of a job behind the `first`, and how many there are: of all, or of `only` those."""
    account_id = call.caller.account_id
    history = await call.parts.jobs.history(account_id, view.id, runs=0)
    async with call.parts.jobs.browser.selection(account_id, view.id, RowFilter()) as found:
        return await asyncio.to_thread(read_judged_rows, found.results, history.column, first, most, only)


def read_judged_rows(
    results: Path, column: str, first: int, most: int, only: pl.Expr | None = None
) -> tuple[list[JudgedRow], int]:
    """Return the same of a file of results, the address column of which is called so."""
    frame, names = pl.scan_parquet(results, glob=False), read_names(results)
    schema = frame.collect_schema()
    if only is not None:
        frame = frame.filter(only)
    total = int(frame.select(pl.len()).collect().item())
    texts = [cell_text(id_, schema[id_]) for id_ in names]
    ours = [name for name in schema if name not in names]
    page = frame.select(*texts, *ours).slice(first, most).collect()
    address = column_id(read_address_place(results, column))
    return [_judged_row(values, names, address) for values in page.iter_rows(named=True)], total


def _judged_row(values: Mapping[str, Any], names: dict[str, str], address: str) -> JudgedRow:
    cells: dict[str, str] = {}
    for id_, name in names.items():
        cells.setdefault(name, values[id_])  # of equal names the first is meant
    verdict = {
        name.removeprefix(VERDICT_PREFIX): value for name, value in values.items() if name not in names
    }
    return JudgedRow(values[address], cells, verdict)


def first_of_each() -> pl.Expr:
    """Return which rows are the first with their address; what is no address stays."""
    address = pl.col(JUDGED_ADDRESS)
    return address.is_first_distinct() | (address == "")


async def results_as_csv(
    call: VendorCall, view: JobView, columns: Mapping[str, pl.Expr], *, only: pl.Expr | None = None
) -> Response:
    """Return a job's rows as CSV, safe to open as every CSV of ours: the customer's columns, then these."""
    async with AsyncExitStack() as stack:
        account_id, jobs = call.caller.account_id, call.parts.jobs
        found = await stack.enter_async_context(jobs.browser.selection(account_id, view.id, RowFilter()))
        writer = SpooledWriter(account_id, partial(_write_csv, found.results, columns, only))
        await writer.open(stack)
        headers = {"Content-Disposition": attachment(f"{Path(view.name).stem or 'list'}.csv")}
        return Download(
            writer.pieces(), stack.pop_all(), media_type="application/octet-stream", headers=headers
        )


def _write_csv(results: Path, columns: Mapping[str, pl.Expr], only: pl.Expr | None, out: IO[bytes]) -> None:
    frame, names = pl.scan_parquet(results, glob=False), read_names(results)
    if only is not None:
        frame = frame.filter(only)
    places = range(len(names), len(names) + len(columns))
    added = [made.alias(column_id(place)) for place, made in zip(places, columns.values(), strict=True)]
    with TemporaryDirectory() as folder:
        recoded = Path(folder) / "recoded.parquet"
        titles = names_metadata([*names.values(), *columns])
        frame.select(*names, *added).sink_parquet(recoded, metadata=titles, engine="streaming")
        export(recoded, out, format=ExportFormat.CSV)


async def mean_score(call: VendorCall, view: JobView) -> float:
    """Return the mean score of a job's rows."""
    async with call.parts.jobs.browser.results(call.caller.account_id, view.id) as results:
        return await asyncio.to_thread(_mean_score, results)


def _mean_score(results: Path) -> float:
    score = pl.col(f"{VERDICT_PREFIX}score").mean()
    return round(pl.scan_parquet(results, glob=False).select(score).collect().item() or 0.0, 2)
