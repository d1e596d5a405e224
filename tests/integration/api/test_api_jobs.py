"""Lists over HTTP: in by every door, watched, compared, deleted; with a real worker."""

from __future__ import annotations

import asyncio
import io
import json
from functools import partial
from typing import TYPE_CHECKING, Any

import httpx
import polars as pl
import pytest

from mailsift.api.v1 import jobs
from mailsift.container import open_container
from tests.support.installation import until
from tests.support.leftovers import places_below

if TYPE_CHECKING:
    from tests.integration.api.conftest import Api

JOBS = "/v1/bulk/jobs"
CSV = b"who,email\n=cmd(),=1+1@example.com\nJoe,joe@example.com\nBad,no at\nJoe,JOE@example.com\n"
FAST = {"mode": "fast"}


async def _ended(client: httpx.AsyncClient, job_id: str) -> dict[str, Any]:
    answer = await client.get(f"{JOBS}/{job_id}", params={"wait": 30})
    assert answer.status_code == 200
    job: dict[str, Any] = answer.json()["data"]
    assert job["finished_at"], job
    return job


async def _holds_files(api: Api, *, wanted: bool) -> bool:
    """Say whether the store and the cache hold any file, as it is wanted."""
    places = (api.settings.home / name for name in ("blobs", "blob-cache"))
    return wanted == any(file.is_file() for place in places for file in places_below(place))


async def _sent(answer: httpx.Response) -> str:
    assert answer.status_code == 202, answer.text
    job = answer.json()["data"]
    assert answer.headers["location"] == f"{JOBS}/{job['job_id']}"
    return str(job["job_id"])


@pytest.mark.usefixtures("worker")
async def test_a_list_comes_in_by_every_door_and_goes_out_in_every_format(client: httpx.AsyncClient) -> None:
    workbook, parquet = io.BytesIO(), io.BytesIO()
    frame = pl.DataFrame({"email": ["a@example.com", "b@"]})
    frame.write_excel(workbook)
    frame.write_parquet(parquet)
    sheet = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
    raw = {
        "text/csv": CSV,
        "application/x-ndjson": b'{"email":"a@example.com"}\n"b@"\n',
        sheet: workbook.getvalue(),
        "application/vnd.apache.parquet": parquet.getvalue(),
    }
    sent = {
        kind: await _sent(
            await client.post(
                JOBS,
                params={**FAST, "metadata": '{"team":"x"}'},
                content=body,
                headers={"content-type": kind},
            )
        )
        for kind, body in raw.items()
    }
    emails = {"emails": [{"email": "a@example.com", "id": "7"}, "b@"], **FAST, "name": "mine"}
    sent["json"] = await _sent(await client.post(JOBS, json=emails))
    files = {"file": ("../../etc/x\r\n.csv", CSV, "text/csv")}
    sent["form"] = await _sent(await client.post(JOBS, data=FAST, files=files))
    ended = {kind: await _ended(client, job_id) for kind, job_id in sent.items()}
    assert {kind: job["status"] for kind, job in ended.items()} == dict.fromkeys(sent, "completed")
    assert {kind: (job["valid"], job["invalid"]) for kind, job in ended.items()} == {
        **dict.fromkeys(sent, (1, 1)),
        "text/csv": (3, 1),
        "form": (3, 1),
    }
    assert ended["text/csv"]["metadata"] == {"team": "x"}
    assert ended["text/csv"]["duplicates"] == 1
    assert ended["text/csv"]["percent"] == 100
    rows = await client.get(f"{JOBS}/{sent['json']}/results", params={"format": "jsonl"})
    results = [json.loads(line) for line in rows.text.splitlines()]
    assert [(row["id"], row["mailsift_status"]) for row in results] == [("7", "valid"), ("", "invalid")]
    await _check_formats(client, sent["text/csv"])


