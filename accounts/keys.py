"""API keys: made, listed, rolled, revoked, and found by what a request carries."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import string
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import Final
from uuid import UUID

from mailsift.accounts.doors import Door
from mailsift.events import audit
from mailsift.events.webhook_url import name_in_ascii
from mailsift.jobs.views import AccountId
from mailsift.pipeline.background import guarded
from mailsift.pipeline.clock import Clock, utc_datetime
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.wording import visible_name
from mailsift.storage.database import Connection, Database
from mailsift.storage.redis.rate_limit import RateLimit
from mailsift.storage.sql import accounts, keys
from mailsift.storage.sql.keys import KeyRow, KeyTerms

_REMEMBERED, _REMEMBERED_SECONDS = 4096, 30.0
LONGEST_OVERLAP = 7 * 86_400.0
DAY = 86_400.0
MOST_ORIGINS: Final = 20
CHECKS_A_MINUTE: Final = 1_200
"""What a public key may be used for where nothing else is said, by all visitors together."""
MOST_CHECKS_A_MINUTE: Final = 60_000
_MOST_PUBLIC: Final = 100  # public keys of an account that programs make
_ORIGIN: Final = re.compile(
    r"(?P<scheme>https?)://(?P<host>[^\s/:?#@\[\]\\]{1,253})(?::(?P<port>[0-9]{1,5}))?/?", re.ASCII
)
_HOST: Final = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1"})


@dataclass(frozen=True, slots=True)
class KeyKind:
    """What a key is for, which its first letters tell.

    A public one stands in the pages of its origins, for everybody to read, and opens the widget's checks and
    nothing else.
    """

    test: bool = False  # it opens the account's test account: nobody is asked, nothing mixes with the account
    door: Door | None = None  # it opens this door and nothing else; None: /v1
    public: bool = False

    @property
    def prefix(self) -> str:
        """What its keys begin with."""
        if self.public:
            return "svc_pub_test_" if self.test else "svc_pub_"
        if self.door is None:
            return "svc_test_" if self.test else "svc_key_"
        return f"svc_{self.door}_{'test_' if self.test else ''}"


_ORDINARY: Final = KeyKind()
_KINDS: Final[Mapping[str, KeyKind]] = {
    kind.prefix: kind
    for test in (False, True)
    for kind in (*(KeyKind(test, door) for door in (None, *Door)), KeyKind(test, public=True))
}
"""By prefix."""
_DIGITS = string.digits + string.ascii_uppercase + string.ascii_lowercase
_RANDOM, _CHECK = 32, 6
_SHAPE = re.compile(rf"(?:{'|'.join(_KINDS)})[0-9A-Za-z]{{{_RANDOM + _CHECK}}}", re.ASCII)
_SHORTEST_PEPPER = 16


class Scope(StrEnum):
    """What a key may do. No key can make a secret one."""

    VALIDATE = "validate:write"
    JOBS_READ = "jobs:read"
    JOBS_WRITE = "jobs:write"
    WEBHOOKS_READ = "webhooks:read"
    WEBHOOKS_WRITE = "webhooks:write"
    PUBLIC_KEYS = "public-keys:write"


_DOOR_SCOPES: Final = (Scope.VALIDATE, Scope.JOBS_READ, Scope.JOBS_WRITE)
"""What there is to do behind a door."""


@dataclass(frozen=True)  # no slots: it is remembered, and so are the texts made of its ids
class Caller:
    """Who asks: the key and its account."""

    key_id: UUID
    account_id: AccountId
    scopes: frozenset[str]
    expires_at: datetime | None
    test: bool = False  # it is the test account of one
    door: Door | None = None  # all the key opens
    origins: tuple[str, ...] = ()  # where a public key may stand; () of others
    name: str = ""  # what people call the key
    checks_per_minute: int = CHECKS_A_MINUTE  # of a public key, by all visitors together

    @cached_property
    def owner(self) -> str:
        """The account's id as text: whose quota, usage and answers it is."""
        return str(self.account_id)

    @cached_property
    def mark(self) -> str:
        """The name of the mark that says that the key is revoked."""
        return _revocation_mark(self.key_id)

    @cached_property
    def actor(self) -> str:
        """Who does what is done with the key, for the audit log."""
        return audit.key_actor(self.key_id, self.name)

    @property
    def is_public(self) -> bool:
        """Say whether everybody can read the key."""
        return bool(self.origins)


