"""Test mode: every outcome by name, nobody asked, everything marked, and nothing mixed with what is real."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import polars as pl
import pytest

from mailsift.accounts.keys import KeyKind, is_key
from mailsift.container import open_container
from mailsift.pipeline.scripted import ADDRESSES
from mailsift.pipeline.verdict import Result
from mailsift.settings import Settings
from mailsift.storage.sql import stats
from tests.support.installation import until
from tests.support.receiver import receiving

if TYPE_CHECKING:
    from tests.integration.api.conftest import Api

BATCH, SINGLE = "/v1/email/batch-validate", "/v1/email/single-validate"
JOBS, HOOKS = "/v1/bulk/jobs", "/v1/webhooks"
ROOT = Path(__file__).parents[3]
MODES = {Result.PASSED: "medium", Result.UNKNOWN_SUFFIX: "fast"}


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Nothing listens where DNS and mail servers are said to be (conftest)."""
    return settings.model_copy(update={"allow_non_public": True, "webhook_allow_http": True})


async def test_key(api: Api, account: str) -> str:
    async with open_container(api.settings) as container:
        owner = await container.jobs.account(account)
        return (await container.keys.create(owner, kind=KeyKind(test=True))).secret


test_key.__test__ = False  # type: ignore[attr-defined]


async def _true(value: bool) -> bool:
    return value


def is_marked(answer: httpx.Response) -> bool:
    assert answer.headers["mailsift-mode"] == "test"
    return answer.json()["test"] is True


def test_there_is_an_address_of_every_result_and_the_page_names_each() -> None:
    assert set(ADDRESSES) == set(Result)
    page = (ROOT / "docs/api.md").read_text()
    assert [one for one in ADDRESSES.values() if one not in page] == []


async def test_every_outcome_comes_by_its_name_and_is_marked(api: Api, client: httpx.AsyncClient) -> None:
    key = await test_key(api, "alice")
    assert key.startswith("svc_test_")
    assert is_key(key)
    async with api.client(key) as tester:
        for result, email in ADDRESSES.items():
            wanted = {"email": email, "mode": MODES.get(result, "deep"), "deadline_ms": 60_000}
            answer = await tester.post(SINGLE, json=wanted)
            assert is_marked(answer)
            assert (answer.json()["data"]["result"], len(answer.json()["data"])) == (result.value, 13)
        deep = [email for result, email in ADDRESSES.items() if result not in MODES]
        answer = await tester.post(BATCH, json={"emails": deep, "deadline_ms": 60_000})
        assert is_marked(answer)
        results = [one["result"] for one in answer.json()["data"]["results"]]
        assert results == [result.value for result in ADDRESSES if result not in MODES]
        for method, path, status in (
            ("GET", JOBS, 200),
            ("GET", f"{JOBS}/00000000-0000-0000-0000-000000000000", 404),
            ("POST", SINGLE, 415),
            ("GET", f"{HOOKS}?x=1", 422),
        ):
            refused = await tester.request(method, path)
            assert refused.status_code == status
            assert is_marked(refused)
        used = (await tester.get("/v1/usage")).json()["data"]["total"]
    assert used["rows"] == len(ADDRESSES) + len(deep)
    live = await client.get("/v1/usage")
    assert live.json()["data"]["days"] == []
    assert "mailsift-mode" not in live.headers
    assert "test" not in live.json()


@pytest.mark.usefixtures("worker")
async def test_lists_and_webhooks_of_test_mode_are_its_own(api: Api, client: httpx.AsyncClient) -> None:
    body = {"emails": [email for result, email in ADDRESSES.items() if result not in MODES]}
    async with api.client(await test_key(api, "alice")) as tester, receiving() as receiver:
        hook = (await tester.post(HOOKS, json={"url": receiver.url})).json()["data"]
        wanted = {"webhook_id": hook["webhook_id"], "test_type": "test_webhook"}
        assert (await tester.post(f"{HOOKS}/test", json=wanted)).json()["data"]["delivered"]
        made = await tester.post(JOBS, json=body, headers={"Idempotency-Key": "once"})
        assert is_marked(made)
        job_id = made.json()["data"]["job_id"]
        job: dict[str, Any] = (await tester.get(f"{JOBS}/{job_id}?wait=60")).json()["data"]
        assert job["status"] == "completed"
        results = await tester.get(f"{JOBS}/{job_id}/results?format=parquet")
        assert results.headers["mailsift-mode"] == "test"
        found = pl.read_parquet(io.BytesIO(results.content))
        by_email = dict(found.select("email", "mailsift_result").iter_rows())
        assert by_email == {email: result.value for result, email in ADDRESSES.items() if result not in MODES}
        await until(lambda: _true(len(receiver.requests) == 2), within=60)
        assert [one.headers["mailsift-mode"] for one in receiver.requests] == ["test", "test"]
        for path in (f"{JOBS}/{job_id}", f"{JOBS}/{job_id}/results", f"{HOOKS}/{hook['webhook_id']}"):
            assert (await client.get(path)).status_code == 404
        for path, member in ((JOBS, "jobs"), (HOOKS, "webhooks"), ("/v1/events", "events")):
            assert (await client.get(path)).json()["data"][member] == []
    async with open_container(api.settings) as container:
        async with container.database.begin() as connection:
            assert (await stats.snapshot(connection)).today == (0, 0, 0)
        alice = await container.jobs.find_account("alice")
        rows = await container.keys.list(alice)
        assert {row.hint[:9] for row in rows} == {"svc_key_" + rows[0].hint[8], "svc_test_"}
        await container.eraser.account(alice)
    async with api.client(await api.key("alice")) as again:
        assert (await again.get(JOBS)).json()["data"]["jobs"] == []