@pytest.mark.usefixtures("worker")
async def test_the_cells_of_a_list_are_repaired_on_request(client: httpx.AsyncClient) -> None:
    emails = {"emails": ["Jane <jane@example.com>", "no at"], **FAST, "repair": True}
    job_id = await _sent(await client.post(JOBS, json=emails))
    assert (await _ended(client, job_id))["valid"] == 1
    columns = ["email", "mailsift_address", "mailsift_suggestion"]
    rows = await client.get(f"{JOBS}/{job_id}/results", params={"format": "jsonl", "columns": columns})
    assert [[*json.loads(line).values()] for line in rows.text.splitlines()] == [
        ["Jane <jane@example.com>", "jane@example.com", "Validated as jane@example.com."],
        ["no at", "", "Correct the address."],
    ]
    narrowed: dict[str, Any] = {"repaired": True, "columns": ["email"]}
    lines = await client.get(f"{JOBS}/{job_id}/results", params={"format": "jsonl", **narrowed})
    assert lines.json() == {"email": "Jane <jane@example.com>"}
    page = await client.get(f"{JOBS}/{job_id}/results", params={"format": "json", **narrowed})
    assert [row["row"] for row in page.json()["data"]["rows"]] == [1]
    plain = await _sent(await client.post(JOBS, json={**emails, "repair": False}))
    await _ended(client, plain)
    page = await client.get(f"{JOBS}/{plain}/results", params={"format": "json", **narrowed})
    assert page.json()["data"]["matches"] == 0
    assert (await client.post(JOBS, json={**emails, "repair": "perhaps"})).status_code == 422


async def _check_formats(client: httpx.AsyncClient, job_id: str) -> None:
    path = f"{JOBS}/{job_id}/results"
    answer = await client.get(path)
    lines = answer.text.splitlines()
    assert lines[1].startswith("'=cmd(),'=1+1@example.com,")
    assert len(lines) == 5
    assert answer.headers["mailsift-complete"] == "true"
    assert answer.headers["content-disposition"].startswith('attachment; filename="list.mailsift.csv"')
    some = await client.get(path, params={"status": "invalid", "columns": ["status", "email"]})
    assert some.text == "mailsift_status,email\ninvalid,no at\n"
    workbook = await client.get(path, params={"format": "xlsx"})
    assert pl.read_excel(io.BytesIO(workbook.content)).height == 4
    exact = await client.get(path, params={"format": "parquet"})
    assert pl.read_parquet(io.BytesIO(exact.content))["email"][0] == "=1+1@example.com"
    wrong = await client.get(path, params={"columns": "no such column"})
    assert (wrong.status_code, wrong.json()["code"]) == (422, "unknown_column")


async def test_a_stream_ends_with_its_key(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "FOLLOW_LOOK_SECONDS", 0.01)
    async with api.client(await api.key("alice")) as alice, open_container(api.settings) as container:
        job_id = await _sent(await alice.post(JOBS, json={"emails": ["a@example.com"], **FAST}))
        account = await container.jobs.account("alice")
        (key,) = await container.keys.list(account)
        lines: list[str] = []
        async with alice.stream("GET", f"{JOBS}/{job_id}/events") as stream:
            async for line in stream.aiter_lines():
                if line.startswith("event: "):
                    lines.append(line)
                    await container.keys.revoke(account, key.id)
        assert lines == ["event: progress"]
        assert (await alice.get(f"{JOBS}/{job_id}/events")).status_code == 401