@dataclass(frozen=True, slots=True)
class MintedKey:
    """A new key; `secret` is shown this once."""

    secret: str
    row: KeyRow


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)  # no pepper in a log
class KeyService:
    """The keys of one installation.

    A key that was found good is remembered for half a minute by this process. A revoked one is marked in
    Redis, and who remembers keys asks for the mark with every request (mailsift.api.http.auth).
    """

    database: Database
    peppers: Sequence[Pepper]
    limit: RateLimit
    clock: Clock
    choose: Callable[[str], str]
    _known: dict[bytes, tuple[float, Caller]] = field(default_factory=dict, init=False)
    _touching: set[asyncio.Task[None]] = field(default_factory=set, init=False)

    async def create(
        self,
        account_id: AccountId,
        *,
        name: str = "",
        scopes: Sequence[Scope] = (),
        lifetime: float = 0.0,
        kind: KeyKind = _ORDINARY,
        origins: Sequence[str] = (),
    ) -> MintedKey:
        """Make a key.

        Args:
            account_id: whose.
            name: what people call it.
            scopes: what it may do; none = everything.
            lifetime: seconds; 0 = for ever.
            kind: what it is for; behind a door there is no more to do than _DOOR_SCOPES.
            origins: of a public key, the origins of the pages it stands in.

        Raises:
            MailsiftError: `bad_option`: there is nothing it may do; `bad_origin`.
        """
        if kind.public != bool(origins):
            raise MailsiftError("bad_origin", "A public key needs at least one origin; other keys have none.")
        may, where = _checked_scopes(kind, scopes), checked_origins(origins)
        new = KeyTerms(visible_name(name), may, lifetime, where)
        async with self.database.begin() as connection:
            owner = await accounts.ensure_test_account(connection, account_id) if kind.test else account_id
            minted = await self._mint(connection, owner, kind, new)
            await audit.record_change(
                connection,
                account_id,
                "key.create",
                minted.row.hint,
                name=new.name,
                scopes=[str(scope) for scope in new.scopes],
                ends=f"in {lifetime / DAY:g} days" if lifetime else "never",
            )
        return minted

    async def create_public(
        self, caller: Caller, *, name: str, origins: Sequence[str], checks_per_minute: int | None
    ) -> MintedKey:
        """Make a public key for the program that asks; a test key makes one of test mode.

        Raises:
            MailsiftError: `bad_origin`, `public_key_limit`.
        """
        if not origins:
            raise MailsiftError("bad_origin", "A public key needs at least one origin.")
        kind = KeyKind(caller.test, public=True)
        new = KeyTerms(visible_name(name), (), 0.0, checked_origins(origins), checks_per_minute)
        async with self.database.begin() as connection:
            await accounts.get(connection, caller.account_id, lock=True)
            if len(await keys.public_keys(connection, caller.account_id)) >= _MOST_PUBLIC:
                raise MailsiftError(
                    "public_key_limit", f"An account can have at most {_MOST_PUBLIC} public keys."
                )
            minted = await self._mint(connection, caller.account_id, kind, new)
            await _record_public(connection, caller.account_id, minted.row, "key.create")
        return minted

    async def public_keys(self, account_id: AccountId) -> Sequence[KeyRow]:
        """Return the account's public keys that still open, oldest first, and those of its test account."""
        return await self.database.run(keys.public_keys, account_id)

    async def public_key(self, account_id: AccountId, key_id: UUID) -> KeyRow:
        """Return a public key that still opens.

        Raises:
            MailsiftError: `key_not_found`.
        """
        return await self.database.run(_owned_public, account_id, key_id)

    async def change_public(
        self, account_id: AccountId, key_id: UUID, change: Callable[[KeyRow], KeyRow]
    ) -> KeyRow:
        """Replace a public key's name, origins and limit by what `change` makes of them; at once, everywhere.

        Raises:
            MailsiftError: `key_not_found`, `bad_origin`.
        """
        async with self.database.begin() as connection:
            await accounts.get(connection, account_id, lock=True)
            wanted = change(await _owned_public(connection, account_id, key_id))
            if not wanted.origins:
                raise MailsiftError("bad_origin", "A public key needs at least one origin.")
            row = await keys.change_public(
                connection,
                key_id,
                name=visible_name(wanted.name),
                origins=checked_origins(wanted.origins),
                checks_per_minute=wanted.checks_per_minute,
            )
            await _record_public(connection, account_id, row, "key.change")
        return row

    async def revoke_public(self, account_id: AccountId, key_id: UUID) -> None:
        """End a public key now, everywhere.

        Raises:
            MailsiftError: `key_not_found`, also when it is none of the public ones.
        """
        await self.public_key(account_id, key_id)
        await self.revoke(account_id, key_id)

    async def test_account(self, account_id: AccountId) -> AccountId:
        """Return the account's test account, made when it is new."""
        return AccountId(await self.database.run(accounts.ensure_test_account, account_id))

    async def list(self, account_id: AccountId) -> list[KeyRow]:
        """Return the account's keys and those of its test account."""
        return await self.database.run(keys.of_account, account_id)

    async def revoke(self, account_id: AccountId, key_id: UUID) -> None:
        """End a key now, everywhere.

        Raises:
            MailsiftError: `key_not_found`.
        """
        async with self.database.begin() as connection:
            row = await keys.get(connection, account_id, key_id)
            if row is None or not await keys.revoke(connection, account_id, key_id):
                raise _not_found()
            await audit.record_change(connection, account_id, "key.revoke", row.hint, name=row.name)
        await self.limit.mark(_revocation_mark(key_id))

    async def roll(self, account_id: AccountId, key_id: UUID, *, overlap: float = DAY) -> MintedKey:
        """Make a successor with the same name and scopes; the old key ends in `overlap` seconds.

        Raises:
            MailsiftError: `key_not_found`, `key_not_active`, `bad_overlap`.
        """
        if not 0 <= overlap <= LONGEST_OVERLAP:
            raise MailsiftError("bad_overlap", "The overlap must be between 0 seconds and 7 days.")
        async with self.database.begin() as connection:
            old = await keys.get(connection, account_id, key_id)
            if old is None:
                raise _not_found()
            lifetime = (old.expires_at - old.created_at).total_seconds() if old.expires_at else 0.0
            new = KeyTerms(old.name, old.scopes, lifetime, old.origins, old.checks_per_minute)
            minted = await self._mint(connection, old.account_id, kind_of(old.hint), new)
            if not await keys.succeed(
                connection, account_id, key_id, successor=minted.row.id, overlap=overlap
            ):
                raise MailsiftError("key_not_active", "This key has been revoked or rolled, or has expired.")
            await audit.record_change(
                connection,
                account_id,
                "key.roll",
                old.hint,
                name=old.name,
                successor=minted.row.hint,
                old_key_ends=f"in {audit.hours(overlap)}" if overlap else "now",
            )
        if overlap < _REMEMBERED_SECONDS:
            await self.limit.mark(_revocation_mark(key_id))
        return minted

    def cached_caller(self, secret: str) -> Caller | None:
        """Return who asks if this process has just found the key good; its mark is still to be looked for."""
        known = self._known.get(self._cache_key(secret)) if secret.isascii() else None
        if known is None or known[0] < self.clock():
            return None
        ends = known[1].expires_at
        return known[1] if ends is None or ends > utc_datetime(self.clock()) else None

    async def find(self, secret: str) -> Caller | None:
        """Return who asks, from the database; None for every key that does not open, whatever the reason."""
        if not is_key(secret):
            return None
        wanted = [hashed(secret, pepper) for pepper in self.peppers]
        found = await self.database.run(keys.find, wanted)
        if found is None or not any(hmac.compare_digest(found[1], one) for one in wanted):
            self._known.pop(self._cache_key(secret), None)  # Redis may come back without the key's mark
            return None
        row, kind = found[0], kind_of(secret)
        may = frozenset(row.scopes)
        account_id = AccountId(row.account_id)
        caller = Caller(
            row.id,
            account_id,
            may,
            row.expires_at,
            test=kind.test,
            door=kind.door,
            origins=row.origins,
            name=row.name,
            checks_per_minute=row.checks_per_minute or CHECKS_A_MINUTE,
        )
        self._remember(self._cache_key(secret), caller)
        self._touch(row.id)
        return caller

    async def aclose(self) -> None:
        """Wait for what is being written."""
        await asyncio.gather(*self._touching, return_exceptions=True)

    async def _mint(
        self, connection: Connection, account_id: UUID, kind: KeyKind, terms: KeyTerms
    ) -> MintedKey:
        secret, pepper = new_key(self.choose, kind), self.peppers[0]
        digest, ends = hashed(secret, pepper), hint(secret)
        row = await keys.insert(connection, account_id, terms, digest=digest, pepper_id=pepper.id, hint=ends)
        return MintedKey(secret, row)

    def _cache_key(self, secret: str) -> bytes:
        """Return what a key is remembered by: not itself."""
        return hashed(secret, self.peppers[0])

    def _remember(self, name: bytes, caller: Caller) -> None:
        if len(self._known) >= _REMEMBERED:
            self._known.pop(next(iter(self._known)))
        self._known[name] = (self.clock() + _REMEMBERED_SECONDS, caller)

    def _touch(self, key_id: UUID) -> None:
        """Note the use beside the request, not in its way."""

        async def write() -> None:
            await self.database.run(keys.touch, key_id)

        task = asyncio.create_task(guarded(write(), "key_use"))
        self._touching.add(task)
        task.add_done_callback(self._touching.discard)


