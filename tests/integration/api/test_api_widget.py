"""A public key lets a form ask about addresses, and nothing else: the attacks of docs/widget.md."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator
from typing import Any, Final
from uuid import UUID

import httpx
import pytest

from mailsift.accounts.keys import Caller, KeyKind, Pepper
from mailsift.accounts.widget import TOKEN_SECONDS, FormVisit, WidgetGate
from mailsift.container import open_container
from mailsift.jobs.views import AccountId
from mailsift.pipeline.errors import MailsiftError
from mailsift.storage.redis.connection import connect
from mailsift.storage.redis.rate_limit import RateLimit
from tests.integration.api.conftest import Api
from tests.support.serving import NO_TLS

SITE, OTHER = "https://shop.example.com", "https://evil.example.net"
CHECK, SESSION = "/v1/widget/check", "/v1/widget/session"


@pytest.fixture
async def key(api: Api) -> str:
    return await _public_key(api)


async def _public_key(api: Api, *, account: str = "alice", origin: str = SITE) -> str:
    async with open_container(api.settings) as container:
        owner = await container.jobs.account(account)
        kind = KeyKind(test=True, public=True)
        return (await container.keys.create(owner, kind=kind, origins=[origin])).secret


@pytest.fixture
async def visitor(api: Api) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=api.url, headers={"Origin": SITE}, verify=NO_TLS) as client:
        yield client


async def _token(visitor: httpx.AsyncClient, key: str) -> str:
    answer = await visitor.post(SESSION, json={"key": key})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["data"]["token"])


def _asked(key: str, token: str, email: str = "jane@example.com", number: int = 1) -> dict[str, Any]:
    return {"key": key, "token": token, "number": number, "email": email}


TOLD: Final = {
    "jane@example.com": {"ok": True, "suggestion": "", "why": ""},
    "jane@gmial.com": {"ok": False, "suggestion": "jane@gmail.com", "why": "typo"},
    "jane@disposable.example.com": {"ok": False, "suggestion": "", "why": "disposable"},
    "jane@domain-not-found.example.com": {"ok": False, "suggestion": "", "why": "domain"},
    "jane": {"ok": False, "suggestion": "", "why": "syntax"},
    # enumeration: of a mailbox nobody learns anything, whether it is there, full, closed, or not
    "jane@mailbox-not-found.example.com": {"ok": True, "suggestion": "", "why": ""},
    "jane@mailbox-full.example.com": {"ok": True, "suggestion": "", "why": ""},
}


async def test_a_form_learns_three_things(api: Api, visitor: httpx.AsyncClient, key: str) -> None:
    async with api.client(await api.key("alice")) as alice:
        bounce = b"email,event,reason\njane@example.com,bounced,550 5.1.1 no such user\n"
        sent = await alice.post("/v1/outcomes", content=bounce, headers={"Content-Type": "text/csv"})
        assert sent.json()["data"]["taken"] == 1
    token = await _token(visitor, key)
    for number, (email, expected) in enumerate(TOLD.items(), 1):
        answer = await visitor.post(CHECK, json=_asked(key, token, email, number))
        assert answer.json()["data"] == expected, email
        assert answer.headers["access-control-allow-origin"] == SITE


async def test_a_page_of_another_origin_is_refused_and_can_read_nothing(
    api: Api, visitor: httpx.AsyncClient, key: str
) -> None:
    token = await _token(visitor, key)
    async with httpx.AsyncClient(base_url=api.url, verify=NO_TLS) as forger:
        for origin in (OTHER, "null", f"{SITE}.evil.net", SITE.replace("https", "http"), ""):
            for path, body in ((SESSION, {"key": key}), (CHECK, _asked(key, token))):
                answer = await forger.post(path, json=body, headers={"Origin": origin} if origin else {})
                assert (answer.status_code, answer.json()["code"]) == (403, "origin_refused")
                assert "access-control-allow-origin" not in answer.headers


async def test_each_number_of_a_token_goes_through_once(visitor: httpx.AsyncClient, key: str) -> None:
    token = await _token(visitor, key)
    codes = [
        (await visitor.post(CHECK, json=_asked(key, token, number=number))).status_code
        for number in (1, 2, 2, 1, 0, 41)
    ]
    assert codes == [200, 200, 403, 403, 403, 403]


async def test_a_token_is_for_its_key_alone(api: Api, visitor: httpx.AsyncClient, key: str) -> None:
    other = await _public_key(api, account="bob")
    token = await _token(visitor, key)
    for body in (_asked(other, token), _asked(key, token[:-2] + "AA"), _asked(key, "x"), _asked(key, "")):
        answer = await visitor.post(CHECK, json=body)
        assert (answer.status_code, answer.json()["code"]) == (403, "widget_token_refused")


async def test_a_public_key_opens_nothing_else_and_a_secret_one_is_no_public_one(
    api: Api, visitor: httpx.AsyncClient, key: str
) -> None:
    async with api.client(key) as holder:
        for path in ("/v1/bulk/jobs", "/v1/webhooks", "/v1/usage"):
            assert (await holder.get(path)).status_code == 401
        single = await holder.post("/v1/email/single-validate", json={"email": "jane@example.com"})
        assert single.status_code == 401
    assert (await visitor.post(SESSION, json={"key": await api.key("alice")})).status_code == 401


async def test_a_visitor_asks_so_often_and_no_more_and_the_account_goes_on(
    api: Api, visitor: httpx.AsyncClient, key: str
) -> None:
    codes = [(await visitor.post(SESSION, json={"key": key})).status_code for _ in range(30)]
    assert set(codes) == {200, 429}
    async with api.client(await api.key("alice")) as alice:
        left = (await alice.get("/v1/usage")).headers["ratelimit"]
    assert "r=5999" in left


async def test_a_revoked_key_ends_at_once(api: Api, visitor: httpx.AsyncClient, key: str) -> None:
    token = await _token(visitor, key)
    async with open_container(api.settings) as container:
        owner = await container.jobs.account("alice")
        for row in await container.keys.list(owner):
            await container.keys.revoke(owner, row.id)
    assert (await visitor.post(CHECK, json=_asked(key, token))).status_code == 401


async def test_a_browser_may_ask_first_and_the_script_is_small(visitor: httpx.AsyncClient) -> None:
    preflight = await visitor.options(CHECK, headers={"Access-Control-Request-Method": "POST"})
    assert preflight.status_code == 204
    assert preflight.headers["access-control-allow-origin"] == SITE
    assert preflight.headers["access-control-allow-headers"] == "content-type"
    assert "access-control-allow-credentials" not in preflight.headers
    script = await visitor.get("/widget.js")
    assert script.headers["content-type"].startswith("text/javascript")
    assert len(gzip.compress(script.content)) < 6_000


async def test_a_token_ends_and_belongs_to_its_visitor(redis_url: str) -> None:
    redis, now = connect(redis_url), [1_000_000.0]
    gate = WidgetGate(
        peppers=[Pepper("1", b"0123456789abcdef")],
        limit=RateLimit(redis),
        clock=lambda: now[0],
        token=lambda size: b"\x01" * size,
    )
    caller = Caller(UUID(int=1), AccountId(UUID(int=2)), frozenset(), None, origins=(SITE,))
    mine, neighbours = FormVisit(caller, SITE, "192.0.2.1"), FormVisit(caller, SITE, "192.0.2.2")
    try:
        token = await gate.open(mine)
        with pytest.raises(MailsiftError, match="expired or been used"):
            await gate.admit(neighbours, token, 1)
        await gate.admit(mine, token, 1)
        now[0] += TOKEN_SECONDS
        with pytest.raises(MailsiftError, match="expired or been used"):
            await gate.admit(mine, token, 2)
        assert not [name async for name in redis.scan_iter() if b"192.0.2" in name]
    finally:
        await redis.aclose()