@pytest.mark.usefixtures("worker")
async def test_runs_are_followed_repeated_compared_listed_and_deleted(client: httpx.AsyncClient) -> None:
    job_id = await _sent(
        await client.post(JOBS, params=FAST, content=CSV, headers={"content-type": "text/csv"})
    )
    events: list[str] = []
    event: dict[str, Any] = {}
    async with client.stream("GET", f"{JOBS}/{job_id}/events") as stream:
        async for line in stream.aiter_lines():
            if line.startswith("event: "):
                events.append(line)
            elif line.startswith("data: "):
                event = json.loads(line[6:])
    assert events[-1] == "event: end"
    assert event["status"] == "completed"
    again = await _sent(await client.post(f"{JOBS}/{job_id}/rerun"))
    assert (await _ended(client, again))["parent_id"] == job_id
    diff = (await client.get(f"{JOBS}/{again}/diff", params={"against": job_id})).json()["data"]
    assert (diff["compared"], diff["moves"]) == (3, [])
    refused = await client.post(f"{JOBS}/{job_id}/cancel")
    assert (refused.status_code, refused.json()["code"]) == (409, "job_state_conflict")
    assert refused.json()["message"] == "You can’t cancel a job whose state is “completed”."
    assert (await client.post(f"{JOBS}/{job_id}/retry")).json()["code"] == "nothing_to_retry"
    page = (await client.get(JOBS, params={"limit": 1})).json()["data"]
    assert ([job["job_id"] for job in page["jobs"]], page["has_more"]) == ([again], True)
    rest = (await client.get(JOBS, params={"limit": 1, "cursor": page["next_cursor"]})).json()["data"]
    assert ([job["job_id"] for job in rest["jobs"]], rest["has_more"]) == ([job_id], False)
    other = await client.get(JOBS, params={"cursor": page["next_cursor"], "status": "failed"})
    assert (other.status_code, other.json()["code"]) == (422, "bad_cursor")
    assert (await client.delete(f"{JOBS}/{job_id}")).status_code == 200
    assert (await client.get(f"{JOBS}/{job_id}")).status_code == 404


@pytest.mark.usefixtures("worker")
async def test_a_preview_is_a_fair_sample_and_becomes_the_whole_list(client: httpx.AsyncClient) -> None:
    good = [f"user{n}@example.com" for n in range(300)]
    bad = [f"user{n}@bad..example" for n in range(100)]
    body = {"emails": good + bad, "preview": 40, **FAST}
    preview = await _sent(await client.post(JOBS, json=body))
    job = await _ended(client, preview)
    assert (job["status"], job["total_emails"], job["list_rows"]) == ("completed", 40, 400)
    estimate = (await client.get(f"{JOBS}/{preview}/estimate")).json()["data"]
    assert estimate["shares"]["valid"]["share"] == pytest.approx(0.75, abs=0.03)
    assert estimate["shares"]["valid"]["low"] < 0.75 < estimate["shares"]["valid"]["high"]
    whole = await _sent(await client.post(f"{JOBS}/{preview}/promote"))
    job = await _ended(client, whole)
    assert (job["valid"], job["invalid"], job["preview"]) == (300, 100, 0)


async def test_fifty_posts_at_once_with_one_idempotency_key_make_one_job(client: httpx.AsyncClient) -> None:
    headers = {"Idempotency-Key": '"once"'}
    body = {"emails": ["a@example.com"], **FAST}
    answers = await asyncio.gather(*(client.post(JOBS, json=body, headers=headers) for _ in range(50)))
    assert sorted({answer.status_code for answer in answers}) == [200, 202]
    assert len({answer.json()["data"]["job_id"] for answer in answers}) == 1
    assert len((await client.get(JOBS)).json()["data"]["jobs"]) == 1
    other = await client.post(JOBS, json={**body, "name": "other"}, headers=headers)
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")
    bad = await client.post(JOBS, json=body, headers={"Idempotency-Key": "a b"})
    assert (bad.status_code, bad.json()["code"]) == (400, "bad_idempotency_key")


async def test_a_job_pauses_resumes_and_is_cancelled_before_it_is_deleted(client: httpx.AsyncClient) -> None:
    job_id = await _sent(await client.post(JOBS, json={"emails": ["a@example.com"]}))
    answer = await client.get(f"{JOBS}/{job_id}/results")
    assert (answer.status_code, answer.json()["code"]) == (409, "no_results_yet")
    assert (await client.delete(f"{JOBS}/{job_id}")).status_code == 409
    assert (await client.post(f"{JOBS}/{job_id}/pause")).json()["code"] == "job_state_conflict"
    cancelled = await client.post(f"{JOBS}/{job_id}/cancel")
    assert cancelled.json()["data"]["status"] == "cancelled"
    assert (await client.delete(f"{JOBS}/{job_id}")).status_code == 200


