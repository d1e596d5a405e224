"""Mistakes clients make, and answers that must not mislead them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import pytest

from mailsift.settings import Settings
from tests.integration.api.conftest import running
from tests.integration.api.test_api_wire import exchange, problem_of

if TYPE_CHECKING:
    from tests.integration.api.conftest import Api

SINGLE, JOBS, HOOKS = "/v1/email/single-validate", "/v1/bulk/jobs", "/v1/webhooks"


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"allow_non_public": True, "webhook_allow_http": True})


async def test_a_parameter_nobody_knows_is_refused_with_the_nearest_one(client: httpx.AsyncClient) -> None:
    job = (await client.post(JOBS, json={"emails": ["a@example.com"]})).json()["data"]["job_id"]
    for method, path, name, nearest in (
        ("GET", f"{JOBS}/{job}/results?stauts=valid", "stauts", "did you mean `status`?"),
        ("GET", f"{JOBS}?limt=5&status=queued", "limt", "did you mean `limit`?"),
        ("GET", f"{JOBS}/{job}?wiat=5", "wiat", "did you mean `wait`?"),
        ("GET", f"{HOOKS}?x=1", "x", "there are limit, cursor."),
        ("POST", f"{JOBS}/{job}/rerun?mode=fast", "mode", "There are no parameters"),
        ("POST", f"{SINGLE}?mode=fast", "mode", "There are no parameters"),
    ):
        answer = await client.request(method, path)
        found = answer.json()
        assert (answer.status_code, found["code"]) == (422, "invalid_request"), path
        assert found["errors"][0]["loc"] == ["query", name]
        assert f"`{name}` in the query" in found["message"]
        assert nearest in found["message"]
    answer = await client.post(
        f"{JOBS}?mdoe=fast", content=b"a@example.com\n", headers={"content-type": "text/csv"}
    )
    assert (answer.status_code, "did you mean `mode`?" in answer.json()["message"]) == (422, True)
    assert (await client.get(f"{JOBS}?limit=5&status=queued&status=running")).status_code == 200
    assert (await client.get(f"{JOBS}?stauts=1", headers={"authorization": ""})).status_code == 401


async def test_a_parameter_that_stands_twice_is_refused_unless_it_is_a_list(
    client: httpx.AsyncClient,
) -> None:
    job = (await client.post(JOBS, json={"emails": ["a@example.com"]})).json()["data"]["job_id"]
    kind = {"content-type": "text/csv"}
    answers = [
        await client.post(f"{JOBS}?mode=fast&mode=deep", content=b"a@example.com\n", headers=kind),
        await client.get(f"{JOBS}?limit=1&limit=1"),
        await client.get(f"{JOBS}/{job}/results?status=valid&status=risky&format=json&format=csv"),
        await client.post(
            JOBS,
            files=[("file", ("a", b"a@example.com\n")), ("mode", (None, "fast")), ("mode", (None, "deep"))],
        ),
    ]
    for answer, where in zip(
        answers, ("query.mode", "query.limit", "query.format", "body.mode"), strict=True
    ):
        found = answer.json()
        assert (answer.status_code, found["code"]) == (422, "invalid_request")
        assert [".".join(one["loc"]) for one in found["errors"]] == [where]
        assert "Stands more than once" in found["message"]
    events = "/v1/events?type=bulk.validation.completed&type=bulk.validation.failed"
    for path in ("/v1/accuracy?by=provider&by=result", f"{JOBS}?status=queued&status=queued", events):
        assert (await client.get(path)).status_code == 200, path


async def test_the_message_names_the_first_field_and_its_cause(client: httpx.AsyncClient) -> None:
    answer = await client.post(SINGLE, json={"email": "a@example.com", "deadline_ms": "soon"})
    assert answer.json()["message"] == "`deadline_ms` in the body: is not a number."
    answer = await client.post(JOBS, json={"emails": [{"email": 5}], "mode": "quick"})
    assert answer.json()["message"].startswith(
        "`mode` in the body: Input should be 'fast', 'medium' or 'deep'"
    )
    assert "more in `errors`)." in answer.json()["message"]
    assert (await client.post(SINGLE, json=[])).json()[
        "message"
    ] == "The body: Input should be a JSON object."
    unknown = await client.post(SINGLE, json={"email": "a@b.com", "mod": "fast"})
    assert unknown.json()["message"] == "`mod` in the body: There is no such field."
    field = {"file": (None, "email\na@example.com\n")}  # curl -F 'file=<list.csv', FormData.append of a text
    assert "filename" in (await client.post(JOBS, files=field)).json()["message"]


async def test_who_brings_no_key_is_told_of_no_error(api: Api) -> None:
    async with httpx.AsyncClient(base_url=api.url) as nobody:
        for headers in ({}, {"authorization": "Basic YTpi"}):
            answer = await nobody.get(JOBS, headers=headers)
            assert answer.headers["www-authenticate"] == 'Bearer realm="mailsift"'
        answer = await nobody.get(JOBS, headers={"authorization": "Bearer svc_key_x"})
        assert answer.headers["www-authenticate"] == 'Bearer realm="mailsift", error="invalid_token"'


async def test_retry_after_is_never_earlier_than_the_window(settings: Settings) -> None:
    async with (
        running(settings.model_copy(update={"requests_per_minute": 20})) as api,
        api.client(await api.key("alice")) as client,
    ):
        for _ in range(22):
            await client.get(HOOKS)
        answer = await client.get(HOOKS)
    assert answer.status_code == 429
    left = dict(part.split("=") for part in answer.headers["ratelimit"].split(";")[1:])
    assert int(answer.headers["retry-after"]) >= int(left["t"]) >= 1
    assert left["r"] == "0"


async def test_a_rotation_within_the_overlap_is_refused_over_http(client: httpx.AsyncClient) -> None:
    made = (await client.post(HOOKS, json={"url": "http://127.0.0.1:9/hook"})).json()["data"]
    rotate = f"{HOOKS}/{made['id']}/rotate"
    first = (await client.post(rotate, json={"overlap": 600})).json()["data"]
    hook = (await client.get(f"{HOOKS}/{made['id']}")).json()["data"]
    assert first["previous_secret_until"] == hook["previous_secret_until"]
    refused = await client.post(rotate, json={"overlap": 600})
    assert (refused.status_code, refused.json()["code"]) == (409, "webhook_secret_overlap")
    assert first["previous_secret_until"][:19] in refused.json()["message"]
    forced = await client.post(rotate, json={"overlap": 0, "force": True})
    assert (forced.status_code, forced.json()["data"]["previous_secret_until"]) == (200, None)


@pytest.mark.parametrize(
    ("path", "length", "kind"),
    [
        ("/v1/email/single-validate", 70_000, "application/json"),
        ("/v1/bulk/jobs", 20 * 1024**2, "application/json"),
        ("/v1/bulk/jobs", 500 * 1024**2, "text/csv"),
    ],
)
async def test_expect_is_answered_by_the_length(api: Api, path: str, length: int, kind: str) -> None:
    key = await api.key("alice")
    head = (
        f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nContent-Type: {kind}\r\n"
        f"Content-Length: {length}\r\nExpect: 100-continue\r\n\r\n"
    )
    status, found = problem_of(await exchange(api, head.encode()))
    assert (status, found["code"]) == (413, "content_too_large")


async def test_expect_of_what_is_taken_is_told_to_go_on(api: Api) -> None:
    key = await api.key("alice")
    body = b'{"email": "a@@example.com", "mode": "fast"}'
    head = (
        f"POST {SINGLE} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nExpect: 100-continue\r\n\r\n"
    )
    answer = await exchange(api, head.encode(), b"", body, between=0.2)
    assert answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n")


async def _ids(client: httpx.AsyncClient, path: str, members: str, name: str) -> tuple[list[str], list[str]]:
    """Return the ids of a list as one page and by pages of two."""
    whole = (await client.get(path)).json()["data"]
    assert (whole["next_cursor"], whole["has_more"]) == ("", False)
    found, cursor, more = [], "", True
    while more:
        page = (await client.get(path, params={"limit": 2, "cursor": cursor})).json()["data"]
        found += [one[name] if name in one else one["job"][name] for one in page[members]]
        cursor, more = page["next_cursor"], page["has_more"]
        assert bool(cursor) == more
    return [one[name] if name in one else one["job"][name] for one in whole[members]], found


async def test_every_list_is_paged_in_one_style(client: httpx.AsyncClient) -> None:
    job = (await client.post(JOBS, json={"emails": ["a@example.com"]})).json()["data"]["job_id"]
    schedules = "/v1/bulk/schedules"
    weekly, hooks = {"job_id": job, "cron": "0 6 * * 1"}, {"url": "http://127.0.0.1:9/hook"}
    *_, made = [(await client.post(schedules, json=weekly)).json()["data"] for _ in range(3)]
    *_, hook = [(await client.post(HOOKS, json=hooks)).json()["data"] for _ in range(3)]
    for _ in range(3):
        await client.post(f"{schedules}/{made['schedule_id']}/run")
        await client.post(
            f"{HOOKS}/test", json={"test_type": "test_webhook", "webhook_id": hook["webhook_id"]}
        )
    deliveries = f"{HOOKS}/{hook['webhook_id']}/deliveries"
    for path, members, name in (
        (JOBS, "jobs", "job_id"),
        (schedules, "schedules", "schedule_id"),
        (f"{schedules}/{made['schedule_id']}/runs", "runs", "job_id"),
        (HOOKS, "webhooks", "webhook_id"),
        (deliveries, "deliveries", "delivery_id"),
    ):
        whole, paged = await _ids(client, path, members, name)
        assert whole == paged, path
        assert len(whole) >= 3, path
        for cursor in ("x", "00000000-0000-4000-8000-000000000000"):
            refused = await client.get(path, params={"cursor": cursor})
            assert (refused.status_code, refused.json()["code"]) == (422, "bad_cursor"), path


async def test_the_old_names_are_there_for_a_release(client: httpx.AsyncClient) -> None:
    hook = (await client.post(HOOKS, json={"url": "http://127.0.0.1:9/hook"})).json()["data"]
    assert hook["id"] == hook["webhook_id"]
    for _ in range(2):
        await client.post(f"{HOOKS}/test", json={"test_type": "test_webhook", "webhook_id": hook["id"]})
    deliveries = f"{HOOKS}/{hook['id']}/deliveries"
    first, second = (await client.get(deliveries)).json()["data"]["deliveries"]
    assert (first["endpoint_id"], first["id"]) == (first["webhook_id"], first["delivery_id"])
    older = (await client.get(deliveries, params={"before": first["id"]})).json()["data"]["deliveries"]
    assert [one["id"] for one in older] == [second["id"]]


@pytest.mark.usefixtures("worker")
async def test_a_download_is_asked_about_goes_on_and_is_not_sent_twice(client: httpx.AsyncClient) -> None:
    wanted = {"emails": [f"a{n}@@example.com" for n in range(50)], "mode": "fast"}
    job = (await client.post(JOBS, json=wanted)).json()["data"]["job_id"]
    assert (await client.get(f"{JOBS}/{job}?wait=60")).json()["data"]["status"] == "completed"
    results = f"{JOBS}/{job}/results"
    whole = await client.get(results)
    tag, size = whole.headers["etag"], len(whole.content)
    head = await client.head(results)
    assert (head.status_code, head.content, head.headers["etag"]) == (200, b"", tag)
    assert head.headers["content-type"] == whole.headers["content-type"]
    again = await client.get(results, headers={"if-none-match": f'"x", {tag}'})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    lines = [("if-none-match", tag), ("if-none-match", '"x"')]
    assert (await client.get(results, headers=lines)).status_code == 304
    lines = [("if-match", '"x"'), ("if-match", tag)]
    assert (await client.get(results, headers=lines)).status_code == 200
    other = await client.get(results, params={"status": "valid"}, headers={"if-none-match": tag})
    assert (other.status_code, other.headers["etag"] != tag) == (200, True)
    for asked, first, last in (
        ("bytes=0-9", 0, 9),
        ("bytes=100-", 100, size - 1),
        ("bytes=-20", size - 20, size - 1),
        ("Bytes=0-0", 0, 0),
        (f"bytes=-{size * 2}", 0, size - 1),
        (f"bytes=5-{size * 2}", 5, size - 1),
    ):
        part = await client.get(results, headers={"range": asked, "if-range": tag})
        assert (part.status_code, part.content) == (206, whole.content[first : last + 1]), asked
        assert part.headers["content-range"] == f"bytes {first}-{last}/{size}"
    for asked in (f"bytes={size}-", "bytes=-0", f"bytes={10**30}-"):
        beyond = await client.get(results, headers={"range": asked})
        assert (beyond.status_code, beyond.json()["code"]) == (416, "range_not_satisfiable"), asked
        assert beyond.headers["content-range"] == f"bytes */{size}"
    for headers in (
        {"range": "bytes=0-9", "if-range": '"x"'},
        {"range": "bytes=0-9", "if-range": f"W/{tag}"},
        {"range": "bytes=0-1,3-4"},
        {"range": "x"},
    ):
        assert (await client.get(results, headers=headers)).content == whole.content
    head = await client.head(results, headers={"range": "bytes=0-9"})
    assert (head.status_code, "content-range" in head.headers) == (200, False)
    assert (await client.get(results, headers={"if-none-match": "*"})).status_code == 304
    workbook = await client.get(results, params={"format": "xlsx"}, headers={"range": "bytes=0-9"})
    assert (workbook.status_code, workbook.headers["etag"][:2]) == (200, "W/")


@pytest.mark.usefixtures("worker")
async def test_a_download_goes_on_only_while_it_is_the_same_file(client: httpx.AsyncClient) -> None:
    wanted = {"emails": ["a@@example.com", "b@@example.com"], "mode": "fast"}
    job = (await client.post(JOBS, json=wanted)).json()["data"]["job_id"]
    assert (await client.get(f"{JOBS}/{job}?wait=60")).json()["data"]["status"] == "completed"
    for shape in ("csv", "json"):
        results = f"{JOBS}/{job}/results?format={shape}"
        tag = (await client.get(results)).headers["etag"]
        for same in (tag, f'"x", {tag}', "*"):
            assert (await client.get(results, headers={"if-match": same})).is_success, (shape, same)
        for other in ('"x"', f"W/{tag}"):  # compared strongly (RFC 9110, section 13.1.1)
            headers = {"if-match": other, "if-none-match": tag, "range": "bytes=5-9"}
            changed = await client.get(results, headers=headers)
            assert (changed.status_code, changed.json()["code"]) == (412, "results_changed"), (shape, other)
    part = await client.get(f"{JOBS}/{job}/results", headers={"if-match": "*", "range": "bytes=0-0"})
    assert part.status_code == 206
    drawn_anew = f"{JOBS}/{job}/results?probability=true"  # it has no ETag
    assert (await client.get(drawn_anew, headers={"if-match": '"x"'})).status_code == 412
    assert (await client.get(drawn_anew, headers={"if-match": "*"})).status_code == 200


async def test_head_is_answered_wherever_get_is(client: httpx.AsyncClient) -> None:
    job = (await client.post(JOBS, json={"emails": ["a@example.com"]})).json()["data"]["job_id"]
    for path in (JOBS, f"{JOBS}/{job}", f"{JOBS}/{job}/events", HOOKS, "/healthz", "/docs", "/login"):
        answer = await client.head(path)
        assert (answer.status_code, answer.content) == (200, b""), path
    assert (await client.head(SINGLE)).status_code == 405
    assert (await client.put(JOBS)).headers["allow"] == "GET, HEAD, POST"
    assert (await client.get(f"{JOBS}/{job}")).json()["data"]["job_id"] == job
