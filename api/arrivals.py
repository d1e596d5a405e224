"""What people do with a one-time link: arrive as the first owner, join an account, set a new password."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

from api.links import COMMAND_LINE, checked_email, checked_name
from api.passwords import Passwords, check_password
from api.people_views import LinkKind, LinkView, Role, Visitor
from api.sessions import Sessions, digest
from pipeline.clock import Clock
from pipeline.errors import MailsiftError
from storage import job_rows, people_rows, session_rows
from storage.database import Connection, Database, Row


class Arrivals:
    """Takes the one-time links of one installation."""

    def __init__(self, *, database: Database, passwords: Passwords, sessions: Sessions, clock: Clock) -> None:
        self._database = database
        self._passwords = passwords
        self._sessions = sessions
        self._clock = clock

    async def look(self, secret: str) -> LinkView:
        """Return what a link is for.

        Raises:
            MailsiftError: `link_gone`.
        """
        async with self._database.begin() as connection:
            row = await session_rows.find_link(connection, digest(secret), now=self._now())
            if row is None:
                raise _gone()
            account = (
                await people_rows.get_account(connection, row["account_id"]) if row["account_id"] else None
            )
            known = await people_rows.person_of(connection, row["email"]) is not None
        return LinkView(
            kind=LinkKind(row["kind"]),
            email=row["email"],
            account_name=account["name"] if account else "",
            role=Role(row["role"]),
            known=known,
        )

    async def suggested_account(self) -> str:
        """Return the account the first owner most likely wants: the only one there is, or ""."""
        async with self._database.begin() as connection:
            names = await people_rows.account_names(connection, limit=2)
        return names[0] if len(names) == 1 else ""

    async def welcome(self, secret: str, *, account: str, email: str, password: str) -> str:
        """Make the first owner, who is an operator too; returns the secret of their session.

        Raises:
            MailsiftError: `link_gone`, `email_invalid`, `account_name_invalid`, `password_weak`.
        """
        email, account = checked_email(email), checked_name(account)
        await self.look(secret)
        hashed = await self._hash(password, email)
        async with self._database.begin() as connection:
            link = await self._use(connection, secret, LinkKind.FIRST_OWNER)
            if await people_rows.anybody(connection):
                raise _gone()
            person_id = await self._add(connection, link, email, hashed)
            account_id = await job_rows.ensure_account(connection, account)
            return await self._join(connection, link, account_id, person_id, email)

    async def accept(self, secret: str, *, password: str, client: str) -> str:
        """Join the account of an invitation; returns the secret of a session in it.

        Who is known already gives the password they have, who is new chooses one.

        Raises:
            MailsiftError: `link_gone`, `password_weak`, `wrong_credentials`, `rate_limited`,
                `sign_in_unavailable`.
        """
        view = await self.look(secret)
        hashed = ""
        if view.known:
            await self._sessions.prove(view.email, password, client=client)
        else:
            hashed = await self._hash(password, view.email)
        async with self._database.begin() as connection:
            link = await self._use(connection, secret, LinkKind.INVITE)
            person_id = await self._add(connection, link, link["email"], hashed)
            return await self._join(connection, link, link["account_id"], person_id, link["email"])

    async def join(self, secret: str, visitor: Visitor) -> str:
        """Join the account of an invitation as who is signed in; returns the secret of a session in it.

        Raises:
            MailsiftError: `link_gone`, also when it is for somebody else.
        """
        async with self._database.begin() as connection:
            link = await self._use(connection, secret, LinkKind.INVITE)
            if link["email"] != visitor.email:
                raise _gone()
            person_id = await self._add(connection, link, visitor.email, "")
            return await self._join(connection, link, link["account_id"], person_id, visitor.email)

    async def set_password(self, secret: str, password: str) -> None:
        """Set the password of the person a link is for, and end their sessions.

        Raises:
            MailsiftError: `link_gone`, `password_weak`.
        """
        hashed = await self._hash(password, (await self.look(secret)).email)
        async with self._database.begin() as connection:
            link = await self._use(connection, secret, LinkKind.PASSWORD)
            person = await people_rows.person_of(connection, link["email"])
            if person is None:
                raise _gone()
            await people_rows.change_person(connection, person["id"], password=hashed)
            await session_rows.end_sessions(connection, person["id"])
            await people_rows.audit(
                connection,
                account_id=None,
                actor=COMMAND_LINE,
                action="password.reset",
                subject=link["email"],
            )

    async def add_member(
        self, account: str, email: str, role: Role, password: str, *, operator: bool
    ) -> None:
        """Make a person with a password, or a known one with this new password, a member; no link is needed.

        Raises:
            MailsiftError: `email_invalid`, `account_name_invalid`, `password_weak`.
        """
        email, account = checked_email(email), checked_name(account)
        hashed = await self._hash(password, email)
        async with self._database.begin() as connection:
            account_id = await job_rows.ensure_account(connection, account)
            known = await people_rows.person_of(connection, email)
            if known is None:
                person_id = await people_rows.add_person(
                    connection, email=email, password=hashed, operator=operator
                )
            else:
                person_id = known["id"]
                await people_rows.change_person(
                    connection, person_id, password=hashed, operator=operator or known["operator"]
                )
                await session_rows.end_sessions(connection, person_id)
            await self._member(connection, account_id, person_id, role, actor=COMMAND_LINE, subject=email)

    async def _hash(self, password: str, email: str) -> str:
        check_password(password, email=email)
        return await self._passwords.hash(password)

    async def _use(self, connection: Connection, secret: str, kind: LinkKind) -> Row:
        link = await session_rows.use_link(connection, digest(secret), now=self._now())
        if link is None or link["kind"] != kind:
            raise _gone()  # which puts a link of another kind back
        return link

    async def _add(self, connection: Connection, link: Row, email: str, hashed: str) -> UUID:
        """Return the person, made when they are new; the link may make them an operator."""
        known = await people_rows.person_of(connection, email)
        if known is None:
            if not hashed:
                raise _gone()  # removed since the link was looked at
            return await people_rows.add_person(
                connection, email=email, password=hashed, operator=link["operator"]
            )
        if link["operator"]:
            await people_rows.change_person(connection, known["id"], operator=True)
        found: UUID = known["id"]
        return found

    async def _join(
        self, connection: Connection, link: Row, account_id: UUID, person_id: UUID, email: str
    ) -> str:
        await self._member(connection, account_id, person_id, Role(link["role"]), actor=email, subject=email)
        return await self._sessions.open(connection, person_id, account_id)

    async def _member(
        self,
        connection: Connection,
        account_id: UUID,
        person_id: UUID,
        role: Role,
        *,
        actor: str,
        subject: str,
    ) -> None:
        await people_rows.put_member(connection, account_id, person_id, role.value)
        await people_rows.audit(
            connection,
            account_id=account_id,
            actor=actor,
            action="member.join",
            subject=subject,
            detail={"role": role.value},
        )

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock(), UTC)


def _gone() -> MailsiftError:
    return MailsiftError(
        "link_gone", "This link was used, withdrawn, or its time is over. Ask for a new one."
    )