async def _owned_public(connection: Connection, account_id: UUID, key_id: UUID) -> KeyRow:
    found = await keys.public_keys(connection, account_id)
    row = next((one for one in found if one.id == key_id), None)
    if row is None:
        raise _not_found()
    return row


async def _record_public(connection: Connection, account_id: UUID, row: KeyRow, action: str) -> None:
    detail = {"for": list(row.origins), "checks_a_minute": row.checks_per_minute or CHECKS_A_MINUTE}
    await audit.record_change(connection, account_id, action, row.hint, name=row.name, **detail)


def _checked_scopes(kind: KeyKind, scopes: Sequence[Scope]) -> tuple[Scope, ...]:
    """Return what a key may do; a public one needs no scope: it can do one thing only."""
    if kind.door and kind.public:
        raise MailsiftError(
            "bad_option", "Public keys are for forms. They can’t be used with another service’s clients."
        )
    there: Sequence[Scope] = _DOOR_SCOPES if kind.door else tuple(Scope)
    may = tuple(scope for scope in there if scope in (scopes or there))
    if not may:
        raise MailsiftError("bad_option", "Keys for another service’s clients can’t manage webhooks.")
    return () if kind.public else may


def checked_origins(origins: Sequence[str]) -> tuple[str, ...]:
    """Return origins as browsers send them (RFC 6454, section 6.2).

    Raises:
        MailsiftError: `bad_origin`: it has a path or a wildcard, or is plain HTTP elsewhere than on loopback.
    """
    if len(origins) > MOST_ORIGINS:
        raise MailsiftError("bad_origin", f"A key can have at most {MOST_ORIGINS} origins.")
    return tuple(dict.fromkeys(_checked_origin(one.strip().lower()) for one in origins))


