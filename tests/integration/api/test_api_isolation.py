"""Whatever belongs to another account is not there: every operation with an id, tried with a foreign one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx
import pytest

if TYPE_CHECKING:
    from tests.integration.api.conftest import Api

JOBS, HOOKS, SCHEDULES = "/v1/bulk/jobs", "/v1/webhooks", "/v1/bulk/schedules"
CRON = {"cron": "0 6 * * 1", "zone": "Europe/Berlin"}
BODIES: dict[tuple[str, str], dict[str, Any]] = {
    ("patch", f"{HOOKS}/{{webhook_id}}"): {"enabled": False},
    ("post", f"{HOOKS}/{{webhook_id}}/rotate"): {},
    ("post", f"{HOOKS}/{{webhook_id}}/redeliver"): {"since": "2026-01-01T00:00:00Z"},
    ("patch", f"{SCHEDULES}/{{schedule_id}}"): {"name": "mine now"},
}


async def test_every_operation_with_a_foreign_id_says_404(api: Api, client: httpx.AsyncClient) -> None:
    job = (await client.post(JOBS, json={"emails": ["a@example.com"]})).json()["data"]
    made = await client.post(HOOKS, json={"url": "http://127.0.0.1:9/hook"})
    assert made.status_code == 201, made.text
    hook = made.json()["data"]
    tested = await client.post(f"{HOOKS}/test", json={"test_type": "test_webhook", "webhook_id": hook["id"]})
    assert tested.json()["data"]["error"] == "connection_refused"
    schedule = (await client.post(SCHEDULES, json={"job_id": job["job_id"], **CRON})).json()["data"]
    assert len(schedule["next_runs"]) == 5
    ids = {
        "{job_id}": job["job_id"],
        "{webhook_id}": hook["id"],
        "{delivery_id}": tested.json()["data"]["delivery_id"],
        "{schedule_id}": schedule["id"],
    }
    before = [(await client.get(path)).json() for path in (JOBS, HOOKS, SCHEDULES)]
    operations = [
        (method, path)
        for path, methods in (await client.get("/openapi.json")).json()["paths"].items()
        for method in methods
        if "{" in path
    ]
    assert len(operations) > 25
    async with api.client(await api.key("mallory")) as mallory:
        for method, path in operations:
            url = path
            for name, value in ids.items():
                url = url.replace(name, value)
            params = {"against": job["job_id"]} if path.endswith("/diff") else {}
            body = BODIES.get((method, path))
            answer = await mallory.request(method, url, params=params, json=body)
            assert answer.status_code == 404, (method, path, answer.text)
            assert answer.json()["code"].endswith("_not_found")
        for path, body in (
            (f"{HOOKS}/test", {"test_type": "test_webhook", "webhook_id": hook["id"]}),
            (SCHEDULES, {"job_id": job["job_id"], **CRON}),
        ):
            assert (await mallory.post(path, json=body)).status_code == 404
        for path, name in ((JOBS, "jobs"), (HOOKS, "webhooks"), (SCHEDULES, "schedules")):
            assert (await mallory.get(path)).json()["data"][name] == []
    after = [(await client.get(path)).json() for path in (JOBS, HOOKS, SCHEDULES)]
    assert after == before


@pytest.fixture
def settings(settings: Any) -> Any:
    """Webhooks of this machine may be dialled."""
    return settings.model_copy(update={"allow_non_public": True, "webhook_allow_http": True})
