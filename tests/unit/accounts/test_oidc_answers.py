"""What a provider's answers say of somebody: which groups, that they are out, or nothing at all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import httpx
import pytest
from joserfc import jws
from joserfc.jwk import ECKey

from mailsift.accounts.sessions import SignInAttempt
from mailsift.accounts.sso import DistrustError, Identity, OidcClient, OidcProvider
from mailsift.pipeline.errors import MailsiftError

NOW = 1_800_000_000.0
ISSUER = "https://id.example.com"
KEY = ECKey.generate_key("P-256", {"kid": "1"})
ATTEMPT = SignInAttempt(b"x" * 32)
Answer = tuple[int, Any]
DISCOVERY = {
    "issuer": ISSUER,
    **{
        name: f"{ISSUER}/{name}"
        for name in ("authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint")
    },
}


def id_token(**claims: Any) -> str:
    known = {"iss": ISSUER, "aud": "us", "sub": "jane", "exp": NOW + 300, "iat": NOW, "nonce": ATTEMPT.nonce}
    payload = json.dumps(known | claims).encode()
    return jws.serialize_compact({"alg": "ES256", "kid": "1"}, payload, KEY, algorithms=["ES256"])


def provider(groups_claim: str = "groups", /, **answers: Answer) -> OidcProvider:
    """Return one that answers so at its endpoints; tests change the answers."""
    known: dict[str, Answer] = {
        "openid-configuration": (200, DISCOVERY),
        "jwks_uri": (200, {"keys": [KEY.as_dict(private=False)]}),
        "userinfo_endpoint": (200, {"sub": "jane"}),
        "token_endpoint": (200, {"access_token": "a", "refresh_token": "r", "id_token": id_token()}),
    }

    def answer(request: httpx.Request) -> httpx.Response:
        status, body = (known | answers)[request.url.path.rpartition("/")[2]]
        return httpx.Response(status, **({"text": body} if isinstance(body, str) else {"json": body}))

    client = OidcClient(ISSUER, "us", "secret", algorithm="ES256", groups_claim=groups_claim)
    http = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    return OidcProvider(client, http=http, clock=lambda: NOW)


def tokens(*, refreshes: bool = True, **claims: Any) -> Answer:
    refresh = {"refresh_token": "r"} if refreshes else {}
    return 200, {"access_token": "a", **refresh, "id_token": id_token(**claims)}


async def signed_in(at: OidcProvider, **answer: str) -> Identity:
    return await at.identity(
        ATTEMPT, {"state": ATTEMPT.state, "code": "c", **answer}, "https://us.example/back"
    )


ELSEWHERE: dict[str, Any] = {
    "_claim_names": {"groups": "src1"},
    "_claim_sources": {"src1": {"endpoint": "https://graph"}},
}


@pytest.mark.parametrize(
    ("in_id_token", "in_userinfo", "groups"),
    [
        ({"groups": ["a"]}, {}, {"a"}),
        ({"groups": ["a"]}, {"groups": None}, {"a"}),
        ({}, {"groups": ["b"]}, {"b"}),
        ({"groups": ["a"]}, {"groups": ["b"]}, {"b"}),
        ({"groups": ["a"]}, {"groups": []}, set()),
        ({}, {}, set()),
        (ELSEWHERE, {}, None),
        ({"hasgroups": True}, {}, None),
        ({"hasgroups": "true"}, {}, None),
        ({"hasgroups": False}, {}, set()),
        ({"_claim_names": {"address": "src1"}}, {}, set()),
        (ELSEWHERE, {"groups": ["b"]}, {"b"}),
        ({}, ELSEWHERE, None),
    ],
)
async def test_groups_stand_in_either_answer_and_may_be_untold(
    in_id_token: Mapping[str, Any], in_userinfo: Mapping[str, Any], groups: set[str] | None
) -> None:
    at = provider(
        token_endpoint=tokens(**in_id_token), userinfo_endpoint=(200, {"sub": "jane", **in_userinfo})
    )
    assert (await signed_in(at)).groups == groups


async def test_a_claim_of_another_name_is_not_among_the_groups_that_are_too_many() -> None:
    """Entra ID tells the roles of an application however many groups somebody is in."""
    at = provider("roles", token_endpoint=tokens(hasgroups=True))
    assert (await signed_in(at)).groups == frozenset()


@pytest.mark.parametrize(
    ("first", "later", "groups"),
    [
        (tokens(refreshes=False, groups=["a"]), None, None),  # there is no ID token to look at
        (tokens(groups=["a"]), (200, {"access_token": "b"}), None),  # nor in this answer
        (tokens(groups=["a"]), tokens(groups=["b"]), {"b"}),
        (tokens(groups=["a"]), tokens(), set()),
        (tokens(), (200, {"access_token": "b"}), set()),
        (tokens(**ELSEWHERE), (200, {"access_token": "b"}), None),
    ],
)
async def test_groups_of_an_id_token_are_not_gone_where_none_comes(
    first: Answer, later: Answer | None, groups: set[str] | None
) -> None:
    kept = (await signed_in(provider(token_endpoint=first))).tokens
    at = provider(token_endpoint=later) if later else provider()
    found = await at.refresh_identity("jane", kept)
    assert found.groups == groups
    assert (await at.refresh_identity("jane", found.tokens)).groups == groups  # and so on


def _is_refusal(error: MailsiftError) -> bool:
    return isinstance(error, DistrustError) and error.is_refusal


def oauth(status: int, error: str) -> Answer:
    return status, {"error": error, "error_description": "…"}


HTML = "<html>Sign in to the proxy</html>"


@pytest.mark.parametrize(
    ("answers", "code"),
    [
        ({"token_endpoint": oauth(401, "invalid_client")}, "sso_misconfigured"),
        ({"token_endpoint": oauth(400, "invalid_client")}, "sso_misconfigured"),
        ({"token_endpoint": oauth(400, "unauthorized_client")}, "sso_misconfigured"),
        ({"token_endpoint": oauth(400, "invalid_scope")}, "sso_misconfigured"),
        ({"token_endpoint": oauth(429, "slow_down")}, "sso_unavailable"),
        ({"token_endpoint": (404, HTML)}, "sso_unavailable"),
        ({"token_endpoint": (407, HTML)}, "sso_unavailable"),
        ({"token_endpoint": (200, HTML)}, "sso_unavailable"),
        ({"token_endpoint": oauth(200, "invalid_grant")}, "sso_unavailable"),  # whatever that is to mean
        ({"token_endpoint": (502, HTML)}, "sso_unavailable"),
        ({"userinfo_endpoint": (503, HTML)}, "sso_unavailable"),
        ({"userinfo_endpoint": (200, HTML)}, "sso_unavailable"),
        ({"userinfo_endpoint": (302, "")}, "sso_unavailable"),
        ({"openid-configuration": (404, HTML)}, "sso_unavailable"),
        ({"openid-configuration": (403, HTML)}, "sso_unavailable"),
        ({"jwks_uri": (401, HTML)}, "sso_unavailable"),
        ({"jwks_uri": (200, {"keys": []})}, "sso_refused"),
        ({"openid-configuration": (200, {**DISCOVERY, "issuer": "https://other.example"})}, "sso_refused"),
        ({"token_endpoint": tokens(iat=NOW + 3_600)}, "sso_refused"),  # of whom the clock is wrong
    ],
)
async def test_what_says_nothing_of_a_person_does_not_end_their_session(
    answers: dict[str, Answer], code: str
) -> None:
    with pytest.raises(MailsiftError) as caught:
        await provider(**answers).refresh_identity("jane", {"refresh_token": "r"})
    assert caught.value.code == code
    assert not _is_refusal(caught.value)


@pytest.mark.parametrize(
    "answers",
    [
        {"token_endpoint": oauth(400, "invalid_grant")},
        {"token_endpoint": oauth(403, "access_denied")},
        {"token_endpoint": (400, "no JSON")},
        {"userinfo_endpoint": oauth(401, "invalid_token")},
        {"userinfo_endpoint": (403, "")},
        {"userinfo_endpoint": (200, {"sub": "joe"})},
        {"token_endpoint": tokens(sub="joe")},
    ],
)
async def test_a_refusal_of_a_person_does(answers: dict[str, Answer]) -> None:
    with pytest.raises(DistrustError) as caught:
        await provider(**answers).refresh_identity("jane", {"refresh_token": "r"})
    assert caught.value.is_refusal


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        ("temporarily_unavailable", "sso_unavailable", "in trouble"),
        ("server_error", "sso_unavailable", "in trouble"),
        ("access_denied", "sso_refused", "did not work"),
        ("made_up", "sso_refused", "did not work"),
    ],
)
async def test_a_provider_that_sends_somebody_back_in_its_trouble_is_said_to_be(
    error: str, code: str, words: str
) -> None:
    with pytest.raises(MailsiftError, match=words) as caught:
        await signed_in(provider(), error=error)
    assert caught.value.code == code
