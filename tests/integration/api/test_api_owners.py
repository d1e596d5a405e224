"""What one account has asked a mail server is used again for that account only, by single calls and lists."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import httpx
import polars as pl
import pytest

from mailsift.sandbox.client import SandboxProcess

if TYPE_CHECKING:
    from mailsift.settings import Settings
    from tests.integration.api.conftest import Api

SINGLE, JOBS = "/v1/email/single-validate", "/v1/bulk/jobs"
GOOD, BAD = "known1@ordinary.sandbox.test", "nobody1@ordinary.sandbox.test"


@pytest.fixture
def settings(make_settings: Callable[..., Settings], sandbox: SandboxProcess) -> Settings:
    return make_settings(sandbox=sandbox.env, api_port=0)


async def _single(client: httpx.AsyncClient, email: str) -> dict[str, Any]:
    verdict: dict[str, Any] = (await client.post(SINGLE, json={"email": email})).json()["data"]
    return verdict


async def _listed(client: httpx.AsyncClient, *emails: str) -> list[dict[str, Any]]:
    job = (await client.post(JOBS, json={"emails": list(emails)})).json()["data"]["job_id"]
    ended = (await client.get(f"{JOBS}/{job}", params={"wait": 25})).json()["data"]
    assert ended["status"] == "completed"
    rows = await client.get(f"{JOBS}/{job}/results", params={"format": "parquet"})
    listed = pl.read_parquet(io.BytesIO(rows.content)).to_dicts()
    return [{name.removeprefix("mailsift_"): value for name, value in row.items()} for row in listed]


@pytest.mark.usefixtures("worker")
async def test_an_answer_is_used_again_for_the_account_that_asked_and_for_nobody_else(
    api: Api, client: httpx.AsyncClient, sandbox: SandboxProcess
) -> None:
    def asked() -> int:
        return sum(sandbox.counters()["rcpts_by_provider"].values())

    first = {email: await _single(client, email) for email in (GOOD, BAD)}
    assert [first[email]["result"] for email in (GOOD, BAD)] == ["deliverable", "mailbox_not_found"]
    after_first = asked()
    dns = sandbox.counters()["dns"]
    assert after_first >= 3  # both, and the random name
    assert {email: await _single(client, email) for email in (GOOD, BAD)} == first
    rows = await _listed(client, GOOD, BAD)
    assert [{name: row[name] for name in first[GOOD]} for row in rows] == [first[GOOD], first[BAD]]
    assert asked() == after_first  # the list did not ask again
    async with api.client(await api.key("bob")) as bob:
        assert await _single(bob, GOOD) == first[GOOD]
        # The mailbox again, and where everybody was accepted the random recipient; nothing of DNS.
        assert asked() == after_first + 2
        assert (await _listed(bob, GOOD, BAD))[1]["result"] == "mailbox_not_found"
        assert asked() == after_first + 4  # and who had been accepted, beside the one who is refused
    assert sandbox.counters()["dns"] == dns
