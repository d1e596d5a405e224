"""Requests that should not be: a clean 4xx in the one envelope, and nothing of them comes back."""

from __future__ import annotations

import json
import re
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from mailsift.accounts.keys import Scope

if TYPE_CHECKING:
    from tests.integration.api.conftest import Api

SINGLE, JOBS = "/v1/email/single-validate", "/v1/bulk/jobs"
HOOKS, SCHEDULES = "/v1/webhooks", "/v1/bulk/schedules"
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
    body: dict[str, Any] = answer.json()
    assert (answer.status_code, body["code"]) == (status, code), answer.text
    assert set(body) == MEMBERS
    assert (body["status"], body["success"], body["data"]) == (status, False, None)
    assert body["request_id"] == answer.headers["x-request-id"]
    assert CANARY not in answer.text
    assert answer.headers["cache-control"] == "private, no-store"
    return body


DEEP = b"[" * 20_000
HUGE = b"9" * 5_000
EVIL = CANARY.encode()
CODES = {400: "bad_request", 422: "invalid_request"}

BODIES = (
    (b'{"email":1e999}', 422),
    (b'{"email":"a@x.com","deadline_ms":1e999}', 422),
    (b'{"email":"a@x.com","deadline_ms":true}', 422),
    (b'{"email":"a@x.com","deadline_ms":"500"}', 422),
    (b'{"email":"' + EVIL + b'\\ud800@x.com","mode":"fast"}', 422),
    (b'{"email":"' + EVIL + b'\\u0000@x.com","mode":"fast"}', 422),
    (b'{"email":"' + EVIL + b'@x.com","mode":"canary-7f3a"}', 422),
    (b'{"email":"a@x.com","canary-7f3a":1}', 422),
    (b'{"email":"a@x.com","email":"' + EVIL + b'@x.com"}', 400),
    (b'{"email":"a@x.com","' + EVIL + b'":{"x":1,"x":2}}', 400),
    (b'{"email":' + HUGE + b"}", 400),
    (b'{"email":"a@x.com","deadline_ms":' + HUGE + b"}", 400),
    (b'{"email":"a@x.com","deadline_ms":NaN}', 400),
    (b'{"email":"a@x.com","deadline_ms":-Infinity}', 400),
    (DEEP, 400),
    (b'{"email":' + DEEP, 400),
    (b'{"email":' + DEEP + b"]" * len(DEEP) + b"}", 400),
    (b'{"email":"a@x.com"', 400),
    (b'{"email":"' + EVIL + b'\xff@x.com"}', 400),
    (b"\xff\xfe", 400),
    (b'\xff\xfe{\x00"\x00', 400),
    (b"", 422),
    (b"null", 422),
    (b'"' + EVIL + b'"', 422),
)


async def test_hostile_json(client: httpx.AsyncClient) -> None:
    for body, status in BODIES:
        for path in (SINGLE, HOOKS, f"{HOOKS}/test", SCHEDULES):
            _checked(await client.post(path, content=body, headers=JSON), status, CODES[status])
        listed = await client.post(JOBS, content=body, headers=JSON)
        _checked(listed, listed.status_code, CODES[listed.status_code])


@pytest.mark.parametrize("path", [SINGLE, "/v1/email/batch-validate", HOOKS, SCHEDULES])
async def test_a_body_that_is_called_something_else_is_no_json(client: httpx.AsyncClient, path: str) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "text/json", "application/jsonp", ""):
        answer = await client.post(path, content=b"{}", headers={"content-type": kind})
        _checked(answer, 415, "unsupported_media_type")
    for kind in ("application/json; charset=utf-8", "Application/JSON", "application/vnd.api+json"):
        answer = await client.post(path, content=b"{}", headers={"content-type": kind})
        _checked(answer, 422, answer.json()["code"])
    _checked(await client.post(path), 415, "unsupported_media_type")


async def test_a_body_has_one_content_type_and_no_coding(client: httpx.AsyncClient) -> None:
    for path in (SINGLE, JOBS):
        kinds = [("Content-Type", "application/json"), ("Content-Type", "text/csv")]
        problem = _checked(await client.post(path, content=b"{}", headers=kinds), 400, "bad_request")
        assert problem["message"] == "Send only one Content-Type header."
        packed = await client.post(path, content=b"{}", headers={**JSON, "Content-Encoding": "gzip"})
        _checked(packed, 415, "unsupported_media_type")
        assert packed.headers["accept-encoding"] == "identity"


