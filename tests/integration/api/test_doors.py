"""Doors for other people's clients: closed unless opened, with keys of their own that are in no log."""

from __future__ import annotations

import asyncio
import csv
import json
import logging
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from mailsift.accounts.doors import Door
from mailsift.accounts.keys import KeyKind, is_key, kind_of
from mailsift.api.doors import emailable, find_door, kickbox, neverbounce, reacher, zerobounce
from mailsift.api.metrics import METRICS
from mailsift.container import open_container
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.scripted import ADDRESSES
from mailsift.pipeline.verdict import Result
from mailsift.settings import Settings
from tests.integration.api.conftest import running
from tests.support.captured_logs import our_logs
from tests.support.installation import until
from tests.support.leftovers import in_redis, in_tables

if TYPE_CHECKING:
    from tests.integration.api.conftest import Api

SINGLE = "/v1/email/single-validate"
BY_URL = {Door.KICKBOX, Door.NEVERBOUNCE, Door.ZEROBOUNCE}  # these clients put the key there
DEEP = {one: email for one, email in ADDRESSES.items() if one not in {Result.PASSED, Result.UNKNOWN_SUFFIX}}


async def door_key(api: Api, door: Door, account: str = "alice") -> str:
    async with open_container(api.settings) as container:
        owner = await container.jobs.account(account)
        return (await container.keys.create(owner, kind=KeyKind(test=True, door=door))).secret


FORM = {"content-type": "multipart/form-data; boundary=b"}
FILE = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\n\r\n'


def _part(name: str, value: str) -> bytes:
    return f'--b\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()


@asynccontextmanager
async def _begun_upload(api: Api, head: bytes, begun: bytes) -> AsyncIterator[asyncio.StreamReader]:
    """Begin to send a form of 200 kB, of which no more than this comes; gives what is answered to that."""
    host, _, port = urlsplit(api.url).netloc.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    kind = f"content-type: {FORM['content-type']}\r\n".encode()
    writer.write(head + b"\r\nHost: x\r\n" + kind + b"Content-Length: 200000\r\n\r\n" + begun)
    try:
        yield reader
    finally:
        writer.close()
        await writer.wait_closed()


async def ask(client: httpx.AsyncClient, door: Door, key: str, email: str) -> httpx.Response:
    """Ask about one address as the clients of this door do."""
    if door is Door.EMAILABLE:
        headers = {"Authorization": f"Bearer {key}"}
        return await client.get("/v1/verify", params={"email": email}, headers=headers)
    if door is Door.KICKBOX:
        return await client.get("/v2/verify", params={"email": email, "apikey": key})
    if door is Door.NEVERBOUNCE:
        return await client.get("/v4/single/check", params={"email": email, "key": key})
    if door is Door.REACHER:
        headers = {"Authorization": key}
        return await client.post("/v1/check_email", json={"to_email": email}, headers=headers)
    return await client.get("/v2/validate", params={"email": email, "api_key": key})


