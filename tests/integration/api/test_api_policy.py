"""What an account wants done: its policy, a job's, the tiers they come to, and to whom nobody is to send."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from mailsift.settings import Settings

if TYPE_CHECKING:
    from tests.integration.api.conftest import Api

POLICY, JOBS, OUTCOMES = "/v1/policy", "/v1/bulk/jobs", "/v1/outcomes"
EMAILS = ["ann@example.com", "info@example.com", "bad..example", "tom@gmail.com", "eve@example.com"]


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"requests_per_minute": 1_000})


async def completed(client: httpx.AsyncClient, **options: Any) -> dict[str, Any]:
    made = await client.post(JOBS, json={"emails": EMAILS, "mode": "fast", **options})
    assert made.status_code == 202, made.text
    job = await client.get(f"{JOBS}/{made.json()['data']['job_id']}", params={"wait": 60})
    found: dict[str, Any] = job.json()["data"]
    assert found["status"] == "completed"
    return found


async def tiers_of(client: httpx.AsyncClient, job: dict[str, Any]) -> dict[str, tuple[str, str]]:
    answer = await client.get(f"{JOBS}/{job['job_id']}/results", params={"format": "json"})
    return {row["email"]: (row["tier"], row["tier_reason"]) for row in answer.json()["data"]["rows"]}


@pytest.mark.usefixtures("worker")
async def test_a_job_is_read_by_the_accounts_policy_or_its_own(api: Api, client: httpx.AsyncClient) -> None:
    first = await completed(client)
    assert first["tiers"] == {"send": 4, "review": 0, "remove": 1}
    sent = await client.put(POLICY, json={"tiers": {"role": "review", "free": "remove"}})
    assert sent.status_code == 200, sent.text
    assert (await client.get(POLICY)).json()["data"] == sent.json()["data"]
    answer = await client.post(
        OUTCOMES, content=b"email,event\neve@example.com,complaint\n", headers={"content-type": "text/csv"}
    )
    assert answer.json()["data"]["taken"] == 1

    second = await completed(client)
    assert second["tiers"] == {"send": 1, "review": 1, "remove": 3}
    assert second["policy"] == sent.json()["data"]["tiers"]
    assert await tiers_of(client, second) == {
        "ann@example.com": ("send", ""),
        "info@example.com": ("review", "role"),
        "bad..example": ("remove", "invalid"),
        "tom@gmail.com": ("remove", "free"),
        "eve@example.com": ("remove", "complained"),
    }
    own = await completed(client, policy={"complained": "review"})
    assert own["tiers"] == {"send": 3, "review": 1, "remove": 1}
    again = await client.get(f"{JOBS}/{first['job_id']}")
    assert again.json()["data"]["tiers"] == first["tiers"]  # what has begun keeps its policy

    async with api.client(await api.key("bob")) as bob:
        assert (await bob.get(POLICY)).json()["data"]["tiers"]["free"] == "send"
        assert (await completed(bob))["tiers"] == first["tiers"]


@pytest.mark.usefixtures("worker")
async def test_files_and_filters_have_the_tiers(client: httpx.AsyncClient) -> None:
    job = await completed(client, policy={"role": "remove"})
    path = f"{JOBS}/{job['job_id']}/results"
    rows = list(csv.DictReader(io.StringIO((await client.get(path)).text)))
    assert [row["mailsift_tier"] for row in rows] == ["send", "remove", "remove", "send", "send"]
    assert {row["mailsift_tier_reason"] for row in rows} == {"", "role", "invalid"}
    gone = await client.get(path, params={"format": "jsonl", "tier": "remove", "columns": ["email", "tier"]})
    assert [json.loads(line) for line in gone.text.splitlines()] == [
        {"email": "info@example.com", "mailsift_tier": "remove"},
        {"email": "bad..example", "mailsift_tier": "remove"},
    ]
    form = await client.post(
        JOBS,
        files={"file": ("l.csv", b"email\ninfo@example.com\n")},
        data={"mode": "fast", "policy": '{"role": "remove"}'},
    )
    assert form.json()["data"]["policy"]["role"] == "remove"


@pytest.mark.usefixtures("worker")
async def test_another_policy_is_tried_and_then_kept_or_not(api: Api, client: httpx.AsyncClient) -> None:
    job = await completed(client)
    path = f"{JOBS}/{job['job_id']}"
    other = {"policy": {"role": "remove", "free": "review"}}
    tried = (await client.post(f"{path}/replay", json=other)).json()["data"]
    assert tried["before"] == job["tiers"]
    assert (tried["after"], tried["moved"]) == ({"send": 2, "review": 1, "remove": 2}, 2)
    assert sum(row["rows"] for row in tried["rows"]) == len(EMAILS)
    moved = [row for row in tried["rows"] if row["before"] != row["after"]]
    assert sorted((row["after"], row["reason"]) for row in moved) == [("remove", "role"), ("review", "free")]
    assert (await client.get(path)).json()["data"]["tiers"] == job["tiers"]  # dropped: nothing has changed
    before = await client.get(f"{path}/results")

    async with api.client(await api.key("bob")) as bob:
        assert (await bob.post(f"{path}/replay", json=other)).status_code == 404
    kept = await client.post(f"{path}/replay", json=other | {"keep": True})
    assert kept.json()["data"]["after"] == tried["after"]
    now = (await client.get(path)).json()["data"]
    assert (now["tiers"], now["policy"]["role"]) == (tried["after"], "remove")
    after = await client.get(f"{path}/results", headers={"If-None-Match": before.headers["etag"]})
    assert after.status_code == 200  # who has the results of before does not have these
    rows = list(csv.DictReader(io.StringIO(after.text)))
    assert [row["mailsift_tier"] for row in rows] == ["send", "remove", "remove", "review", "send"]


@pytest.mark.parametrize(
    "wanted",
    [
        {"tiers": {"complained": "send"}},
        {"tiers": {"minimum_score": 101}},
        {"tiers": {"moon": "review"}},
        {"outcomes": {"delivered_days": -1}},
        {"outcomes": {"bounced_days": False}},
    ],
)
async def test_what_no_policy_may_say_is_refused(client: httpx.AsyncClient, wanted: dict[str, Any]) -> None:
    answer = await client.put(POLICY, json=wanted)
    assert answer.status_code == 422
    assert "<" not in answer.json()["message"]  # how Python shows a value is nobody's business


async def test_a_whole_number_is_one_however_json_writes_it(client: httpx.AsyncClient) -> None:
    answer = await client.put(POLICY, json={"tiers": {"minimum_score": 35.0}})
    assert answer.json()["data"]["tiers"]["minimum_score"] == 35
    assert (await client.put(POLICY, json={"tiers": {"minimum_score": True}})).status_code == 422
