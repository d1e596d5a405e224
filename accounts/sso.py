"""Single sign-on: a provider's word makes people, gives roles by groups, and ends sessions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import structlog

from mailsift.accounts.oidc import DistrustError, Identity, OidcProvider
from mailsift.accounts.people import Role
from mailsift.accounts.sessions import RECHECK, Sessions, SignInAttempt, digest, normalized_email
from mailsift.events import audit
from mailsift.events.signing import Vault
from mailsift.pipeline.clock import Clock, utc_datetime
from mailsift.pipeline.errors import MailsiftError
from mailsift.storage.database import Connection, Database, Row
from mailsift.storage.sql import accounts, people
from mailsift.storage.sql import people as invited
from mailsift.storage.sql.people import SsoSessionRow

ACTOR: Final = "sso"
"""Who changes roles by groups, in the audit log."""
_NONE_VERIFIES: Final = ""
"""Stored in place of a password's hash."""
GRACE: Final = timedelta(minutes=10)
"""How long a session lives on whose provider does not answer."""
_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class GroupRule:
    """Who is in this group has this role in this account."""

    group: str
    account: str
    role: Role


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
            return now - claimed.known_at < GRACE
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
        return bool(by_groups) or await invited.is_invited(connection, email, now=self._now())

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
                await audit.record(connection, had["id"], ACTOR, "member.remove", email, role=had["role"])
            elif role is not None and (had is None or had["role"] != role):
                account_id = had["id"] if had else await accounts.ensure_account(connection, name)
                await people.put_member(connection, account_id, person_id, role.value)
                action = "member.role" if had else "member.join"
                await audit.record(connection, account_id, ACTOR, action, email, role=role.value)

    async def _join_invited(self, connection: Connection, person_id: UUID, email: str) -> Sequence[Row]:
        """Take the invitations of who has no account, into those that no rule names; returns their accounts.

        The provider vouches for the address they were sent to. Who has an account opens their links.
        """
        ruled = {rule.account for rule in self.rules}
        for link in await invited.invitations_of(connection, email, now=self._now()):
            if accounts.normalized_name(link["account"]) in ruled:
                continue
            if link["operator"]:
                await people.change_person(connection, person_id, operator=True)
            await people.put_member(connection, link["account_id"], person_id, link["role"])
            await invited.forget_links(connection, email, account_id=link["account_id"])
            await audit.record(
                connection, link["account_id"], email, "member.join", email, role=link["role"], by=ACTOR
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
        await audit.record(connection, account_id, email, "session.create", by=ACTOR)
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
