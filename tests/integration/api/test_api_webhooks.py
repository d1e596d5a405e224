"""/v1/webhooks over a socket: the rate of an endpoint, our own hosts, and what a receiver asked for."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from mailsift.settings import Settings
from tests.receiver import receiving, status

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


@pytest.mark.parametrize("rate", ["0", "-1", "0.09", "100.1", "1e999", "NaN", '"2"', "true", "[]"])
async def test_a_rate_that_is_none_is_refused(client: httpx.AsyncClient, rate: str) -> None:
    body = f'{{"url": "http://127.0.0.1:9/hook", "rate_per_second": {rate}}}'
    refused = await client.post(HOOKS, content=body, headers={"content-type": "application/json"})
    assert refused.status_code in {400, 422}
    assert refused.json()["code"] in {"bad_request", "invalid_request"}


@pytest.mark.parametrize("host", ["api.example.org", "API.example.org", "127.0.0.9"])
async def test_a_webhook_to_ourselves_is_refused(client: httpx.AsyncClient, host: str) -> None:
    refused = await client.post(HOOKS, json={"url": f"http://{host}/v1/email/single-validate"})
    assert (refused.status_code, refused.json()["code"]) == (422, "webhook_url_blocked")
    made = (await client.post(HOOKS, json={"url": "http://127.0.0.1:9/hook"})).json()["data"]
    refused = await client.patch(f"{HOOKS}/{made['id']}", json={"url": f"http://{host}/"})
    assert (refused.status_code, refused.json()["code"]) == (422, "webhook_url_blocked")


async def test_the_log_says_what_the_receiver_asked_for(client: httpx.AsyncClient) -> None:
    async with receiving(status(503, "webhook-delivery: abort-message", body=b"<b>no</b>")) as receiver:
        made = (await client.post(HOOKS, json={"url": receiver.url})).json()["data"]
        wanted = {"test_type": "test_webhook", "webhook_id": made["id"]}
        tested: dict[str, Any] = (await client.post(f"{HOOKS}/test", json=wanted)).json()["data"]
    assert (tested["delivered"], tested["error"], tested["status_code"]) == (False, "http_5xx", 503)
    assert "response" not in tested
    (attempt,) = (await client.get(f"{HOOKS}/deliveries/{tested['delivery_id']}")).json()["data"]["log"]
    assert (attempt["wish"], attempt["response"]) == ("abort-message", "<b>no</b>")
