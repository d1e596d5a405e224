"""People of an account: roles, the visitor of a page, memberships, retention and the audit log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from mailsift.events import audit
from mailsift.events.outbox import JobMailKind
from mailsift.jobs.views import AccountId
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.zones import is_zone
from mailsift.storage.database import Connection, Database
from mailsift.storage.sql import accounts, outbox, people
from mailsift.storage.sql.people import NO_FILTER, AuditFilter, AuditRow, MemberRow

LONGEST_RETENTION: Final = 10 * 366 * 86_400.0
_DAY: Final = 86_400
_PAGE: Final = 50


class Role(StrEnum):
    """What a member of an account may do; each may also do what those before it may."""

    VIEWER = "viewer"  # look and download
    MEMBER = "member"  # validate, keys, webhooks, schedules
    OWNER = "owner"  # members and how long things are kept

    def may(self, needed: Role) -> bool:
        """Say whether this role is enough where `needed` is asked for."""
        order = list(Role)
        return order.index(self) >= order.index(needed)


@dataclass(frozen=True, slots=True)
class Visitor:
    """A person who is signed in, and the account they look at; `operator` is apart from every role."""

    user_id: UUID
    email: str
    account_id: AccountId
    account_name: str
    role: Role
    operator: bool
    zone: str  # IANA name of the time zone they read times in: their own, else the account's
    account_zone: str
    zone_chosen: bool  # they have one of their own


@dataclass(frozen=True, slots=True)
class Membership:
    """An account a person is a member of."""

    account_id: AccountId
    name: str
    role: Role


class Members:
    """What owners ask of their account, and everybody of the audit log."""

    def __init__(self, *, database: Database) -> None:
        self._database = database

    async def list(self, account_id: UUID) -> Sequence[MemberRow]:
        """Return the account's members, owners first."""
        return await self._database.run(people.members, account_id)

    async def set_role(self, visitor: Visitor, person_id: UUID, role: Role) -> None:
        """Give a member of the visitor's account another role.

        Raises:
            MailsiftError: `member_not_found`, `last_owner`.
        """
        async with self._database.begin() as connection:
            member = await _locked(connection, visitor.account_id, person_id, stays=role is Role.OWNER)
            await people.put_member(connection, visitor.account_id, person_id, role.value)
            detail = {"from": member.role, "to": role.value}
            await note(connection, visitor, "member.role", member.email, **detail)

    async def remove(self, visitor: Visitor, person_id: UUID) -> None:
        """End a membership in the visitor's account, and its sessions.

        Raises:
            MailsiftError: `member_not_found`, `last_owner`.
        """
        async with self._database.begin() as connection:
            member = await _locked(connection, visitor.account_id, person_id, stays=False)
            await people.remove_member(connection, visitor.account_id, person_id)
            await people.forget_links(connection, member.email, account_id=visitor.account_id)
            await note(connection, visitor, "member.remove", member.email, role=member.role)

    async def remove_person(self, email: str, *, actor: str) -> None:
        """Delete a person with every membership, session and open invitation.

        Raises:
            MailsiftError: `person_not_found`, `last_owner` of an account with other members.
        """
        await self._database.run(_remove_person, email, actor=actor)

    async def list_all(self) -> Sequence[dict[str, Any]]:
        """Return every membership: email, account, role, operator, created_at, last_sign_in."""
        return [dict(row) for row in await self._database.run(people.list_all)]

    async def retention(self, account_id: UUID) -> float:
        """Return how many seconds jobs of the account are kept that say nothing of it; 0 = for ever."""
        row = await self._database.run(accounts.get, account_id)
        return float(row["retention_s"]) if row else 0.0

    async def set_retention(self, visitor: Visitor, seconds: float) -> None:
        """Set how long new jobs are kept that say nothing of it; 0 = for ever.

        Raises:
            MailsiftError: `bad_option`.
        """
        if not 0 <= seconds <= LONGEST_RETENTION:
            raise MailsiftError("bad_option", "Jobs can be kept for at most ten years.")
        async with self._database.begin() as connection:
            await accounts.change(connection, visitor.account_id, retention_s=seconds)
            kept = f"{seconds / _DAY:g} days" if seconds else "for ever"
            await note(connection, visitor, "account.retention", kept=kept)

    async def set_account_zone(self, visitor: Visitor, zone: str) -> None:
        """Set in which time zone new schedules run, and members read times who have chosen none.

        Raises:
            MailsiftError: `schedule_zone_invalid`.
        """
        _check_zone(zone)
        async with self._database.begin() as connection:
            await accounts.change(connection, visitor.account_id, zone=zone)
            await note(connection, visitor, "account.zone", zone=zone)

    async def set_zone(self, visitor: Visitor, zone: str) -> None:
        """Set in which time zone the visitor reads times, on pages and in mails; "" = the account's.

        Raises:
            MailsiftError: `schedule_zone_invalid`.
        """
        if zone:
            _check_zone(zone)
        await self._database.run(people.change_person, visitor.user_id, zone=zone)

    async def mail(self, visitor: Visitor) -> Sequence[str]:
        """Return what about jobs of this account the visitor gets mail of."""
        return await self._database.run(outbox.chosen_mail, visitor.account_id, visitor.user_id)

    async def choose_mail(self, visitor: Visitor, kinds: Sequence[JobMailKind]) -> None:
        """Let the visitor get mail about jobs of this account, of these kinds from now on."""
        await self._database.run(outbox.choose_mail, visitor.account_id, visitor.user_id, [*map(str, kinds)])

    async def log(
        self,
        account_id: UUID,
        *,
        before: int | None = None,
        wanted: AuditFilter = NO_FILTER,
        limit: int = _PAGE,
    ) -> tuple[Sequence[AuditRow], int | None]:
        """Return a page of the account's audit log, newest first, and where the next one begins."""
        rows = await self._database.run(
            people.audited, account_id, limit=limit + 1, before=before, wanted=wanted
        )
        return rows[:limit], rows[limit - 1].id if len(rows) > limit else None

    async def actors(self, account_id: UUID) -> Sequence[str]:
        """Return who did anything that the account's log tells of."""
        return await self._database.run(people.actors, account_id)


