"""Public keys by program: made, changed and revoked, and what the widget makes of it at once."""

from __future__ import annotations

import json

import httpx
import pytest

from mailsift.accounts.keys import KeyKind, Scope
from mailsift.container import open_container
from tests.integration.api.conftest import Api
from tests.support.serving import NO_TLS
from tests.support.sessions import signed_in

KEYS = "/v1/public-keys"
SHOP, BLOG = "https://shop.example.com", "https://blog.example.com"


async def _opens(api: Api, key: str, origin: str) -> int:
    async with httpx.AsyncClient(base_url=api.url, headers={"Origin": origin}, verify=NO_TLS) as visitor:
        return (await visitor.post("/v1/widget/session", json={"key": key})).status_code


async def test_a_public_key_is_made_moved_limited_and_revoked_without_a_page(
    api: Api, client: httpx.AsyncClient
) -> None:
    made = await client.post(KEYS, json={"origins": [f"{SHOP}/"], "name": "Shop"})
    assert made.status_code == 201, made.text
    first = made.json()["data"]
    at, key = made.headers["location"], first.pop("key")
    assert key.startswith("svc_pub_")
    assert first["origins"] == [SHOP]
    assert (await client.get(at)).json()["data"] == first
    assert [await _opens(api, key, origin) for origin in (SHOP, BLOG)] == [200, 403]
    changed = await client.patch(at, json={"origins": [BLOG], "checks_per_minute": 1})
    assert changed.json()["data"] == {
        **first,
        "origins": [BLOG],
        "checks_per_minute": 1,
        "last_used_at": (changed.json()["data"]["last_used_at"]),
    }
    assert [await _opens(api, key, origin) for origin in (SHOP, BLOG)] == [403, 200]
    assert await _checks(api, key, BLOG, 2) == [200, 429]
    assert (await client.patch(at, json={"checks_per_minute": None})).json()["data"][
        "checks_per_minute"
    ] is None
    assert (await client.delete(at)).status_code == 200
    assert await _opens(api, key, BLOG) == 401
    assert [(await client.get(at)).status_code, (await client.delete(at)).status_code] == [404, 404]
    assert (await client.get(KEYS)).json()["data"]["public_keys"] == []
    async with signed_in(api) as owner:
        log = (await owner.get("/account/log.jsonl", params={"what": "keys"})).text
        sentences = [json.loads(line)["sentence"] for line in reversed(log.splitlines())]
    assert sentences[:2] == [
        f"A key without a name created the key “Shop” (for: {SHOP}, checks a minute: 1200)",
        f"A key without a name changed the key “Shop” (for: {BLOG}, checks a minute: 1)",
    ]
    assert sentences[-1] == "A key without a name revoked the key “Shop”"


async def _checks(api: Api, key: str, origin: str, count: int) -> list[int]:
    async with httpx.AsyncClient(base_url=api.url, headers={"Origin": origin}, verify=NO_TLS) as visitor:
        token = (await visitor.post("/v1/widget/session", json={"key": key})).json()["data"]["token"]
        asked = {"key": key, "token": token, "email": "jane"}
        return [
            (await visitor.post("/v1/widget/check", json={**asked, "number": number})).status_code
            for number in range(1, count + 1)
        ]


@pytest.mark.parametrize(
    "origins", [["http://shop.example.com"], ["https://*.example.com"], [f"{SHOP}/form"]]
)
async def test_an_origin_that_no_browser_would_send_is_refused(
    client: httpx.AsyncClient, origins: list[str]
) -> None:
    refused = await client.post(KEYS, json={"origins": origins})
    assert (refused.status_code, refused.json()["code"]) == (422, "bad_origin")


async def test_secret_keys_are_out_of_reach_and_a_test_key_makes_test_keys(
    api: Api, client: httpx.AsyncClient
) -> None:
    async with open_container(api.settings) as container:
        owner = await container.jobs.account("alice")
        secret = (await container.keys.list(owner))[0]
        tester = await container.keys.create(owner, kind=KeyKind(test=True))
        reader = await container.keys.create(owner, scopes=[Scope.JOBS_READ])
    for method in ("GET", "DELETE"):
        assert (await client.request(method, f"{KEYS}/{secret.id}")).status_code == 404
    async with api.client(tester.secret) as tests, api.client(reader.secret) as reads:
        made = (await tests.post(KEYS, json={"origins": [SHOP]})).json()["data"]
        assert made["test"]
        assert made["key"].startswith("svc_pub_test_")
        assert (await reads.get(KEYS)).json()["code"] == "insufficient_scope"
        listed = (await client.get(KEYS)).json()["data"]["public_keys"]
        assert [one["public_key_id"] for one in listed] == [made["public_key_id"]]