async def test_an_upload_that_breaks_off_leaves_nothing(client: httpx.AsyncClient, api: Api) -> None:
    host, _, port = api.url.removeprefix("http://").partition(":")
    key = client.headers["authorization"]
    head = f"POST {JOBS} HTTP/1.1\r\nHost: x\r\nAuthorization: {key}\r\nContent-Type: text/csv\r\n"
    _, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"{head}Content-Length: 5000000\r\n\r\n".encode() + b"a@example.com\n" * 100_000)
    await writer.drain()
    await until(partial(_holds_files, api, wanted=True), within=30)
    writer.close()
    await writer.wait_closed()
    await until(partial(_holds_files, api, wanted=False), within=30)
    assert (await client.get(JOBS)).json()["data"]["jobs"] == []


@pytest.mark.usefixtures("worker")
async def test_a_job_is_deleted_with_its_files_when_its_time_is_over(
    client: httpx.AsyncClient, api: Api
) -> None:
    body = {"emails": ["a@example.com"], "retention": 3, **FAST}
    job_id = await _sent(await client.post(JOBS, json=body))
    assert (await _ended(client, job_id))["expires_at"]

    async def gone() -> bool:
        return (await client.get(f"{JOBS}/{job_id}")).status_code == 404

    await until(gone, within=30)
    await until(partial(_holds_files, api, wanted=False), within=30)  # they go after their job


async def test_a_plan_says_what_a_list_will_take_before_anybody_reads_it(client: httpx.AsyncClient) -> None:
    """No worker runs; nobody asks yahoo, whose answers mean nothing."""
    emails = [f"user{n}@gmail.com" for n in range(150)] + ["a@yahoo.com", "b@unheard-of.example", "no at"]
    job_id = await _sent(await client.post(JOBS, json={"emails": emails}))
    answer = await client.get(f"{JOBS}/{job_id}/plan")
    assert answer.status_code == 200, answer.text
    plan = answer.json()["data"]
    assert plan["seconds"] is None  # nobody works here, whatever it would wait for
    assert plan["reason"] == plan["lines"][0]["reason"]
    assert (plan["addresses"], plan["unknown"]) == (153, 1)
    assert plan["probes"] == [{"provider": "google", "addresses": 150}, {"provider": "", "addresses": 1}]
    assert {line["waits_for"]: line["addresses"] for line in plan["lines"]} == {
        "google": 150,
        "triage": 153,
        "mixed": 1,
    }
    job = (await client.get(f"{JOBS}/{job_id}")).json()["data"]
    assert job["eta_seconds"] is None
    assert "small providers" in job["eta_reason"]
    unknown = await client.get(f"{JOBS}/{'0' * 8}-0000-0000-0000-{'0' * 12}/plan")
    assert (unknown.status_code, unknown.json()["code"]) == (404, "job_not_found")


async def test_plan_and_time_of_a_preview_are_those_of_its_sample(client: httpx.AsyncClient) -> None:
    emails = [f"user{n}@unheard-of.example" for n in range(500)]
    job = (await client.post(JOBS, json={"emails": emails, "preview": 40})).json()["data"]
    plan = (await client.get(f"{JOBS}/{job['job_id']}/plan")).json()["data"]
    assert (plan["addresses"], plan["probes"]) == (40, [{"provider": "", "addresses": 40}])
    assert "40 addresses" in job["eta_reason"]


async def test_a_plan_ends_at_the_deadline_of_a_job_that_nobody_has_read(client: httpx.AsyncClient) -> None:
    emails = [f"user{n}@unheard-of.example" for n in range(3_000)]
    seconds = {}
    for deadline in (0, 1):
        job_id = await _sent(await client.post(JOBS, json={"emails": emails, "deadline": deadline}))
        plan = (await client.get(f"{JOBS}/{job_id}/plan")).json()["data"]
        seconds[deadline] = {line["waits_for"]: line["seconds"] for line in plan["lines"]}
    assert seconds[0]["mixed"] == pytest.approx(100)  # 30/s
    assert seconds[1]["mixed"] == pytest.approx(46, abs=1)  # a chunk in the time that it may ask
    assert seconds[1]["triage"] == seconds[0]["triage"]
