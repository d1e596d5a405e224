"""POST /v1/email/single-validate and batch-validate: one address or some, now."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from json import JSONDecodeError
from typing import Annotated, Any, Final

from fastapi import Depends, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field, StrictBool, ValidationError
from starlette.types import Receive, Send
from starlette.types import Scope as ASGIScope
from typing_extensions import override

from mailsift.accounts.keys import Caller, Scope
from mailsift.api.http.auth import RequireScope
from mailsift.api.http.idempotency import OnceRoute
from mailsift.api.http.inputs import (
    AMOUNT,
    Email,
    Handler,
    ModeOption,
    RequestModel,
    Whole,
    check_json_type,
    read_json,
    unfit_body,
    unfit_fields,
)
from mailsift.api.http.openapi import operation, v1_router
from mailsift.api.http.responses import PROBABILITY, ChanceFields, answer, chance_fields, provider_in
from mailsift.api.http.uploads import MAX_AGE, YEAR
from mailsift.api.parts import parts_of
from mailsift.pipeline.facts import Mode
from mailsift.pipeline.outcomes.chances import Chances, cell_of
from mailsift.pipeline.single import SingleOptions
from mailsift.pipeline.tiers import Tier, TierPolicy, reason_of, tier_of
from mailsift.pipeline.verdict import MEANINGS, Result, Status

_LONGEST_MS: Final = 60_000
_MOST_EMAILS: Final = 100
"""Addresses in a batch; longer lists are jobs."""
_APPLIED: Final = {"Preference-Applied": "return=minimal"}  # RFC 7240
_PREFERENCE: Final = re.compile(r'(?:[^,"]|"(?:[^"\\]|\\.)*"?)+')
"""One of several in a Prefer header; a quoted value may hold commas."""
_needed: Final = RequireScope(Scope.VALIDATE)
_PREFER: Final = {
    "name": "Prefer",
    "in": "header",
    "description": "`return=minimal` shortens the answer (RFC 7240)",
    "schema": {"type": "string"},
}


class ValidationOptions(RequestModel):
    """How far to look, and what is told beside the verdict."""

    mode: ModeOption = Mode.DEEP
    deadline_ms: Whole = Field(
        default=10_000,
        ge=100,
        le=_LONGEST_MS,
        description="if time runs out, the verdict is risky, not an error",
    )
    max_age: Annotated[float, Field(ge=0, le=YEAR), AMOUNT] | None = Field(default=None, description=MAX_AGE)
    repair: StrictBool = Field(
        default=False,
        description="if the text is not an address but clearly means one (`Jane <jane@example.com>`),"
        " validate that one; `suggestion` says which",
    )
    probability: StrictBool = Field(default=False, description=PROBABILITY)
    tier: StrictBool = Field(
        default=False,
        description="add `tier` (send, review or remove, by the account's policy) and `tier_reason`, as in"
        " the results of lists: an address that complained, unsubscribed or is suppressed is never `send`",
    )


class SingleRequest(ValidationOptions):
    """One address and how far to look."""

    email: Email = Field(examples=["jane@example.com"])


class BatchRequest(ValidationOptions):
    """Some addresses and how far to look."""

    emails: list[Email] = Field(
        min_length=1, max_length=_MOST_EMAILS, examples=[["jane@example.com", "joe@example"]]
    )


_RESULTS: Final = "\n".join(
    ("why, as a stable code:", *(f"- `{one.value}`: {text}" for one, text in MEANINGS.items()))
)


class FullVerdict(BaseModel):
    """The 13 fields; none is ever null. `probability` and `tier` add more."""

    catch_all: bool
    is_disposable: bool
    is_free: bool
    is_role_based: bool
    is_valid: bool
    mx_valid: bool
    syntax_valid: bool
    reason: str
    result: Result = Field(description=_RESULTS)
    suggestion: str
    score: int = Field(ge=0, le=100)
    smtp_code: int = Field(description="0 when no mail server answered")
    status: Status


class MinimalVerdict(BaseModel):
    """The shortened form, with `Prefer: return=minimal`."""

    model_config = ConfigDict(extra="forbid")

    is_valid: bool
    status: Status
    score: int
    reason: str


class BatchVerdict(ChanceFields, FullVerdict):
    """An address of a batch with its 13 fields."""

    email: str = Field(description="the address as it was sent")
    tier: Tier | None = Field(default=None, description="with `tier`: what to do with it")
    tier_reason: str | None = Field(default=None, description="the rule of the policy that decided, or empty")


class MinimalBatchVerdict(MinimalVerdict):
    """An address of a batch, with `Prefer: return=minimal`."""

    email: str


class BatchResponse(BaseModel):
    """The verdicts, in the order of the addresses."""

    results: list[BatchVerdict | MinimalBatchVerdict]


class DirectRoute(OnceRoute):
    """The route of `validate_email`: described by FastAPI, called without it.

    Finding out again with every request what the endpoint takes costs a third of an answer
    (benchmarks.single_validate).
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        handler = self.get_route_handler()

        async def app(scope: ASGIScope, receive: Receive, send: Send) -> None:
            response = await handler(Request(scope, receive, send))
            await response(scope, receive, send)

        self.app = app  # FastAPI's opens two stacks for what dependencies want closed, which ours do not

    @override
    def answering(self) -> Handler:
        """Return what takes the key, then the body, and asks the endpoint."""

        async def handle(request: Request) -> Response:
            caller = await _needed.authenticate(request)
            return await validate_email(request, await _read_request(request), caller)

        return handle


