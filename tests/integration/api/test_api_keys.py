"""Keys over their life: rolled, revoked everywhere at once, expired; and the limits of an account."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from mailsift.api.http.auth import quota_error
from mailsift.container import OtherParts, open_container
from mailsift.pipeline.clock import system_clock
from mailsift.pipeline.errors import MailsiftError
from mailsift.settings import Settings
from mailsift.storage.redis.rate_limit import RateLimitDecision, Zone
from tests.integration.api.conftest import running
from tests.integration.api.pages.queries import sql
from tests.support.installation import settings_for, until
from tests.support.servers import RedisServer

if TYPE_CHECKING:
    from tests.integration.api.conftest import Api

JOBS = "/v1/bulk/jobs"


async def test_a_revoked_key_opens_nothing_the_moment_after(api: Api, client: httpx.AsyncClient) -> None:
    for _ in range(3):  # remembered by the API's process now
        assert (await client.get(JOBS)).status_code == 200
    async with open_container(api.settings) as container:
        account = await container.jobs.account("alice")
        (row,) = await container.keys.list(account)
        assert row.last_used_at is not None
        await container.keys.revoke(account, row.id)
        assert (await client.get(JOBS)).status_code == 401
        with pytest.raises(MailsiftError, match="key_not_found"):
            await container.keys.revoke(await container.jobs.account("bob"), row.id)


async def test_a_key_that_is_revoked_before_the_end_of_a_slow_body_orders_nothing(
    api: Api, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mailsift.api.http.middleware._PROMPT_S", 0.0)

    async def body() -> AsyncIterator[bytes]:
        yield b'{"url": '
        async with open_container(api.settings) as container:
            account = await container.jobs.account("alice")
            (row,) = await container.keys.list(account)
            await container.keys.revoke(account, row.id)
        yield b'"https://example.com/"}'

    headers = {"Content-Type": "application/json"}
    answer = await client.post("/v1/webhooks", content=body(), headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized")
    assert await sql(api.settings, "SELECT count(*) FROM endpoint") == [(0,)]


async def test_a_revoked_key_opens_nothing_while_redis_is_away_either(
    redis_server: RedisServer, database_url: str, tmp_path: Path
) -> None:
    settings = settings_for(
        tmp_path / "home",
        database_url=database_url,
        redis_url=redis_server.url,
        api_port=0,
        dns_servers=("127.0.0.1:9",),
    )
    async with running(settings) as api, api.client(await api.key("alice")) as client:
        assert (await client.get(JOBS)).status_code == 200  # remembered by the API's process now
        redis_server.kill()
        assert (await client.get(JOBS)).status_code == 200
        async with open_container(settings) as container:
            account = await container.jobs.account("alice")
            (row,) = await container.keys.list(account)
            await container.keys.revoke(account, row.id)
        assert (await client.get(JOBS)).status_code == 401
        redis_server.start()  # which knows nothing of it
        async with api.client(await api.key("bob")) as bob:
            await until(lambda: _is_counted(bob), within=20)
        assert (await client.get(JOBS)).status_code == 401


async def _is_counted(client: httpx.AsyncClient) -> bool:
    return "ratelimit" in (await client.get(JOBS)).headers


async def test_a_rolled_key_lives_for_the_overlap_beside_its_successor(
    api: Api, client: httpx.AsyncClient
) -> None:
    async with open_container(api.settings) as container:
        account = await container.jobs.account("alice")
        (row,) = await container.keys.list(account)
        successor = await container.keys.roll(account, row.id, overlap=60)
        async with api.client(successor.secret) as fresh:
            assert (await fresh.get(JOBS)).status_code == 200
        assert (await client.get(JOBS)).status_code == 200
        with pytest.raises(MailsiftError, match="key_not_active"):
            await container.keys.roll(account, row.id)
        last = await container.keys.roll(account, successor.row.id, overlap=0)
        async with api.client(successor.secret) as over, api.client(last.secret) as fresh:
            assert (await over.get(JOBS)).status_code == 401
            assert (await fresh.get(JOBS)).status_code == 200


async def test_a_key_ends_with_its_lifetime(api: Api) -> None:
    async with open_container(api.settings) as container:
        account = await container.jobs.account("alice")
        short = await container.keys.create(account, lifetime=60)
        over = await container.keys.create(account, lifetime=60)
    # The database's clock decides; the key is made older instead of waiting for it.
    await sql(
        api.settings, "UPDATE api_key SET expires_at = clock_timestamp() WHERE id = :id", id=over.row.id
    )
    async with api.client(short.secret) as alive, api.client(over.secret) as ended:
        assert (await alive.get(JOBS)).status_code == 200
        assert (await ended.get(JOBS)).status_code == 401


async def test_a_remembered_key_ends_with_its_lifetime(settings: Settings) -> None:
    now = system_clock()
    async with open_container(settings, other=OtherParts(clock=lambda: now)) as container:
        short = await container.keys.create(await container.jobs.account("alice"), lifetime=10)
        caller = await container.keys.find(short.secret)
        now += 9
        assert container.keys.cached_caller(short.secret) == caller
        now += 2
        assert container.keys.cached_caller(short.secret) is None


async def test_keys_that_nobody_has_are_tried_so_often_from_one_address_and_no_more(
    api: Api, client: httpx.AsyncClient
) -> None:
    failures = Zone("failures", quota=300, window=60)
    async with open_container(api.settings) as container, httpx.AsyncClient(base_url=api.url) as nobody:
        answer = await nobody.get(JOBS)
        assert answer.status_code == 401
        for _ in range(50):  # a try comes back every fifth of a second
            while (decision := await container.rate_limit.take(failures, "127.0.0.1")) and decision.allowed:
                pass
            if (answer := await nobody.get(JOBS)).status_code != 401:
                break
        assert (answer.status_code, answer.json()["code"]) == (429, "rate_limited")
        assert answer.headers["ratelimit-policy"] == '"failures";q=300;w=60'
        assert int(answer.headers["retry-after"]) == 1
    assert (await client.get(JOBS)).status_code == 200


@pytest.mark.parametrize(("wait", "expected"), [(0.01, 1), (1.0, 1), (1.01, 2), (59.5, 60)])
def test_a_spent_quota_says_when_some_of_it_is_back_in_whole_seconds(wait: float, expected: int) -> None:
    decision = RateLimitDecision(allowed=False, remaining=0, reset=60.0, retry_after=wait)
    refused = quota_error(Zone("requests", quota=9, window=60), decision)
    assert refused.headers == {
        "RateLimit-Policy": '"requests";q=9;w=60',
        "RateLimit": f'"requests";r=0;t={expected}',
        "Retry-After": str(expected),
    }


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

    async def test_a_batch_costs_as_many_requests_as_it_has_addresses(
        self, client: httpx.AsyncClient
    ) -> None:
        body = {"emails": ["a@b.example", "c@d.example", "e@f.example"], "mode": "fast"}
        batch = await client.post("/v1/email/batch-validate", json=body)
        assert batch.headers["ratelimit"].startswith('"requests";r=2;t=')
        refused = await client.post("/v1/email/batch-validate", json=body)
        assert (refused.status_code, refused.json()["code"]) == (429, "rate_limited")

    async def test_a_batch_that_would_be_too_early_for_ever_is_no_matter_of_time(
        self, client: httpx.AsyncClient
    ) -> None:
        emails = [f"u{n}@b.example" for n in range(6)]
        path = "/v1/email/batch-validate"
        refused = await client.post(path, json={"emails": emails, "mode": "fast"})
        assert (refused.status_code, refused.json()["code"]) == (422, "invalid_request")
        assert "there are 5 a minute here" in refused.json()["message"]
        assert "retry-after" not in refused.headers