def _checked_origin(origin: str) -> str:
    found = _ORIGIN.fullmatch(origin)
    host = _host_in(found["host"]) if found else ""
    if found is None or not host or (found["scheme"] == "http" and host not in _LOOPBACK):
        text = "An origin is like https://www.example.com, without a path; plain http only on localhost."
        raise MailsiftError("bad_origin", text)
    default = {"https": "443", "http": "80"}[found["scheme"]]
    port = f":{int(found['port'])}" if found["port"] and found["port"] != default else ""
    return f"{found['scheme']}://{host}{port}"


def _host_in(text: str) -> str:
    """Return a host as browsers write it, "" when it is none."""
    try:
        host = name_in_ascii(text)
    except ValueError:
        return ""
    return host if _HOST.fullmatch(host) else ""


def _revocation_mark(key_id: UUID) -> str:
    """Return the name of the mark of a revoked key."""
    return f"key:{key_id}"


def _not_found() -> MailsiftError:
    return MailsiftError("key_not_found", "There is no such key.")


@dataclass(frozen=True, slots=True)
class Pepper:
    """A secret that keys the stored hashes, by name; new keys use the first one there is."""

    id: str
    secret: bytes


def new_key(choose: Callable[[str], str], kind: KeyKind = _ORDINARY) -> str:
    """Make a key: prefix, 32 random base62 digits (190 bits) and 6 of CRC-32; `choose` is secrets.choice."""
    body = kind.prefix + "".join(choose(_DIGITS) for _ in range(_RANDOM))
    return body + _checksum(body)


