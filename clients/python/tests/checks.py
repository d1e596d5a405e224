"""What a session does not show: webhooks of every kind, patience, a stream that breaks off."""

from __future__ import annotations

import base64
import json
import os
import sys
from collections.abc import Iterator
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import httpx
from typing_extensions import override

from mailsift_client import Mailsift, MailsiftError, WebhookError, verify_webhook
from mailsift_client.transport import PatientTransport

JOB_ID = UUID("7f5c3a52-6f5e-4f44-9f0c-6d3f0f2f9f11")


class Frame:
    """As those of data libraries: a loop over it gives the names of its columns."""

    columns = ("email",)

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)


def believed(case: dict[str, Any]) -> bool:
    """Say whether a webhook is taken for one."""
    try:
        verify_webhook(case["secret"], case["headers"], base64.b64decode(case["body"]), now=case["now"])
    except WebhookError:
        return False
    return True


class Broken(httpx.SyncByteStream):
    """A body that breaks off."""

    @override
    def __iter__(self) -> Iterator[bytes]:
        yield b"{"
        raise httpx.ReadError("")


def response(one: dict[str, Any]) -> httpx.Response:
    """Return an answer, or break off without one."""
    if not one["status"]:
        raise httpx.ConnectError("Connection refused")
    if one["status"] < 0:
        return httpx.Response(200, headers=one["headers"], stream=Broken())
    return httpx.Response(one["status"], headers=one["headers"], text=one["body"])


def main(found: dict[str, Any]) -> dict[str, Any]:
    """Go through what the API may answer."""
    waits: list[float] = []
    asked: list[str] = []
    ages: list[object] = []
    answers = list(found["answers"])

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(f"{request.method} {request.url.path}")
        if request.method == "POST":
            ages.append(json.loads(request.content).get("max_age", "not said"))
        return response(answers.pop(0))

    session = Mailsift("http://mailsift.test", "svc_test_x", sleep=waits.append)
    transport = PatientTransport(httpx.MockTransport(answer), 10, waits.append)
    session.api.set_httpx_client(httpx.Client(base_url="http://mailsift.test", transport=transport))
    followed = [job.status for job in session.follow(JOB_ID)]
    waited = session.wait(JOB_ID).status
    errors = []
    for max_age in (None, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0):
        try:
            session.check("a@example.com", max_age=max_age)
        except MailsiftError as error:
            errors.append((error.status, error.code))
    newer = str(session.check("a@example.com").result)
    broken = error_of(session)
    gone, refused = is_gone(session), refusals(session)
    webhooks = [believed(case) for case in found["webhooks"]]
    return {
        "followed": followed,
        "waited": waited,
        "errors": errors,
        "asked": asked,
        "ages": ages,
        "newer": newer,
        "broken": broken,
        "gone": gone,
        "refused": refused,
        "waits": len(waits),
        "webhooks": webhooks,
        **uploads(found["limited"]),
        "proxied": proxied(found["proxy"]),
    }


def error_of(session: Mailsift) -> list[Any]:
    """Return what is said of an answer that breaks off."""
    try:
        return [session.check("a@example.com")]
    except MailsiftError as error:
        return [error.status, error.code]


def is_gone(session: Mailsift) -> bool:
    """Say whether who follows a job hears that nobody answers any more."""
    try:
        return not list(session.follow(JOB_ID))
    except MailsiftError as error:
        return error.status == 0


def refusals(session: Mailsift) -> list[bool]:
    """Say of what is no list whether the error tells what one is."""
    refused = []
    for source in ("list.csv", b"a@example.com", Path("list.csv"), {"email": "a@b.co"}, Frame(), StringIO()):
        try:
            session.submit(source)  # type: ignore[arg-type]  # what people do all the same
        except TypeError as error:
            refused.append("open" in str(error))
    for emails in ("a@example.com", Frame()):
        try:
            session.check_many(emails)  # type: ignore[arg-type]  # what people do all the same
        except TypeError as error:
            refused.append("several addresses" in str(error))
    return refused


def proxied(proxy: str) -> list[str]:
    """Say of services whether what the environment calls a proxy is asked about them."""
    os.environ |= {"http_proxy": proxy, "no_proxy": "near.test"}
    outcomes = []
    for url in ("http://far.test", "http://near.test", "http://127.0.0.1:9", "http://localhost:9"):
        try:
            with Mailsift(url, "svc_test_x", patience=0) as session:
                outcomes.append(str((session.check("a@example.com")).result))
        except MailsiftError as error:
            outcomes.append(error.code)
    return outcomes


class Wire(httpx.BaseTransport):
    """Takes bodies as a socket does, which keeps none of them."""

    def __init__(self, answers: list[dict[str, Any]]) -> None:
        self.bodies: list[str] = []
        self._answers = list(answers)

    @override
    def handle_request(self, request: httpx.Request) -> httpx.Response:
        stream = cast("httpx.SyncByteStream", request.stream)
        self.bodies.append(b"".join(stream).decode())
        return response(self._answers.pop(0))


def uploads(answers: list[dict[str, Any]]) -> dict[str, Any]:
    """Say what was sent of a file, and of a pipe, to a service that says later once."""
    bodies: dict[str, Any] = {}
    for name, file in (
        ("sent", BytesIO(b"notes\nemail\na@b.co\n")),
        ("piped", Pipe(b"notes\nemail\na@b.co\n")),
    ):
        wire = Wire(answers)
        session = Mailsift("http://mailsift.test", "svc_test_x")
        transport = PatientTransport(wire, 10, lambda _: None)
        session.api.set_httpx_client(httpx.Client(base_url="http://mailsift.test", transport=transport))
        file.readline()
        try:
            session.submit(file)
            bodies[name] = wire.bodies
        except MailsiftError as error:
            bodies[name] = [error.status, wire.bodies]
    return bodies


class Pipe(BytesIO):
    """What can be read once."""

    @override
    def seekable(self) -> bool:
        return False


print(json.dumps(main(json.loads(sys.stdin.read()))))  # noqa: T201 - a program
