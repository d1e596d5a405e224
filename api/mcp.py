"""What an assistant may ask, over the Model Context Protocol: four tools, by HTTP or on standard input.

Here are POST /mcp, for whoever has a key, and the tools: what they take, what a key needs for them, what they
cost, what they answer. The protocol itself is mailsift.api.mcp_server.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import Annotated, Any, Final
from urllib.parse import urlsplit
from uuid import UUID

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field, ValidationError

from mailsift.accounts.keys import Caller, Scope
from mailsift.accounts.usage import mcp_disabled
from mailsift.api.http.inputs import Email, RequestModel, ShortText, check_json_type, check_query
from mailsift.api.pages.evidence import points, sections
from mailsift.api.parts import ApiParts, parts_of
from mailsift.api.v1.jobs import job_response, watched
from mailsift.jobs.results.browse import BEGINNING, PageRequest, RowFilter
from mailsift.jobs.submissions import json_lines, one_piece
from mailsift.jobs.views import JobId, JobOptions, JobView
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.facts import Mode
from mailsift.pipeline.single import SingleOptions
from mailsift.pipeline.verdict import MEANINGS, Result, Status
from mailsift.storage.states import JobState

PATH: Final = "/mcp"
router = APIRouter()


@router.post(PATH, include_in_schema=False)
async def answer_message(request: Request) -> Response:
    """Answer one message of the Model Context Protocol (streamable HTTP, without sessions).

    Counted like a request under /v1; what a tool needs of a key's scopes it says itself.
    """
    parts = parts_of(request)
    if not parts.budget.per_day:
        raise mcp_disabled()
    _check_origin(request, parts.people.public_url)
    caller = await parts.authenticator.authenticate(request)
    check_query(request)
    check_json_type(request)
    try:  # only here: nobody else needs the package, and it takes a second to load
        server = await asyncio.to_thread(import_module, "mailsift.api.mcp_server")
    except ModuleNotFoundError:
        raise MailsiftError("mcp_missing", "MCP isn’t installed here: install mailsift[mcp].") from None
    response: Response = server.McpResponse(ToolCall(parts, caller))
    return response


_ON_THIS_MACHINE: Final = re.compile(r"https?://(?:localhost|127\.0\.0\.1|\[::1\])(?::\d+)?")


def _check_origin(request: Request, public_url: str) -> None:
    """Refuse a page of another site, also one whose name was made to lead here (DNS rebinding).

    The protocol asks for it (revision 2025-06-18, Transports, Security Warning). What is no page, as most
    assistants are, names no origin.
    """
    own = urlsplit(public_url)
    for origin in request.headers.getlist("origin"):
        if origin != f"{own.scheme}://{own.netloc}" and not _ON_THIS_MACHINE.fullmatch(origin):
            raise MailsiftError("origin_refused", "Pages of other sites can’t use the tools.")


_MOST_EMAILS: Final = 1_000
"""Addresses of a list; longer ones are files, and go to /v1/bulk/jobs."""
BODY_BYTES: Final = 512 * 1024
"""What a message may have: a list, and what stands around it."""
_SINGLE_SECONDS: Final = 20.0
_LIST_SECONDS: Final = 15.0  # an assistant waits for an answer; then it asks `job`
_ROWS: Final = 50

_Mode = Annotated[
    Mode, Field(description="fast: syntax and lists; medium: also DNS; deep: also the mail server")
]


class _One(RequestModel):
    email: Email = Field(description="the address")
    mode: _Mode = Mode.DEEP


class _List(RequestModel):
    emails: list[Email] = Field(min_length=1, max_length=_MOST_EMAILS, description="the addresses")
    mode: _Mode = Mode.DEEP
    name: ShortText = Field(default="", description="what people call the list")


class _Job(RequestModel):
    job_id: UUID = Field(description="from check_list")
    status: list[Status] = Field(default=[], max_length=3, description="only rows with one of these")
    limit: int = Field(default=_ROWS, ge=1, le=_ROWS, description="rows of a page")
    cursor: str = Field(
        default="", max_length=20, pattern="^[0-9]*$", description="next_cursor of the page before"
    )


@dataclass(frozen=True, slots=True)
class ToolCall:
    """Who calls a tool of what."""

    parts: ApiParts
    caller: Caller


@dataclass(frozen=True, slots=True)
class ToolRow:
    """A tool."""

    about: str  # what it is for, in the words of a model that chooses one
    takes: type[BaseModel]
    scope: Scope  # what a key needs for it
    costs: Callable[[Any], int]  # how many addresses it asks about
    run: Callable[[ToolCall, Any], Awaitable[dict[str, Any]]]


async def call_tool(call: ToolCall, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a tool answers, as JSON has it.

    Raises:
        MailsiftError: `invalid_request`, `insufficient_scope`, `mcp_disabled`, `mcp_budget_spent`, and
            what the tool says.
    """
    tool = TOOLS.get(name)
    if tool is None:
        raise MailsiftError("invalid_request", f"There is no such tool. Available: {', '.join(TOOLS)}.")
    if tool.scope.value not in call.caller.scopes:
        raise MailsiftError("insufficient_scope", f"This key lacks the scope {tool.scope.value}.")
    wanted = _checked_arguments(tool.takes, arguments)
    await call.parts.budget.spend(call.caller.key_id, tool.costs(wanted))
    return await tool.run(call, wanted)


