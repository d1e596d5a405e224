"""The clients, made anew from the API's description, fit it to the last type and go through its session."""

from __future__ import annotations

import hmac
import json
import shutil
import sys
import threading
import zipfile
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import standardwebhooks

from tests.external.clients.conftest import Service, run
from tests.support.required_programs import GENERATORS

COUNTS = ("preview", "list_rows", "list_addresses", "total_emails", "addresses", "duplicates", "processed")
JOB: dict[str, Any] = {
    **dict.fromkeys((*COUNTS, "valid", "invalid", "risky", "percent", "rate"), 0),
    **dict.fromkeys(("name", "eta_reason", "warning", "error_code", "error"), ""),
    **dict.fromkeys(("parent_id", "eta_seconds", "started_at", "finished_at", "expires_at")),
    "job_id": "7f5c3a52-6f5e-4f44-9f0c-6d3f0f2f9f11",
    "status": "running",
    "mode": "fast",
    "priority": "normal",
    "metadata": {},
    "waiting": [],
    "tiers": {"send": 0, "review": 0, "remove": 0},
    "policy": {},
    "created_at": "2026-01-31T08:00:00.000Z",
}
ENDED = {"data": {**JOB, "status": "completed"}, "message": "", "status": 200, "success": True}
VERDICT: dict[str, Any] = {
    **dict.fromkeys(("catch_all", "is_disposable", "is_free", "is_role_based"), False),
    **dict.fromkeys(("is_valid", "mx_valid", "syntax_valid"), True),
    **dict.fromkeys(("reason", "suggestion"), ""),
    "result": "shy",
    "score": 70,
    "smtp_code": 250,
    "status": "valid",
}
NEWER = {"data": {**VERDICT, "mood": 1}, "message": "", "status": 200, "success": True}
"""Of a service that has learned a result and a field more than its client."""
AT, AT_2 = "Sat, 31 Jan 2026 08:00:00 GMT", "Sat, 31 Jan 2026 08:00:02 GMT"
NOW = 1_790_000_000
SECRET = "whsec_" + b64encode(b"a secret of thirty-two bytes ...").decode()
EVENT = json.dumps(
    {
        "id": "0192f1a4-5b6c-4d7e-8f90-a1b2c3d4e5f6",
        "type": "webhook.test",
        "created_at": "2026-01-31T08:00:00.000Z",
        "data": {"message": "J\u00e4ne"},
    },
    ensure_ascii=False,
).encode()
RESULTS = [["Jane", "jane@example.com", "passed"], ["Joe", "joe@@example.com", "syntax_error"]]
FOUND: dict[str, Any] = {
    "suggestion": "Did you mean jane@gmail.com?",
    "one": "mailbox_full",
    "many": ["deliverable", "mailbox_not_found", "deliverable"],
    "one_job": True,
    "followed": "completed",
    "counted": [1, 1],
    "csv": ["name,email,mailsift_result", *(",".join(row) for row in RESULTS)],
    "invalid": [{"email": "joe@@example.com", "mailsift_result": "syntax_error"}],
    "pages": [[2, "Joe", "syntax_error"], [1, "Jane", "passed"]],
    "one_rerun": True,
    "deleted": [404, "job_not_found"],
    "runs": 1,
    "delivered": True,
    "event": "webhook.test",
    "forged": [True, True, True],
    "events": ["bulk.validation.completed"],
    "rows_used": True,
}
"""What a session finds out, in every language."""
pytestmark = [pytest.mark.needs("generators", "node", "npm"), pytest.mark.timeout(600)]