LISTS = (
    b'{"emails":["' + EVIL + b'\\ud800@x.com"]}',
    b'{"emails":["a@x.com"],"max_age":1e999}',
    b'{"emails":["a@x.com"],"max_age":true}',
    b'{"emails":["a@x.com"],"preview":"' + EVIL + b'"}',
    b'{"emails":["a@x.com"],"preview":' + HUGE + b"}",
    b'{"emails":["a@x.com"],"name":"' + EVIL + b'\\u202e"}',
    b'{"emails":["a@x.com"],"metadata":{"' + EVIL + b'":' + DEEP + b"}}",
    b'{"emails":["a@x.com"],"metadata":{"a\\u0000":"' + EVIL + b'"}}',
    b'{"emails":[{"email":"a@x.com","id":"' + EVIL + b'\\ud800"}]}',
    b'{"emails":[{"email":"a@x.com","' + EVIL + b'":1}]}',
    b'{"emails":[]}',
    b'{"emails":["a@x.com"],"emails":["' + EVIL + b'@x.com"]}',
    b'{"mode":"fast","emails":["a@x.com"],"mode":"deep"}',
    b'{"emails":["a@x.com"],"emai\\u006cs":["' + EVIL + b'@x.com"]}',
    b'{"emails":[{"email":"a@x.com","email":"' + EVIL + b'@x.com"}]}',
    b'{"emails":["a@x.com"],"metadata":{"a":"1","a":"' + EVIL + b'"}}',
    b'{"emails":["a@x.com"],"deadline":NaN}',
)


async def test_hostile_json_lists(client: httpx.AsyncClient) -> None:
    for body in LISTS:
        answer = await client.post(JOBS, content=body, headers=JSON)
        _checked(answer, answer.status_code, CODES[answer.status_code])
    twice = {"metadata": '{"a":"1","a":"canary-7f3a"}'}
    for answer in (
        await client.post(JOBS, files={"file": b"a@x.com\n"}, data=twice),
        await client.post(JOBS, content=b"a@x.com\n", params=twice, headers={"content-type": "text/csv"}),
    ):
        _checked(answer, 422, "invalid_request")
    assert (await client.get(JOBS)).json()["data"]["jobs"] == []


async def test_half_of_a_surrogate_pair_in_a_list_is_told_by_its_place(client: httpx.AsyncClient) -> None:
    body = b'{"emails":["a@x.com","' + EVIL + b'\\ud800@x.com"]}'
    problem = _checked(await client.post(JOBS, content=body, headers=JSON), 422, "invalid_request")
    assert problem["errors"][0]["loc"][:3] == ["body", "emails", 1]
    assert "surrogate" in problem["errors"][0]["msg"]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-be"])
async def test_a_list_is_json_in_whatever_encoding_an_address_is(
    client: httpx.AsyncClient, encoding: str
) -> None:
    single = '{"email":"jürgen@example.com","mode":"fast"}'.encode(encoding)
    listed = '{"emails":["jürgen@example.com"],"mode":"fast"}'.encode(encoding)
    assert (await client.post(SINGLE, content=single, headers=JSON)).status_code == 200
    assert (await client.post(JOBS, content=listed, headers=JSON)).status_code == 202


OPTIONS = (
    ("metadata", '{"a":' + "[" * 5_000),
    ("metadata", f'{{"a":"{CANARY}\\ud800"}}'),
    ("metadata", CANARY),
    ("max_age", "nan"),
    ("max_age", "1e999"),
    ("preview", "9" * 5_000),
    ("evidence", f"yes {CANARY}"),
    ("mode", CANARY),
    ("name", f"{CANARY}\x00"),
)


async def test_hostile_options(client: httpx.AsyncClient) -> None:
    for name, value in OPTIONS:
        text = {"content-type": "text/csv"}
        answer = await client.post(JOBS, params={name: value}, content=b"a@x.com\n", headers=text)
        assert _checked(answer, 422, "invalid_request")["errors"][0]["loc"][:2] == ["query", name]
        file = {"file": ("x.csv", b"a@x.com\n", "text/csv")}
        sent = await client.post(JOBS, data={name: value}, files=file)
        assert _checked(sent, 422, "invalid_request")["errors"][0]["loc"][:2] == ["body", name]