def _check_zone(zone: str) -> None:
    if not is_zone(zone):
        raise MailsiftError(
            "schedule_zone_invalid", "The time zone must be an IANA name, such as Europe/Paris."
        )


async def _remove_person(connection: Connection, email: str, *, actor: str) -> None:
    person = await people.person_of(connection, email)
    if person is None or await people.lock_person(connection, person["id"]) is None:
        raise people.person_not_found()
    for account in await people.accounts_of(connection, person["id"]):
        await accounts.get(connection, account["id"], lock=True)
        members = await people.members(connection, account["id"])
        if len(members) > 1:
            _check_owners(members, person["id"])
    await people.end_sessions(connection, person["id"])
    await people.forget_links(connection, email)
    await people.remove_person(connection, person["id"])
    await people.audit_operation(connection, actor, "person.remove", email)


async def _locked(connection: Connection, account_id: UUID, person_id: UUID, *, stays: bool) -> MemberRow:
    """Return a member, who `stays` an owner or need not; no other transaction changes members meanwhile."""
    await accounts.get(connection, account_id, lock=True)
    members = await people.members(connection, account_id)
    found = next((one for one in members if one.person_id == person_id), None)
    if found is None:
        raise MailsiftError("member_not_found", "There is no such member.")
    if not stays:
        _check_owners(members, person_id)
    return found


async def check_owners(connection: Connection, account_id: UUID, person_id: UUID, role: Role) -> None:
    """Let somebody be given this role until the transaction ends, whether they are a member or not.

    Raises:
        MailsiftError: `last_owner`.
    """
    await accounts.get(connection, account_id, lock=True)
    if role is not Role.OWNER:
        _check_owners(await people.members(connection, account_id), person_id)


def _check_owners(members: Sequence[MemberRow], leaving: UUID) -> None:
    if [one.person_id for one in members if one.role == Role.OWNER] == [leaving]:
        text = "This is the account's only owner: make somebody else an owner first."
        raise MailsiftError("last_owner", text)


async def note(
    connection: Connection, visitor: Visitor, action: str, subject: str = "", /, **detail: Any
) -> None:
    """Write down in the visitor's account, in this transaction, what they do."""
    await audit.record(connection, visitor.account_id, visitor.email, action, subject, **detail)
