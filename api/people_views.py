"""Who people are: their roles, and the visitor of a page."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from jobs.views import AccountId


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


@dataclass(frozen=True, slots=True)
class Membership:
    """An account a person is a member of."""

    account_id: AccountId
    name: str
    role: Role


class LinkKind(StrEnum):
    """What a one-time link is for."""

    FIRST_OWNER = "first_owner"
    INVITE = "invite"
    PASSWORD = "password"  # noqa: S105 - a kind of link


@dataclass(frozen=True, slots=True)
class LinkView:
    """A one-time link as its holder sees it.

    Attributes:
        email: for whom; "" for the first owner, of whom nothing is known.
        account_name: "" unless it is an invitation.
        known: this person has a password already.
    """

    kind: LinkKind
    email: str
    account_name: str
    role: Role
    known: bool


@dataclass(frozen=True, slots=True)
class Invitation:
    """An invitation nobody has taken yet; times are UTC."""

    id: UUID
    email: str
    role: Role
    made_by: str
    created_at: datetime
    expires_at: datetime