async def test_waiting_is_bounded(client: httpx.AsyncClient) -> None:
    for wait in ("61", "-1", "nan", "inf", "1e999", CANARY):
        nowhere = f"{JOBS}/00000000-0000-4000-8000-000000000000"
        _checked(await client.get(nowhere, params={"wait": wait}), 422, "invalid_request")


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
    nobody = "00000000-0000-4000-8000-000000000000"
    _checked(await client.get("/v1/nothing"), 404, "not_found")
    _checked(await client.get(f"{JOBS}/no-uuid"), 404, "not_found")
    refused = await client.put(SINGLE)
    _checked(refused, 405, "method_not_allowed")
    assert refused.headers["allow"] == "POST"
    assert (await client.put(JOBS)).headers["allow"] == "GET, HEAD, POST"
    _checked(await client.get(f"/jobs/{nobody}/rows/{'9' * 5_000}"), 404, "not_found")
    assert (await client.delete(f"{HOOKS}/test")).headers["allow"] == "POST"
    assert (await client.post("/docs")).headers["allow"] == "GET, HEAD"
    assert (await client.put(f"{HOOKS}/{nobody}")).headers["allow"] == "DELETE, GET, HEAD, PATCH"
    for accept, kind in (
        ("application/problem+json", "application/problem+json"),
        ("application/json;q=0.5, Application/Problem+JSON; q=0.9", "application/problem+json"),
        ("application/problem+json;q=0, application/json", "application/json"),
        ("*/*", "application/json"),
    ):
        refused = await client.get("/v1/nothing", headers={"accept": accept})
        assert refused.headers["content-type"] == kind, accept
    async with httpx.AsyncClient(base_url=api.url) as stranger:
        alive = await stranger.get("/healthz")
        assert (alive.status_code, alive.json()["data"]) == (200, {"version": version("mailsift")})
        assert (await stranger.get("/readyz")).status_code == 200
        page = await stranger.get("/docs")
        assert "single-validate" in page.text
        assert "a stable <code>code</code> too" in page.text
        assert "<script" not in page.text


@pytest.mark.parametrize("path", ["/v1/bulk/jobs%0A", "/login%0A", "/healthz%0a", "/v1/bulk/jobs%0D%0A"])
async def test_a_path_that_ends_with_a_line_end_is_none_of_ours(client: httpx.AsyncClient, path: str) -> None:
    _checked(await client.get(path), 404, "not_found")


async def test_nothing_is_read_of_who_has_no_key(api: Api) -> None:
    async with httpx.AsyncClient(base_url=api.url) as stranger:
        for path in (SINGLE, HOOKS, SCHEDULES, JOBS, "/v1/suppressions", "/v1/public-keys"):
            answer = await stranger.post(path, content=DEEP, headers=JSON)
            _checked(answer, 401, "unauthorized")


async def test_keys_open_exactly_what_they_should(api: Api, client: httpx.AsyncClient) -> None:
    good = client.headers["authorization"]
    wrong = [
        "",
        "Bearer",
        "Bearer x",
        f"{good[:-1]}{'y' if good.endswith('x') else 'x'}",
        "Basic YTpi",
        "Bearer svc_key_" + "0" * 38,
        "Bearer \xe9",
    ]
    refusals = set()
    async with httpx.AsyncClient(base_url=api.url) as stranger:
        for header in wrong:
            headers = [(b"authorization", header.encode("latin-1"))] if header else []
            answer = await stranger.get(JOBS, headers=headers)
            problem = _checked(answer, 401, "unauthorized")
            error = ', error="invalid_token"' if header.startswith("Bearer ") else ""
            assert answer.headers["www-authenticate"] == f'Bearer realm="mailsift"{error}'
            refusals.add(problem["message"])
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


EVERYWHERE = {"400", "401", "403", "405", "413", "415", "422", "429", "500", "503"}


def _check_examples(status: str, response: dict[str, Any]) -> None:
    content = response["content"]
    assert set(content) == {"application/json", "application/problem+json"}
    for code, example in content["application/json"]["examples"].items():
        assert set(example["value"]) == MEMBERS
        assert (example["value"]["code"], str(example["value"]["status"])) == (code, status)


async def test_every_operation_is_described_with_its_errors(client: httpx.AsyncClient) -> None:
    description = (await client.get("/openapi.json")).json()
    operations = [
        (path, method, shape)
        for path, methods in description["paths"].items()
        for method, shape in methods.items()
    ]
    assert len(operations) > 30
    for path, _, shape in operations:
        if path.startswith("/v1"):
            assert shape["responses"].keys() >= EVERYWHERE
            assert ("404" in shape["responses"]) >= ("{" in path)
            assert shape["security"]
            for status, response in shape["responses"].items():
                if status >= "4":
                    _check_examples(status, response)
            for status, code in (("400", "key_in_query"), ("503", "database_unavailable")):  # of every one
                assert code in shape["responses"][status]["content"]["application/json"]["examples"]
    linked = {
        (link["operationId"], parameter.removeprefix("path."))
        for _, _, shape in operations
        for response in shape["responses"].values()
        for link in response.get("links", {}).values()
        for parameter in link.get("parameters", {})
    }
    in_paths = {
        (shape["operationId"], name) for path, _, shape in operations for name in re.findall(r"{(\w+)}", path)
    }
    assert len(in_paths) > 20
    assert in_paths <= linked  # every id has an operation it comes from
    refs = {part.split('"')[0] for part in json.dumps(description).split('"#/components/schemas/')[1:]}
    assert refs <= set(description["components"]["schemas"])
