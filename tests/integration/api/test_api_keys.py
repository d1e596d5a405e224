"""Keys over their life: rolled, revoked everywhere at once, expired; and the limits of an account."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import httpx
import pytest

from mailsift.serve import open_keyring
from mailsift.settings import Settings
from pipeline.errors import MailsiftError

if TYPE_CHECKING:
    from tests.integration.api.conftest import Api

JOBS = "/v1/bulk/jobs"


async def test_a_revoked_key_opens_nothing_the_moment_after(api: Api, client: httpx.AsyncClient) -> None:
    for _ in range(3):  # remembered by the API's process now
        assert (await client.get(JOBS)).status_code == 200
    async with open_keyring(api.settings) as ring:
        account = await ring.jobs.account("alice")
        (row,) = await ring.keys.list(account)
        assert row.last_used_at is not None
        await ring.keys.revoke(account, row.id)
        assert (await client.get(JOBS)).status_code == 401
        with pytest.raises(MailsiftError, match="key_not_found"):
            await ring.keys.revoke(await ring.jobs.account("bob"), row.id)


async def test_a_rolled_key_lives_for_the_overlap_beside_its_successor(
    api: Api, client: httpx.AsyncClient
) -> None:
    async with open_keyring(api.settings) as ring:
        account = await ring.jobs.account("alice")
        (row,) = await ring.keys.list(account)
        successor = await ring.keys.roll(account, row.id, overlap=60)
        async with api.client(successor.secret) as fresh:
            assert (await fresh.get(JOBS)).status_code == 200
        assert (await client.get(JOBS)).status_code == 200
        with pytest.raises(MailsiftError, match="key_not_active"):
            await ring.keys.roll(account, row.id)
        last = await ring.keys.roll(account, successor.row.id, overlap=0)
        async with api.client(successor.secret) as over, api.client(last.secret) as fresh:
            assert (await over.get(JOBS)).status_code == 401
            assert (await fresh.get(JOBS)).status_code == 200
        short = await ring.keys.create(account, lifetime=1.0)
        async with api.client(short.secret) as soon_over:
            assert (await soon_over.get(JOBS)).status_code == 200
            await asyncio.sleep(1.05)  # the database's clock decides
            assert (await soon_over.get(JOBS)).status_code == 401


class TestQuota:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return settings.model_copy(update={"requests_per_minute": 5})

    async def test_an_accounts_requests_are_counted_over_all_its_keys(
        self, api: Api, client: httpx.AsyncClient
    ) -> None:
        first = await client.get(JOBS)
        assert first.headers["ratelimit-policy"] == '"requests";q=5;w=60'
        assert first.headers["ratelimit"].startswith('"requests";r=4;t=')
        async with api.client(await api.key("alice")) as other, api.client(await api.key("bob")) as bob:
            answers = [await other.get(JOBS) for _ in range(5)]
            assert [answer.status_code for answer in answers] == [200, 200, 200, 200, 429]
            assert 1 <= int(answers[-1].headers["retry-after"]) <= 12
            assert answers[-1].json()["code"] == "rate_limited"
            assert (await bob.get(JOBS)).status_code == 200