def _checked_arguments(takes: type[BaseModel], arguments: Mapping[str, Any]) -> BaseModel:
    """Return the arguments; an error names the place and never the value."""
    try:
        return takes.model_validate(dict(arguments))
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(map(str, found["loc"]))
        raise MailsiftError("invalid_request", f"{place}: {found['msg']}") from None


async def _check(call: ToolCall, wanted: _One) -> dict[str, Any]:
    return {"email": wanted.email} | await _verdict(call, wanted, evidence=False)


async def _explain(call: ToolCall, wanted: _One) -> dict[str, Any]:
    verdict = await _verdict(call, wanted, evidence=True)
    evidence = json.loads(verdict.pop("evidence", "") or "{}")
    judged = call.parts.single.judged_address(wanted.email, repair=False)
    return {
        "email": wanted.email,
        **verdict,
        "meaning": MEANINGS[Result(verdict["result"])],
        "facts": json.loads(
            json.dumps([asdict(one) for one in sections(verdict, evidence, judged)], default=str)
        ),
        "score_parts": [asdict(one) for one in points(evidence)],
    }


async def _verdict(call: ToolCall, wanted: _One, *, evidence: bool) -> dict[str, Any]:
    options = SingleOptions(wanted.mode, _SINGLE_SECONDS, owner=call.caller.owner, evidence=evidence)
    return await call.parts.single_of(call.caller).validate(wanted.email, options)


async def _check_list(call: ToolCall, wanted: _List) -> dict[str, Any]:
    options = JobOptions(mode=wanted.mode, name=wanted.name, column="email")
    lines = one_piece(json_lines({"email": email} for email in wanted.emails))
    made = await call.parts.jobs.receive(call.caller.account_id, lines, options, source_name="list.jsonl")
    try:
        view = await watched(call.parts, call.caller, made.job_id, _LIST_SECONDS)
        return await _job_with_rows(call, view, _Job(job_id=made.job_id))
    except MailsiftError as error:  # the list is in all the same, and is not to be sent again
        text = f"{error.message} The list is job {made.job_id}: ask `job` later."
        raise MailsiftError(error.code, text, retryable=error.retryable) from error


async def _job(call: ToolCall, wanted: _Job) -> dict[str, Any]:
    view = await call.parts.jobs.get(call.caller.account_id, JobId(wanted.job_id))
    return await _job_with_rows(call, view, wanted)


async def _job_with_rows(call: ToolCall, view: JobView, wanted: _Job) -> dict[str, Any]:
    """Return a job, and when it is completed some of its rows to who may read them."""
    job = job_response(view, call.parts.clock()).model_dump(mode="json")
    rows: list[dict[str, Any]] = []
    matches, following = 0, ""
    if view.state is JobState.COMPLETED and Scope.JOBS_READ.value in call.caller.scopes:
        page = await call.parts.jobs.browser.checked_page(
            call.caller.account_id,
            view.id,
            RowFilter(statuses=frozenset(wanted.status)),
            PageRequest(wanted.limit, int(wanted.cursor or BEGINNING)),
        )
        rows = [{"row": one.row + 1, "email": one.address} | one.verdict for one in page.rows]
        matches, following = page.matches, "" if page.next is None else str(page.next)
    return {"job": job, "rows": rows, "matches": matches, "next_cursor": following}


TOOLS: Final[Mapping[str, ToolRow]] = {
    "check": ToolRow(
        "Check whether mail to one address will arrive: a verdict (valid, risky, invalid), a score from 0 to"
        " 100, and the reason. Risky means that it could not be found out.",
        _One,
        Scope.VALIDATE,
        lambda _: 1,
        _check,
    ),
    "check_list": ToolRow(
        f"Check up to {_MOST_EMAILS:,} addresses as a job. Answers with its rows if it is done within some"
        " seconds; ask `job` with its job_id otherwise, after `eta_seconds`.",
        _List,
        Scope.JOBS_WRITE,
        lambda wanted: len(wanted.emails),
        _check_list,
    ),
    "job": ToolRow(
        "Look at a job of check_list: its state, its counts, and page by page the verdicts of its rows.",
        _Job,
        Scope.JOBS_READ,
        lambda _: 0,
        _job,
    ),
    "explain": ToolRow(
        "Check one address and explain the verdict: what its result means, every fact found about the"
        " address, its domain and its mailbox, and what the score is made of.",
        _One,
        Scope.VALIDATE,
        lambda _: 1,
        _explain,
    ),
}
