"""One-time links, made and used: for the first owner, into an account, and to a new password.

And with them all that the pages and `mailsift users` ask about people.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Final
from uuid import UUID

from mailsift.accounts.people import Members, Role, Visitor, check_owners, note
from mailsift.accounts.second_factors import PasswordProof
from mailsift.accounts.sessions import (
    Passwords,
    Sessions,
    check_password,
    digest,
    new_secret,
    normalized_email,
    put_password,
)
from mailsift.events import audit
from mailsift.events.audit import COMMAND_LINE
from mailsift.jobs.views import AccountId
from mailsift.pipeline.clock import Clock, utc_datetime
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.syntax.address import parse_address
from mailsift.pipeline.zones import is_zone
from mailsift.storage.database import Connection, Database, Row, from_row
from mailsift.storage.redis.rate_limit import RateLimit
from mailsift.storage.sql import accounts, people
from mailsift.storage.sql.people import LinkTerms

if TYPE_CHECKING:
    from mailsift.accounts.sso import SingleSignOn

_LIVES: Final = timedelta(hours=72)

_LONGEST_NAME: Final = 80


class LinkKind(StrEnum):
    """What a one-time link is for."""

    FIRST_OWNER = "first_owner"
    INVITE = "invite"
    PASSWORD = "password"  # noqa: S105 - a kind of link


@dataclass(frozen=True, slots=True)
class LinkView:
    """A one-time link as its holder sees it."""

    kind: LinkKind
    email: str  # for whom; "" for the first owner, of whom nothing is known
    account_name: str  # "" unless it is an invitation
    role: Role
    known: bool  # this person has a password already


@dataclass(frozen=True, slots=True)
class Invitation:
    """An invitation nobody has taken yet; times are UTC."""

    id: UUID
    email: str
    role: Role
    made_by: str
    created_at: datetime
    expires_at: datetime


_INVITED: Final = (
    "They are invited and have not joined yet, so there is no password to replace: the link of their "
    "invitation sets one. `mailsift users create` prints a new one."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """The one-time links of one installation; each is shown once and works once, within three days."""

    database: Database
    passwords: Passwords
    sessions: Sessions
    clock: Clock
    token: Callable[[int], bytes]

    async def first_owner(self) -> str | None:
        """Return the secret of a link for the first person; None when there are people already."""
        async with self.database.begin() as connection:
            if await people.any_exist(connection):
                return None
            offer = LinkTerms(LinkKind.FIRST_OWNER, Role.OWNER, COMMAND_LINE, operator=True)
            return await self._make(connection, offer)

    async def invite(self, visitor: Visitor, email: str, role: Role) -> str:
        """Return the secret of an invitation into the visitor's account.

        Raises:
            MailsiftError: `email_invalid`, `already_member`.
        """
        offer = LinkTerms(LinkKind.INVITE, role, visitor.email, visitor.account_id, _checked_email(email))
        return await self.database.run(self._invite, offer)

    async def invite_from_terminal(
        self, account: str, email: str, role: Role, *, operator: bool = False
    ) -> str:
        """Return the secret of an invitation into an account, which is made when it is new.

        Raises:
            MailsiftError: `email_invalid`, `account_name_invalid`, `already_member`.
        """
        email, account = _checked_email(email), checked_name(account)
        async with self.database.begin() as connection:
            account_id = await accounts.ensure_account(connection, account)
            offer = LinkTerms(LinkKind.INVITE, role, COMMAND_LINE, account_id, email, operator)
            return await self._invite(connection, offer)

    async def new_password(self, email: str) -> str:
        """Return the secret of a link by which a person sets a new password.

        Raises:
            MailsiftError: `person_not_found`.
        """
        email = normalized_email(email)
        async with self.database.begin() as connection:
            if await people.person_of(connection, email) is None:
                invited = await people.is_invited(connection, email, now=self._now())
                raise MailsiftError("person_not_found", _INVITED) if invited else people.person_not_found()
            await people.forget_links(connection, email, kind="password")  # the newest counts
            offer = LinkTerms(LinkKind.PASSWORD, Role.VIEWER, COMMAND_LINE, email=email)
            return await self._make(connection, offer)

    async def invitations(self, account_id: AccountId) -> list[Invitation]:
        """Return the account's open invitations, newest first."""
        rows = await self.database.run(people.links_of, account_id, now=self._now())
        return [from_row(Invitation, row, role=Role(row["role"])) for row in rows]

    async def withdraw(self, visitor: Visitor, link_id: UUID) -> None:
        """Withdraw an invitation into the visitor's account.

        Raises:
            MailsiftError: `invitation_not_found`.
        """
        async with self.database.begin() as connection:
            email = await people.delete_link(connection, visitor.account_id, link_id)
            if email is None:
                text = "There is no such invitation: it was taken, withdrawn, or its time is over."
                raise MailsiftError("invitation_not_found", text)
            await note(connection, visitor, "member.uninvite", email)

    async def find(self, secret: str) -> LinkView:
        """Return what a link is for.

        Raises:
            MailsiftError: `link_gone`.
        """
        async with self.database.begin() as connection:
            row = await people.find_link(connection, digest(secret), now=self._now())
            if row is None:
                raise _gone()
            account = await accounts.get(connection, row["account_id"]) if row["account_id"] else None
            known = await people.person_of(connection, row["email"]) is not None
        return LinkView(
            kind=LinkKind(row["kind"]),
            email=row["email"],
            account_name=account["name"] if account else "",
            role=Role(row["role"]),
            known=known,
        )

    async def suggested_account(self) -> str:
        """Return the account the first owner most likely wants: the only one there is, or ""."""
        names = await self.database.run(accounts.names, limit=2)
        return names[0] if len(names) == 1 else ""

    async def accept_first_owner(
        self, secret: str, *, account: str, email: str, password: str, zone: str = ""
    ) -> str:
        """Make the first owner, who is an operator too; returns the secret of their session.

        A time zone, where their browser tells one, becomes the account's.

        Raises:
            MailsiftError: `link_gone`, `email_invalid`, `account_name_invalid`, `password_weak`.
        """
        email, account = _checked_email(email), checked_name(account)
        self.sessions.check_local(email)
        await self.find(secret)
        hashed = await self._hash(password, email)
        async with self.database.begin() as connection:
            await people.lock_people(connection)  # there may be two such links
            link = await self._use(connection, secret, LinkKind.FIRST_OWNER)
            if await people.any_exist(connection):
                raise _gone()
            person_id = await self._add(connection, link, email, hashed)
            account_id = await accounts.ensure_account(connection, account)
            if is_zone(zone):
                await accounts.change(connection, account_id, zone=zone)
            await _join(connection, account_id, person_id, link["role"], email)
            return await self.sessions.open(connection, person_id, account_id)

    async def accept(self, secret: str, *, password: str, client: str) -> str:
        """Join the account of an invitation; returns the secret of a session in it.

        Who is known already gives the password they have, who is new chooses one.

        Raises:
            MailsiftError: `link_gone`, `password_weak`, `wrong_credentials`, `rate_limited`, `sign_in_first`.
        """
        view = await self.find(secret)
        self.sessions.check_local(view.email)
        hashed, proof = "", None
        if view.known:
            proof = await self.sessions.authenticate(view.email, password, client=client)
        else:
            hashed = await self._hash(password, view.email)
        return await self.database.run(self._accept, secret, hashed, proof)

    async def _accept(
        self, connection: Connection, secret: str, hashed: str, proof: PasswordProof | None
    ) -> str:
        link = await self._use(connection, secret, LinkKind.INVITE)
        if proof is not None:
            await self.sessions.check(connection, proof)
            if await self.sessions.factors.is_on(connection, proof.person_id):
                raise MailsiftError("sign_in_first", "Sign in with your code first, then open this again.")
        person_id = await self._add(connection, link, link["email"], hashed)
        await _join(connection, link["account_id"], person_id, link["role"], link["email"])
        return await self.sessions.open(connection, person_id, link["account_id"])

    async def join(self, secret: str, visitor: Visitor, session: str) -> None:
        """Join the account of an invitation as who is signed in; their session looks at it from now on.

        It stays what it is: one that the provider opened is asked about there, as before.

        Raises:
            MailsiftError: `link_gone`, also when it is for somebody else.
        """
        await self.database.run(self._join_as, secret, visitor, session)

    async def _join_as(self, connection: Connection, secret: str, visitor: Visitor, session: str) -> None:
        link = await self._use(connection, secret, LinkKind.INVITE)
        if link["email"] != visitor.email:
            raise _gone()
        person_id = await self._add(connection, link, visitor.email, "")
        await _join(connection, link["account_id"], person_id, link["role"], visitor.email)
        await people.choose_account(connection, digest(session), link["account_id"])

    async def set_password(self, secret: str, password: str) -> None:
        """Set the password of the person a link is for, and end their sessions.

        Raises:
            MailsiftError: `link_gone`, `password_weak`.
        """
        hashed = await self._hash(password, (await self.find(secret)).email)
        await self.database.run(self._set_password, secret, hashed)

    async def _set_password(self, connection: Connection, secret: str, hashed: str) -> None:
        link = await self._use(connection, secret, LinkKind.PASSWORD)
        person = await people.person_of(connection, link["email"])
        if person is None:
            raise _gone()
        await put_password(connection, person["id"], link["email"], hashed)
        await people.audit_operation(connection, COMMAND_LINE, "password.reset", link["email"])

    async def add_member(
        self, account: str, email: str, role: Role, password: str, *, operator: bool
    ) -> None:
        """Make a person with a password, or a known one with this new password, a member; no link is needed.

        Raises:
            MailsiftError: `email_invalid`, `account_name_invalid`, `password_weak`, `last_owner`.
        """
        email, account = _checked_email(email), checked_name(account)
        hashed = await self._hash(password, email)
        async with self.database.begin() as connection:
            account_id = await accounts.ensure_account(connection, account)
            person_id = await people.add_person(connection, email=email, password=hashed, operator=operator)
            if person_id is None:
                person_id = await _known(connection, email, operator=operator)
                await put_password(connection, person_id, email, hashed)
                await check_owners(connection, account_id, person_id, role)
            await _join(connection, account_id, person_id, role.value, email, actor=COMMAND_LINE)

    async def _invite(self, connection: Connection, offer: LinkTerms) -> str:
        if offer.account_id is None:
            raise AssertionError("an invitation is into an account")
        await accounts.get(connection, offer.account_id, lock=True)  # the same form may come twice at once
        members = await people.members(connection, offer.account_id)
        if any(one.email == offer.email for one in members):
            raise MailsiftError("already_member", "This person is already a member.")
        await people.forget_links(connection, offer.email, account_id=offer.account_id)  # the newest counts
        detail = {"role": str(offer.role), **({"operator": True} if offer.operator else {})}
        await audit.record(
            connection, offer.account_id, offer.made_by, "member.invite", offer.email, **detail
        )
        return await self._make(connection, offer)

    async def _make(self, connection: Connection, offer: LinkTerms) -> str:
        secret = new_secret(self.token)
        now = self._now()
        await people.insert_link(connection, digest(secret), offer, now=now, expires_at=now + _LIVES)
        return secret

    async def _hash(self, password: str, email: str) -> str:
        check_password(password, email=email)
        return await self.passwords.hash(password)

    async def _use(self, connection: Connection, secret: str, kind: LinkKind) -> Row:
        link = await people.use_link(connection, digest(secret), now=self._now())
        if link is None or link["kind"] != kind:
            raise _gone()  # which puts a link of another kind back
        return link

    async def _add(self, connection: Connection, link: Row, email: str, hashed: str) -> UUID:
        """Return the person, made when they are new; the link may make them an operator."""
        if not hashed:
            return await _known(connection, email, operator=link["operator"])
        made = await people.add_person(connection, email=email, password=hashed, operator=link["operator"])
        if made is None:  # they chose another password meanwhile, which nobody has typed here
            raise MailsiftError("sign_in_first", "Sign in first, then open this again.")
        return made

    def _now(self) -> datetime:
        return utc_datetime(self.clock())


