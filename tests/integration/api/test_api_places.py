"""A job whose list is fetched: what is asked for is checked at once, and shown to nobody."""

from __future__ import annotations

import httpx

URL = "https://files.example.com/list.csv?signature=not-to-be-seen"


async def test_a_list_may_be_named_instead_of_sent(client: httpx.AsyncClient) -> None:
    made = await client.post("/v1/bulk/jobs", json={"source": URL, "mode": "fast", "metadata": {"a": "b"}})
    assert made.status_code == 202
    job = made.json()["data"]
    assert (job["name"], job["mode"], job["metadata"]) == ("list.csv", "fast", {"a": "b"})
    found = await client.get(f"/v1/bulk/jobs/{job['job_id']}")
    assert "not-to-be-seen" not in made.text + found.text


async def test_what_may_not_be_named_is_refused(client: httpx.AsyncClient) -> None:
    refused = {
        "bad_place": {"source": "https://user:word@example.com/a.csv"},
        "place_not_allowed": {"source": "s3://bucket/a.csv"},
        "webhook_url_blocked": {"source": "https://127.0.0.1/a.csv"},
        "webhook_url_invalid": {"source": "https://files.example.com:22/a.csv"},
        "invalid_request": {"source": URL, "emails": ["a@example.com"]},
    }
    for code, body in refused.items():
        answer = await client.post("/v1/bulk/jobs", json=body)
        assert (answer.json()["code"], answer.status_code // 100) == (code, 4), answer.text
    described = (await client.get("/openapi.json")).json()["paths"]
    for path in ("/v1/bulk/jobs", "/v1/bulk/schedules"):
        codes = {
            code
            for response in described[path]["post"]["responses"].values()
            for code in response["content"].get("application/json", {}).get("examples", ())
        }
        assert codes >= {*refused, "unknown_export_format"}


async def test_a_list_that_is_sent_may_name_where_its_results_go(client: httpx.AsyncClient) -> None:
    sink, body = {"sink": "s3://bucket/a.csv"}, "email\na@example.com\n"
    for sent in (
        await client.post("/v1/bulk/jobs", json={"emails": ["a@example.com"], **sink}),
        await client.post("/v1/bulk/jobs", files={"file": body.encode()}, data=sink),
        await client.post("/v1/bulk/jobs", content=body, params=sink, headers={"Content-Type": "text/csv"}),
    ):
        assert (sent.status_code, sent.json()["code"]) == (403, "place_not_allowed"), sent.text


async def test_a_schedule_may_name_the_place_of_its_list(client: httpx.AsyncClient) -> None:
    weekly = {"cron": "0 6 * * 1", "source": URL, "options": {"mode": "fast", "repair": True}}
    made = await client.post("/v1/bulk/schedules", json=weekly)
    assert made.status_code == 201, made.text
    found = made.json()["data"]
    assert (found["job_id"], found["name"], found["repair"]) == (None, "list.csv", True)
    assert "not-to-be-seen" not in made.text
    path = f"/v1/bulk/schedules/{found['schedule_id']}"
    changed = (await client.patch(path, json={"repair": False})).json()["data"]
    assert (changed["repair"], changed["cron"]) == (False, "0 6 * * 1")
    run = (await client.post(f"{path}/run")).json()["data"]["job_id"]
    assert (await client.get(f"/v1/bulk/jobs/{run}")).json()["data"]["name"] == "list.csv"
    for code, body in {
        "schedule_needs_list": {},
        "place_not_allowed": {"source": "s3://bucket/a.csv"},
        "bad_place": {"source": URL, "sink": "https://example.com/a.csv"},
    }.items():
        refused = await client.post("/v1/bulk/schedules", json={"cron": "0 6 * * 1", **body})
        assert refused.json()["code"] == code, refused.text


async def test_a_list_that_nobody_has_fetched_yet_has_a_plan_that_knows_nothing(
    client: httpx.AsyncClient,
) -> None:
    job = (await client.post("/v1/bulk/jobs", json={"source": URL})).json()["data"]
    assert (job["eta_seconds"], job["eta_reason"]) == (None, "")
    plan = await client.get(f"/v1/bulk/jobs/{job['job_id']}/plan")
    assert plan.status_code == 200, plan.text
    found = plan.json()["data"]
    assert (found["seconds"], found["addresses"], found["probes"]) == (None, 0, [])
