"""Single sign-on: a provider's word makes people, gives roles by groups, and ends sessions.

The provider speaks OpenID Connect (Core 1.0; code flow with PKCE, RFC 7636). What is believed of an ID token
is decided by `check_id_token`, a function without a network.
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
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import quote, urlencode
from uuid import UUID

import httpx
import structlog
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import Key, KeySet, import_key

from mailsift.accounts.people import Role
from mailsift.accounts.sessions import RECHECK, Sessions, SignInAttempt, base64url, digest, normalized_email
from mailsift.events import audit
from mailsift.events.signing import Vault
from mailsift.pipeline.clock import Clock, utc_datetime
from mailsift.pipeline.errors import MailsiftError
from mailsift.storage.database import Connection, Database, Row
from mailsift.storage.sql import accounts, people
from mailsift.storage.sql.people import SsoSessionRow

_ACTOR: Final = "sso"
"""Who changes roles by groups, in the audit log."""
_NONE_VERIFIES: Final = ""
"""Stored in place of a password's hash."""
_GRACE: Final = timedelta(minutes=10)
"""How long a session lives on whose provider does not answer."""

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class GroupRule:
    """Who is in this group has this role in this account."""

    group: str
    account: str
    role: Role


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


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SingleSignOn:
    """Signs people in by one provider."""

    database: Database
    provider: OidcProvider
    rules: Sequence[GroupRule]  # what groups give; accounts no rule names are left to invitations
    sessions: Sessions
    vault: Vault  # seals the tokens that ask again
    clock: Clock

    async def finish(self, attempt: SignInAttempt, answer: Mapping[str, str], redirect_uri: str) -> str:
        """Return the secret of a session of who has come back from the provider.

        Raises:
            MailsiftError: `sso_unavailable`, `sso_misconfigured`, `sso_refused`, `no_account`.
        """
        try:
            identity = await self.provider.identity(attempt, answer, redirect_uri)
            async with self.database.begin() as connection:
                person_id, email = await self._person(connection, identity)
                await self._apply_groups(connection, person_id, email, identity)
                mine = await people.accounts_of(connection, person_id, lock=True)
                mine = mine or await self._join_invited(connection, person_id, email)
                if mine:
                    return await self._open(connection, person_id, mine[0]["id"], email, identity)
        except MailsiftError as error:
            if error.code.startswith("sso_"):
                _log.warning("sso.refused", why=error.why if isinstance(error, DistrustError) else error.code)
            raise
        raise _no_account(identity)

    async def is_still_valid(self, session_id: bytes) -> bool:
        """Ask the provider about a session, apply what it says, and tell whether the session goes on.

        While the provider does not answer, or nothing that can be believed, it does for a while.
        """
        now = self._now()
        claimed = await self.database.run(people.claim_sso_session, session_id, now=now, before=now - RECHECK)
        if claimed is None:  # another request asks
            return True
        if claimed.issuer != self.provider.issuer:
            return False
        try:
            kept = json.loads(self.vault.open(claimed.person_id, claimed.tokens))
            identity = await self.provider.refresh_identity(claimed.subject, kept)
        except MailsiftError as error:
            if isinstance(error, DistrustError) and error.is_refusal:
                _log.info("sso.ended", why=error.why)
                return False
            _log.warning(
                "sso.unavailable", error=error.why if isinstance(error, DistrustError) else error.code
            )
            return now - claimed.known_at < _GRACE
        async with self.database.begin() as connection:
            person = await people.lock_person(connection, claimed.person_id)
            if person is None:
                return False
            await self._apply_groups(connection, claimed.person_id, person["email"], identity)
            tokens = self._sealed_tokens(claimed.person_id, identity)
            await people.renew_sso_session(connection, session_id, tokens=tokens, now=now)
        return True

    async def _person(self, connection: Connection, identity: Identity) -> tuple[UUID, str]:
        """Return whose identity it is, and their address; a verified address makes it somebody's.

        They are there until the transaction ends.
        """
        known = await people.person_of_identity(connection, self.provider.issuer, identity.subject)
        if known is not None:
            person = await people.lock_person(connection, known)
            if person is not None:
                return known, person["email"]
        email = normalized_email(identity.email)
        if not email:
            raise DistrustError("email")
        found = await people.person_of(connection, email)
        if found is not None:
            found = await people.lock_person(connection, found["id"])
        if found is None and not await self._is_awaited(connection, email, identity):
            raise _no_account(identity)
        person_id = (
            found["id"]
            if found
            else await people.add_person(connection, email=email, password=_NONE_VERIFIES)
        )
        if person_id is None:  # whom another sign-in has made just now
            return await self._person(connection, identity)
        if not await people.link_identity(connection, self.provider.issuer, identity.subject, person_id):
            raise DistrustError("identity")
        return person_id, email

    async def _is_awaited(self, connection: Connection, email: str, identity: Identity) -> bool:
        """Say whether groups or an invitation lead a new person to an account."""
        by_groups = roles_of(identity.groups or frozenset(), self.rules)
        return bool(by_groups) or await people.is_invited(connection, email, now=self._now())

    async def _apply_groups(
        self, connection: Connection, person_id: UUID, email: str, identity: Identity
    ) -> None:
        """Make memberships what groups say, in the accounts that rules name; groups not told say nothing."""
        if identity.groups is None:
            _log.warning("sso.groups_unknown")
            return
        wanted = roles_of(identity.groups, self.rules)
        mine = await people.accounts_of(connection, person_id)
        there = {accounts.normalized_name(row["name"]): row for row in mine}
        for name in dict.fromkeys(rule.account for rule in self.rules):
            role, had = wanted.get(name), there.get(name)
            if role is None and had is not None:
                await people.remove_member(connection, had["id"], person_id)
                await audit.record(connection, had["id"], _ACTOR, "member.remove", email, role=had["role"])
            elif role is not None and (had is None or had["role"] != role):
                account_id = had["id"] if had else await accounts.ensure_account(connection, name)
                await people.put_member(connection, account_id, person_id, role.value)
                action = "member.role" if had else "member.join"
                await audit.record(connection, account_id, _ACTOR, action, email, role=role.value)

    async def _join_invited(self, connection: Connection, person_id: UUID, email: str) -> Sequence[Row]:
        """Take the invitations of who has no account, into those that no rule names; returns their accounts.

        The provider vouches for the address they were sent to. Who has an account opens their links.
        """
        ruled = {rule.account for rule in self.rules}
        for link in await people.invitations_of(connection, email, now=self._now()):
            if accounts.normalized_name(link["account"]) in ruled:
                continue
            if link["operator"]:
                await people.change_person(connection, person_id, operator=True)
            await people.put_member(connection, link["account_id"], person_id, link["role"])
            await people.forget_links(connection, email, account_id=link["account_id"])
            await audit.record(
                connection, link["account_id"], email, "member.join", email, role=link["role"], by=_ACTOR
            )
        return await people.accounts_of(connection, person_id, lock=True)

    async def _open(
        self, connection: Connection, person_id: UUID, account_id: UUID, email: str, identity: Identity
    ) -> str:
        secret = await self.sessions.open(connection, person_id, account_id)
        row = SsoSessionRow(
            digest(secret),
            person_id,
            self.provider.issuer,
            identity.subject,
            self._sealed_tokens(person_id, identity),
            self._now(),
        )
        await people.insert_sso_session(connection, row)
        await audit.record(connection, account_id, email, "session.create", by=_ACTOR)
        return secret

    def _sealed_tokens(self, person_id: UUID, identity: Identity) -> bytes:
        return self.vault.seal(person_id, json.dumps(dict(identity.tokens)).encode())

    def _now(self) -> datetime:
        return utc_datetime(self.clock())


