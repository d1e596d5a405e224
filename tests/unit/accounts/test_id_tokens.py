"""An ID token is believed only when everything about it is right: each thing that may be wrong."""

from __future__ import annotations

import hmac
import json
from typing import Any

import pytest
from joserfc import jws
from joserfc.jwk import ECKey, KeySet

from mailsift.accounts.people import Role
from mailsift.accounts.sessions import SignInAttempt, base64url
from mailsift.accounts.sso import DistrustError, GroupRule, OidcClient, check_id_token, read_keys, roles_of

NOW = 1_800_000_000.0
KEY, STRANGER = ECKey.generate_key("P-256", {"kid": "1"}), ECKey.generate_key("P-256", {"kid": "1"})
KEYS = KeySet([ECKey.import_key(KEY.as_dict(private=False))])
US = OidcClient("https://id.example.com", "mailsift", "secret", algorithm="ES256")
GOOD: dict[str, Any] = {
    "iss": US.issuer,
    "aud": "mailsift",
    "sub": "jane",
    "exp": NOW + 300,
    "iat": NOW,
    "nonce": "n",
}
ABSENT = object()


def _token(key: Any = KEY, header: dict[str, Any] | None = None, **changes: Any) -> str:
    claims = {name: value for name, value in {**GOOD, **changes}.items() if value is not ABSENT}
    payload = json.dumps(claims).encode()
    return jws.serialize_compact(header or {"alg": "ES256", "kid": "1"}, payload, key, algorithms=["ES256"])


def _part(value: dict[str, Any]) -> str:
    return base64url(json.dumps(value).encode())


def _unsigned() -> str:
    return f"{_part({'alg': 'none'})}.{_part(GOOD)}."


def _confused() -> str:
    """Signed with the public key, taken for a shared secret (RFC 8725, section 2.1)."""
    body = f"{_part({'alg': 'HS256', 'kid': '1'})}.{_part(GOOD)}"
    return f"{body}.{base64url(hmac.digest(KEY.as_pem(private=False), body.encode(), 'sha256'))}"


def _swapped() -> str:
    """The claims of one token under the signature of another."""
    head, _, signature = _token().split(".")
    return f"{head}.{_token(sub='root').split('.')[1]}.{signature}"


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"aud": ["mailsift"]},
        {"aud": ["other", "mailsift"], "azp": "mailsift"},
        {"exp": NOW - 59},
        {"iat": NOW + 59},
        {"nbf": NOW},
    ],
)
def test_a_right_token_is_believed(changes: dict[str, Any]) -> None:
    assert check_id_token(_token(**changes), KEYS, US, nonce="n", now=NOW)["sub"] == "jane"


@pytest.mark.parametrize(
    ("token", "why"),
    [
        (_token(iss="https://id.example.com/"), "iss"),
        (_token(iss="https://evil.example.net"), "iss"),
        (_token(iss=ABSENT), "iss"),
        (_token(exp=10**400), "exp"),
        (_token(iat=10**400), "iat"),
        (_token(nbf=-(10**400)), "nbf"),
        (_token(exp=float("inf")), "exp"),
        (_token(exp=float("nan")), "exp"),
        (_token(nonce="\ud800"), "nonce"),
        (_token(sub="\ud800"), "sub"),
        (_token(sub="ja\x00ne"), "sub"),
        (_token(aud="other"), "aud"),
        (_token(aud=["other"]), "aud"),
        (_token(aud=["other", "mailsift"]), "aud"),
        (_token(aud="mailsift", azp="other"), "aud"),
        (_token(aud=ABSENT), "aud"),
        (_token(aud={"mailsift": 1}), "aud"),
        (_token(exp=NOW - 61), "exp"),
        (_token(exp=ABSENT), "exp"),
        (_token(exp=True), "exp"),
        (_token(iat=NOW + 61), "iat"),
        (_token(iat=ABSENT), "iat"),
        (_token(nbf=NOW + 61), "nbf"),
        (_token(sub=""), "sub"),
        (_token(sub=7), "sub"),
        (_token(sub=ABSENT), "sub"),
        (_token(nonce="other"), "nonce"),
        (_token(nonce=ABSENT), "nonce"),
        (_token(STRANGER), "signature"),
        (_token(header={"alg": "ES256", "kid": "unknown"}), "signature"),
        (_confused(), "signature"),
        (_unsigned(), "signature"),
        (_swapped(), "signature"),
        ("", "signature"),
        ("a.b.c", "signature"),
    ],
)
def test_a_wrong_token_is_refused(token: str, why: str) -> None:
    with pytest.raises(DistrustError) as refused:
        check_id_token(token, KEYS, US, nonce="n", now=NOW)
    assert refused.value.why == why
    assert "jane" not in str(refused.value)


@pytest.mark.parametrize(
    "odd",
    [
        None,
        "",
        {},
        {"kty": "AKP", "alg": "ML-DSA-44"},
        {"kty": "EC", "crv": "P-999", "x": "AA", "y": "AA"},
        {"kty": "EC", "crv": "secp256k1", "x": "AA", "y": "AA"},
        {"kty": "OKP", "crv": "X448", "x": "AA"},
        {"kty": "RSA", "n": "!", "e": "AQAB"},
        {"kty": "RSA", "n": "AQAB"},
        {"kty": ["RSA"]},
    ],
)
def test_a_key_that_nobody_here_can_read_spoils_none_of_the_others(odd: object) -> None:
    keys = read_keys([odd, KEY.as_dict(private=False)])
    assert check_id_token(_token(), keys, US, nonce="n", now=NOW)["sub"] == "jane"
    with pytest.raises(DistrustError) as refused:
        read_keys([odd])
    assert refused.value.why == "keys"


@pytest.mark.parametrize("listed", [None, {}, {"kty": "EC"}, "keys", 1, []])
def test_keys_that_are_none_are_refused(listed: object) -> None:
    with pytest.raises(DistrustError):
        read_keys(listed)


def test_another_algorithm_than_the_one_that_is_pinned_is_refused() -> None:
    pinned = OidcClient(US.issuer, US.client_id, "secret", algorithm="RS256")
    with pytest.raises(DistrustError):
        check_id_token(_token(), KEYS, pinned, nonce="n", now=NOW)


def test_state_nonce_and_verifier_tell_nothing_of_each_other_and_two_attempts_share_none() -> None:
    one, two = SignInAttempt(b"1" * 32), SignInAttempt(b"2" * 32)
    values = [value for each in (one, two) for value in (each.state, each.nonce, each.verifier)]
    assert len(set(values)) == 6
    assert all(len(value) == 43 for value in values)  # RFC 7636, section 4.1


def test_of_several_groups_the_one_counts_that_may_most() -> None:
    rules = [
        GroupRule("all", "acme", Role.VIEWER),
        GroupRule("admins", "acme", Role.OWNER),
        GroupRule("staff", "acme", Role.MEMBER),
        GroupRule("admins", "other", Role.VIEWER),
    ]
    assert roles_of(frozenset({"all", "admins", "staff"}), rules) == {
        "acme": Role.OWNER,
        "other": Role.VIEWER,
    }
    assert roles_of(frozenset({"All"}), rules) == {}