def given() -> dict[str, Any]:
    """What the API may answer, in turn, and webhooks with the way each of them is seen."""
    stream = {"content-type": "text/event-stream"}
    answers: list[tuple[int, dict[str, str], str]] = [
        (429, {"retry-after": "soon, 1, 3"}, problem(429, "rate_limited")),  # the service's, and a proxy's
        (200, stream, f": still here\n\nevent: progress\ndata: {json.dumps(JOB)}\n\n"),  # and it breaks off
        (503, {"retry-after": "1"}, problem(503, "database_unavailable")),
        (200, stream, f"event: end\ndata: {json.dumps({**JOB, 'status': 'completed'})}\n\n"),
        (0, {}, ""),  # it is being restarted
        (502, {"content-type": "text/html"}, "<h1>Bad gateway</h1>"),  # a proxy stands before it
        (200, {"content-type": "application/json"}, json.dumps(ENDED)),
        (0, {}, ""),  # nobody knows whether a POST without a key arrived: once
        (503, {"retry-after": "1"}, problem(503, "database_unavailable")),  # a POST without a key: once
        (429, {"retry-after": "11"}, problem(429, "rate_limited")),  # longer than its patience
        (503, {"content-type": "text/html"}, "<h1>No server is available</h1>"),  # a proxy's own words
        (413, {"content-type": "application/json"}, '{"message": "Too long"}'),
        (200, {"content-type": "text/html"}, "<h1>Please sign in</h1>"),
        (
            429,
            {"date": AT, "retry-after": f"{AT}, {AT_2}"},
            problem(429, "rate_limited"),
        ),  # a proxy may say when, not how long
        (404, {}, problem(404, "not_found")),  # of no operation: the address has a path too many
        (200, {"content-type": "application/json"}, json.dumps(NEWER)),
        (-1, {"content-type": "application/json"}, ""),  # it breaks off after its headers
        *[(0, {}, "")] * 11,  # it does not come back
    ]
    limited = [answers[0], (202, {"content-type": "application/json"}, json.dumps(ENDED))]
    return {
        "answers": list(map(as_members, answers)),
        "limited": list(map(as_members, limited)),
        "webhooks": [one for one, _ in WEBHOOKS],
    }


def as_members(answer: tuple[int, dict[str, str], str]) -> dict[str, Any]:
    return dict(zip(("status", "headers", "body"), answer, strict=True))


def problem(status: int, code: str) -> str:
    members: dict[str, Any] = {
        "data": None,
        "message": code,
        "status": status,
        "success": False,
        "code": code,
        "errors": [],
    }
    texts = dict.fromkeys(("type", "title", "detail", "instance", "request_id"), "x")
    return json.dumps(members | texts)


def webhook(*, secret: str = SECRET, late: int = 0, body: bytes = EVENT, **headers: str) -> dict[str, Any]:
    """Sign a webhook with a library that is not ours; headers go over the right ones, "" takes one away."""
    signature = standardwebhooks.Webhook(SECRET).sign("msg", datetime.fromtimestamp(NOW, UTC), EVENT.decode())
    right = {"Webhook-Id": "msg", "webhook-timestamp": str(NOW), "webhook-signature": signature}
    sent = right | {name.replace("_", "-"): value.format(signature) for name, value in headers.items()}
    signed = {name: value for name, value in sent.items() if value}
    return {"secret": secret, "headers": signed, "body": b64encode(body).decode(), "now": NOW + late}


ANYBODYS = "v1," + b64encode(hmac.digest(b"", f"msg.{NOW}.".encode() + EVENT, "sha256")).decode()
WEBHOOKS = [
    (webhook(), True),
    (webhook(late=299), True),
    (webhook(late=-299), True),
    (webhook(late=301), False),
    (webhook(late=-301), False),
    (webhook(secret=SECRET.removeprefix("whsec_")), True),
    (webhook(secret="whsec_" + b64encode(b"another").decode()), False),
    (webhook(secret="whsec_?"), False),
    (webhook(body=EVENT + b"\n"), False),
    (webhook(webhook_signature="v1,AAAA v1a,x {}"), True),
    (webhook(webhook_signature="v1a,x v1,\u00e4 v1,"), False),
    (webhook(webhook_signature="v1,\udcff"), False),
    (webhook(secret="", webhook_signature=ANYBODYS), False),
    (webhook(secret="whsec_", webhook_signature=ANYBODYS), False),
    (webhook(secret="whsec_\u00e4"), False),
    (webhook(webhook_signature=""), False),
    (webhook(webhook_timestamp="soon"), False),
    (webhook(webhook_timestamp=f"{NOW}.0"), False),
    (webhook(webhook_timestamp=f"+{NOW}"), False),
]
CHECKED = {
    "followed": ["running", "completed"],
    "waited": "completed",
    "errors": [
        [0, ""],
        [503, "database_unavailable"],
        [429, "rate_limited"],
        [503, ""],
        [413, ""],
        [200, ""],
        [404, "not_found"],
    ],
    "newer": "shy",
    "broken": [0, ""],
    "gone": True,
    "asked": [
        *[f"GET /v1/bulk/jobs/{JOB['job_id']}/events"] * 4,
        *[f"GET /v1/bulk/jobs/{JOB['job_id']}"] * 3,
        *["POST /v1/email/single-validate"] * 10,
        *[f"GET /v1/bulk/jobs/{JOB['job_id']}/events"] * 11,
    ],
    "ages": [
        "not said",
        *[0] * 7,
        *["not said"] * 2,
    ],  # a service that is older than the field would refuse even null
    # for a limit, before the stream is taken up again, for a service that is away, three times, until a date,
    # and for a service that stays away
    "waits": 5 + 1 + 10,
    "webhooks": [good for _, good in WEBHOOKS],
}


