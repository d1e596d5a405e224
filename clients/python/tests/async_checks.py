"""What a session does not show of the awaited half: patience, a stream that breaks off."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Iterator
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import httpx
from typing_extensions import override

from mailsift_client import AsyncMailsift, MailsiftError
from mailsift_client.transport import PatientAsyncTransport

JOB_ID = UUID("7f5c3a52-6f5e-4f44-9f0c-6d3f0f2f9f11")


class Frame:
    """As those of data libraries: a loop over it gives the names of its columns."""

    columns = ("email",)

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)


class Pipe(BytesIO):
    """What can be read once."""

    @override
    def seekable(self) -> bool:
        return False


class Broken(httpx.AsyncByteStream):
    """A body that breaks off."""

    @override
    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b"{"
        raise httpx.ReadError("")


def response(one: dict[str, Any]) -> httpx.Response:
    """Return an answer, or break off without one."""
    if not one["status"]:
        raise httpx.ConnectError("Connection refused")
    if one["status"] < 0:
        return httpx.Response(200, headers=one["headers"], stream=Broken())
    return httpx.Response(one["status"], headers=one["headers"], text=one["body"])


async def main(found: dict[str, Any]) -> dict[str, Any]:
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

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    errors = []
    async with AsyncMailsift("http://mailsift.test", "svc_test_x", sleep=sleep) as session:
        transport = PatientAsyncTransport(httpx.MockTransport(answer), 10, sleep)
        client = httpx.AsyncClient(base_url="http://mailsift.test", transport=transport)
        session.api.set_async_httpx_client(client)
        followed = [job.status async for job in session.follow(JOB_ID)]
        waited = (await session.wait(JOB_ID)).status
        for max_age in (None, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0):
            try:
                await session.check("a@example.com", max_age=max_age)
            except MailsiftError as error:
                errors.append((error.status, error.code))
        newer = str((await session.check("a@example.com")).result)
        broken = await error_of(session)
        gone, refused = await is_gone(session), await refusals(session)
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
        "webhooks": [],
        **await uploads(found["limited"]),
        "proxied": await proxied(found["proxy"]),
    }


async def error_of(session: AsyncMailsift) -> list[Any]:
    """Return what is said of an answer that breaks off."""
    try:
        return [await session.check("a@example.com")]
    except MailsiftError as error:
        return [error.status, error.code]


async def is_gone(session: AsyncMailsift) -> bool:
    """Say whether who follows a job hears that nobody answers any more."""
    try:
        return not [job async for job in session.follow(JOB_ID)]
    except MailsiftError as error:
        return error.status == 0


async def refusals(session: AsyncMailsift) -> list[bool]:
    """Say of what is no list whether the error tells what one is."""
    refused = []
    for source in ("list.csv", b"a@example.com", Path("list.csv"), {"email": "a@b.co"}, Frame(), StringIO()):
        try:
            await session.submit(source)  # type: ignore[arg-type]  # what people do all the same
        except TypeError as error:
            refused.append("open" in str(error))
    for emails in ("a@example.com", Frame()):
        try:
            await session.check_many(emails)  # type: ignore[arg-type]  # what people do all the same
        except TypeError as error:
            refused.append("several addresses" in str(error))
    return refused


async def proxied(proxy: str) -> list[str]:
    """Say of services whether what the environment calls a proxy is asked about them."""
    os.environ |= {"http_proxy": proxy, "no_proxy": "near.test"}
    outcomes = []
    for url in ("http://far.test", "http://near.test", "http://127.0.0.1:9", "http://localhost:9"):
        try:
            async with AsyncMailsift(url, "svc_test_x", patience=0) as session:
                outcomes.append(str((await session.check("a@example.com")).result))
        except MailsiftError as error:
            outcomes.append(error.code)
    return outcomes


class Wire(httpx.AsyncBaseTransport):
    """Takes bodies as a socket does, which keeps none of them."""

    def __init__(self, answers: list[dict[str, Any]]) -> None:
        self.bodies: list[str] = []
        self._answers = list(answers)

    @override
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        stream = cast("httpx.AsyncByteStream", request.stream)
        self.bodies.append(b"".join([piece async for piece in stream]).decode())
        return response(self._answers.pop(0))


async def uploads(answers: list[dict[str, Any]]) -> dict[str, Any]:
    """Say what was sent of a file, and of a pipe, to a service that says later once."""
    bodies: dict[str, Any] = {}
    for name, file in (
        ("sent", BytesIO(b"notes\nemail\na@b.co\n")),
        ("piped", Pipe(b"notes\nemail\na@b.co\n")),
    ):
        wire = Wire(answers)
        async with AsyncMailsift("http://mailsift.test", "svc_test_x") as session:
            transport = PatientAsyncTransport(wire, 10, lambda _: asyncio.sleep(0))
            client = httpx.AsyncClient(base_url="http://mailsift.test", transport=transport)
            session.api.set_async_httpx_client(client)
            file.readline()
            try:
                await session.submit(file)
                bodies[name] = wire.bodies
            except MailsiftError as error:
                bodies[name] = [error.status, wire.bodies]
    return bodies


print(json.dumps(asyncio.run(main(json.loads(sys.stdin.read())))))  # noqa: T201 - a program