def code_in(door: Door, answer: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the code of an answer."""
    names = {
        Door.EMAILABLE: ("state", "reason"),
        Door.KICKBOX: ("result", "reason"),
        Door.NEVERBOUNCE: ("result",),
        Door.REACHER: ("is_reachable",),
        Door.ZEROBOUNCE: ("status", "sub_status"),
    }
    return tuple(answer[name] for name in names[door])


@contextmanager
def _held_up(patch: pytest.MonkeyPatch, place: str) -> Iterator[tuple[threading.Event, threading.Event]]:
    """Let a function wait, each time it is called; gives what says that it does, and what lets it go on."""
    module, _, name = place.rpartition(".")
    held, begun, go_on = getattr(import_module(module), name), threading.Event(), threading.Event()

    def waiting(*about: Any, **more: Any) -> Any:
        begun.set()
        assert go_on.wait(20), "nobody else was answered meanwhile"
        return held(*about, **more)

    with patch.context() as within:
        within.setattr(place, waiting)
        yield begun, go_on


def _as_cells(row: Mapping[str, Any], way: str = "") -> dict[str, str]:
    """Return what one of Reacher's rows says in JSON as a file says it."""
    cells: dict[str, str] = {}
    for name, value in row.items():
        if isinstance(value, dict):
            cells |= _as_cells(value, f"{way}{name}.")
        else:
            cells[way + name] = value if isinstance(value, str) else json.dumps(value).replace("null", "")
    return cells


TABLES = {
    Door.EMAILABLE: emailable.CODES,
    Door.KICKBOX: kickbox.CODES,
    Door.NEVERBOUNCE: neverbounce.CODES,
    Door.REACHER: reacher.CODES,
    Door.ZEROBOUNCE: zerobounce.CODES,
}
CONTRACT = {
    **dict.fromkeys(("reason", "result", "status", "suggestion"), str),
    **dict.fromkeys(("score", "smtp_code"), int),
    **dict.fromkeys(("catch_all", "is_disposable", "is_free", "is_role_based"), bool),
    **dict.fromkeys(("is_valid", "mx_valid", "syntax_valid"), bool),
}
REFUSED: Mapping[Door, tuple[int, dict[str, Any]]] = {
    Door.EMAILABLE: (401, {"message": "…"}),
    Door.KICKBOX: (403, {"message": "…", "success": False}),
    Door.NEVERBOUNCE: (200, {"status": "auth_failure", "message": "…", "execution_time": 0}),
    Door.REACHER: (401, {"error": "…"}),
    Door.ZEROBOUNCE: (200, {"error": "…"}),
}
"""What an unknown key is answered; the sentence is ours."""


def without_sentence(content: Mapping[str, Any]) -> dict[str, Any]:
    return {name: "…" if name in {"message", "error"} else value for name, value in content.items()}


async def _misused(client: httpx.AsyncClient, door: Door, key: str) -> list[httpx.Response]:
    """Use a key well and badly, wherever clients put one."""
    emails = ("canary7d@example.com", "", "canary7d\x00@example.com")
    paths = ("/v2/validate", "/v2/filestatus", "/v4.2/jobs/status", "/v1/account")
    names = ("api_key", "apikey", "key", "access_token")
    return [
        *[await ask(client, door, key, email) for email in emails],
        *[await client.get(path, params={name: key, "job_id": key}) for path in paths for name in names],
        await client.put(f"/v2/verify-batch?apikey={key}", content=b""),
        await client.post(f"/v2/sendfile?api_key={key}", content=b"x"),
        await client.post(f"/v4/jobs/create?key={key}", content=b"{"),
        await client.delete(f"/v2/validate?api_key={key}"),
        await client.get(f"/v2/nothing?apikey={key}"),
    ]


class TestClosed:
    async def test_a_door_that_nobody_opened_is_not_there(self, api: Api, client: httpx.AsyncClient) -> None:
        for door in Door:
            key = await door_key(api, door)
            assert (await ask(client, door, key, "jane@example.com")).status_code == 404
        assert (await client.post("/v2/sendfile?api_key=x", files={"file": b"a@b.test"})).status_code == 404
        paths = (await client.get("/openapi.json")).json()["paths"]
        assert [path for path in paths if not path.startswith(("/v1/", "/health", "/ready"))] == []

    async def test_the_key_comes_in_its_other_header_only_where_that_is_allowed(
        self, api: Api, settings: Settings
    ) -> None:
        key = await api.key("alice")
        body = {"email": "jane@example.com", "mode": "fast"}
        async with httpx.AsyncClient(base_url=api.url) as bare:
            assert (await bare.post(SINGLE, json=body, headers={"X-RB-Key": key})).status_code == 401
        other = settings.model_copy(update={"rb_key": True})
        async with running(other) as open_api, httpx.AsyncClient(base_url=open_api.url) as bare:
            asked = {"X-RB-Key": key, "Accept": "application/json"}  # as the contract's PHP client does
            answer = await bare.post(SINGLE, json=body, headers=asked)
            assert (answer.status_code, answer.json()["success"]) == (200, True)
            assert {name: type(value) for name, value in answer.json()["data"].items()} == CONTRACT
            both = {"X-RB-Key": key, "Authorization": f"Bearer {key}"}
            assert (await bare.post(SINGLE, json=body, headers=both)).status_code == 400
            twice = [("X-RB-Key", key), ("X-RB-Key", key)]
            assert (await bare.post(SINGLE, json=body, headers=twice)).status_code == 400
            refused = await bare.post(SINGLE, json=body, headers={"X-RB-Key": key[:-1]})
            assert (refused.status_code, refused.json()["success"]) == (401, False)
            assert refused.json()["message"]
            assert (await bare.post(SINGLE, json=body)).status_code == 401
            old = {"Authorization": f"Bearer {key}"}
            assert (await bare.post(SINGLE, json=body, headers=old)).status_code == 200


class TestOpen:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return settings.model_copy(update={"doors": tuple(Door), "log_level": "debug"})

    async def test_every_result_is_called_as_the_table_says(self, api: Api) -> None:
        async with httpx.AsyncClient(base_url=api.url, timeout=60) as client:
            for door in Door:
                key = await door_key(api, door)
                assert is_key(key)
                assert kind_of(key).door is door
                for result, email in DEEP.items():
                    answer = await ask(client, door, key, email)
                    assert answer.status_code == 200, answer.text
                    assert answer.headers["mailsift-mode"] == "test"
                    assert "ratelimit" in answer.headers
                    assert code_in(door, answer.json()) == TABLES[door].usual[result]
                role = await ask(client, door, key, "info@example.com")
                assert code_in(door, role.json()) == TABLES[door].named(Result.DELIVERABLE, role=True)
                slip = await ask(client, door, key, "jane@gmaill.com")
                assert "jane@gmail.com" in slip.text

    async def test_each_key_opens_its_door_and_no_other(self, api: Api) -> None:
        keys = {door: await door_key(api, door) for door in Door} | {None: await api.key("alice")}
        async with httpx.AsyncClient(base_url=api.url) as client:
            for door in Door:
                for made_for, key in keys.items():
                    answer = await ask(client, door, key, "jane@example.com")
                    if made_for is door:
                        code_in(door, answer.json())
                    elif made_for is None and door in BY_URL:
                        shape = find_door(door).show("", MailsiftError("key_in_query", "…"), 400)
                        found = (answer.status_code, without_sentence(answer.json()))
                        assert found == (shape.status, shape.content)
                    else:
                        assert (answer.status_code, without_sentence(answer.json())) == REFUSED[door]
                key = keys[door]
                refused = await client.post(
                    SINGLE, json={"email": "a@b.test"}, headers={"Authorization": f"Bearer {key}"}
                )
                assert refused.status_code == 401
                assert (await client.get(f"/v1/usage?x={key}")).status_code == 400

    async def test_what_a_service_has_beside_is_not_there_and_its_key_is_not_called_leaked(
        self, api: Api
    ) -> None:
        async with httpx.AsyncClient(base_url=api.url) as client:
            for door, name, path in (
                (Door.ZEROBOUNCE, "api_key", "/v2/getapiusage"),
                (Door.ZEROBOUNCE, "api_key", "/v2/scoring/sendfile"),
                (Door.NEVERBOUNCE, "key", "/v4/poe/confirm"),
                (Door.NEVERBOUNCE, "key", "/v4.2/poe/confirm"),
                (Door.KICKBOX, "apikey", "/v2/authenticate/x"),
            ):
                answer = await client.get(path, params={name: await door_key(api, door)})
                assert (answer.status_code, answer.json()["code"]) == (404, "not_found"), path
            leaked = await client.get("/v2/getapiusage", params={"api_key": await api.key("alice")})
            assert (leaked.status_code, leaked.json()["code"]) == (400, "key_in_query")

    async def test_requests_at_a_door_count_like_all_others(self, settings: Settings) -> None:
        tight = settings.model_copy(update={"requests_per_minute": 5})
        async with running(tight) as api, httpx.AsyncClient(base_url=api.url) as client:
            for door, status in (
                (Door.EMAILABLE, 429),
                (Door.KICKBOX, 429),
                (Door.NEVERBOUNCE, 200),
                (Door.REACHER, 429),
                (Door.ZEROBOUNCE, 429),
            ):
                key = await door_key(api, door, account=door.value)
                for _ in range(5):
                    code_in(door, (await ask(client, door, key, "jane@example.com")).json())
                answer = await ask(client, door, key, "jane@example.com")
                assert answer.status_code == status
                assert int(answer.headers["retry-after"]) >= 1
                assert "Too many requests" in answer.text

    async def test_a_key_in_an_url_is_in_no_log_no_metric_and_no_table(
        self, settings: Settings, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with our_logs(logging.DEBUG):
            async with running(settings) as api, httpx.AsyncClient(base_url=api.url) as client:
                keys = {door: await door_key(api, door) for door in Door}
                broken = [one for door, key in keys.items() for one in await _misused(client, door, key)]
        assert {answer.status_code for answer in broken} <= {200, 400, 401, 403, 404, 405, 422}
        told_of = capsys.readouterr().err
        registry = CollectorRegistry()
        for metric in METRICS:
            registry.register(metric)
        counted = generate_latest(registry).decode()
        for key in keys.values():
            middle = key.rpartition("_")[2][4:-10]
            assert middle not in told_of
            assert middle not in counted
            assert all(middle not in answer.text for answer in broken)
            assert await in_tables(settings, middle) == set()
            assert await in_redis(settings, middle) == set()
        assert "canary7d" not in told_of + counted
        assert "/v2/validate" in told_of

    @pytest.mark.usefixtures("worker")
    async def test_lists_of_reachers_clients_have_numbers_and_pages(self, api: Api) -> None:
        emails = [*DEEP.values(), "info@example.com"]
        key, stranger = await door_key(api, Door.REACHER), await door_key(api, Door.REACHER, "bob")
        async with httpx.AsyncClient(base_url=api.url, headers={"x-reacher-secret": key}) as client:
            made = await client.post("/v1/bulk", json={"input": emails})
            number = made.json()["job_id"]
            assert 0 <= number < 2**53
            found: dict[str, Any] = {}

            async def over() -> bool:
                found.update((await client.get(f"/v1/bulk/{number}")).json())
                return bool(found["finished_at"])

            await until(over, within=120)
            assert (found["job_status"], found["total_records"]) == ("Completed", len(emails))
            rows: list[dict[str, Any]] = []
            for offset in range(0, len(emails), 7):
                page = {"limit": 7, "offset": offset}
                rows += (await client.get(f"/v1/bulk/{number}/results", params=page)).json()["results"]
            expected = [reacher.CODES.usual[one][0] for one in DEEP] + ["risky"]
            assert [row["is_reachable"] for row in rows] == expected
            assert [row["input"] for row in rows] == emails
            counts = {f"total_{word}": expected.count(word) for word in set(expected)}
            assert found["summary"] == counts
            results = f"/v1/bulk/{number}/results"
            file = await client.get(results, params={"format": "csv"})
            assert file.headers["content-type"].startswith("text/csv")
            lines = [*csv.DictReader(file.text.splitlines())]
            assert lines == [_as_cells(row) for row in rows]
            part = await client.get(results, params={"format": "csv", "offset": 3, "limit": 4})
            assert [*csv.DictReader(part.text.splitlines())] == lines[3:7]
            assert (await client.get(results, params={"format": "xml"})).status_code == 400
            bob = {"x-reacher-secret": stranger}
            assert (await client.get(f"/v1/bulk/{number}", headers=bob)).status_code == 404
            assert (await client.get(f"/v1/bulk/{number + 1}")).json() == {"error": "There is no such job."}
            bad: list[dict[str, Any]] = [{}, {"input": []}, {"input": [7]}]
            for body in (*bad, {"input": ["a@b.test"], "webhook": {"x": 1}}):
                assert (await client.post("/v1/bulk", json=body)).status_code == 400

    @pytest.mark.usefixtures("worker")
    @pytest.mark.parametrize("door", [Door.EMAILABLE, Door.REACHER])
    async def test_nobody_waits_while_a_long_list_is_written_for_another(
        self, api: Api, door: Door, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        key = await door_key(api, door)
        headers = {"Authorization": f"Bearer {key}"}
        async with httpx.AsyncClient(base_url=api.url, headers=headers, timeout=60) as client:
            if door is Door.EMAILABLE:
                sent = await client.post("/v1/batch", json={"emails": ["a@example.com"]})
                path, asked = "/v1/batch", {"id": sent.json()["id"]}
            else:
                sent = await client.post("/v1/bulk", json={"input": ["a@example.com"]})
                path, asked = f"/v1/bulk/{sent.json()['job_id']}/results", {}

            async def over() -> bool:
                answer = await client.get(path, params=asked)
                return answer.status_code == 200 and bool(answer.json().keys() & {"emails", "results"})

            await until(over, within=60)
            with _held_up(monkeypatch, f"{find_door.__module__}.{door}.shape") as (begun, go_on):
                answer = asyncio.create_task(client.get(path, params=asked))
                assert await asyncio.to_thread(begun.wait, 20)
                assert (await client.get("/healthz")).status_code == 200
                go_on.set()
                assert (await answer).status_code == 200

    @pytest.mark.parametrize(
        ("door", "path", "body", "takes"),
        [
            (Door.EMAILABLE, "/v1/batch?api_key={}", {"emails": ["a@b.test"]}, "entry.emails_as_lines"),
            (Door.REACHER, "/v1/bulk", {"input": ["a@b.test"]}, "entry.emails_as_lines"),
            (Door.NEVERBOUNCE, "/v4/jobs/create?key={}", {"input": ["a@b.test"]}, "entry.supplied_rows"),
        ],
    )
    async def test_nobody_waits_while_a_long_list_is_read_for_another(
        self,
        api: Api,
        door: Door,
        path: str,
        body: dict[str, Any],
        takes: str,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        key = await door_key(api, door)
        headers = {"x-reacher-secret": key}
        async with httpx.AsyncClient(base_url=api.url, headers=headers, timeout=60) as client:
            with _held_up(monkeypatch, f"{find_door.__module__}.{takes}") as (begun, go_on):
                answer = asyncio.create_task(client.post(path.format(key), json=body))
                assert await asyncio.to_thread(begun.wait, 20)
                assert (await client.get("/healthz")).status_code == 200
                go_on.set()
                assert (await answer).status_code == 200

    async def test_a_file_name_cut_within_a_letter_breaks_no_answer(self, api: Api) -> None:
        key = await door_key(api, Door.NEVERBOUNCE)
        cut = {"key": key, "input": ["a@b.test"], "filename": "caf\ud83d\x00.csv"}
        async with httpx.AsyncClient(base_url=api.url) as client:
            made = await client.post("/v4/jobs/create", content=json.dumps(cut))
            asked = {"key": key, "job_id": made.json()["job_id"]}
            assert (await client.post("/v4/jobs/status", json=asked)).json()["filename"] == "caf.csv"
            found = await client.post("/v4/jobs/search", content=json.dumps({**cut, "input": None}))
            assert found.json()["query"]["filename"] == "caf.csv"
            assert [one["filename"] for one in found.json()["results"]] == ["caf.csv"]

    @pytest.mark.parametrize(
        ("head", "begun"),
        [
            (b"POST /v2/sendfile HTTP/1.1", _part("api_key", "svc_zerobounce_x") + FILE),
            (b"POST /v2/sendfile?api_key=x HTTP/1.1", FILE),
            (b"PUT /v2/verify-batch?apikey=x HTTP/1.1", b""),
            (b"POST /v4/jobs/create?key=x HTTP/1.1", b""),
            (b"POST /v1/batch HTTP/1.1\r\nAuthorization: Bearer x", b""),
            (b"POST /v1/bulk HTTP/1.1\r\nx-reacher-secret: x", b""),
            (b"POST /v1/bulk HTTP/1.1", b""),
        ],
    )
    async def test_a_wrong_key_before_a_list_is_refused_before_the_list(
        self, api: Api, head: bytes, begun: bytes
    ) -> None:
        async with _begun_upload(api, head, begun) as answer:
            status = (await answer.readline()).split(b" ")[1]
            answered = await answer.readuntil(b"}")
        assert status in {b"200", b"401", b"403"}
        assert b"A valid API key is needed" in answered

    async def test_a_key_may_stand_behind_its_list(self, api: Api) -> None:
        key = await door_key(api, Door.ZEROBOUNCE)
        for fields in (
            [_part("api_key", key), FILE + b"a@b.test\n" * 30_000],
            [FILE + b"a@b.test\n" * 30_000],
        ):
            last = b"" if len(fields) > 1 else b"\r\n" + _part("api_key", key).rstrip(b"\r\n")
            body = b"".join(fields) + last + b"\r\n--b--\r\n"
            async with httpx.AsyncClient(base_url=api.url) as client:
                made = await client.post("/v2/sendfile", content=body, headers=FORM)
            assert (made.status_code, made.json()["success"]) == (200, True), made.text

    @pytest.mark.parametrize("head", [b"POST /v2/sendfile HTTP/1.1", b"POST /v4/jobs/create HTTP/1.1"])
    async def test_strangers_hold_no_more_than_one_list_may_have(
        self, settings: Settings, head: bytes
    ) -> None:
        async with running(settings.model_copy(update={"max_bytes": 300_000})) as api:
            async with AsyncExitStack() as stack:
                begun = FILE + b"a" * 150_000
                uploads = [await stack.enter_async_context(_begun_upload(api, head, begun)) for _ in range(4)]
                answers = [asyncio.create_task(one.readuntil(b"\r\n\r\n")) for one in uploads]
                answered, others = await asyncio.wait(answers, return_when=asyncio.FIRST_COMPLETED)
                assert all(b" 503 " in one.result() and b"retry-after" in one.result() for one in answered)
                for one in others:
                    one.cancel()

            whole = FILE + b"a" * 200_000 + b"\r\n--b--\r\n"

            async def room() -> bool:
                async with httpx.AsyncClient(base_url=api.url) as client:
                    refused = await client.post("/v2/sendfile", content=whole, headers=FORM)
                return refused.status_code == 401

            await until(room, within=30)  # once they have gone
