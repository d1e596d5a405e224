"""Sessions: signing in and out, by which passwords, and who a cookie belongs to.

Passwords are hashed with argon2id on threads of their own, a few at a time.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import unicodedata
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import ceil
from typing import Final
from uuid import UUID

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from mailsift.accounts.people import Membership, Role, Visitor, note
from mailsift.accounts.second_factors import CodeNeededError, PasswordProof, SecondFactors
from mailsift.events import audit
from mailsift.jobs.views import AccountId
from mailsift.pipeline.clock import Clock, utc_datetime
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.syntax.address import parse_address
from mailsift.storage.database import Connection, Database, Row
from mailsift.storage.redis.rate_limit import RateLimit, Zone, whole_seconds
from mailsift.storage.sql import people
from mailsift.storage.sql.people import NewSession, SessionRow

SESSION_LIFETIME: Final = timedelta(days=14)
_IDLE: Final = timedelta(hours=24)
RECHECK: Final = timedelta(seconds=45)
"""How often a provider is asked about a session it has opened: who leaves a group is out within a minute."""
_SECRET_BYTES: Final = 32
_TRIES_OF_A_CLIENT: Final = Zone("sign_in_address", quota=30, window=300)
_TRIES_FOR_A_PERSON: Final = Zone("sign_in_person", quota=10, window=900)
_STRICTER: Final = 2
"""By how much fewer tries are allowed while Redis does not count them."""


class RateLimitedError(MailsiftError):
    """Somebody tries too often; `retry_after`: after so many seconds they may try again."""

    def __init__(self, message: str, *, retry_after: int) -> None:
        super().__init__("rate_limited", message, retryable=True)
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class SignInAttempt:
    """One way to the provider and back; all of it comes from a secret that only this browser holds."""

    secret: bytes = field(repr=False)

    def _derived_secret(self, purpose: str) -> str:
        return base64url(hmac.digest(self.secret, purpose.encode(), "sha256"))

    @property
    def state(self) -> str:
        """What ties the way back to this browser (RFC 6749, section 10.12)."""
        return self._derived_secret("state")

    @property
    def nonce(self) -> str:
        """What ties the ID token to this attempt."""
        return self._derived_secret("nonce")

    @property
    def verifier(self) -> str:
        """What ties the code to this attempt (RFC 7636)."""
        return self._derived_secret("verifier")


class SignInLimiter:
    """Counts tries to sign in: in Redis, and while that is away in the database, which allows fewer.

    Guessing stays slow, and an operator who has to mend Redis can come in.
    """

    def __init__(self, limit: RateLimit, *, database: Database, clock: Clock) -> None:
        self._limit = limit
        self._database = database
        self._clock = clock

    async def count_attempt(self, email: str, client: str) -> None:
        """Count a try.

        Raises:
            MailsiftError: `rate_limited`.
        """
        # Redis and the database are told of a person only by a hash
        holders = ((_TRIES_OF_A_CLIENT, client), (_TRIES_FOR_A_PERSON, digest(email).hex()))
        for zone, holder in holders:
            decision = await self._limit.take(zone, holder)
            wait = await self._wait_without_redis(zone, holder) if decision is None else decision.retry_after
            if not (decision.allowed if decision else not wait):
                seconds = whole_seconds(wait)
                span = f"{seconds} seconds" if seconds < 90 else f"{ceil(seconds / 60)} minutes"
                text = f"Too many tries to sign in. Try again in {span}."
                raise RateLimitedError(text, retry_after=seconds)

    async def _wait_without_redis(self, zone: Zone, holder: str) -> float:
        """Count a try in the database; returns for how many seconds it is too early, 0 = it counts."""
        quota, window = zone.quota // _STRICTER, timedelta(seconds=zone.window)
        now = utc_datetime(self._clock())
        count, first = await self._database.run(
            people.count_try, digest(f"{zone.name}:{holder}"), quota=quota, window=window, now=now
        )
        if first is None or count < quota:
            return 0.0
        return max(1.0, (first + window - now).total_seconds())


@dataclass(kw_only=True, repr=False)
class Sessions:
    """The sessions of one installation; a session is named by a secret that only its cookie holds.

    `recheck`, where single sign-on is configured, is asked now and then whether a session of its goes on;
    `local` are those whom a password opens anything, None: everybody.
    """

    database: Database
    passwords: Passwords
    limiter: SignInLimiter
    clock: Clock
    token: Callable[[int], bytes]
    factors: SecondFactors
    local: frozenset[str] | None = None
    recheck: Callable[[bytes], Awaitable[bool]] | None = field(default=None, init=False)

    async def sign_in(self, email: str, password: str, *, client: str) -> str:
        """Return the secret of a new session.

        Raises:
            MailsiftError: `wrong_credentials`, the same for an unknown person and a wrong password;
                `rate_limited`, `no_account`, `sso_only`; CodeNeededError.
        """
        proof = await self.authenticate(email, password, client=client)
        async with self.database.begin() as connection:
            await self.check(connection, proof)
            if await self.factors.is_on(connection, proof.person_id):
                raise CodeNeededError(self.factors.pending(proof))
            return await self._start_in_first_account(connection, proof.person_id, normalized_email(email))

    async def sign_in_with_code(self, pending: str, code: str, *, client: str) -> str:
        """Return the secret of a new session of somebody whose password was right.

        `pending` is of the CodeNeededError; the code, as typed, is an authenticator's or a recovery code.

        Raises:
            MailsiftError: `wrong_code`, `sign_in_again`, `rate_limited`, `no_account`.
        """
        proof = self.factors.proof_of(pending)
        await self.limiter.count_attempt(f"code {proof.person_id}", client)
        async with self.database.begin() as connection:
            person = await self.check(connection, proof)
            self.check_local(person["email"])
            by = "recovery code" if await self.factors.use(connection, proof.person_id, code) else "code"
            return await self._start_in_first_account(connection, proof.person_id, person["email"], by=by)

    def check_local(self, email: str) -> None:
        """Refuse whom a password does not open anything.

        Raises:
            MailsiftError: `sso_only`.
        """
        if not self._admits(email):
            raise MailsiftError("sso_only", "Passwords are switched off here. Use single sign-on.")

    def _admits(self, email: str) -> bool:
        return self.local is None or normalized_email(email) in self.local

    async def check(self, connection: Connection, proof: PasswordProof) -> Row:
        """Return the person, whose password is the one that was proved until the transaction ends.

        Raises:
            MailsiftError: `wrong_credentials`: they have another one by now, or are gone.
        """
        person = await people.lock_person(connection, proof.person_id)
        if person is None or PasswordProof.of(person) != proof:
            raise _wrong_credentials()
        return person

    async def _start_in_first_account(
        self, connection: Connection, person_id: UUID, email: str, **detail: str
    ) -> str:
        """Begin a session in the person's first account."""
        accounts = await people.accounts_of(connection, person_id, lock=True)
        if not accounts:
            raise MailsiftError(
                "no_account", "You aren’t a member of any account. Ask an account owner to invite you."
            )
        account_id = accounts[0]["id"]
        await audit.record(connection, account_id, email, "session.create", **detail)
        return await self.open(connection, person_id, account_id)

    async def confirm_factor(self, visitor: Visitor, code: str, *, client: str) -> tuple[list[str], str]:
        """Turn the second factor on and end every session; returns recovery codes and a new session.

        Raises:
            MailsiftError: `wrong_code`, `rate_limited`, `account_not_found`.
        """
        await self.limiter.count_attempt(f"code {visitor.user_id}", client)
        async with self.database.begin() as connection:
            await people.lock_person(connection, visitor.user_id)  # who signs in without a code has done so
            codes = await self.factors.confirm(connection, visitor, code)
            await people.end_sessions(connection, visitor.user_id)
            await _check_membership(connection, visitor, visitor.account_id)
            return codes, await self.open(connection, visitor.user_id, visitor.account_id)

    async def turn_factor_off(self, visitor: Visitor, code: str, *, client: str) -> None:
        """Turn the second factor off.

        Raises:
            MailsiftError: `wrong_code`, `rate_limited`.
        """
        await self.limiter.count_attempt(f"code {visitor.user_id}", client)
        await self.factors.turn_off(visitor, code)

    async def authenticate(self, email: str, password: str, *, client: str) -> PasswordProof:
        """Return whose address and password these are; what they open is opened where `check` says so, too.

        Raises:
            MailsiftError: `wrong_credentials`, `rate_limited`, `sso_only`.
        """
        email = normalized_email(email)
        self.check_local(email)
        await self.limiter.count_attempt(email, client)
        while True:
            person = await self.database.run(people.person_of, email)
            stored = person["password"] if person else None
            if not await self.passwords.verify(stored, password) or person is None:
                raise _wrong_credentials()
            if not self.passwords.is_outdated(person["password"]):
                return PasswordProof.of(person)
            fresh = await self.passwords.hash(password)  # unless it is another one meanwhile: look again
            await self.database.run(people.replace_password, person["id"], person["password"], fresh)

    async def open(self, connection: Connection, person_id: UUID, account_id: UUID) -> str:
        """Begin a session of a person who has proved who they are; returns its secret."""
        secret = new_secret(self.token)
        now = self._now()
        new = NewSession(
            id=digest(secret),
            person_id=person_id,
            account_id=account_id,
            created_at=now,
            seen_at=now,
            expires_at=now + SESSION_LIFETIME,
        )
        await people.insert_session(connection, new)
        await people.change_person(connection, person_id, last_sign_in=now)
        return secret

    async def find(self, secret: str) -> Visitor | None:
        """Return whose session it is; None when it has ended, slept too long or never was."""
        row = await self._row(secret)
        if row is not None and row.sso_asked_at is not None and row.sso_asked_at <= self._now() - RECHECK:
            if self.recheck is None or not await self.recheck(digest(secret)):
                await self.sign_out(secret)
                return None
            row = await self._row(secret)  # another role perhaps, or none
        if row is None or (row.sso_asked_at is None and not self._admits(row.email)):
            return None
        return Visitor(
            user_id=row.person_id,
            email=row.email,
            account_id=AccountId(row.account_id),
            account_name=row.account_name,
            role=Role(row.role),
            operator=row.operator,
            zone=row.zone or row.account_zone,
            account_zone=row.account_zone,
            zone_chosen=bool(row.zone),
        )

    async def _row(self, secret: str) -> SessionRow | None:
        return await self.database.run(people.find_session, digest(secret), now=self._now(), idle=_IDLE)

    async def sign_out(self, secret: str) -> None:
        """End the session."""
        await self.database.run(people.end_session, digest(secret))

    async def sign_out_everywhere(self, visitor: Visitor) -> int:
        """End every session of the person; returns how many there were."""
        async with self.database.begin() as connection:
            await note(connection, visitor, "session.end_all")
            return await people.end_sessions(connection, visitor.user_id)

    async def change_password(self, visitor: Visitor, old: str, new: str, *, client: str) -> str:
        """Set a new password and end every session; returns the secret of the one that goes on.

        Raises:
            MailsiftError: `wrong_credentials`, `password_weak`, `rate_limited`, `account_not_found`.
        """
        check_password(new, email=visitor.email)
        proof = await self.authenticate(visitor.email, old, client=client)
        return await self.database.run(self._change_password, visitor, proof, await self.passwords.hash(new))

    async def _change_password(
        self, connection: Connection, visitor: Visitor, proof: PasswordProof, fresh: str
    ) -> str:
        await self.check(connection, proof)
        await put_password(connection, visitor.user_id, visitor.email, fresh)
        await note(connection, visitor, "password.change")
        await _check_membership(connection, visitor, visitor.account_id)
        return await self.open(connection, visitor.user_id, visitor.account_id)

    async def accounts(self, visitor: Visitor) -> Sequence[Membership]:
        """Return the accounts the person is a member of."""
        rows = await self.database.run(people.accounts_of, visitor.user_id)
        return [Membership(AccountId(row["id"]), row["name"], Role(row["role"])) for row in rows]

    async def choose_account(self, visitor: Visitor, secret: str, account_id: UUID) -> None:
        """Look at another account of the person.

        Raises:
            MailsiftError: `account_not_found`, also when the person is no member of it.
        """
        async with self.database.begin() as connection:
            await _check_membership(connection, visitor, account_id)
            await people.choose_account(connection, digest(secret), account_id)

    def _now(self) -> datetime:
        return utc_datetime(self.clock())


