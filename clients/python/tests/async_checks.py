"""What a session does not show of the awaited half: patience, a stream that breaks off."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx

from mailsift_client import AsyncMailsift, MailsiftError
from mailsift_client.transport import PatientAsyncTransport

JOB_ID = UUID("7f5c3a52-6f5e-4f44-9f0c-6d3f0f2f9f11")


def response(one: dict[str, Any]) -> httpx.Response:
    """Return an answer, or break off without one."""
    if not one["status"]:
        raise httpx.ConnectError("Connection refused")
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
        for max_age in (None, 0.0, 0.0, 0.0, 0.0, 0.0):
            try:
                await session.check("a@example.com", max_age=max_age)
            except (MailsiftError, httpx.ConnectError) as error:
                errors.append((getattr(error, "status", 0), getattr(error, "code", "")))
        refused = []
        for source in ("list.csv", b"a@example.com", Path("list.csv")):
            try:
                await session.submit(source)  # type: ignore[arg-type]  # what people do all the same
            except TypeError as error:
                refused.append("open file" in str(error))
    return {
        "followed": followed,
        "waited": waited,
        "errors": errors,
        "asked": asked,
        "ages": ages,
        "refused": refused,
        "waits": len(waits),
        "webhooks": [],
    }


print(json.dumps(asyncio.run(main(json.loads(sys.stdin.read())))))  # noqa: T201 - a program
