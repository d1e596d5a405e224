"""`Idempotency-Key` on every POST (draft-ietf-httpapi-idempotency-key-header): done once, answered often.

A list sent with a key is looked after by its operation, for its fingerprint is the file's
(mailsift.jobs.submissions); whatever else comes by POST is looked after here.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Annotated, Any, Final
from uuid import UUID, uuid4

from fastapi import Header, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from fastapi.routing import APIRoute
from starlette.types import Message
from typing_extensions import override

from mailsift.api.http.auth import RequireScope
from mailsift.api.http.errors import STATUS_OF, RefusedError, error_headers, error_response
from mailsift.api.http.inputs import Handler, StrictRoute
from mailsift.api.http.responses import EnvelopeResponse, is_test
from mailsift.events.signing import Vault
from mailsift.pipeline.background import repeating
from mailsift.pipeline.errors import MailsiftError
from mailsift.storage.database import Database, before_commit
from mailsift.storage.sql import idempotency

_KEY: Final = re.compile(r'"([!#-[\]-~]{1,255})"|([!#-~]{1,255})')
KEY_HEADER: Final = "Idempotency-Key"
KEY_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "string",
    "maxLength": 300,
    "pattern": f"^({_KEY.pattern})?$",
}
IdempotencyKey = Annotated[
    str,
    Header(
        max_length=300,
        description="at most one job in 24 hours",
        json_schema_extra={"pattern": KEY_SCHEMA["pattern"]},
    ),
]
_LEASE_S: Final = 60.0
"""Seconds after which the key of a process that died is free."""
_DONE_BY_REFUSAL: Final = frozenset({404, 409, 422})
"""Statuses of errors that are answers: whoever asks again is told the same. All others did nothing."""


def read_key(header: str) -> str:
    """Read the Idempotency-Key: a structured-field string, or the bare text most people send.

    Raises:
        MailsiftError: `bad_idempotency_key`.
    """
    if not header:
        return ""
    found = _KEY.fullmatch(header)
    if found is None:
        text = "An Idempotency-Key has 1 to 255 visible ASCII characters, no spaces, quotes or backslashes."
        raise MailsiftError("bad_idempotency_key", text)
    return found[1] or found[2]


class AnswerStore:
    """Does what a request asks for once, and answers repetitions as the first time.

    Answers are sealed for their account; they may hold addresses, and once the secret of a webhook.
    """

    def __init__(self, *, database: Database, vault: Vault) -> None:
        self._database = database
        self._vault = vault

    async def once(
        self, wanted: idempotency.Request, job_id: UUID | None, do: Callable[[], Awaitable[Response]]
    ) -> Response:
        """Return the answer of the request, which is deleted with the job that it is about.

        What `do` raises is no answer, and frees the key unless something was changed.

        Raises:
            MailsiftError: `idempotency_key_reused`, `idempotency_key_in_use`, `idempotency_key_lost`, or
                what `do` raises.
        """
        token = uuid4()
        async with self._database.begin() as connection:
            taken = await idempotency.begin(connection, wanted, token, lease=_LEASE_S)
            known = None if taken else await idempotency.known(connection, wanted)
        if not taken:
            return self._replay(wanted, known)
        try:
            async with repeating(lambda: self._renew(wanted, token), every=_LEASE_S / 3, task="idempotency"):
                with before_commit(lambda connection: idempotency.mark(connection, wanted, token)):
                    response = await do()
        except BaseException:
            await self._free(wanted, token)
            raise
        if response.status_code >= 400 and response.status_code not in _DONE_BY_REFUSAL:
            await self._free(wanted, token)
            return response
        headers = {name: value for name, value in response.headers.items() if name != "content-length"}
        body = bytes(response.body).decode()
        kept = json.dumps([response.status_code, headers, body]).encode()
        sealed = self._vault.seal(wanted.account_id, kept)
        await self._database.run(idempotency.finish, wanted, token, sealed, _job_in(body) or job_id)
        return response

    def _replay(self, wanted: idempotency.Request, known: idempotency.KnownRequest | None) -> Response:
        if known is not None and known.fingerprint != wanted.fingerprint:
            text = "This Idempotency-Key was used with another request."
            raise MailsiftError("idempotency_key_reused", text)
        if known is not None and known.died:
            text = (
                "The first request with this Idempotency-Key broke off after it had changed something. It is"
                " not done again: look what is there, and use another key."
            )
            raise MailsiftError("idempotency_key_lost", text)
        if known is None or known.answer is None:
            text = "The first request with this Idempotency-Key is still being worked on."
            raise RefusedError("idempotency_key_in_use", text, {"Retry-After": "1"})
        status, headers, body = json.loads(self._vault.open(wanted.account_id, known.answer))
        return Response(body, status, {**headers, "Idempotency-Replayed": "true"})

    async def _renew(self, wanted: idempotency.Request, token: UUID) -> None:
        await self._database.run(idempotency.renew, wanted, token, lease=_LEASE_S)

    async def _free(self, wanted: idempotency.Request, token: UUID) -> None:
        with suppress(Exception):  # else its lease ends
            await self._database.run(idempotency.free, wanted, token)


def _job_in(body: str) -> UUID | None:
    """Return the job an answer tells of."""
    try:
        return UUID(json.loads(body)["data"]["job_id"])
    except (ValueError, TypeError, KeyError):
        return None


class OnceRoute(StrictRoute):
    """A route whose JSON is read strictly, of who may send it, and whose POST obeys an Idempotency-Key."""

    def answering(self) -> Handler:
        """Return what answers a request, whether it comes for the first time or not."""
        return super().get_route_handler()

    @override
    def get_route_handler(self) -> Handler:
        handler = _marking(self.answering())
        once = "POST" in (self.methods or ()) and not _takes_key_itself(self)
        scopes = [one.call for one in self.dependant.dependencies if isinstance(one.call, RequireScope)]

        async def handle(request: Request) -> Response:
            caller = await scopes[0].authenticate(request)  # FastAPI would read the body first
            if not once or not any(request.headers.getlist(KEY_HEADER)):
                return await handler(request)
            key = read_key(request.headers[KEY_HEADER])
            body = await request.body()
            wanted = idempotency.Request(caller.account_id, key, _fingerprint(request, body))
            store: AnswerStore = request.app.state.parts.answers
            job_id = request.path_params.get("job_id")
            about = job_id if isinstance(job_id, UUID) else None
            return await store.once(wanted, about, lambda: _answered(handler, _with_body(request, body)))

        return handle


def _marking(handler: Handler) -> Handler:
    """Mark the answers of test mode."""

    async def handle(request: Request) -> Response:
        response = await handler(request)
        return (
            response.of_test_mode()
            if isinstance(response, EnvelopeResponse) and is_test(request)
            else response
        )

    return handle


def _takes_key_itself(route: APIRoute) -> bool:
    """Tell whether the operation looks after its Idempotency-Key."""
    return any(one.alias.lower() == KEY_HEADER.lower() for one in route.dependant.header_params)


async def _answered(handler: Handler, request: Request) -> Response:
    """Return also those errors as a response that are answers to a request which was understood."""
    try:
        return await handler(request)
    except RequestValidationError:
        raise
    except MailsiftError as error:
        if error.retryable or STATUS_OF.get(error.code) not in _DONE_BY_REFUSAL:
            raise
        return error_response(request, error, headers=error_headers(error))


def _fingerprint(request: Request, body: bytes) -> str:
    what = [request.method, request.url.path, request.url.query, hashlib.sha256(body).hexdigest()]
    return hashlib.sha256(json.dumps(what).encode()).hexdigest()


def _with_body(request: Request, body: bytes) -> Request:
    """Return the request with its body to be read once more."""

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return Request(request.scope, receive)