def _no_account(identity: Identity) -> MailsiftError:
    text = "None of your groups has access to an account here. Ask your operator."
    if identity.groups is None:
        text = (
            "The sign-in provider hasn’t said which groups you are in: there may be too many for it to list. "
            "Ask your operator to let it send only those that count here."
        )
    return MailsiftError("no_account", text)


def roles_of(groups: frozenset[str], rules: Sequence[GroupRule]) -> dict[str, Role]:
    """Return the role in each account that groups give: of several, the one that may most."""
    found: dict[str, Role] = {}
    for rule in rules:
        if rule.group in groups and not (rule.account in found and found[rule.account].may(rule.role)):
            found[rule.account] = rule.role
    return found


def read_group_rule(text: str) -> GroupRule:
    """Read `group=account:role`, as settings have checked it."""
    group, _, rest = text.partition("=")
    account, _, role = rest.rpartition(":")
    return GroupRule(group.strip(), accounts.normalized_name(account), Role(role))


_TIMEOUT_S: Final = 5.0
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
_GROUPS_IN_ID: Final = "groups_in_id_token"


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
            raise _unavailable("The sign-in provider is in trouble itself. Try again in a few minutes.")
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
            raise _unavailable()
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
            async with self._http.stream(method, url, timeout=_TIMEOUT_S, **more) as answer:
                status, body = answer.status_code, await _read(answer)
            found = json.loads(body) if status < 300 else _read_error(body)
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, RecursionError):
            raise _unavailable() from None
        if is_judge and status in _REFUSALS:
            raise _misconfigured() if found.get("error") in _OUR_FAULTS else DistrustError("denied")
        if status >= 300 or not isinstance(found, dict):
            raise _unavailable()
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


def _unavailable(text: str = "The sign-in provider isn’t responding.") -> MailsiftError:
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


_LEEWAY_S: Final = 60.0
_LATEST: Final = 1e12  # epoch seconds; a time may have thousands of digits


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


def _is_for_us(claims: Mapping[str, Any], client: OidcClient, _: float) -> bool:
    """Say whether the token is for us; one that is for others too must have been asked for by us."""
    audience = claims.get("aud")
    names = [audience] if isinstance(audience, str) else audience
    if not isinstance(names, list) or client.client_id not in names:
        return False
    return bool(claims.get("azp", client.client_id if len(names) == 1 else None) == client.client_id)


def _claimed_time(claims: Mapping[str, Any], name: str) -> float:
    """Return a time; for none, like one beyond all bounds, NaN, which is before and after nothing."""
    value = claims.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool) or abs(value) >= _LATEST:
        return math.nan
    return float(value)


_CLAIMS: Final[Mapping[str, Callable[[Mapping[str, Any], OidcClient, float], bool]]] = {
    "iss": lambda claims, client, _: claims.get("iss") == client.issuer,
    "aud": _is_for_us,
    "exp": lambda claims, _, now: now < _claimed_time(claims, "exp") + _LEEWAY_S,
    "iat": lambda claims, _, now: _claimed_time(claims, "iat") <= now + _LEEWAY_S,
    "nbf": lambda claims, _, now: "nbf" not in claims or _claimed_time(claims, "nbf") <= now + _LEEWAY_S,
    "sub": lambda claims, _client, _now: _is_name(claims.get("sub")),
}
"""What must hold of each claim."""


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
