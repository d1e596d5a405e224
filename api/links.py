"""One-time links: for the first owner, into an account, and to a new password for who has lost theirs."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from api.people_views import Invitation, LinkKind, Role, Visitor
from api.sessions import digest, plain
from jobs.views import AccountId
from pipeline.clock import Clock
from pipeline.errors import MailsiftError
from pipeline.syntax_exact import parse_exact
from storage import job_rows, people_rows, session_rows
from storage.database import Connection, Database
from storage.session_rows import NewLink

LIVES: Final = timedelta(hours=72)
COMMAND_LINE: Final = "cli"
"""The actor of what is typed in a terminal."""

_LONGEST_NAME: Final = 80
_TOKEN_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class _Offer:
    """What a link is to give, and by whom."""

    kind: LinkKind
    role: Role = Role.VIEWER
    account_id: UUID | None = None
    email: str = ""
    operator: bool = False
    made_by: str = COMMAND_LINE


class Links:
    """Makes the one-time links of one installation; each is shown once and works once, within three days."""

    def __init__(self, *, database: Database, clock: Clock, token: Callable[[int], bytes]) -> None:
        self._database = database
        self._clock = clock
        self._token = token

    async def first_owner(self) -> str | None:
        """Return the secret of a link for the first person; None when there are people already."""
        async with self._database.begin() as connection:
            if await people_rows.anybody(connection):
                return None
            offer = _Offer(LinkKind.FIRST_OWNER, role=Role.OWNER, operator=True)
            return await self._make(connection, offer)

    async def invite(self, visitor: Visitor, email: str, role: Role) -> str:
        """Return the secret of an invitation into the visitor's account.

        Raises:
            MailsiftError: `email_invalid`, `already_member`.
        """
        offer = _Offer(LinkKind.INVITE, role, visitor.account_id, checked_email(email), made_by=visitor.email)
        async with self._database.begin() as connection:
            return await self._invite(connection, offer)

    async def invite_from_terminal(
        self, account: str, email: str, role: Role, *, operator: bool = False
    ) -> str:
        """Return the secret of an invitation into an account, which is made when it is new.

        Raises:
            MailsiftError: `email_invalid`, `account_name_invalid`, `already_member`.
        """
        email, account = checked_email(email), checked_name(account)
        async with self._database.begin() as connection:
            account_id = await job_rows.ensure_account(connection, account)
            offer = _Offer(LinkKind.INVITE, role, account_id, email, operator=operator)
            return await self._invite(connection, offer)

    async def new_password(self, email: str) -> str:
        """Return the secret of a link by which a person sets a new password.

        Raises:
            MailsiftError: `person_not_found`.
        """
        async with self._database.begin() as connection:
            if await people_rows.person_of(connection, plain(email)) is None:
                raise MailsiftError("person_not_found", "There is no such person.")
            return await self._make(connection, _Offer(LinkKind.PASSWORD, email=plain(email)))

    async def invitations(self, account_id: AccountId) -> list[Invitation]:
        """Return the account's open invitations, newest first."""
        async with self._database.begin() as connection:
            rows = await session_rows.links_of(connection, account_id, now=self._now())
        names = ("id", "email", "made_by", "created_at", "expires_at")
        return [Invitation(role=Role(row["role"]), **{name: row[name] for name in names}) for row in rows]

    async def withdraw(self, visitor: Visitor, link_id: UUID) -> None:
        """Withdraw an invitation into the visitor's account.

        Raises:
            MailsiftError: `invitation_not_found`.
        """
        async with self._database.begin() as connection:
            email = await session_rows.delete_link(connection, visitor.account_id, link_id)
            if email is None:
                text = "There is no such invitation: it was taken, withdrawn, or its time is over."
                raise MailsiftError("invitation_not_found", text)
            await people_rows.audit(
                connection,
                account_id=visitor.account_id,
                actor=visitor.email,
                action="member.uninvite",
                subject=email,
            )

    async def _invite(self, connection: Connection, offer: _Offer) -> str:
        if offer.account_id is None:
            raise AssertionError("an invitation is into an account")
        members = await people_rows.members(connection, offer.account_id)
        if any(one.email == offer.email for one in members):
            raise MailsiftError("already_member", "This person is a member already.")
        await session_rows.forget_invitations(connection, offer.account_id, offer.email)  # the newest counts
        await people_rows.audit(
            connection,
            account_id=offer.account_id,
            actor=offer.made_by,
            action="member.invite",
            subject=offer.email,
            detail={"role": offer.role.value, **({"operator": True} if offer.operator else {})},
        )
        return await self._make(connection, offer)

    async def _make(self, connection: Connection, offer: _Offer) -> str:
        secret = base64.urlsafe_b64encode(self._token(_TOKEN_BYTES)).decode().rstrip("=")
        now = self._now()
        new = NewLink(
            hash=digest(secret),
            kind=offer.kind.value,
            account_id=offer.account_id,
            email=offer.email,
            role=offer.role.value,
            operator=offer.operator,
            made_by=offer.made_by,
            created_at=now,
            expires_at=now + LIVES,
        )
        await session_rows.insert_link(connection, new)
        return secret

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock(), UTC)


def checked_email(text: str) -> str:
    """Return an address as people are known by.

    Raises:
        MailsiftError: `email_invalid`.
    """
    parsed = parse_exact(text.strip())
    if parsed.rule:
        raise MailsiftError("email_invalid", "This is not an email address.")
    return parsed.address.lower()


def checked_name(text: str) -> str:
    """Return the name of an account.

    Raises:
        MailsiftError: `account_name_invalid`.
    """
    name = " ".join(text.split())
    if not 0 < len(name) <= _LONGEST_NAME or not name.isprintable():
        raise MailsiftError("account_name_invalid", f"An account's name has 1 to {_LONGEST_NAME} letters.")
    return name
