"""Signing in with a provider that is not ours (oidc-provider-mock): who gets in, as what, and until when."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import parse_qs, quote, urlsplit

import httpx
import pytest
from pydantic import SecretStr
from sqlalchemy import text

from mailsift.accounts.people import Role
from mailsift.container import open_container
from mailsift.settings import Settings
from tests.integration.api.conftest import Api, running
from tests.integration.api.pages.queries import meanwhile, wait_for_locks
from tests.support.connections import talking
from tests.support.ports import free_port
from tests.support.serving import NO_TLS
from tests.support.sessions import browser, cookie, csrf_of, person, sign_in

OWNERS = "mail-admins=acme:owner"
STAFF = "mail-staff=acme:member"
GONE = "http://localhost:9"


@pytest.fixture(scope="module")
def provider() -> Iterator[str]:
    """The provider, in a process of its own: what its libraries warn of is none of ours."""
    port = free_port()
    words = ["-W", "ignore", "-m", "oidc_provider_mock", "--port", str(port), "--require-nonce", "true"]
    process = subprocess.Popen([sys.executable, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        url, ends = f"http://localhost:{port}", time.monotonic() + 60
        while not _answers(url):
            assert process.poll() is None, "the provider ended"
            assert time.monotonic() < ends, "the provider does not answer"
            time.sleep(0.1)
        yield url
    finally:
        process.kill()
        process.wait()


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/.well-known/openid-configuration", verify=NO_TLS).is_success
    except httpx.TransportError:
        return False


@pytest.fixture
async def api(settings: Settings, provider: str) -> AsyncIterator[Api]:
    async with running(_signing_in_at(settings, provider)) as found:
        yield found


def _signing_in_at(settings: Settings, issuer: str) -> Settings:
    more = {
        "oidc_issuer": issuer,
        "oidc_client_id": "mailsift",
        "oidc_client_secret": SecretStr("secret of ours"),
        "oidc_groups": (OWNERS, STAFF),
        "oidc_name": "Example ID",
    }
    return settings.model_copy(update=more)


async def _somebody(provider: str, subject: str, **claims: object) -> None:
    """Let the provider know somebody, or know something else of them from now on."""
    known = {"email": f"{subject}@corp.example", "email_verified": True, "groups": [], **claims}
    async with httpx.AsyncClient(verify=NO_TLS) as operator:
        assert (await operator.put(f"{provider}/users/{subject}", json=known)).status_code == 204


async def _way_back(client: httpx.AsyncClient, subject: str, start: str = "/login/sso") -> str:
    """Go to the provider and say who we are; returns where it sends the browser."""
    begun = await client.get(start)
    assert begun.status_code == 303, begun.text
    async with httpx.AsyncClient(verify=NO_TLS) as at_provider:
        sent = await at_provider.post(begun.headers["location"], data={"sub": subject})
    return str(sent.headers["location"])


async def _signed_in(client: httpx.AsyncClient, subject: str) -> httpx.Response:
    return await client.get(await _way_back(client, subject))


async def _make_due(api: Api, change: str = "asked_at = asked_at - interval '1 minute'") -> None:
    """Let a minute pass for the sessions there are."""
    async with open_container(api.settings) as container, container.database.begin() as connection:
        await connection.execute(text(f"UPDATE sso_session SET {change}"))  # noqa: S608 - text of this file


def _with(api: Api, session: str) -> httpx.AsyncClient:
    """Return a browser that holds this session already."""
    headers = {"Accept": "text/html", "Cookie": f"__Host-mailsift={session}"}
    return httpx.AsyncClient(base_url=api.url, headers=headers, verify=NO_TLS)


async def test_a_member_of_a_group_gets_in_and_a_removed_one_is_out_with_the_next_page(
    api: Api, provider: str
) -> None:
    await _somebody(provider, "jane", groups=["mail-staff", "other"])
    async with browser(api) as client:
        assert "Sign in with Example ID" in (await client.get("/login")).text
        back = await _way_back(client, "jane", "/login/sso?next=/keys")
        answer = await client.get(back)
        assert (answer.status_code, answer.headers["location"]) == (303, "/keys")
        assert "jane@corp.example" in (await client.get("/account/you")).text
        # the way back works once
        assert (await client.get(back)).status_code == 403
        # another role
        await _somebody(provider, "jane", groups=["mail-admins"])
        await _make_due(api)
        log = (await client.get("/account/log")).text
        assert "jane@corp.example" in log
        assert "Invite" in (await client.get("/account")).text
        # and none
        await _somebody(provider, "jane", groups=["other"])
        await _make_due(api)
        assert (await client.get("/account/you")).status_code == 303
        await _somebody(provider, "jane", groups=["mail-admins"])
        assert (await client.get("/account/you")).status_code == 303  # what has ended stays so


async def test_who_wants_to_a_page_with_a_long_address_gets_in_all_the_same(api: Api, provider: str) -> None:
    await _somebody(provider, "joan", groups=["mail-staff"])
    async with browser(api) as client:
        columns = "&".join(f"column=a+column+with+a+long+name+{number}" for number in range(25))
        goal = f"/jobs/7f5c3a52-6f5e-4f44-9f0c-6d3f0f2f9f11/results?{columns}"
        back = await _way_back(client, "joan", f"/login/sso?next={quote(goal)}")
        answer = await client.get(back)
        assert (answer.status_code, answer.headers.get("location")) == (303, "/")


async def test_who_is_new_may_come_back_in_two_windows_at_once(api: Api, provider: str) -> None:
    await _somebody(provider, "twin", groups=["mail-staff"])
    async with browser(api) as one, browser(api) as other:
        backs = [await _way_back(client, "twin") for client in (one, other)]
        answers = await asyncio.gather(one.get(backs[0]), other.get(backs[1]))
    assert [answer.status_code for answer in answers] == [303, 303]


async def test_who_is_deleted_as_they_come_back_is_made_anew_by_their_groups(api: Api, provider: str) -> None:
    await _somebody(provider, "june", groups=["mail-staff"])
    async with browser(api) as client, browser(api) as other:
        await _signed_in(client, "june")
        await _somebody(provider, "june", groups=["mail-admins"])
        back = await _way_back(other, "june")
        async with meanwhile(api, "DELETE FROM person"):
            late = asyncio.create_task(other.get(back))
            await wait_for_locks(api, 1)
        assert (await late).status_code == 303
        assert "Invite" in (await other.get("/account")).text


async def test_who_the_provider_forgets_is_out(api: Api, provider: str) -> None:
    await _somebody(provider, "joe", groups=["mail-staff"])
    async with browser(api) as client:
        await _signed_in(client, "joe")
        async with httpx.AsyncClient(verify=NO_TLS) as operator:
            await operator.post(f"{provider}/users/joe/revoke-tokens")
        await _make_due(api)
        assert (await client.get("/account/you")).status_code == 303


@asynccontextmanager
async def _overheard(provider: str) -> AsyncIterator[tuple[str, bytearray]]:
    """Stand before the provider and pass everything on; gives our address, and what it was sent so far."""
    overheard = bytearray()

    async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter, *, note: bool) -> None:
        while some := await source.read(65_536):
            overheard.extend(some if note else b"")
            target.write(some)
            await target.drain()
        target.close()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, onward = await asyncio.open_connection("localhost", urlsplit(provider).port)
        try:
            await asyncio.gather(copy(reader, onward, note=True), copy(there, writer, note=False))
        finally:
            onward.close()
            writer.close()

    async with talking(talk, "localhost") as port:
        yield f"http://localhost:{port}", overheard


async def test_the_code_is_redeemed_with_the_verifier_whose_hash_went_ahead(
    settings: Settings, provider: str
) -> None:
    """RFC 7636 section 4: the provider of these tests does not compare them, so we do."""
    await _somebody(provider, "pia", groups=["mail-staff"])
    seen = []
    async with _overheard(provider) as (issuer, overheard), running(_signing_in_at(settings, issuer)) as api:
        for _ in range(2):
            async with browser(api) as client, httpx.AsyncClient(verify=NO_TLS) as at_provider:
                begun = (await client.get("/login/sso")).headers["location"]
                asked = parse_qs(urlsplit(begun).query)
                sent = await at_provider.post(begun, data={"sub": "pia"})
                assert (await client.get(str(sent.headers["location"]))).status_code == 303
            (verifier,) = re.findall(rb"code_verifier=([A-Za-z0-9_-]{43})", bytes(overheard))  # 256 bits
            overheard.clear()
            hashed = base64.urlsafe_b64encode(hashlib.sha256(verifier).digest()).rstrip(b"=")
            assert asked["code_challenge_method"] == ["S256"]
            assert asked["code_challenge"] == [hashed.decode()]
            seen.append(verifier)
    assert seen[0] != seen[1], "every attempt has its own"


KEPT_OUT: Final[Mapping[str, Mapping[str, object]]] = {
    "nobody": {},
    "unverified": {"groups": ["mail-admins"], "email_verified": False},
    "denied": {"groups": ["mail-admins"], "email_verified": "false"},
    "untold": {"groups": ["mail-admins"], "email_verified": None},
    "odd": {"groups": ["mail-admins"], "email_verified": ["true"]},
    "nameless": {"groups": ["mail-admins"], "email": ""},
    "other": {"groups": "mail-admins-not"},
}


async def test_who_has_no_group_or_no_verified_address_stays_out(api: Api, provider: str) -> None:
    for subject, claims in KEPT_OUT.items():
        await _somebody(provider, subject, **claims)
        async with browser(api) as client:
            assert (await _signed_in(client, subject)).status_code == 403, subject
            assert cookie(client, "__Host-mailsift") == ""


@pytest.mark.parametrize("claim", ["true", "True", 1])
async def test_a_provider_may_say_in_text_that_an_address_is_verified(
    api: Api, provider: str, claim: object
) -> None:
    """As some do, though OpenID Connect Core, section 5.1, has a boolean there."""
    await _somebody(provider, "texted", email_verified=claim, groups=["mail-admins"])
    async with browser(api) as client:
        assert (await _signed_in(client, "texted")).status_code == 303


async def test_an_address_belongs_to_the_first_identity_that_proved_it(api: Api, provider: str) -> None:
    owner = await person(api, Role.OWNER, account="acme")
    await _somebody(provider, "real", email=owner, groups=["mail-admins"])
    await _somebody(provider, "thief", email=owner, groups=["mail-admins"])
    async with browser(api) as real, browser(api) as thief:
        assert (await _signed_in(real, "real")).status_code == 303
        assert (await _signed_in(thief, "thief")).status_code == 403


async def test_a_provider_means_the_person_however_it_writes_their_address(api: Api, provider: str) -> None:
    await person(api, Role.OWNER, account="beta", email="jane@xn--bcher-kva.test")
    await _somebody(provider, "jane", email="Jane@b\N{LATIN SMALL LETTER U WITH DIAERESIS}cher.test")
    async with browser(api) as client:
        assert (await _signed_in(client, "jane")).status_code == 303


async def test_a_way_back_that_this_browser_did_not_begin_is_refused(api: Api, provider: str) -> None:
    await _somebody(provider, "mallory", groups=["mail-staff"])
    async with browser(api) as mallory, browser(api) as victim:
        back = await _way_back(mallory, "mallory")
        assert (await victim.get(back)).status_code == 403  # no attempt at all
        await victim.get("/login/sso")
        assert (await victim.get(back)).status_code == 403  # another one: login CSRF
        without_code = {"state": parse_qs(urlsplit(back).query)["state"][0]}
        assert (await mallory.get("/login/sso/callback", params=without_code)).status_code == 403
        assert cookie(victim, "__Host-mailsift") == ""


@pytest.mark.parametrize("goal", ["A", "AA", "AAA==", "=", "A===", "gA=="])
async def test_a_spoilt_cookie_of_an_attempt_is_none(api: Api, goal: str) -> None:
    spoilt = {"Cookie": f"__Host-mailsift-sso={'0' * 64}.{goal}"}
    async with browser(api) as client:
        answer = await client.get("/login/sso/callback", params={"code": "c", "state": "s"}, headers=spoilt)
        assert answer.status_code == 403


async def test_an_address_counts_whose_domain_s_owner_vouches_for_it(api: Api, provider: str) -> None:
    """As Entra ID says it, which has no `email_verified`."""
    for subject, claim, status in (("owned", True, 303), ("owned2", "1", 303), ("claimed", False, 403)):
        await _somebody(provider, subject, email_verified=None, xms_edov=claim, groups=["mail-staff"])
        async with browser(api) as client:
            assert (await _signed_in(client, subject)).status_code == status, subject


async def test_with_single_sign_on_only_a_password_opens_nothing_but_the_break_glass_account(
    settings: Settings, provider: str
) -> None:
    only = {
        "oidc_issuer": provider,
        "oidc_client_id": "mailsift",
        "oidc_client_secret": SecretStr("secret of ours"),
        "oidc_only": ("Glass@B\N{LATIN CAPITAL LETTER U WITH DIAERESIS}cher.test",),
    }
    plain = Api("", settings)
    glass = await person(plain, Role.OWNER, account="acme", email="glass@xn--bcher-kva.test")
    member = await person(plain, Role.OWNER, account="acme")
    async with running(settings) as before, browser(before) as client:
        assert (await sign_in(client, member)).status_code == 303
        session = cookie(client, "__Host-mailsift")
        assert session
        async with _with(before, session) as same:
            assert (await same.get("/account/you")).status_code == 200
    async with running(settings.model_copy(update=only)) as api:
        async with browser(api) as client:
            assert (await sign_in(client, member)).status_code == 403
        async with _with(api, session) as client:  # one that a password has opened before
            assert (await client.get("/account/you")).status_code == 303
        async with browser(api) as client:
            assert (await sign_in(client, glass)).status_code == 303
            assert (await client.get("/account/you")).status_code == 200


async def test_a_provider_that_is_away_is_said_to_be_and_keeps_nobody_out_at_once(
    api: Api, settings: Settings, provider: str
) -> None:
    await _somebody(provider, "ann", groups=["mail-staff"])
    async with browser(api) as client:
        await _signed_in(client, "ann")
        session = cookie(client, "__Host-mailsift")
    gone = {"oidc_issuer": GONE, "oidc_client_id": "mailsift", "oidc_groups": (STAFF,)}
    async with running(settings.model_copy(update=gone)) as away, _with(away, session) as client:
        assert (await client.get("/login/sso")).status_code == 303  # signed in: nothing to do
        await _make_due(away, f"issuer = '{GONE}', asked_at = asked_at - interval '1 minute'")
        assert (await client.get("/account/you")).status_code == 200
        await _make_due(away, "asked_at = asked_at - interval '1 h', known_at = known_at - interval '11 min'")
        assert (await client.get("/account/you")).status_code == 303
        assert (await client.get("/login/sso")).status_code == 503


async def _invited(api: Api, email: str, account: str) -> str:
    async with open_container(api.settings) as container:
        return await container.people.links.invite_from_terminal(account, email, Role.VIEWER)


async def test_who_was_invited_and_is_new_comes_in_through_the_provider(api: Api, provider: str) -> None:
    """With `MAILSIFT_OIDC_ONLY` there is no password to take an invitation with."""
    await _somebody(provider, "ines")
    await _invited(api, "ines@corp.example", "acme")  # where groups decide
    async with browser(api) as client:
        assert (await _signed_in(client, "ines")).status_code == 403
        token = await _invited(api, "ines@corp.example", "guests")
        assert (await _signed_in(client, "ines")).status_code == 303
        assert '<p class="who-account">guests</p>' in (await client.get("/account")).text
        assert (await client.get("/invite", params={"token": token})).status_code == 404, "it was taken"
        await _make_due(api)
        assert (await client.get("/account")).status_code == 200


async def test_who_takes_an_invitation_is_asked_about_at_the_provider_as_before(
    api: Api, provider: str
) -> None:
    await _somebody(provider, "iris", groups=["mail-staff"])
    async with browser(api) as client:
        await _signed_in(client, "iris")
        token = await _invited(api, "iris@corp.example", "guests")
        page = (await client.get("/invite", params={"token": token})).text
        taken = await client.post("/invite", data={"csrf": csrf_of(page), "token": token})
        assert (taken.status_code, taken.headers["location"]) == (303, "/")
        assert '<p class="who-account">guests</p>' in (await client.get("/account")).text
        async with httpx.AsyncClient(verify=NO_TLS) as operator:
            await operator.post(f"{provider}/users/iris/revoke-tokens")
        await _make_due(api)
        assert (await client.get("/account/you")).status_code == 303
