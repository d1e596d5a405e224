"""/v1/webhooks over a socket: the rate of an endpoint, our own hosts, and what a receiver asked for."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from mailsift.settings import Settings
from tests.support.receiver import receiving, status

HOOKS = "/v1/webhooks"


@pytest.fixture
def settings(settings: Settings) -> Settings:
    changes = {
        "allow_non_public": True,
        "webhook_allow_http": True,
        "own_hosts": ("api.example.org", "127.0.0.9"),
    }
    return settings.model_copy(update=changes)


async def test_a_rate_is_set_changed_kept_and_given_back(client: httpx.AsyncClient) -> None:
    url = "http://127.0.0.1:9/hook"
    plain = (await client.post(HOOKS, json={"url": url})).json()["data"]
    assert plain["rate_per_second"] is None
    made = (await client.post(HOOKS, json={"url": url, "rate_per_second": 2})).json()["data"]
    assert made["rate_per_second"] == 2.0
    hook = f"{HOOKS}/{made['id']}"
    for change, rate in (({"rate_per_second": 0.5}, 0.5), ({"enabled": True}, 0.5), ({"url": url}, 0.5)):
        assert (await client.patch(hook, json=change)).json()["data"]["rate_per_second"] == rate
    assert (await client.patch(hook, json={"rate_per_second": None})).json()["data"][
        "rate_per_second"
    ] is None
    assert (await client.get(hook)).json()["data"]["rate_per_second"] is None


async def test_a_rate_that_is_none_is_refused(client: httpx.AsyncClient) -> None:
    for rate in ("0", "-1", "0.09", "100.1", "1e999", "NaN", '"2"', "true", "[]"):
        body = f'{{"url": "http://127.0.0.1:9/hook", "rate_per_second": {rate}}}'
        refused = await client.post(HOOKS, content=body, headers={"content-type": "application/json"})
        assert refused.status_code in {400, 422}, rate
        assert refused.json()["code"] in {"bad_request", "invalid_request"}, rate


async def test_what_need_not_be_said_needs_no_body(client: httpx.AsyncClient) -> None:
    made = (await client.post(HOOKS, json={"url": "http://127.0.0.1:9/hook"})).json()["data"]
    rotate = f"{HOOKS}/{made['webhook_id']}/rotate"
    rotated = await client.post(rotate)
    assert rotated.status_code == 200
    assert rotated.json()["data"]["secret"] != made["secret"]
    for body, kind in ((b"force=true", "application/x-www-form-urlencoded"), (b'{"force": true}', "")):
        refused = await client.post(rotate, content=body, headers={"content-type": kind})
        assert refused.json()["code"] == "unsupported_media_type"


async def test_a_webhook_to_ourselves_is_refused(client: httpx.AsyncClient) -> None:
    made = (await client.post(HOOKS, json={"url": "http://127.0.0.1:9/hook"})).json()["data"]
    for host in ("api.example.org", "API.example.org", "127.0.0.9"):
        refused = await client.post(HOOKS, json={"url": f"http://{host}/v1/email/single-validate"})
        assert (refused.status_code, refused.json()["code"]) == (422, "webhook_url_blocked"), host
        refused = await client.patch(f"{HOOKS}/{made['id']}", json={"url": f"http://{host}/"})
        assert (refused.status_code, refused.json()["code"]) == (422, "webhook_url_blocked"), host


async def test_the_log_says_what_the_receiver_asked_for(client: httpx.AsyncClient) -> None:
    async with receiving(status(503, "webhook-delivery: abort-message", body=b"<b>no</b>")) as receiver:
        made = (await client.post(HOOKS, json={"url": receiver.url})).json()["data"]
        wanted = {"test_type": "test_webhook", "webhook_id": made["id"]}
        tested: dict[str, Any] = (await client.post(f"{HOOKS}/test", json=wanted)).json()["data"]
    assert (tested["delivered"], tested["error"], tested["status_code"]) == (False, "http_5xx", 503)
    assert "response" not in tested
    (attempt,) = (await client.get(f"{HOOKS}/deliveries/{tested['delivery_id']}")).json()["data"]["log"]
    assert (attempt["wish"], attempt["response"]) == ("abort-message", "<b>no</b>")


async def test_what_a_webhook_missed_is_sent_when_it_is_asked_for(client: httpx.AsyncClient) -> None:
    url = "http://127.0.0.1:9/hook"
    made = (await client.post(HOOKS, json={"url": url})).json()["data"]
    hook = f"{HOOKS}/{made['id']}"
    since = {"since": made["created_at"]}

    async def ended_job() -> None:
        job = (await client.post("/v1/bulk/jobs", json={"emails": ["a@example.com"]})).json()["data"][
            "job_id"
        ]
        assert (await client.post(f"/v1/bulk/jobs/{job}/cancel")).status_code == 200

    async def sent(address: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await client.get(f"{address}/deliveries")).json()["data"]["deliveries"]
        return found

    await ended_job()  # waits, for there is no worker here
    await client.patch(hook, json={"enabled": False})  # which skips what waits
    await ended_job()  # nobody is to be told of
    await client.post(f"{HOOKS}/test", json={"test_type": "bulk_validate_success", "webhook_id": made["id"]})
    refused = await client.post(f"{hook}/recover", params=since)
    assert (refused.status_code, refused.json()["code"]) == (409, "webhook_disabled")
    assert [one["state"] for one in await sent(hook)] == ["exhausted", "skipped"]
    await client.patch(hook, json={"enabled": True})

    answer = await client.post(f"{hook}/recover", params=since)
    assert (answer.status_code, answer.json()["data"]) == (202, {"count": 2})
    found = [one for one in await sent(hook) if one["trigger"] != "test"]
    assert {one["state"] for one in found} == {"pending"}
    assert len({one["event_id"] for one in found}) == 2
    assert (await client.post(f"{hook}/recover", params=since)).json()["data"] == {"count": 0}

    late = (await client.post(HOOKS, json={"url": url, "types": ["bulk.validation.completed"]})).json()[
        "data"
    ]
    hook = f"{HOOKS}/{late['id']}"
    assert (await client.post(f"{hook}/recover", params=since)).json()["data"] == {"count": 0}
    await client.patch(hook, json={"types": []})
    now = {"since": late["created_at"]}
    assert (await client.post(f"{hook}/recover", params=now)).json()["data"] == {"count": 0}
    assert (await client.post(f"{hook}/recover", params=since)).json()["data"] == {"count": 2}


async def test_since_is_a_moment_with_a_zone(client: httpx.AsyncClient) -> None:
    made = (await client.post(HOOKS, json={"url": "http://127.0.0.1:9/hook"})).json()["data"]
    for since in ("", "yesterday", "1700000000", "2026-01-31T08:00:00"):
        answer = await client.post(f"{HOOKS}/{made['id']}/recover", params={"since": since})
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request"), since