class Proxy(BaseHTTPRequestHandler):
    """Answers for whoever is asked."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(NEWER).encode())


@contextmanager
def proxy() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_the_python_client_fits_the_api_and_goes_through_its_session(
    packages: Path, service: Service, tmp_path: Path
) -> None:
    folder = packages / "python"
    mypy = (
        sys.executable,
        "-m",
        "mypy",
        "--config-file",
        "pyproject.toml",
        "--cache-dir",
        tmp_path / "types",
    )
    run(folder, *mypy, "mailsift_client", "examples", "tests", MYPYPATH=".")
    build = (sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", tmp_path, ".")
    run(folder, *build)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        wheel.extractall(tmp_path / "installed")
    python, installed = (sys.executable, "-W", "error"), str(tmp_path / "installed")
    for session in ("session", "async_session"):
        words = (folder / f"examples/{session}.py", service.url, service.key(session))
        assert json.loads(run(tmp_path, *python, *words, PYTHONPATH=installed)) == FOUND, session
    for checks in ("checks", "async_checks"):
        with proxy() as url:
            asked = json.dumps({**given(), "proxy": url})
            output = run(tmp_path, *python, folder / f"tests/{checks}.py", stdin=asked, PYTHONPATH=installed)
        expected = {
            **CHECKED,
            "refused": [True] * 8,  # the name of a file, a file opened as text, a frame …
            "sent": ["email\na@b.co\n"] * 2,  # of a file, from where it stood, again after a limit
            "piped": [429, ["email\na@b.co\n"]],  # there is no more of it
            "proxied": ["shy", "", "", ""],  # not where the environment says so, nor this machine
        }
        expected |= {} if checks == "checks" else {"webhooks": []}
        assert json.loads(output) == expected, checks


def test_the_typescript_client_fits_the_api_and_goes_through_its_session(
    packages: Path, service: Service, tmp_path: Path
) -> None:
    folder, modules = packages / "typescript", tmp_path / "node_modules"
    compiler = folder / "node_modules/.bin/tsc"
    run(folder, compiler)
    run(folder, compiler, "--project", "examples")
    run(folder, "npm", "pack", "--offline", "--silent", "--pack-destination", tmp_path)
    modules.mkdir()
    run(tmp_path, "tar", "--extract", "--directory", modules, "--file", next(tmp_path.glob("*.tgz")))
    (modules / "package").rename(modules / "mailsift-client")
    (modules / "openapi-fetch").symlink_to(GENERATORS / "node_modules/openapi-fetch")
    shutil.copy(folder / "examples/session.mjs", tmp_path)
    output = run(tmp_path, "node", "session.mjs", service.url, service.key("typescript"))
    assert json.loads(output) == FOUND
    shutil.copy(folder / "tests/checks.mjs", tmp_path)
    checked = json.loads(run(tmp_path, "node", "checks.mjs", stdin=json.dumps(given())))
    assert checked == {**CHECKED, "aborted": ["AbortError"] * 11}
    shutil.copy(folder / "tests/memory.mjs", tmp_path)
    size = 300 << 20
    with (tmp_path / "big").open("wb") as big:
        big.truncate(size)
    kept = json.loads(run(tmp_path, "node", "memory.mjs", "big"))
    assert kept["came"] == [size, size]
    assert kept["more"] < 1.6 * size
