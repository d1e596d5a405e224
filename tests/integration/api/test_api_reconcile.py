"""A batch in one answer, events to look for what was missed, and what all of it used."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from mailsift.pipeline.clock import system_clock
from mailsift.settings import Settings

if TYPE_CHECKING:
    from tests.integration.api.conftest import Api

BATCH, SINGLE, JOBS, EVENTS = (
    "/v1/email/batch-validate",
    "/v1/email/single-validate",
    "/v1/bulk/jobs",
    "/v1/events",
)
MIXED = [
    "jane@example.com",
    "jane@@example.com",
    "JANE@Example.com",
    "info@gmial.com",
    "jane@@example.com",
    "Joe <joe@example.org>",
    "jürgen@müller.de",
    "",
]


@pytest.fixture
def settings(settings: Settings) -> Settings:
    changes = {"allow_non_public": True, "webhook_allow_http": True, "requests_per_minute": 400}
    return settings.model_copy(update=changes)


async def usage(client: httpx.AsyncClient, **asked: str) -> dict[str, Any]:
    answer = await client.get("/v1/usage", params=asked)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()["data"]
    return found


@pytest.mark.parametrize("mode", ["fast", "medium"])
async def test_a_batch_says_of_each_address_what_it_is_told_alone(
    client: httpx.AsyncClient, mode: str
) -> None:
    wanted = {"mode": mode, "repair": True, "deadline_ms": 20_000}
    answer = await client.post(BATCH, json={"emails": MIXED, **wanted})
    assert answer.status_code == 200, answer.text
    results = answer.json()["data"]["results"]
    assert [one["email"] for one in results] == MIXED
    for email, result in zip(MIXED, results, strict=True):
        alone = (await client.post(SINGLE, json={"email": email, **wanted})).json()["data"]
        assert {**alone, "email": email} == result
    short = await client.post(BATCH, json={"emails": MIXED, **wanted}, headers={"Prefer": "return=minimal"})
    assert set(short.json()["data"]["results"][0]) == {"email", "is_valid", "status", "score", "reason"}
    assert short.headers["preference-applied"] == "return=minimal"
    found = await usage(client)
    assert found["total"]["rows"] == 3 * len(MIXED)
    used = found["days"][0]["modes"][mode]
    distinct = {"fast": 6, "medium": 5}[mode]  # the same text; of the pipeline the same mailbox, too
    assert used == {"rows": 3 * len(MIXED), "addresses": len(MIXED) + 2 * distinct, "probes": 0}


async def test_a_batch_is_bounded_and_counts_as_so_many_requests(api: Api, client: httpx.AsyncClient) -> None:
    for emails in ([], ["a@example.com"] * 101, "a@example.com", [5]):
        answer = await client.post(BATCH, json={"emails": emails, "mode": "fast"})
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    async with api.client(await api.key("bob")) as bob:
        body = {"emails": [f"a{n}@example.com" for n in range(100)], "mode": "fast"}
        left = [int((await bob.post(BATCH, json=body)).headers["ratelimit"].split(";")[1][2:])]
        left.append(int((await bob.post(BATCH, json=body)).headers["ratelimit"].split(";")[1][2:]))
        assert 60 <= left[0] - left[1] <= 100
        answers = [await bob.post(BATCH, json=body) for _ in range(4)]
        refused = [answer for answer in answers if answer.status_code == 429]
        assert refused
        assert {"retry-after", "ratelimit", "ratelimit-policy"} <= set(refused[0].headers)


@pytest.mark.usefixtures("worker")
async def test_events_are_listed_as_they_were_sent_and_lists_count_as_use(
    api: Api, client: httpx.AsyncClient
) -> None:
    hook = (await client.post("/v1/webhooks", json={"url": "http://127.0.0.1:9/hook"})).json()["data"]
    wanted = {"webhook_id": hook["webhook_id"], "test_type": "bulk_validate_failed"}
    test = (await client.post("/v1/webhooks/test", json=wanted)).json()["data"]
    jobs = []
    for _ in range(3):
        body = {"emails": ["a@example.com", "a@example.com", "b@@example.com"], "mode": "fast"}
        jobs.append((await client.post(JOBS, json=body)).json()["data"]["job_id"])
        await client.get(f"{JOBS}/{jobs[-1]}?wait=60")
    whole = (await client.get(EVENTS)).json()["data"]
    assert (whole["next_cursor"], whole["has_more"]) == ("", False)
    events = [(event["type"], event["simulated"], event["data"].get("job_id")) for event in whole["events"]]
    assert events[1:] == [("bulk.validation.completed", False, job) for job in jobs]
    assert events[0][:2] == ("bulk.validation.failed", True)
    assert whole["events"][0]["id"] == test["event_id"]
    found: list[dict[str, Any]] = []
    cursor, more = "", True
    while more:
        page = (await client.get(EVENTS, params={"limit": 1, "cursor": cursor})).json()["data"]
        found, cursor, more = [*found, *page["events"]], page["next_cursor"], page["has_more"]
    assert found == whole["events"]
    one = whole["events"][2]
    assert (await client.get(f"{EVENTS}/{one['id']}")).json()["data"] == one
    for asked, expected in (
        ({"job_id": jobs[1]}, [one]),
        ({"type": ["bulk.validation.failed", "webhook.test"]}, whole["events"][:1]),
        ({"since": one["created_at"]}, whole["events"][2:]),
        ({"since": "2999-01-01T00:00:00Z"}, []),
    ):
        assert (await client.get(EVENTS, params=asked)).json()["data"]["events"] == expected, asked
    for asked, code in (
        ({"cursor": "x"}, "bad_cursor"),
        ({"cursor": f"{one['created_at'][:-1]}~{one['id']}"}, "bad_cursor"),
        ({"since": "1700000000"}, "invalid_request"),
        ({"type": "bulk"}, "invalid_request"),
    ):
        answer = await client.get(EVENTS, params=asked)
        assert (answer.status_code, answer.json()["code"]) == (422, code), asked
    async with api.client(await api.key("bob")) as bob:
        assert (await bob.get(EVENTS)).json()["data"]["events"] == []
        assert (await bob.get(f"{EVENTS}/{one['id']}")).json()["code"] == "event_not_found"
        assert (await usage(bob))["days"] == []

    used = await usage(client)
    assert used["total"] == {"rows": 9, "addresses": 6, "probes": 0}
    assert set(used["days"][0]["modes"]) == {"fast"}
    today = datetime.fromtimestamp(system_clock(), UTC).date()
    before = await usage(client, until=str(today - timedelta(days=2)))
    assert (before["days"], before["total"]["rows"]) == ([], 0)
    for asked in ({"since": "2999-01-01"}, {"since": "2001-01-01"}):
        answer = await client.get("/v1/usage", params=asked)
        assert (answer.status_code, answer.json()["code"]) == (422, "usage_range_invalid")


async def test_what_was_changed_in_the_account_is_no_simulation(client: httpx.AsyncClient) -> None:
    hook = {"url": "http://127.0.0.1:9/hook", "types": ["audit.recorded"]}
    first = (await client.post("/v1/webhooks", json=hook)).json()["data"]
    await client.post("/v1/webhooks", json=hook)
    wanted = {"webhook_id": first["webhook_id"], "test_type": "test_webhook"}
    await client.post("/v1/webhooks/test", json=wanted)
    since = {"since": "2026-01-01T02:00:00+05:00"}
    await client.post(f"/v1/webhooks/{first['webhook_id']}/redeliver", json=since)
    found = (await client.get(EVENTS)).json()["data"]["events"]
    assert "since: 2025-12-31 21:00 UTC" in found[-1]["data"]["sentence"]
    kinds = {(event["type"], event["simulated"]) for event in found}
    assert kinds == {("audit.recorded", False), ("webhook.test", True)}