def is_key(text: str) -> bool:
    """Tell whether the text has a key's shape and checksum; spares the database all garbage."""
    return bool(_SHAPE.fullmatch(text)) and text[-_CHECK:] == _checksum(text[:-_CHECK])


def hint(key: str) -> str:
    """Return what may be shown of a key."""
    prefix = kind_of(key).prefix
    body = key[len(prefix) : -_CHECK]
    return f"{prefix}{body[:4]}…{body[-4:]}"


def kind_of(key: str) -> KeyKind:
    """Return the kind of a key, or of the key whose hint this is."""
    return _KINDS[key[: key.rindex("_") + 1]]


def hashed(key: str, pepper: Pepper) -> bytes:
    """Return what is stored. Keyed, so that who can only write the database cannot make a key of his own."""
    return hmac.digest(pepper.secret, key.encode("ascii"), hashlib.sha256)


def read_peppers(text: str) -> tuple[Pepper, ...]:
    """Read `name:secret,name:secret`; the first one keys new hashes, all of them are tried.

    Raises:
        MailsiftError: `bad_peppers`.
    """
    peppers = tuple(_pepper(piece.strip()) for piece in text.split(",") if piece.strip())
    if not peppers or len({pepper.id for pepper in peppers}) < len(peppers):
        raise _bad_peppers()
    return peppers


def _pepper(piece: str) -> Pepper:
    name, _, secret = piece.partition(":")
    if not name or len(secret) < _SHORTEST_PEPPER:
        raise _bad_peppers()
    return Pepper(name, secret.encode())


def _bad_peppers() -> MailsiftError:
    text = (
        f"Peppers are name:secret,name:secret with distinct names and {_SHORTEST_PEPPER} characters or more."
    )
    return MailsiftError("bad_peppers", text)


def _checksum(body: str) -> str:
    number, digits = zlib.crc32(body.encode()), ""
    for _ in range(_CHECK):
        number, digit = divmod(number, len(_DIGITS))
        digits = _DIGITS[digit] + digits
    return digits
