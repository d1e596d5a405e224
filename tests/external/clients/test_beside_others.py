"""What stands between Mailsift and other programs: n8n's own engine runs the node; listmonk is asked."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from typing_extensions import override

from mailsift.pipeline.clock import system_clock
from tests.external.clients.conftest import Service, run

pytestmark = [pytest.mark.needs("generators", "node", "npm"), pytest.mark.timeout(300)]

EMAIL = "={{ $json.email }}"
JOB = "={{ $json.job_id }}"
PEOPLE: list[dict[str, Any]] = [
    {"json": {"email": "jane@example.com", "n": 1}},
    {"json": {"email": "joe@@example.com", "n": 2}},
]
FILE = {
    "data": b64encode(b"name;mail\nJane;jane@example.com\nJoe;joe@@example.com\n").decode(),
    "mimeType": "text/csv",
    "fileName": "people.csv",
}
NAMES = ("MAILSIFT_URL", "MAILSIFT_KEY", "LISTMONK_URL", "LISTMONK_USER", "LISTMONK_TOKEN")
NOT_FOUND = "There is nothing here."


def workflow(items: list[dict[str, Any]], *steps: dict[str, Any]) -> dict[str, Any]:
    return {"items": items, "steps": steps}


@pytest.fixture(scope="module")
def n8n(packages: Path) -> Path:
    """The folder of the node, compiled."""
    folder = packages / "n8n"
    run(folder, folder / "node_modules/.bin/tsc")
    return folder


def test_the_n8n_node_does_what_it_offers(service: Service, n8n: Path, tmp_path: Path) -> None:
    followed: tuple[dict[str, Any], ...] = (
        {"operation": "wait", "jobId": JOB},
        {"operation": "results", "jobId": JOB},
    )
    missing: dict[str, Any] = {"operation": "results", "jobId": "nobody's"}
    workflows = [
        workflow(PEOPLE * 60, {"operation": "check", "mode": "fast", "email": EMAIL}),
        workflow(PEOPLE, {"operation": "submit", "mode": "fast", "email": EMAIL}, *followed),
        workflow(
            [{"json": {}, "binary": {"upload": FILE}}],
            {"operation": "submitFile", "mode": "fast", "binary": "upload"},
            followed[0],
            {**followed[1], "status": ["invalid"]},
        ),
        workflow([{"json": {}}], missing),
        workflow([{"json": {"kept": 1}}], {**missing, "onError": "continueRegularOutput"}),
    ]
    output = run(
        n8n,
        "node",
        "tests/workflow.cjs",
        service.url,
        service.key("n8n"),
        stdin=json.dumps(workflows),
        N8N_USER_FOLDER=str(tmp_path),
    )
    checked, listed, filed, failed, went_on = json.loads(output.splitlines()[-1])
    assert [one["mailsift"]["result"] for one in checked] == ["passed", "syntax_error"] * 60
    assert [one["n"] for one in checked] == [1, 2] * 60  # what an item had, it keeps
    assert [(row["email"], row["status"]) for row in listed] == [
        ("jane@example.com", "valid"),
        ("joe@@example.com", "invalid"),
    ]
    assert [(row["email"], row["result"]) for row in filed] == [("joe@@example.com", "syntax_error")]
    assert failed["said"] == NOT_FOUND
    assert [one["kept"] for one in went_on] == [1]
    assert went_on[0]["error"]


def test_one_item_that_fails_takes_nothing_from_the_others_where_a_workflow_goes_on(
    service: Service, n8n: Path, tmp_path: Path
) -> None:
    key = service.key("n8n-goes-on")
    file = {"json": {}, "binary": {"upload": FILE}}
    empty = {"json": {"kept": 1}, "binary": {"upload": {**FILE, "data": ""}}}
    goes_on = {"mode": "fast", "binary": "upload", "jobId": JOB, "email": EMAIL}
    goes_on |= {"onError": "continueRegularOutput"}
    too_long = {"json": {"email": "x" * 2_000}}
    workflows = [
        workflow(
            [file, empty], *({**goes_on, "operation": one} for one in ("submitFile", "wait", "results"))
        ),
        workflow([*PEOPLE * 50, too_long], {**goes_on, "operation": "check"}),
    ]
    words = ("node", "tests/workflow.cjs", service.url, key)
    output = run(n8n, *words, stdin=json.dumps(workflows), N8N_USER_FOLDER=str(tmp_path))
    (*rows, failed), checked = json.loads(output.splitlines()[-1])
    assert [row["email"] for row in rows] == ["jane@example.com", "joe@@example.com"]
    assert (failed["kept"], bool(failed["error"])) == (1, True)
    assert [bool(one.get("mailsift")) for one in checked] == [True] * 100 + [False]
    assert checked[-1]["error"]


class Listmonk(BaseHTTPRequestHandler):
    """As much of listmonk as its API says of these resources: newest first, in pages, JSON in `data`."""

    rows: dict[str, list[dict[str, Any]]]
    changes: list[tuple[str, Any]]
    page: bytes = b""  # what a proxy before it answers instead

    def do_GET(self) -> None:
        place = urlsplit(self.path)
        wanted = {name: value[0] for name, value in parse_qs(place.query).items()}
        assert self.headers["authorization"] == "token mailsift:secret"
        assert (wanted["order_by"], wanted["order"]) == ("created_at", "desc")
        page, size = int(wanted["page"]), min(2, int(wanted["per_page"]))  # it may give fewer than asked for
        rows = self.rows[place.path.removeprefix("/api/")]
        newest = sorted(rows, key=lambda row: str(row["created_at"]), reverse=True)
        some = newest[(page - 1) * size : page * size]
        self._answer({"results": some, "total": len(rows) if some else 0, "page": page})

    def do_PUT(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.changes.append((self.path.removeprefix("/api"), body))
        self._answer({})

    def _answer(self, data: object) -> None:
        body = self.page or json.dumps({"data": data}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def listmonk(**rows: list[dict[str, Any]]) -> Iterator[tuple[str, type[Listmonk]]]:
    handler = type("Handler", (Listmonk,), {"rows": rows, "changes": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", handler
        server.shutdown()
        thread.join()


LONG_AGO = "2025-01-01T08:00:00.123456+01:00"


def subscriber(number: int, email: str, status: str = "enabled") -> dict[str, Any]:
    return {"id": number, "email": email, "status": status, "created_at": f"2026-01-0{number}T08:00:00+01:00"}


def bounce(number: int, email: str, kind: str, **meta: str) -> dict[str, Any]:
    when = f"2026-01-0{number}T08:00:00.123456+01:00"
    return {"id": number, "email": email, "type": kind, "source": "api", "meta": meta, "created_at": when}


def test_listmonks_new_subscribers_are_checked_and_its_bounces_told(
    service: Service, packages: Path, tmp_path: Path
) -> None:
    subscribers = [
        subscriber(1, "jane@example.com"),
        subscriber(2, "joe@@example.com"),
        subscriber(3, "gone@@example.com", "blocklisted"),
        subscriber(4, "ada@example.com"),
        subscriber(5, "broken@example..com"),
    ]
    bounces = [
        bounce(1, "jane@example.com", "hard", message="550 5.1.1 User unknown"),
        bounce(2, "ada@example.com", "soft"),
        bounce(3, "joe@example.com", "complaint"),
    ]
    key, state = service.key("listmonk", test=False), tmp_path / "state.json"
    mypy = (
        sys.executable,
        "-m",
        "mypy",
        "--config-file",
        "pyproject.toml",
        "--cache-dir",
        tmp_path / "types",
    )
    run(packages / "listmonk", *mypy, "mailsift_listmonk", MYPYPATH=str(packages / "python"))
    with listmonk(subscribers=subscribers, bounces=bounces) as (url, there):
        places = dict(zip(NAMES, (service.url, key, url, "mailsift", "secret"), strict=True))

        def work() -> list[tuple[str, Any]]:
            there.changes.clear()
            hook = (sys.executable, "-m", "mailsift_listmonk.hook", "--once", "--mode", "fast")
            run(
                tmp_path,
                *hook,
                *("--state", state, "--valid-list", "7", "--blocklist", "invalid"),
                PYTHONPATH=f"{packages / 'python'}:{packages / 'listmonk'}",
                **places,
            )
            return sorted(there.changes, key=str)

        added = {"ids": [1, 4], "action": "add", "target_list_ids": [7], "status": "confirmed"}
        assert work() == [("/subscribers/blocklist", {"ids": [2, 5]}), ("/subscribers/lists", added)]
        assert how_far(state) == {"subscriber": 5, "lately": [], "bounce": 3, "bounces": 3}
        subscribers.append(subscriber(6, "late@@example.com"))
        bounces.append({**bounce(4, "ada@example.com", "hard"), "created_at": LONG_AGO})  # as its mail says
        assert work() == [("/subscribers/blocklist", {"ids": [6]})]
        assert work() == []
    assert how_far(state) == {"subscriber": 6, "lately": [], "bounce": 4, "bounces": 4}
    jane = {"email": "jane@example.com", "event": "hard", "message_id": "listmonk-bounce-1"}
    jane |= {"timestamp": "2026-01-01T08:00:00.123456+01:00", "diagnostic": "550 5.1.1 User unknown"}
    ada = {"email": "ada@example.com", "event": "hard", "message_id": "listmonk-bounce-4", "diagnostic": ""}
    taken = httpx.post(
        f"{service.url}/v1/outcomes",
        headers={"authorization": f"Bearer {key}", "content-type": "application/jsonl"},
        content=f"{json.dumps(jane)}\n{json.dumps({**ada, 'timestamp': LONG_AGO})}",
    )
    assert taken.json()["data"] == {"taken": 0, "repeated": 2, "malformed": 0}


def how_far(state: Path) -> dict[str, Any]:
    """What the hook remembers, but for the time of day."""
    return {name: value for name, value in json.loads(state.read_text()).items() if name != "looked_at"}


def test_subscribers_that_an_import_shows_late_are_checked(
    service: Service, packages: Path, tmp_path: Path
) -> None:
    began = datetime.fromtimestamp(system_clock(), UTC)
    signed_up = {**subscriber(4, "late@@example.com"), "created_at": began.isoformat()}
    rows = [subscriber(1, "old@@example.com"), signed_up]
    state, key = tmp_path / "state.json", service.key("import")
    with listmonk(subscribers=rows, bounces=[]) as (url, there):
        places = dict(zip(NAMES, (service.url, key, url, "mailsift", "secret"), strict=True))
        places["PYTHONPATH"] = f"{packages / 'python'}:{packages / 'listmonk'}"
        hook = (sys.executable, "-m", "mailsift_listmonk.hook", "--once", "--mode", "fast")

        def blocklisted() -> list[int]:
            there.changes.clear()
            run(tmp_path, *hook, "--state", state, **places)
            return [number for _, change in there.changes for number in change["ids"]]

        assert blocklisted() == [1, 4]
        before = (began - timedelta(minutes=1)).isoformat()  # its transaction began earlier
        rows += [{**subscriber(number, f"{number}@@example.com"), "created_at": before} for number in (2, 3)]
        assert blocklisted() == [2, 3]
        assert blocklisted() == []
    assert how_far(state) == {"subscriber": 4, "lately": [2, 3, 4], "bounce": 0, "bounces": 0}


@pytest.mark.parametrize("page", [b"<h1>Please sign in</h1>", b"[]", b'{"message": "no"}', b'{"data": null}'])
def test_an_answer_that_is_none_of_listmonks_is_said_and_asked_for_again_later(
    service: Service, packages: Path, tmp_path: Path, page: bytes
) -> None:
    with listmonk(subscribers=[subscriber(1, "jane@example.com")], bounces=[]) as (url, there):
        there.page = page
        places = dict(zip(NAMES, (service.url, service.key("page"), url, "mailsift", "secret"), strict=True))
        done = subprocess.run(
            [sys.executable, "-m", "mailsift_listmonk.hook", "--once", "--state", tmp_path / "state.json"],
            env={"PYTHONPATH": f"{packages / 'python'}:{packages / 'listmonk'}", **places},
            capture_output=True,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert done.stderr.startswith("mailsift-listmonk: ")