async def _read_request(request: Request) -> SingleRequest:
    """Return what a request asks for.

    Raises:
        RequestValidationError: it is not JSON, or not a SingleRequest.
        MailsiftError: `unsupported_media_type`.
    """
    check_json_type(request)
    body = await request.body()
    if not body:
        raise unfit_body("Field required", "missing")
    try:
        return SingleRequest.model_validate(read_json(body))
    except JSONDecodeError as error:
        raise unfit_body(error.msg, "json_invalid") from None
    except ValidationError as error:
        raise unfit_fields(error, "body") from None


router = v1_router("/email", "email", DirectRoute)


batch_router = v1_router("/email", "email")


@router.post(
    "/single-validate",
    openapi_extra={"parameters": [_PREFER]},
    **operation("Validate one address", FullVerdict | MinimalVerdict),
)
async def validate_email(
    request: Request, wanted: SingleRequest, caller: Annotated[Caller, Depends(_needed)]
) -> JSONResponse:
    """Validate one address by the rules of lists; `Prefer: return=minimal` shortens the answer."""
    (data,) = await _validated(request, [wanted.email], wanted, caller)
    if _wants_minimal(request):
        return answer(_minimal(data), "The address was validated.", headers=_APPLIED)
    return answer(data, "The address was validated.")


@batch_router.post(
    "/batch-validate",
    openapi_extra={"parameters": [_PREFER]},
    **operation("Validate some addresses", BatchResponse),
)
async def validate_batch(
    request: Request, wanted: BatchRequest, caller: Annotated[Caller, Depends(_needed)]
) -> JSONResponse:
    """Validate up to 100 addresses in one answer, in their order, before one deadline.

    An address given twice is asked about once. Each one counts as a request.
    """
    parts, emails = parts_of(request), wanted.emails
    if len(emails) > 1:
        await parts.authenticator.charge(request, caller, len(emails) - 1)
    verdicts = await _validated(request, emails, wanted, caller)
    minimal = _wants_minimal(request)
    rows = map(_minimal, verdicts) if minimal else verdicts
    results = [{"email": email, **verdict} for email, verdict in zip(emails, rows, strict=True)]
    headers = _APPLIED if minimal else None
    return answer({"results": results}, "The addresses were validated.", headers=headers)


async def _validated(
    request: Request, emails: Sequence[str], wanted: ValidationOptions, caller: Caller
) -> list[dict[str, Any]]:
    parts = parts_of(request)
    verdicts = await parts.single_of(caller).validate_many(emails, _options(wanted, caller))
    tiers = (await parts.policies.get(caller.account_id)).tiers if wanted.tier else None
    chances = await parts.accuracy.chances(caller.account_id) if wanted.probability else None
    return [_with_extras(one, tiers, chances) for one in verdicts]


def _with_extras(
    verdict: dict[str, Any], tiers: TierPolicy | None, chances: Chances | None
) -> dict[str, Any]:
    """Return a verdict with what was asked for beside it, and without the evidence that decides that."""
    if tiers is None and chances is None:  # then it has none
        return verdict
    extended = {name: value for name, value in verdict.items() if name != "evidence"}
    evidence = json.loads(verdict.get("evidence") or "{}")
    if tiers is not None:
        judged = {**extended, "unwanted": evidence["unwanted"]}
        extended |= {"tier": tier_of(judged, tiers).value, "tier_reason": reason_of(judged, tiers)}
    if chances is not None:
        extended |= chance_fields(chances.of(cell_of(verdict, provider_in(evidence))))
    return extended


def _options(wanted: ValidationOptions, caller: Caller) -> SingleOptions:
    return SingleOptions(
        wanted.mode,
        wanted.deadline_ms / 1000,
        owner=caller.owner,
        # it says who runs the mail server, and who is not to be sent to
        evidence=wanted.tier or (wanted.probability and wanted.mode is not Mode.FAST),
        repair=wanted.repair,
        max_age=wanted.max_age,
        tiered=wanted.tier,
    )


def _minimal(verdict: dict[str, Any]) -> dict[str, Any]:
    return {name: verdict[name] for name in MinimalVerdict.model_fields}


def _wants_minimal(request: Request) -> bool:
    """Read Prefer, which may come in several lines: the first `return` counts (RFC 7240, section 2)."""
    if not (lines := request.headers.getlist("prefer")):
        return False
    wishes = _PREFERENCE.findall(",".join(lines))
    named = (wish.partition(";")[0].replace(" ", "").replace('"', "").lower() for wish in wishes)
    return next((one for one in named if one.partition("=")[0] == "return"), "") == "return=minimal"
