"""What a session does not show: webhooks of every kind, patience, a stream that breaks off."""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx

from mailsift_client import Mailsift, MailsiftError, WebhookError, verify_webhook
from mailsift_client.transport import PatientTransport

JOB_ID = UUID("7f5c3a52-6f5e-4f44-9f0c-6d3f0f2f9f11")


def believed(case: dict[str, Any]) -> bool:
    """Say whether a webhook is taken for one."""
    try:
        verify_webhook(case["secret"], case["headers"], base64.b64decode(case["body"]), now=case["now"])
    except WebhookError:
        return False
    return True


def response(one: dict[str, Any]) -> httpx.Response:
    """Return an answer, or break off without one."""
    if not one["status"]:
        raise httpx.ConnectError("Connection refused")
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
    for max_age in (None, 0.0, 0.0, 0.0, 0.0, 0.0):
        try:
            session.check("a@example.com", max_age=max_age)
        except (MailsiftError, httpx.ConnectError) as error:
            errors.append((getattr(error, "status", 0), getattr(error, "code", "")))
    refused = []
    for source in ("list.csv", b"a@example.com", Path("list.csv")):
        try:
            session.submit(source)  # type: ignore[arg-type]  # what people do all the same
        except TypeError as error:
            refused.append("open file" in str(error))
    webhooks = [believed(case) for case in found["webhooks"]]
    return {
        "followed": followed,
        "waited": waited,
        "errors": errors,
        "asked": asked,
        "ages": ages,
        "refused": refused,
        "waits": len(waits),
        "webhooks": webhooks,
    }


print(json.dumps(main(json.loads(sys.stdin.read()))))  # noqa: T201 - a program
