"""A job whose list is fetched: what is asked for is checked at once, and shown to nobody."""

from __future__ import annotations

import httpx

URL = "https://files.example.com/list.csv?signature=not-to-be-seen"


async def test_a_list_may_be_named_instead_of_sent(client: httpx.AsyncClient) -> None:
    made = await client.post("/v1/bulk/jobs", json={"source": URL, "mode": "fast", "metadata": {"a": "b"}})
    assert made.status_code == 202
    job = made.json()["data"]
    assert (job["name"], job["mode"], job["metadata"]) == ("list.csv", "fast", {"a": "b"})
    shown = await client.get(f"/v1/bulk/jobs/{job['job_id']}")
    assert "not-to-be-seen" not in made.text + shown.text


async def test_what_may_not_be_named_is_refused(client: httpx.AsyncClient) -> None:
    refused = {
        "bad_place": {"source": "https://user:word@example.com/a.csv"},
        "place_not_allowed": {"source": "s3://bucket/a.csv"},
        "webhook_url_blocked": {"source": "https://127.0.0.1/a.csv"},
        "invalid_request": {"source": URL, "emails": ["a@example.com"]},
    }
    for code, body in refused.items():
        answer = await client.post("/v1/bulk/jobs", json=body)
        assert (answer.json()["code"], answer.status_code // 100) == (code, 4), answer.text
