"""Requests that should not be: a clean 4xx in the one envelope, and nothing of them comes back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from api.keys import Scope

if TYPE_CHECKING:
    from tests.integration.api.conftest import Api

SINGLE, JOBS = "/v1/email/single-validate", "/v1/bulk/jobs"
MEMBERS = {
    "data",
    "message",
    "status",
    "success",
    "type",
    "title",
    "detail",
    "instance",
    "code",
    "request_id",
    "errors",
}
JSON = {"content-type": "application/json"}
CANARY = "canary-7f3a"


def _checked(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    told: dict[str, Any] = answer.json()
    assert (answer.status_code, told["code"]) == (status, code), answer.text
    assert set(told) == MEMBERS
    assert (told["status"], told["success"], told["data"]) == (status, False, None)
    assert told["request_id"] == answer.headers["x-request-id"]
    assert CANARY not in answer.text
    assert answer.headers["cache-control"] == "private, no-store"
    return told


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"email":1e999}', 422),
        (b'{"email":"' + CANARY.encode() + b'\\ud800@x.com","mode":"fast"}', 422),
        (b'{"email":"' + CANARY.encode() + b'\\u0000@x.com","mode":"fast"}', 422),
        (b'{"email":"' + CANARY.encode() + b'@x.com","mode":"canary-7f3a"}', 422),
        (b'{"email":"a@x.com","canary-7f3a":1}', 422),
        (b'{"email":' + b"9" * 5000 + b"}", 400),
        (b"[" * 20_000, 400),
        (b'{"email":"a@x.com"', 400),
        (b"\xff\xfe", 400),
        (b"NaN", 422),
        (b"", 422),
    ],
)
async def test_hostile_json(client: httpx.AsyncClient, body: bytes, status: int) -> None:
    answer = await client.post(SINGLE, content=body, headers=JSON)
    _checked(answer, status, "invalid_request" if status == 422 else "bad_request")
    listed = await client.post(JOBS, content=body, headers=JSON)
    assert 400 <= listed.status_code < 500
    assert CANARY not in listed.text


async def test_bodies_end_at_their_limit_declared_or_not(client: httpx.AsyncClient) -> None:
    _checked(await client.post(SINGLE, content=b"x" * 70_000, headers=JSON), 413, "content_too_large")

    async def chunks() -> Any:
        for _ in range(70):
            yield b" " * 1_000

    _checked(await client.post(SINGLE, content=chunks(), headers=JSON), 413, "content_too_large")
    zipped = {**JSON, "content-encoding": "gzip"}
    _checked(await client.post(SINGLE, content=b"x", headers=zipped), 415, "unsupported_media_type")
    text = {"content-type": "application/pdf"}
    _checked(await client.post(JOBS, content=b"%PDF", headers=text), 415, "unsupported_media_type")
    _checked(await client.post(JOBS, content=b"", headers={"content-type": "text/csv"}), 422, "empty_file")
    unknown = await client.post(
        JOBS, params={"x": CANARY}, content=b"a@x", headers={"content-type": "text/csv"}
    )
    assert _checked(unknown, 422, "invalid_request")["errors"][0]["loc"] == ["query", "x"]


async def test_nothing_there_and_methods_that_are_not(client: httpx.AsyncClient, api: Api) -> None:
    _checked(await client.get("/v1/nothing"), 404, "not_found")
    _checked(await client.get(f"{JOBS}/no-uuid"), 404, "not_found")
    refused = await client.put(SINGLE)
    _checked(refused, 405, "method_not_allowed")
    assert refused.headers["allow"] == "POST"
    assert (await client.put(JOBS)).headers["allow"] == "GET, POST"
    problem = await client.get("/v1/nothing", headers={"accept": "application/problem+json"})
    assert problem.headers["content-type"] == "application/problem+json"
    async with httpx.AsyncClient(base_url=api.url) as stranger:
        assert (await stranger.get("/healthz")).status_code == 200
        assert (await stranger.get("/readyz")).status_code == 200
        page = await stranger.get("/docs")
        assert "single-validate" in page.text
        assert "<script" not in page.text


async def test_keys_open_exactly_what_they_should(api: Api, client: httpx.AsyncClient) -> None:
    good = client.headers["authorization"]
    wrong = [
        "",
        "Bearer",
        "Bearer x",
        f"{good[:-1]}x",
        "Basic YTpi",
        "Bearer svc_key_" + "0" * 38,
        "Bearer \xe9",
    ]
    refusals = set()
    async with httpx.AsyncClient(base_url=api.url) as stranger:
        for header in wrong:
            headers = [(b"authorization", header.encode("latin-1"))] if header else []
            answer = await stranger.get(JOBS, headers=headers)
            told = _checked(answer, 401, "unauthorized")
            refusals.add((told["message"], answer.headers["www-authenticate"]))
        assert len(refusals) == 1
        key = good.removeprefix("Bearer ")
        _checked(await stranger.get(JOBS, params={"api_key": "x"}), 400, "key_in_query")
        leaked = await stranger.get(f"/v1/x?y={key}")
        _checked(leaked, 400, "key_in_query")
        assert key not in leaked.text
        twice = [("Authorization", good), ("Authorization", good)]
        _checked(await stranger.get(JOBS, headers=twice), 400, "bad_request")
    async with api.client(await api.key("bob", Scope.JOBS_READ)) as reader:
        assert (await reader.get(JOBS)).status_code == 200
        lacking = await reader.post(SINGLE, json={"email": "a@x.com"})
        _checked(lacking, 403, "insufficient_scope")
        assert 'scope="validate:write"' in lacking.headers["www-authenticate"]


async def test_every_operation_is_described_with_its_errors(client: httpx.AsyncClient) -> None:
    told = (await client.get("/openapi.json")).json()
    operations = [
        (path, method, shape) for path, methods in told["paths"].items() for method, shape in methods.items()
    ]
    assert len(operations) > 30
    for path, _, shape in operations:
        if path.startswith("/v1"):
            assert {"400", "401", "403", "413", "415", "422", "429", "500", "503"} <= set(shape["responses"])
            assert shape["security"]
    refs = {part.split('"')[0] for part in json.dumps(told).split('"#/components/schemas/')[1:]}
    assert refs <= set(told["components"]["schemas"])