async def _check_membership(connection: Connection, visitor: Visitor, account_id: UUID) -> None:
    """Refuse who is no member of the account; they stay one until the transaction ends."""
    rows = await people.accounts_of(connection, visitor.user_id, lock=True)
    if account_id not in {row["id"] for row in rows}:
        raise MailsiftError("account_not_found", "There is no such account.")


def normalized_email(email: str) -> str:
    """Return an address as people are known by: its canonical form, lower-case; of what is none, its text."""
    given = email.strip()
    parsed = parse_address(given)
    return (given if parsed.rule else parsed.address).lower()


def base64url(data: bytes) -> str:
    """Write bytes as JOSE does, without padding (RFC 7515, section 2)."""
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def new_secret(token: Callable[[int], bytes]) -> str:
    """Return a secret of 256 random bits, as cookies and links carry it."""
    return base64url(token(_SECRET_BYTES))


def digest(secret: str) -> bytes:
    """Return what is stored of such a secret, which needs no slow hash."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def _wrong_credentials() -> MailsiftError:
    return MailsiftError("wrong_credentials", "The email address or the password is wrong.")


SHORTEST_PASSWORD: Final = 12
"""NIST SP 800-63B asks for 8 and advises 15 where nothing else guards; length is all that is asked."""
LONGEST_PASSWORD: Final = 200
_HASHES_AT_ONCE: Final = 2  # each takes 64 MiB


class Passwords:
    """Hashes passwords and says whether one is right.

    Args:
        token: returns that many random bytes.
        hasher: the cost; the default is the second choice of RFC 9106 section 4: 64 MiB, 3 passes.
    """

    def __init__(self, token: Callable[[int], bytes], hasher: PasswordHasher | None = None) -> None:
        self._hasher = hasher or PasswordHasher()
        self._decoy = _decoy_hash(self._hasher, token)
        self._turns = asyncio.Semaphore(_HASHES_AT_ONCE)

    async def hash(self, password: str) -> str:
        """Return what is stored of a password."""
        async with self._turns:
            return await asyncio.to_thread(self._hasher.hash, _prepared_password(password))

    async def verify(self, stored: str | None, password: str) -> bool:
        """Say whether the password is right; with None, it is not, after the same work."""
        async with self._turns:
            right = False
            for spelled in _password_spellings(password):
                right = right or await asyncio.to_thread(self._is_right, stored or self._decoy, spelled)
        return right and stored is not None

    def is_outdated(self, stored: str) -> bool:
        """Say whether a password was hashed at another cost than today's."""
        return self._hasher.check_needs_rehash(stored)

    def _is_right(self, stored: str, password: str) -> bool:
        try:
            return self._hasher.verify(stored, password)
        except (VerificationError, InvalidHashError):
            return False


