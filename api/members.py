"""Members of an account: their roles, how long the account keeps things, and what was done in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from api.people_views import Role, Visitor
from pipeline.errors import MailsiftError
from storage import people_rows, session_rows
from storage.database import Connection, Database
from storage.people_rows import AuditRow, MemberRow

LONGEST_RETENTION: Final = 10 * 366 * 86_400.0
_DAY: Final = 86_400
_PAGE: Final = 50


class Members:
    """What owners ask of their account, and everybody of the audit log."""

    def __init__(self, *, database: Database) -> None:
        self._database = database

    async def list(self, account_id: UUID) -> Sequence[MemberRow]:
        """Return the account's members, owners first."""
        async with self._database.begin() as connection:
            return await people_rows.members(connection, account_id)

    async def set_role(self, visitor: Visitor, person_id: UUID, role: Role) -> None:
        """Give a member of the visitor's account another role.

        Raises:
            MailsiftError: `member_not_found`, `last_owner`.
        """
        async with self._database.begin() as connection:
            member = await _locked(connection, visitor.account_id, person_id, stays=role is Role.OWNER)
            await people_rows.put_member(connection, visitor.account_id, person_id, role.value)
            detail = {"from": member.role, "to": role.value}
            await _note(connection, visitor, "member.role", member.email, detail)

    async def remove(self, visitor: Visitor, person_id: UUID) -> None:
        """End a membership in the visitor's account, and its sessions.

        Raises:
            MailsiftError: `member_not_found`, `last_owner`.
        """
        async with self._database.begin() as connection:
            member = await _locked(connection, visitor.account_id, person_id, stays=False)
            await people_rows.remove_member(connection, visitor.account_id, person_id)
            await session_rows.forget_invitations(connection, visitor.account_id, member.email)
            await _note(connection, visitor, "member.remove", member.email, {"role": member.role})

    async def remove_person(self, email: str, *, actor: str) -> None:
        """Delete a person with every membership and session.

        Raises:
            MailsiftError: `person_not_found`, `last_owner` of an account with other members.
        """
        async with self._database.begin() as connection:
            person = await people_rows.person_of(connection, email)
            if person is None:
                raise MailsiftError("person_not_found", "There is no such person.")
            for account in await people_rows.accounts_of(connection, person["id"]):
                alone = len(await people_rows.members(connection, account["id"])) == 1
                await _locked(connection, account["id"], person["id"], stays=alone)
            await session_rows.end_sessions(connection, person["id"])
            await people_rows.remove_person(connection, person["id"])
            await people_rows.audit(
                connection, account_id=None, actor=actor, action="person.remove", subject=email
            )

    async def everybody(self) -> Sequence[dict[str, Any]]:
        """Return every membership: email, account, role, operator, created_at, last_sign_in."""
        async with self._database.begin() as connection:
            return [dict(row) for row in await people_rows.everybody(connection)]

    async def retention(self, account_id: UUID) -> float:
        """Return how many seconds jobs of the account are kept that say nothing of it; 0 = for ever."""
        async with self._database.begin() as connection:
            row = await people_rows.get_account(connection, account_id)
        return float(row["retention_s"]) if row else 0.0

    async def set_retention(self, visitor: Visitor, seconds: float) -> None:
        """Set how long new jobs are kept that say nothing of it; 0 = for ever.

        Raises:
            MailsiftError: `bad_option`.
        """
        if not 0 <= seconds <= LONGEST_RETENTION:
            raise MailsiftError("bad_option", "Jobs are kept for ten years at most.")
        async with self._database.begin() as connection:
            await people_rows.set_retention(connection, visitor.account_id, seconds)
            kept = f"{seconds / _DAY:g} days" if seconds else "for ever"
            await _note(connection, visitor, "account.retention", "", {"kept": kept})

    async def log(
        self, account_id: UUID, *, before: int | None = None, limit: int = _PAGE
    ) -> tuple[Sequence[AuditRow], int | None]:
        """Return a page of the account's audit log, newest first, and where the next one begins."""
        async with self._database.begin() as connection:
            rows = await people_rows.audited(connection, account_id, limit=limit + 1, before=before)
        return rows[:limit], rows[limit - 1].id if len(rows) > limit else None

    async def note(self, visitor: Visitor, action: str, subject: str = "", **detail: Any) -> None:
        """Write down a change that a service has just made in a transaction of its own."""
        async with self._database.begin() as connection:
            await _note(connection, visitor, action, subject, detail)


async def _locked(connection: Connection, account_id: UUID, person_id: UUID, *, stays: bool) -> MemberRow:
    """Return a member; no other change to the account's members is made until the transaction ends.

    Raises:
        MailsiftError: `member_not_found`; `last_owner` when the member does not stay an owner and nobody is.
    """
    await people_rows.lock_account(connection, account_id)
    members = await people_rows.members(connection, account_id)
    found = next((one for one in members if one.person_id == person_id), None)
    if found is None:
        raise MailsiftError("member_not_found", "There is no such member.")
    if not stays and [one.person_id for one in members if one.role == Role.OWNER] == [person_id]:
        text = "This is the account's only owner: make somebody else an owner first."
        raise MailsiftError("last_owner", text)
    return found


async def _note(
    connection: Connection, visitor: Visitor, action: str, subject: str, detail: dict[str, Any]
) -> None:
    await people_rows.audit(
        connection,
        account_id=visitor.account_id,
        actor=visitor.email,
        action=action,
        subject=subject,
        detail=detail,
    )