async def _known(connection: Connection, email: str, *, operator: bool) -> UUID:
    """Return the person, who is there until the transaction ends and becomes an operator if they are to."""
    known = await people.person_of(connection, email)
    if known is None or await people.lock_person(connection, known["id"]) is None:
        raise _gone()  # removed since the link was looked at
    if operator:
        await people.change_person(connection, known["id"], operator=True)
    found: UUID = known["id"]
    return found


async def _join(
    connection: Connection, account_id: UUID, person_id: UUID, role: str, email: str, *, actor: str = ""
) -> None:
    """Make somebody a member; their own doing, unless there is an `actor`."""
    await people.put_member(connection, account_id, person_id, role)
    await people.forget_links(connection, email, account_id=account_id)
    await audit.record(connection, account_id, actor or email, "member.join", email, role=role)


def _checked_email(text: str) -> str:
    """Return an address as people are known by.

    Raises:
        MailsiftError: `email_invalid`.
    """
    if parse_address(text.strip()).rule:
        raise MailsiftError("email_invalid", "This is not an email address.")
    return normalized_email(text)


def checked_name(text: str) -> str:
    """Return the name of an account.

    Raises:
        MailsiftError: `account_name_invalid`.
    """
    name = accounts.normalized_name(text)
    if not 0 < len(name) <= _LONGEST_NAME or not name.isprintable():
        raise MailsiftError(
            "account_name_invalid", f"An account name must have 1 to {_LONGEST_NAME} characters."
        )
    return name


def _gone() -> MailsiftError:
    return MailsiftError("link_gone", "This link has been used, withdrawn or has expired. Ask for a new one.")


@dataclass(frozen=True, slots=True)
class People:
    """Everything about people."""

    sessions: Sessions
    links: Links
    members: Members
    limit: RateLimit  # counts what must not be asked too often
    public_url: str  # how browsers reach the pages, without a slash at its end; "" = as the browser says
    sso: SingleSignOn | None
    sso_name: str  # what the provider is called on the button