def _prepared_password(password: str) -> str:
    """Return a password as it is hashed, whichever keyboard it was typed on (RFC 8265, section 4.2).

    One writes an é as one character, another as an e with an accent behind it; or a space of its own.
    """
    spaced = "".join(" " if unicodedata.category(sign) == "Zs" else sign for sign in password)
    return unicodedata.normalize("NFC", spaced)


def _password_spellings(password: str) -> list[str]:
    """Return what a password may have been hashed as: before it was prepared, as some keyboard wrote it."""
    return list(
        dict.fromkeys((_prepared_password(password), password, unicodedata.normalize("NFD", password)))
    )


def _decoy_hash(hasher: PasswordHasher, token: Callable[[int], bytes]) -> str:
    """Return a hash that no password has, at this hasher's cost."""
    salt, hashed = (
        base64.b64encode(token(size)).decode().rstrip("=") for size in (hasher.salt_len, hasher.hash_len)
    )
    cost = f"m={hasher.memory_cost},t={hasher.time_cost},p={hasher.parallelism}"
    return f"$argon2id$v=19${cost}${salt}${hashed}"


def check_password(password: str, *, email: str) -> None:
    """Refuse a password that is easily guessed.

    Raises:
        MailsiftError: `password_weak`.
    """
    password = _prepared_password(password)
    if not SHORTEST_PASSWORD <= len(password) <= LONGEST_PASSWORD:
        raise MailsiftError(
            "password_weak", f"A password must have {SHORTEST_PASSWORD} to {LONGEST_PASSWORD} characters."
        )
    if len(set(password)) < 5 or password.lower() == email:
        raise MailsiftError("password_weak", "This password is too easy to guess. Choose another one.")


async def put_password(connection: Connection, person_id: UUID, email: str, hashed: str) -> None:
    """Give a person another password: their sessions end, and links to a new one, too."""
    await people.change_person(connection, person_id, password=hashed)
    await people.end_sessions(connection, person_id)
    await people.forget_links(connection, email, kind="password")
