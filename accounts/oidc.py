"""An OpenID Connect provider asked who somebody is: code flow with PKCE (OpenID Connect Core 1.0, RFC 7636).

What is believed of an ID token is decided by `check_id_token`, a function without a network.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, urlencode

import httpx
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import Key, KeySet, import_key

from mailsift.accounts.sessions import SignInAttempt, base64url
from mailsift.pipeline.clock import Clock
from mailsift.pipeline.errors import MailsiftError

TIMEOUT_S: Final = 5.0
_GROUPS_IN_ID: Final = "groups_in_id_token"
_LEEWAY_S: Final = 60.0
_LATEST: Final = 1e12  # epoch seconds; a time may have thousands of digits
_METADATA_S, _KEYS_S, _KEYS_AGAIN_S = 3_600.0, 3_600.0, 60.0
_MOST_BYTES: Final = 512 * 1024
_WELL_KNOWN: Final = "/.well-known/openid-configuration"
_KINDS: Final = frozenset({"RSA", "EC", "OKP"})
_REFUSALS: Final = frozenset({400, 401, 403})
_OUR_FAULTS: Final = frozenset(
    {"invalid_client", "unauthorized_client", "unsupported_grant_type", "invalid_scope", "invalid_request"}
)
"""What a token endpoint finds wrong with us, not with who signs in (RFC 6749, section 5.2)."""
_TROUBLES: Final = frozenset({"temporarily_unavailable", "server_error"})
"""What a browser brings back from a provider that is in trouble (RFC 6749, section 4.1.2.1)."""
_ENDPOINTS: Final = ("authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint")


@dataclass(frozen=True, slots=True)
class OidcClient:
    """What we are at the provider."""

    issuer: str  # the provider, exactly as it writes itself
    client_id: str
    client_secret: str = field(repr=False)
    scopes: str = "openid email profile"
    algorithm: str = "RS256"  # with which it signs ID tokens; another one is refused
    groups_claim: str = "groups"  # where it says which groups somebody is in


@dataclass(frozen=True, slots=True)
class Identity:
    """Who the provider says somebody is.

    `tokens` ask for news of them: a refresh token, else an access token; and whether their groups stand in ID
    tokens only.
    """

    subject: str
    email: str  # "" unless the provider has verified it
    groups: frozenset[str] | None  # None: they are in some that it has not told
    tokens: Mapping[str, str] = field(repr=False)


class DistrustError(MailsiftError):
    """The provider, or what came from it, is not to be believed; `why` is one word for the log.

    It `is_refusal` if the provider has said no to this person, or named another one.
    """

    def __init__(self, why: str) -> None:
        super().__init__("sso_refused", "Single sign-on did not work. Try again, or ask your operator.")
        self.why = why
        self.is_refusal = why in {"denied", "sub"}


def check_id_token(
    token: str, keys: KeySet, client: OidcClient, *, nonce: str | None, now: float
) -> dict[str, Any]:
    """Return the claims of an ID token (OpenID Connect Core, section 3.1.3.7); `now` is in epoch seconds.

    With None for a `nonce` it is a refreshed token, which need not have one.

    Raises:
        DistrustError: naming the claim.
    """
    try:
        found = jws.deserialize_compact(token, keys, algorithms=[client.algorithm])
        claims = json.loads(found.payload)
    except (JoseError, ValueError, TypeError, RecursionError):
        raise DistrustError("signature") from None
    if not isinstance(claims, dict):
        raise DistrustError("signature")
    wrong = next((name for name, is_right in _CLAIMS.items() if not is_right(claims, client, now)), None)
    if wrong is not None:
        raise DistrustError(wrong)
    if nonce is not None and not _is_same(claims.get("nonce"), nonce):
        raise DistrustError("nonce")
    return claims


def _audience(claims: Mapping[str, Any], client: OidcClient, _: float) -> bool:
    """Say whether the token is for us; one that is for others too must have been asked for by us."""
    audience = claims.get("aud")
    names = [audience] if isinstance(audience, str) else audience
    if not isinstance(names, list) or client.client_id not in names:
        return False
    return bool(claims.get("azp", client.client_id if len(names) == 1 else None) == client.client_id)


def _time(claims: Mapping[str, Any], name: str) -> float:
    """Return a time; for none, like one beyond all bounds, NaN, which is before and after nothing."""
    value = claims.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool) or abs(value) >= _LATEST:
        return math.nan
    return float(value)


_CLAIMS: Final[Mapping[str, Callable[[Mapping[str, Any], OidcClient, float], bool]]] = {
    "iss": lambda claims, client, _: claims.get("iss") == client.issuer,
    "aud": _audience,
    "exp": lambda claims, _, now: now < _time(claims, "exp") + _LEEWAY_S,
    "iat": lambda claims, _, now: _time(claims, "iat") <= now + _LEEWAY_S,
    "nbf": lambda claims, _, now: "nbf" not in claims or _time(claims, "nbf") <= now + _LEEWAY_S,
    "sub": lambda claims, _client, _now: _is_name(claims.get("sub")),
}
"""What must hold of each claim."""


class OidcProvider:
    """Asks one provider by `http`, which the caller closes."""

    def __init__(self, client: OidcClient, *, http: httpx.AsyncClient, clock: Clock) -> None:
        self.issuer = client.issuer
        self._client = client
        self._http = http
        self._clock = clock
        self._metadata: tuple[float, dict[str, Any]] | None = None
        self._keys: tuple[float, KeySet] | None = None

    async def authorization_url(self, attempt: SignInAttempt, redirect_uri: str) -> str:
        """Return where a browser is sent to sign in.

        Raises:
            MailsiftError: `sso_unavailable`, `sso_refused`.
        """
        challenge = base64url(hashlib.sha256(attempt.verifier.encode()).digest())
        query = {
            "response_type": "code",
            "client_id": self._client.client_id,
            "redirect_uri": redirect_uri,
            "scope": self._client.scopes,
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        url = (await self._discover())["authorization_endpoint"]
        return f"{url}{'&' if '?' in url else '?'}{urlencode(query)}"

    async def identity(
        self, attempt: SignInAttempt, answer: Mapping[str, str], redirect_uri: str
    ) -> Identity:
        """Return who has come back from the provider with this answer.

        Raises:
            MailsiftError: `sso_unavailable`, `sso_misconfigured`; DistrustError.
        """
        if not _is_same(answer.get("state"), attempt.state):
            raise DistrustError("state")
        if answer.get("iss", self._client.issuer) != self._client.issuer:  # RFC 9207
            raise DistrustError("iss")
        if answer.get("error") in _TROUBLES:
            raise unavailable("The sign-in provider is in trouble itself. Try again in a few minutes.")
        if "error" in answer or not answer.get("code"):
            raise DistrustError("denied")
        tokens = await self._fetch_tokens(
            grant_type="authorization_code",
            code=answer["code"],
            redirect_uri=redirect_uri,
            code_verifier=attempt.verifier,
        )
        claims = await self._id_claims(tokens, nonce=attempt.nonce)
        return await self._with_user_info(tokens, claims)

    async def refresh_identity(self, subject: str, kept: Mapping[str, str]) -> Identity:
        """Return who somebody is now whom the provider signed in before.

        Raises:
            MailsiftError: `sso_unavailable`, `sso_misconfigured`: nobody knows; DistrustError: not any more,
                where it `is_refusal`.
        """
        claims: dict[str, Any] = {"sub": subject}
        if _GROUPS_IN_ID in kept:
            claims["_claim_names"] = {self._client.groups_claim: ""}
        if "refresh_token" not in kept:
            return await self._with_user_info(kept, claims)
        tokens = dict(kept) | await self._fetch_tokens(
            grant_type="refresh_token", refresh_token=kept["refresh_token"]
        )
        if tokens.get("id_token"):
            claims = await self._id_claims(tokens, nonce=None)
        if claims["sub"] != subject:
            raise DistrustError("sub")
        return await self._with_user_info(tokens, claims)

    async def _id_claims(self, tokens: Mapping[str, str], *, nonce: str | None) -> dict[str, Any]:
        token = tokens.get("id_token", "")
        try:
            return check_id_token(token, await self._key_set(), self._client, nonce=nonce, now=self._clock())
        except DistrustError as error:
            if error.why != "signature" or not self._may_fetch_keys():
                raise
        keys = await self._key_set(fresh=True)  # they may have been changed
        return check_id_token(token, keys, self._client, nonce=nonce, now=self._clock())

    async def _with_user_info(self, tokens: Mapping[str, str], claims: Mapping[str, Any]) -> Identity:
        """Add what the provider tells of somebody now to what their ID token says."""
        headers = {"Authorization": f"Bearer {tokens.get('access_token', '')}"}
        claimed = await self._request_json(
            "GET", (await self._discover())["userinfo_endpoint"], is_judge=True, headers=headers
        )
        if claimed.get("sub") != claims["sub"]:  # section 5.3.2
            raise DistrustError("sub")
        known = {**claims, **{name: value for name, value in claimed.items() if value is not None}}
        keep = {name: tokens[name] for name in ("refresh_token", "access_token") if name in tokens}
        groups = _groups(known, self._client.groups_claim)
        if groups != frozenset() and claimed.get(self._client.groups_claim) is None:
            keep[_GROUPS_IN_ID] = "yes"
        return Identity(subject=claims["sub"], email=_verified_email(known), groups=groups, tokens=keep)

    async def _fetch_tokens(self, **form: str) -> dict[str, str]:
        known = await self._discover()
        methods = known.get("token_endpoint_auth_methods_supported")
        client_id, secret = self._client.client_id, self._client.client_secret
        headers = {}
        if not isinstance(methods, list) or "client_secret_basic" in methods:  # RFC 6749, section 2.3.1
            pair = f"{quote(client_id, safe='')}:{quote(secret, safe='')}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        else:
            form |= {"client_id": client_id, "client_secret": secret}
        answer = await self._request_json(
            "POST", known["token_endpoint"], is_judge=True, headers=headers, data=form
        )
        if not isinstance(answer.get("access_token"), str):  # RFC 6749, section 5.1
            raise unavailable()
        return {name: value for name, value in answer.items() if isinstance(value, str)}

    async def _discover(self) -> dict[str, Any]:
        """Return what the provider says of itself (OpenID Connect Discovery 1.0)."""
        now = self._clock()
        if self._metadata is None or self._metadata[0] <= now:
            found = await self._request_json("GET", self._client.issuer.rstrip("/") + _WELL_KNOWN)
            if found.get("issuer") != self._client.issuer:
                raise DistrustError("iss")
            if not all(_is_safe(found.get(name), self._client.issuer) for name in _ENDPOINTS):
                raise DistrustError("discovery")
            self._metadata = (now + _METADATA_S, found)
        return self._metadata[1]

    def _may_fetch_keys(self) -> bool:
        """Say whether the keys are old enough to be fetched again: nobody may make us ask at will."""
        return self._keys is None or self._keys[0] <= self._clock() - _KEYS_AGAIN_S

    async def _key_set(self, *, fresh: bool = False) -> KeySet:
        now = self._clock()
        if fresh or self._keys is None or self._keys[0] <= now - _KEYS_S:
            found = await self._request_json("GET", (await self._discover())["jwks_uri"])
            self._keys = (now, read_keys(found.get("keys")))
        return self._keys[1]

    async def _request_json(
        self, method: str, url: str, *, is_judge: bool = False, **more: Any
    ) -> dict[str, Any]:
        """Ask; no answer is an outage, and so is a refusal of who `is_judge` of nobody."""
        try:
            async with self._http.stream(method, url, timeout=TIMEOUT_S, **more) as answer:
                status, body = answer.status_code, await _read(answer)
            found = json.loads(body) if status < 300 else _read_error(body)
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, RecursionError):
            raise unavailable() from None
        if is_judge and status in _REFUSALS:
            raise _misconfigured() if found.get("error") in _OUR_FAULTS else DistrustError("denied")
        if status >= 300 or not isinstance(found, dict):
            raise unavailable()
        return found


async def _read(answer: httpx.Response) -> bytes:
    body = b""
    async for piece in answer.aiter_bytes():
        body += piece
        if len(body) > _MOST_BYTES:
            raise ValueError("too long")
    return body


def _read_error(body: bytes) -> dict[str, Any]:
    """Return what stands in an answer that is an error, nothing where that is no object."""
    with suppress(ValueError, RecursionError):
        found = json.loads(body)
        if isinstance(found, dict) and isinstance(found.get("error"), str):
            return found
    return {}


def unavailable(text: str = "The sign-in provider isn’t responding.") -> MailsiftError:
    """Return the error of a provider nobody hears of."""
    return MailsiftError("sso_unavailable", text, retryable=True)


def _misconfigured() -> MailsiftError:
    text = (
        "The sign-in provider refuses this installation, whoever signs in: its secret there may have been "
        "changed. Ask your operator."
    )
    return MailsiftError("sso_misconfigured", text, retryable=True)


def read_keys(listed: object) -> KeySet:
    """Return a provider's keys that sign, without those nobody here can read: one of them would spoil all.

    Raises:
        DistrustError: there are none.
    """
    found = [_read_key(one) for one in listed] if isinstance(listed, list) else []
    if not any(found):
        raise DistrustError("keys")
    return KeySet([key for key in found if key is not None])


def _read_key(found: Any) -> Key | None:
    try:
        return import_key(found) if found["kty"] in _KINDS and found.get("use", "sig") == "sig" else None
    except (JoseError, ValueError, TypeError, KeyError):  # no object, or a curve or a number that is none
        return None


def _is_safe(url: object, issuer: str) -> bool:
    """Say whether a place may be asked: over TLS, unless the provider itself is on this machine."""
    if not isinstance(url, str):
        return False
    return url.startswith("https://") or (issuer.startswith("http://") and url.startswith("http://"))


def _verified_email(known: Mapping[str, Any]) -> str:
    """Return the address that the provider vouches for, "" if it does not; some say so in text.

    Entra ID has no `email_verified`. It says instead, where it is asked to, whether the owner of the domain
    vouches for the address (`xms_edov`); without that, any of its tenants could name anybody's.
    """
    email = known.get("email")
    is_verified = any(
        str(known.get(claim)).lower() in {"1", "true"} for claim in ("email_verified", "xms_edov")
    )
    return email if is_verified and isinstance(email, str) and email.isprintable() else ""


def _groups(known: Mapping[str, Any], claim: str) -> frozenset[str] | None:
    """Return somebody's groups; None where they are said to be elsewhere, which is not the same as none.

    That is so for a distributed claim (OpenID Connect Core, section 5.6.2). Entra ID writes one in place of
    more than 200 groups, or `hasgroups`, where no list would fit at all.
    """
    if known.get(claim) is not None:
        return _names(known[claim])
    named = known.get("_claim_names")
    is_elsewhere = isinstance(named, dict) and claim in named
    has_groups = claim == "groups" and str(known.get("hasgroups")).lower() in {"1", "true"}
    return None if is_elsewhere or has_groups else frozenset()


def _names(found: object) -> frozenset[str]:
    listed: Sequence[object] = found if isinstance(found, list) else [found]
    return frozenset(one for one in listed if isinstance(one, str) and one)


def _is_name(found: object) -> bool:
    return isinstance(found, str) and 0 < len(found) <= 255 and found.isprintable()


def _is_same(given: object, wanted: str | None) -> bool:
    if not isinstance(given, str) or wanted is None:
        return False
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), wanted.encode())
